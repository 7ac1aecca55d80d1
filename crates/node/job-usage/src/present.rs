//! Finds the journal's GPUs in the driver's present list.
//!
//! A GPU's number in NVML's list and its minor number are true until a GPU goes or comes: those after it then move. Its UUID
//! stays, so whatever the journal says of a GPU is asked and set by that.

use node_driver::NvmlIndex;
use node_driver::nvml::{Code, Nvml, NvmlError};
use node_journal::GpuRecord;

/// Finds a journalled GPU: the same UUID and Slurm's number, with the driver's numbers of today. Opens no other GPU while the
/// GPU is where it was: a prolog may want to switch one's MIG mode.
///
/// # Errors
///
/// The driver shows no GPU with this UUID, or cannot say how many it has. A GPU that does not answer may be the one.
pub fn find(nvml: &Nvml, journalled: &GpuRecord) -> Result<GpuRecord, NvmlError> {
    let index = match journalled.index {
        same if is_it(nvml, same, &journalled.uuid) => same,
        _ => index_of(nvml, &journalled.uuid)?,
    };
    Ok(GpuRecord { index, minor: nvml.minor(index)?, ..journalled.clone() })
}

/// Finds the number of the GPU with a UUID.
///
/// # Errors
///
/// The same as of [`find`].
pub fn index_of(nvml: &Nvml, uuid: &str) -> Result<NvmlIndex, NvmlError> {
    let found = (0..nvml.count()?).map(NvmlIndex).find(|gpu| is_it(nvml, *gpu, uuid));
    let what = "the driver shows no GPU with this UUID";
    found.ok_or_else(|| NvmlError::Device { uuid: uuid.to_owned(), what, code: Code::NOT_FOUND })
}

fn is_it(nvml: &Nvml, gpu: NvmlIndex, uuid: &str) -> bool {
    nvml.uuid(gpu).is_ok_and(|of| of == uuid)
}

/// Finds the journalled GPUs that are there, and why the others are not.
pub fn find_all(nvml: &Nvml, journalled: &[GpuRecord]) -> (Vec<GpuRecord>, Vec<NvmlError>) {
    let (mut here, mut missing) = (Vec::new(), Vec::new());
    for record in journalled {
        match find(nvml, record) {
            Ok(found) => here.push(found),
            Err(e) => missing.push(e),
        }
    }
    (here, missing)
}
