//! A GPU's health as the driver counts it.

use node_driver::NvmlIndex;
use node_driver::nvml::{Code, MAX_LINKS, Nvml, NvmlError, at};

use crate::ffi::OpenGpu;

/// `nvmlClocksEventReasonHwThermalSlowdown`.
const TOO_HOT: u64 = 0x40;

/// Health of a GPU. `None`: the driver did not say; a 0 would look as if the GPU had been reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuHealth {
    /// Uncorrectable memory errors since the driver was loaded.
    pub ecc_uncorrected: Option<u64>,
    /// A row of memory is remapped at the next reset.
    pub remap_pending: bool,
    /// No row was left to remap to.
    pub remap_failed: bool,
    /// The hardware lowers the clock because the GPU is too hot.
    pub too_hot: bool,
    /// Number of times that its NVLinks had to be started again.
    pub nvlink_recoveries: Option<u64>,
    /// The driver asks for a reset of the GPU or a reboot of the node.
    pub needs_recovery: Option<bool>,
}

/// Reads the health of a GPU.
///
/// # Errors
///
/// The GPU is lost.
pub fn health(nvml: &Nvml, gpu: NvmlIndex) -> Result<GpuHealth, NvmlError> {
    let device = OpenGpu::of(nvml, gpu)?;
    let told = |answer: Result<u64, Code>| match answer {
        Err(Code::GPU_IS_LOST) => Err(at(gpu, "cannot read its health")(Code::GPU_IS_LOST)),
        answer => Ok(answer.ok()),
    };
    let ecc_uncorrected = told(device.ecc_uncorrected())?;
    let (pending, failed) = device.remapped_rows().unwrap_or((0, 0));
    let mut nvlink_recoveries = Some(0_u64);
    for link in 0..MAX_LINKS {
        match device.nvlink_recoveries(link) {
            Err(Code::FUNCTION_NOT_FOUND) => break,
            // There is no such link, or it is off.
            Err(Code::INVALID_ARGUMENT | Code::NOT_SUPPORTED) => {}
            count => {
                nvlink_recoveries = nvlink_recoveries.zip(told(count)?).map(|(sum, n)| sum.saturating_add(n))
            }
        }
    }
    Ok(GpuHealth {
        ecc_uncorrected,
        remap_pending: pending != 0,
        remap_failed: failed != 0,
        too_hot: told(device.clock_reasons())?.is_some_and(|reasons| reasons & TOO_HOT != 0),
        nvlink_recoveries,
        needs_recovery: told(device.recovery_action().map(u64::from))?.map(|action| action != 0),
    })
}
