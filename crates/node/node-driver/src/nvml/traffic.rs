//! Bytes that a GPU sends to others and to the host, and receives.

use super::{calls::Nvml, code::Code, ffi::Device};
use crate::gpu_ids::NvmlIndex;

/// A number for each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BothWays {
    /// From the GPU.
    pub sent: u64,
    /// To the GPU.
    pub received: u64,
}

/// No GPU has more NVLinks.
pub const MAX_LINKS: u32 = 18;

impl Nvml {
    /// Tells whether the driver says that no NVLink of a GPU is active.
    fn has_no_link(&self, gpu: Device<'_>) -> bool {
        let past_last = |link: &_| matches!(link, Err(Code::INVALID_ARGUMENT | Code::FUNCTION_NOT_FOUND));
        let states = (0..MAX_LINKS).map(|link| self.lib.nvlink_active(gpu, link));
        states
            .take_while(|link| !past_last(link))
            .all(|link| matches!(link, Ok(false) | Err(Code::NOT_SUPPORTED)))
    }

    /// Bytes over all NVLinks of a GPU since the driver was loaded, 0 if none is active; `None` if the driver does not count them.
    #[must_use]
    pub fn nvlink_bytes(&self, gpu: NvmlIndex) -> Option<BothWays> {
        let gpu = self.device(gpu).ok()?;
        let (sent, received) = match self.lib.nvlink_kib(gpu) {
            Err(Code::NOT_SUPPORTED) if self.has_no_link(gpu) => (0, 0),
            answer => answer.ok()?,
        };
        Some(BothWays { sent: sent.saturating_mul(1024), received: received.saturating_mul(1024) })
    }

    /// Bytes per second over PCIe now, the mean over 20 ms; `None` if the driver does not say. Takes 40 ms.
    #[must_use]
    pub fn pcie_rate(&self, gpu: NvmlIndex) -> Option<BothWays> {
        let (sent, received) = self.device(gpu).ok().and_then(|device| self.lib.pcie_kb_s(device).ok())?;
        let bytes = |kb: u32| u64::from(kb).saturating_mul(1000);
        Some(BothWays { sent: bytes(sent), received: bytes(received) })
    }
}
