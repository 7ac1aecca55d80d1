//! The driver's answers about links between GPUs, as it gives them.

use node_driver::NvmlIndex;
use node_driver::nvml::{Code, MAX_LINKS, Nvml, NvmlError, at};

use crate::ffi::OpenGpu;

/// The other end of an active NVLink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvLink {
    /// Link number on this GPU.
    pub link: u32,
    /// NVLink version as NVML numbers it; 0 where the driver does not say.
    pub version: u32,
    /// The GPU at the other end; `None` for a switch or a CPU.
    pub peer: Option<NvmlIndex>,
    /// True where an NVSwitch is at the other end.
    pub to_switch: bool,
}

/// `NVML_NVLINK_DEVICE_TYPE_SWITCH`.
const SWITCH: u32 = 2;

/// Active NVLinks of a GPU, by link number; none if it has none. `bus_ids` are those of all GPUs, in NVML's order.
///
/// # Errors
///
/// As NVML answers, for a GPU that is lost or a driver that is gone.
pub fn nvlinks(nvml: &Nvml, gpu: NvmlIndex, bus_ids: &[&str]) -> Result<Vec<NvLink>, NvmlError> {
    let device = OpenGpu::of(nvml, gpu)?;
    let mut links = Vec::new();
    for link in 0..MAX_LINKS {
        match device.nvlink_active(link) {
            Ok(true) => {
                let remote = device.nvlink_remote(link).unwrap_or_default();
                let peer = bus_ids.iter().position(|id| *id == remote);
                links.push(NvLink {
                    link,
                    version: device.nvlink_version(link).unwrap_or(0),
                    peer: peer.and_then(|i| u16::try_from(i).ok()).map(NvmlIndex),
                    to_switch: device.nvlink_remote_type(link) == Ok(SWITCH),
                });
            }
            Ok(false) | Err(Code::NOT_SUPPORTED) => {}
            Err(Code::INVALID_ARGUMENT | Code::FUNCTION_NOT_FOUND) => break,
            Err(code) => return Err(at(gpu, "cannot query its NVLinks")(code)),
        }
    }
    Ok(links)
}

/// The way over PCIe between two GPUs, by NVML's numbers (nvml.h, `nvmlGpuTopologyLevel_t`); `None` if the driver does not say.
///
/// # Errors
///
/// A GPU is lost.
pub fn pcie_level(nvml: &Nvml, a: NvmlIndex, b: NvmlIndex) -> Result<Option<u32>, NvmlError> {
    match OpenGpu::of(nvml, a)?.pcie_level(OpenGpu::of(nvml, b)?) {
        Ok(level) => Ok(Some(level)),
        Err(Code::GPU_IS_LOST) => Err(at(a, "cannot query its PCIe topology")(Code::GPU_IS_LOST)),
        Err(_) => Ok(None),
    }
}

/// The NUMA node nearest to the GPU; `None` if the driver does not say.
#[must_use]
pub fn numa_node(nvml: &Nvml, gpu: NvmlIndex) -> Option<u32> {
    let mask = OpenGpu::of(nvml, gpu).ok().and_then(|d| d.numa_mask().ok())?;
    (mask != 0).then(|| mask.trailing_zeros())
}

/// Newest PCIe generation and most lanes that a GPU and its slot can do; `None` if the driver does not say.
#[must_use]
pub fn pcie_slot(nvml: &Nvml, gpu: NvmlIndex) -> Option<(u32, u32)> {
    OpenGpu::of(nvml, gpu).ok().and_then(|d| d.pcie_slot().ok())
}
