//! Calls about a GPU's health.

use std::time::Instant;

use nvml_wrapper_sys::bindings::{self as sys, field_id};

use super::{Code, Device, Lib, Plain as _, count_since};

/// `NVML_MEMORY_ERROR_TYPE_UNCORRECTED`.
const UNCORRECTED: u32 = 1;
/// `NVML_VOLATILE_ECC`: since the driver was loaded.
const VOLATILE: u32 = 0;
/// `NVML_NVLINK_ERROR_DL_RECOVERY`.
const RECOVERY: u32 = 1;

impl Lib {
    /// Uncorrectable memory errors since the driver was loaded.
    pub(in crate::nvml) fn ecc_uncorrected(&self, device: Device<'_>) -> Result<u64, Code> {
        let mut count = 0;
        call!(self, nvmlDeviceGetTotalEccErrors(device.raw, UNCORRECTED, VOLATILE, &raw mut count))?;
        Ok(count)
    }

    /// A row of memory is to be remapped at the next reset; none was left to remap one to. Each 0 or 1.
    pub(in crate::nvml) fn remapped_rows(&self, device: Device<'_>) -> Result<(u32, u32), Code> {
        let (mut corrected, mut uncorrected, mut pending, mut failed) = (0, 0, 0, 0);
        let (corrected, uncorrected) = (&raw mut corrected, &raw mut uncorrected);
        call!(
            self,
            nvmlDeviceGetRemappedRows(device.raw, corrected, uncorrected, &raw mut pending, &raw mut failed)
        )?;
        Ok((pending, failed))
    }

    /// Number of times that an NVLink had to be started again.
    pub(in crate::nvml) fn nvlink_recoveries(&self, device: Device<'_>, link: u32) -> Result<u64, Code> {
        let mut count = 0;
        call!(self, nvmlDeviceGetNvLinkErrorCounter(device.raw, link, RECOVERY, &raw mut count))?;
        Ok(count)
    }

    /// The driver's recovery action, `nvmlDeviceGpuRecoveryAction_t`; 0: none.
    pub(in crate::nvml) fn recovery_action(&self, device: Device<'_>) -> Result<u32, Code> {
        let mut value = sys::nvmlFieldValue_t::zeroed();
        value.fieldId = field_id::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION;
        call!(self, nvmlDeviceGetFieldValues(device.raw, 1, &raw mut value))?;
        Code::check(value.nvmlReturn)?;
        // SAFETY: every bit pattern is a number.
        Ok(unsafe { value.value.uiVal })
    }
}
