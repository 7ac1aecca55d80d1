//! Every call of this crate into the driver's library. Nothing else in it is `unsafe`.

use node_driver::NvmlIndex;
use node_driver::nvml::{Code, Nvml, NvmlError, text};
use nvml_wrapper_sys::bindings::{self as sys, field_id};

/// `NVML_MEMORY_ERROR_TYPE_UNCORRECTED`.
const UNCORRECTED: u32 = 1;
/// `NVML_VOLATILE_ECC`: since the driver was loaded.
const VOLATILE: u32 = 0;
/// `NVML_NVLINK_ERROR_DL_RECOVERY`.
const RECOVERY: u32 = 1;

/// Longest version that NVML returns (`NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE` is 80).
const VERSION: u32 = 96;

macro_rules! call {
    ($nvml:expr, $name:ident ( $($arg:expr),* )) => {
        $nvml.ask(|raw| {
            let function = raw.$name.as_ref().ok()?;
            // SAFETY: nvml.h: the signature is that of the bindings; the library is initialised; handles come from
            // this library and borrow it; pointers are to locals of at least the size that nvml.h names.
            Some(unsafe { function($($arg),*) })
        })
    };
}

/// A GPU. The library made the handle, and is borrowed because the handle is valid no longer than that is loaded.
#[derive(Clone, Copy)]
pub(crate) struct OpenGpu<'nvml> {
    nvml: &'nvml Nvml,
    raw: sys::nvmlDevice_t,
}

pub(crate) fn driver_version(nvml: &Nvml) -> Result<String, Code> {
    let mut buf = [0; VERSION as usize];
    call!(nvml, nvmlSystemGetDriverVersion(buf.as_mut_ptr(), VERSION))?;
    Ok(text(&buf))
}

impl<'nvml> OpenGpu<'nvml> {
    pub(crate) fn of(nvml: &'nvml Nvml, gpu: NvmlIndex) -> Result<Self, NvmlError> {
        Ok(Self { nvml, raw: nvml.raw_device(gpu)? })
    }

    /// Power limit in force, milliwatts.
    pub(crate) fn power_enforced(self) -> Result<u32, Code> {
        let mut limit = 0;
        call!(self.nvml, nvmlDeviceGetEnforcedPowerLimit(self.raw, &raw mut limit))?;
        Ok(limit)
    }

    /// Persistence mode, 0 or 1.
    pub(crate) fn persistence_mode(self) -> Result<u32, Code> {
        let mut mode = 0;
        call!(self.nvml, nvmlDeviceGetPersistenceMode(self.raw, &raw mut mode))?;
        Ok(mode)
    }

    /// Power draw, milliwatts.
    pub(crate) fn power_draw(self) -> Result<u32, Code> {
        let mut draw = 0;
        call!(self.nvml, nvmlDeviceGetPowerUsage(self.raw, &raw mut draw))?;
        Ok(draw)
    }

    /// Uncorrectable memory errors since the driver was loaded.
    pub(crate) fn ecc_uncorrected(self) -> Result<u64, Code> {
        let mut count = 0;
        call!(self.nvml, nvmlDeviceGetTotalEccErrors(self.raw, UNCORRECTED, VOLATILE, &raw mut count))?;
        Ok(count)
    }

    /// A row of memory is to be remapped at the next reset; none was left to remap one to. Each 0 or 1.
    pub(crate) fn remapped_rows(self) -> Result<(u32, u32), Code> {
        let (mut corrected, mut uncorrected, mut pending, mut failed) = (0, 0, 0, 0);
        let (corrected, uncorrected) = (&raw mut corrected, &raw mut uncorrected);
        call!(
            self.nvml,
            nvmlDeviceGetRemappedRows(self.raw, corrected, uncorrected, &raw mut pending, &raw mut failed)
        )?;
        Ok((pending, failed))
    }

