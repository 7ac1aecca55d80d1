//! Memory of a GPU or an instance, and whose it is.

use super::calls::Nvml;
use super::code::Code;
use super::error::NvmlError;
use super::ffi::Device;
use crate::gpu_ids::NvmlIndex;

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
    /// Memory and processes of the GPU or instance with this UUID. `near` is the GPU where it was last: while it is there, or that GPU does
    /// not answer, no other GPU is opened.
    ///
    /// # Errors
    ///
    /// No such device, or NVML does not answer for it.
    pub fn usage(&self, near: Option<NvmlIndex>, uuid: &str) -> Result<Usage, NvmlError> {
        if let Some(gpu) = near
            && let Some(usage) = self.usage_on(gpu, uuid)?
        {
            return Ok(usage);
        }
        let usage = self.usage_on(self.gpu_with(uuid)?, uuid)?;
        usage.ok_or_else(|| not_opened(uuid, Code::NOT_FOUND))
    }

    /// Memory and processes of a device, if it is this GPU or an instance on it. Opens no other GPU.
    ///
    /// # Errors
    ///
    /// The GPU does not answer.
    pub fn usage_on(&self, gpu: NvmlIndex, uuid: &str) -> Result<Option<Usage>, NvmlError> {
        let at = |what| move |code| NvmlError::Device { uuid: uuid.to_owned(), what, code };
        let device = self.device_on(gpu, uuid).map_err(|code| not_opened(uuid, code))?;
        let Some(device) = device else { return Ok(None) };
        // Processes first: one that comes in between is then memory that nobody explains, which is kept from everybody.
        let processes = self.shown(device).map_err(at("cannot list its processes"))?;
        let processes = processes.into_iter().map(|p| (p.pid, p.used)).collect();
        let (total, used) = self.lib.memory(device).map_err(at("cannot read its memory"))?;
        Ok(Some(Usage { total, used, processes }))
    }

    /// Finds the GPU that has this UUID, or on which the instance with it is. Opens other GPUs on its way, and passes by those that do not
    /// answer: NVML's own search ends at the first that is lost.
    ///
    /// # Errors
    ///
    /// No GPU that answers has it.
    pub fn gpu_with(&self, uuid: &str) -> Result<NvmlIndex, NvmlError> {
        let mut why = Code::NOT_FOUND;
        for gpu in (0..self.count()?).map(NvmlIndex) {
            match self.device_on(gpu, uuid) {
                Ok(Some(_)) => return Ok(gpu),
                Ok(None) => {}
                // It may be the one.
                Err(code) => why = code,
            }
        }
        Err(not_opened(uuid, why))
    }

    fn device_on(&self, gpu: NvmlIndex, uuid: &str) -> Result<Option<Device<'_>>, Code> {
        let device = match self.lib.device(u32::from(gpu.0)) {
            // The driver shows fewer GPUs than before.
            Err(Code::INVALID_ARGUMENT) => return Ok(None),
            opened => opened?,
        };
        if uuid.starts_with("MIG-") {
            return self.lib.mig_device(device, uuid);
        }
        Ok((self.lib.uuid(device)? == uuid).then_some(device))
    }
}

fn not_opened(uuid: &str, code: Code) -> NvmlError {
    NvmlError::Device { uuid: uuid.to_owned(), what: "cannot open it", code }
}
