//! Calls about links between GPUs.

use std::time::Instant;

use nvml_wrapper_sys::bindings as sys;

use super::{Code, Device, Lib, Plain as _, count_since, text};

impl Lib {
    /// True for an active NVLink.
    pub(in crate::nvml) fn nvlink_active(&self, device: Device<'_>, link: u32) -> Result<bool, Code> {
        let mut active = 0;
        call!(self, nvmlDeviceGetNvLinkState(device.raw, link, &raw mut active))?;
        Ok(active != 0)
    }

    pub(in crate::nvml) fn nvlink_version(&self, device: Device<'_>, link: u32) -> Result<u32, Code> {
        let mut version = 0;
        call!(self, nvmlDeviceGetNvLinkVersion(device.raw, link, &raw mut version))?;
        Ok(version)
    }

    /// Bus id at the other end, lower case.
    pub(in crate::nvml) fn nvlink_remote(&self, device: Device<'_>, link: u32) -> Result<String, Code> {
        let mut pci = sys::nvmlPciInfo_t::zeroed();
        call!(self, nvmlDeviceGetNvLinkRemotePciInfo_v2(device.raw, link, &raw mut pci))?;
        Ok(text(&pci.busId).to_ascii_lowercase())
    }

    /// Reads the kind of the link's other end: 0 GPU, 1 CPU, 2 switch, 255 unknown.
    pub(in crate::nvml) fn nvlink_remote_type(&self, device: Device<'_>, link: u32) -> Result<u32, Code> {
        let mut kind = 0;
        call!(self, nvmlDeviceGetNvLinkRemoteDeviceType(device.raw, link, &raw mut kind))?;
        Ok(kind)
    }

    /// The newest PCIe generation that the GPU and its slot can do, and the most lanes.
    pub(in crate::nvml) fn pcie_slot(&self, device: Device<'_>) -> Result<(u32, u32), Code> {
        let (mut generation, mut lanes) = (0, 0);
        call!(self, nvmlDeviceGetMaxPcieLinkGeneration(device.raw, &raw mut generation))?;
        call!(self, nvmlDeviceGetMaxPcieLinkWidth(device.raw, &raw mut lanes))?;
        Ok((generation, lanes))
    }

    /// PCIe distance: 0 same board, 10 one switch, 20 several, 30 host bridge, 40 NUMA node, 50 system.
    pub(in crate::nvml) fn pcie_level(&self, a: Device<'_>, b: Device<'_>) -> Result<u32, Code> {
        let mut level = 0;
        call!(self, nvmlDeviceGetTopologyCommonAncestor(a.raw, b.raw, &raw mut level))?;
        Ok(level)
    }

    /// NUMA nodes of the GPU's memory affinity, as a mask of the first 64.
    pub(in crate::nvml) fn numa_mask(&self, device: Device<'_>) -> Result<u64, Code> {
        let mut mask = 0;
        call!(self, nvmlDeviceGetMemoryAffinity(device.raw, 1, &raw mut mask, 0))?;
        Ok(mask)
    }
}
