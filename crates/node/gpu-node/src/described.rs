//! Compares the GPUs of a node with those that the site describes, with or without the driver's library.

use geometry::GpuIndex;
use node_driver::NvmlIndex;
use node_driver::nvml::Nvml;
use node_jobs::hardware::{are_enough, compare};
use node_jobs::{Fault, Numbering, Settings, minors_by_bus};

/// Lists the GPUs that are other than described, and the first that is missing.
///
/// # Errors
///
/// The driver does not answer.
pub fn unlike_described(settings: &Settings, numbering: &Numbering) -> Result<Vec<String>, Fault> {
    let nvml = Nvml::load(&settings.node.nvml_library)?;
    let count = nvml.count()?;
    let mut wrong = Vec::new();
    for gpu in (0..count).map(NvmlIndex) {
        let compared = compare(&nvml.info(gpu)?, numbering.description(settings, gpu));
        wrong.extend(compared.err().map(|fault| fault.to_string()));
    }
    wrong.extend(are_enough(settings, numbering, count.into()).err().map(|fault| fault.to_string()));
    Ok(wrong)
}

/// Why the kernel driver's own list of GPUs is too short; `None`: it is not, or cannot be read. Loads no library, so no prolog
/// waits for it.
#[must_use]
pub fn missing_in_proc(settings: &Settings) -> Option<String> {
    let shown = minors_by_bus(&settings.node.proc_root.join("driver/nvidia/gpus"))?.len();
    are_enough(settings, &settings.numbering, shown).err().map(|fault| fault.to_string())
}

/// Slurm's number of a GPU; `None`: Slurm does not count it.
#[must_use]
pub fn number_of(numbering: &Numbering, gpu: NvmlIndex) -> Option<GpuIndex> {
    let Some(listed) = numbering.listed() else { return Some(GpuIndex(gpu.0)) };
    let at = listed.iter().position(|listed| *listed == Some(gpu))?;
    u16::try_from(at).ok().map(GpuIndex)
}
