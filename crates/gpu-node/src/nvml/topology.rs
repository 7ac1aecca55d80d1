//! How a node's GPUs are connected, for `tessera discover`.

use placement::GpuIndex;

use super::{Code, Nvml, NvmlError, at};

/// What is at the other end of an active NVLink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvLink {
    /// Link number on this GPU.
    pub link: u32,
    /// NVLink generation; 0 where the driver does not say.
    pub version: u32,
    /// The GPU at the other end; `None` for a switch or a CPU.
    pub peer: Option<GpuIndex>,
    /// True where an NVSwitch is at the other end.
    pub to_switch: bool,
}

/// PCIe distance between two GPUs, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PcieLevel {
    /// On one board.
    Board,
    /// One PCIe switch.
    Switch,
    /// Several PCIe switches.
    Switches,
    /// One host bridge.
    HostBridge,
    /// One NUMA node.
    NumaNode,
    /// Across sockets.
    System,
}

/// No GPU has more.
const MAX_LINKS: u32 = 18;

impl Nvml {
    /// Active NVLinks of a GPU, by link number. Empty where it has none.
    ///
    /// # Errors
    ///
    /// As NVML answers.
    pub fn nvlinks(&self, gpu: GpuIndex) -> Result<Vec<NvLink>, NvmlError> {
        let device = self.device(gpu)?;
        let bus_ids = self.bus_ids()?;
        let mut links = Vec::new();
        for link in 0..MAX_LINKS {
            match self.lib.nvlink_active(device, link) {
                Ok(true) => {
                    let remote = self.lib.nvlink_remote(device, link).unwrap_or_default();
                    let peer = bus_ids.iter().position(|id| *id == remote);
                    links.push(NvLink {
                        link,
                        version: self.lib.nvlink_version(device, link).unwrap_or(0),
                        peer: peer.and_then(|i| u16::try_from(i).ok()).map(GpuIndex),
                        to_switch: self.lib.nvlink_remote_type(device, link) == Ok(2),
                    });
                }
                Ok(false) | Err(Code::NOT_SUPPORTED) => {}
                Err(Code::INVALID_ARGUMENT | Code::FUNCTION_NOT_FOUND) => break,
                Err(code) => return Err(at(gpu, "cannot query its NVLinks")(code)),
            }
        }
        Ok(links)
    }

    /// PCIe distance between two GPUs.
    ///
    /// # Errors
    ///
    /// As NVML answers.
    pub fn pcie_level(&self, a: GpuIndex, b: GpuIndex) -> Result<PcieLevel, NvmlError> {
        let level = self
            .lib
            .pcie_level(self.device(a)?, self.device(b)?)
            .map_err(at(a, "cannot query its PCIe topology"))?;
        Ok(match level {
            0..=9 => PcieLevel::Board,
            10..=19 => PcieLevel::Switch,
            20..=29 => PcieLevel::Switches,
            30..=39 => PcieLevel::HostBridge,
            40..=49 => PcieLevel::NumaNode,
            _ => PcieLevel::System,
        })
    }

    /// The NUMA node nearest to the GPU; `None` where the driver does not say.
    #[must_use]
    pub fn numa_node(&self, gpu: GpuIndex) -> Option<u32> {
        let mask = self.device(gpu).ok().and_then(|d| self.lib.numa_mask(d).ok())?;
        (mask != 0).then(|| mask.trailing_zeros())
    }

    fn bus_ids(&self) -> Result<Vec<String>, NvmlError> {
        (0..self.count()?).map(|i| Ok(self.info(GpuIndex(i))?.pci_bus_id)).collect()
    }
}
