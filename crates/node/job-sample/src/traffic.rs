//! Bytes that a GPU sends to others and to the host, and receives.

use node_driver::NvmlIndex;
use node_driver::nvml::{Code, MAX_LINKS, Nvml};

use crate::ffi::OpenGpu;

/// A number for each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BothWays {
    /// From the GPU.
    pub sent: u64,
    /// To the GPU.
    pub received: u64,
}

/// Tells whether the driver says that no NVLink of a GPU is active.
fn has_no_link(gpu: OpenGpu<'_>) -> bool {
    let past_last = |link: &_| matches!(link, Err(Code::INVALID_ARGUMENT | Code::FUNCTION_NOT_FOUND));
    let states = (0..MAX_LINKS).map(|link| gpu.nvlink_active(link));
    states
        .take_while(|link| !past_last(link))
        .all(|link| matches!(link, Ok(false) | Err(Code::NOT_SUPPORTED)))
}

/// Bytes over all NVLinks of a GPU since the driver was loaded, 0 if none is active; `None` if the driver does not count them.
#[must_use]
pub fn nvlink_bytes(nvml: &Nvml, gpu: NvmlIndex) -> Option<BothWays> {
    let gpu = OpenGpu::of(nvml, gpu).ok()?;
    let (sent, received) = match gpu.nvlink_kib() {
        Err(Code::NOT_SUPPORTED) if has_no_link(gpu) => (0, 0),
        answer => answer.ok()?,
    };
    Some(BothWays { sent: sent.saturating_mul(1024), received: received.saturating_mul(1024) })
}

/// Bytes per second over PCIe now, the mean over 20 ms; `None` if the driver does not say. Takes 40 ms.
pub(crate) fn pcie_rate(nvml: &Nvml, gpu: NvmlIndex) -> Option<BothWays> {
    let (sent, received) = OpenGpu::of(nvml, gpu).ok()?.pcie_kb_s().ok()?;
    let bytes = |kb: u32| u64::from(kb).saturating_mul(1000);
    Some(BothWays { sent: bytes(sent), received: bytes(received) })
}
