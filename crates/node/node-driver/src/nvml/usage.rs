//! Memory of a GPU or an instance, and whose it is.

use super::calls::Nvml;
use super::error::NvmlError;

/// Contents of a device's memory, bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// All of it.
    pub total: u64,
    /// In use by anybody, the driver included.
    pub used: u64,
    /// Processes with a CUDA context, MPS clients included: pid, and what each uses where the driver says it.
    pub processes: Vec<(u32, Option<u64>)>,
}

impl Nvml {
    /// Memory and processes of the GPU or instance with this UUID.
    ///
    /// # Errors
    ///
    /// No such device, or NVML does not answer for it.
    pub fn usage(&self, uuid: &str) -> Result<Usage, NvmlError> {
        let at = |what| move |code| NvmlError::Device { uuid: uuid.to_owned(), what, code };
        let device = self.lib.device_by_uuid(uuid).map_err(at("cannot open it"))?;
        // Processes first: one that comes in between is then memory that nobody explains, which is kept from everybody.
        let processes = self.shown(device).map_err(at("cannot list its processes"))?;
        let processes = processes.into_iter().map(|p| (p.pid, p.used)).collect();
        let (total, used) = self.lib.memory(device).map_err(at("cannot read its memory"))?;
        Ok(Usage { total, used, processes })
    }
}
