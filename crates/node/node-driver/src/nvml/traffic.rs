//! Bytes that a GPU sends to others and to the host, and receives.

use super::{calls::Nvml, code::Code};
use crate::gpu_ids::NvmlIndex;

/// A number for each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BothWays {
    /// From the GPU.
    pub sent: u64,
    /// To the GPU.
    pub received: u64,
}

impl Nvml {
    /// Bytes over all NVLinks of a GPU since the driver was loaded, 0 if none is active; `None` if the driver does not count them.
    #[must_use]
    pub fn nvlink_bytes(&self, gpu: NvmlIndex) -> Option<BothWays> {
        let (sent, received) = match self.lib.nvlink_kib(self.device(gpu).ok()?) {
            Err(Code::NOT_SUPPORTED) if self.nvlinks(gpu, &[]).is_ok_and(|links| links.is_empty()) => (0, 0),
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
