//! Calls about bytes that a GPU sends and receives.

use nvml_wrapper_sys::bindings::{self as sys, field_id};

use super::{Code, Device, Lib, Plain as _};

/// Scope of a counter: all NVLinks of the GPU (nvml.h, on `NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX`).
const ALL_LINKS: u32 = u32::MAX;
/// `NVML_PCIE_UTIL_TX_BYTES`.
const SENT: u32 = 0;
/// `NVML_PCIE_UTIL_RX_BYTES`.
const RECEIVED: u32 = 1;

impl Lib {
    /// True for an active NVLink.
    pub(in crate::nvml) fn nvlink_active(&self, device: Device<'_>, link: u32) -> Result<bool, Code> {
        let mut active = 0;
        call!(self, nvmlDeviceGetNvLinkState(device.raw, link, &raw mut active))?;
        Ok(active != 0)
    }

    /// KiB that all NVLinks of the GPU have sent and received since the driver was loaded, without what the protocol adds.
    pub(in crate::nvml) fn nvlink_kib(&self, device: Device<'_>) -> Result<(u64, u64), Code> {
        let fields = [
            field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
            field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
        ];
        let mut values = fields.map(|field| {
            let mut value = sys::nvmlFieldValue_t::zeroed();
            (value.fieldId, value.scopeId) = (field, ALL_LINKS);
            value
        });
        call!(self, nvmlDeviceGetFieldValues(device.raw, 2, values.as_mut_ptr()))?;
        let [sent, received] = values.map(whole_number);
        Ok((sent?, received?))
    }

    /// KB/s that the GPU sends and receives over PCIe, the mean over 20 ms. Each of the two takes these 20 ms.
    pub(in crate::nvml) fn pcie_kb_s(&self, device: Device<'_>) -> Result<(u32, u32), Code> {
        let (mut sent, mut received) = (0, 0);
        call!(self, nvmlDeviceGetPcieThroughput(device.raw, SENT, &raw mut sent))?;
        call!(self, nvmlDeviceGetPcieThroughput(device.raw, RECEIVED, &raw mut received))?;
        Ok((sent, received))
    }
}

/// The number in an answer, by the type that the driver says it has.
fn whole_number(value: sys::nvmlFieldValue_t) -> Result<u64, Code> {
    Code::check(value.nvmlReturn)?;
    match value.valueType {
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => {
            // SAFETY: every bit pattern is a number.
            Ok(u64::from(unsafe { value.value.uiVal }))
        }
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG
        | sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => {
            // SAFETY: as above; both have 64 bits on Linux.
            Ok(unsafe { value.value.ullVal })
        }
        _ => Err(Code::NOT_SUPPORTED),
    }
}