    /// Why the clock is lowered, as bits of `nvmlClocksEventReasons`.
    pub(crate) fn clock_reasons(self) -> Result<u64, Code> {
        let mut reasons = 0;
        call!(self.nvml, nvmlDeviceGetCurrentClocksThrottleReasons(self.raw, &raw mut reasons))?;
        Ok(reasons)
    }

    /// Number of times that an NVLink had to be started again.
    pub(crate) fn nvlink_recoveries(self, link: u32) -> Result<u64, Code> {
        let mut count = 0;
        call!(self.nvml, nvmlDeviceGetNvLinkErrorCounter(self.raw, link, RECOVERY, &raw mut count))?;
        Ok(count)
    }

    /// The driver's recovery action, `nvmlDeviceGpuRecoveryAction_t`; 0: none.
    pub(crate) fn recovery_action(self) -> Result<u32, Code> {
        // SAFETY: a C struct of numbers: all zeroes is a valid value.
        let mut value: sys::nvmlFieldValue_t = unsafe { std::mem::zeroed() };
        value.fieldId = field_id::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION;
        call!(self.nvml, nvmlDeviceGetFieldValues(self.raw, 1, &raw mut value))?;
        Code::check(value.nvmlReturn)?;
        // SAFETY: every bit pattern is a number.
        Ok(unsafe { value.value.uiVal })
    }

    /// True for an active NVLink.
    pub(crate) fn nvlink_active(self, link: u32) -> Result<bool, Code> {
        let mut active = 0;
        call!(self.nvml, nvmlDeviceGetNvLinkState(self.raw, link, &raw mut active))?;
        Ok(active != 0)
    }

    pub(crate) fn nvlink_version(self, link: u32) -> Result<u32, Code> {
        let mut version = 0;
        call!(self.nvml, nvmlDeviceGetNvLinkVersion(self.raw, link, &raw mut version))?;
        Ok(version)
    }

    /// Bus id at the other end, lower case.
    pub(crate) fn nvlink_remote(self, link: u32) -> Result<String, Code> {
        // SAFETY: a C struct of numbers and arrays of numbers: all zeroes is a valid value.
        let mut pci: sys::nvmlPciInfo_t = unsafe { std::mem::zeroed() };
        call!(self.nvml, nvmlDeviceGetNvLinkRemotePciInfo_v2(self.raw, link, &raw mut pci))?;
        Ok(text(&pci.busId).to_ascii_lowercase())
    }

    /// Reads the kind of the link's other end: 0 GPU, 1 CPU, 2 switch, 255 unknown.
    pub(crate) fn nvlink_remote_type(self, link: u32) -> Result<u32, Code> {
        let mut kind = 0;
        call!(self.nvml, nvmlDeviceGetNvLinkRemoteDeviceType(self.raw, link, &raw mut kind))?;
        Ok(kind)
    }

    /// The newest PCIe generation that the GPU and its slot can do, and the most lanes.
    pub(crate) fn pcie_slot(self) -> Result<(u32, u32), Code> {
        let (mut generation, mut lanes) = (0, 0);
        call!(self.nvml, nvmlDeviceGetMaxPcieLinkGeneration(self.raw, &raw mut generation))?;
        call!(self.nvml, nvmlDeviceGetMaxPcieLinkWidth(self.raw, &raw mut lanes))?;
        Ok((generation, lanes))
    }

    /// PCIe distance: 0 same board, 10 one switch, 20 several, 30 host bridge, 40 NUMA node, 50 system.
    pub(crate) fn pcie_level(self, other: OpenGpu<'_>) -> Result<u32, Code> {
        let mut level = 0;
        call!(self.nvml, nvmlDeviceGetTopologyCommonAncestor(self.raw, other.raw, &raw mut level))?;
        Ok(level)
    }

    /// NUMA nodes of the GPU's memory affinity, as a mask of the first 64.
    pub(crate) fn numa_mask(self) -> Result<u64, Code> {
        let mut mask = 0;
        call!(self.nvml, nvmlDeviceGetMemoryAffinity(self.raw, 1, &raw mut mask, 0))?;
        Ok(mask)
    }
}
