//! Every call of this crate into the driver's library. Nothing else in it is `unsafe`.

use node_driver::NvmlIndex;
use node_driver::nvml::{Code, Nvml, NvmlError};
use nvml_wrapper_sys::bindings::{self as sys, field_id};

/// Scope of a counter: all NVLinks of the GPU (nvml.h, on `NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX`).
const ALL_LINKS: u32 = u32::MAX;
/// `NVML_PCIE_UTIL_TX_BYTES`.
const SENT: u32 = 0;
/// `NVML_PCIE_UTIL_RX_BYTES`.
const RECEIVED: u32 = 1;

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

/// Buffer of a question about metrics, with room behind it: newer headers have more metrics in the same version of the struct.
#[repr(C)]
struct GpmQuestion {
    get: sys::nvmlGpmMetricsGet_t,
    room: [sys::nvmlGpmMetric_t; 1024],
}

/// A GPU. The library made the handle, and is borrowed because the handle is valid no longer than that is loaded.
#[derive(Clone, Copy)]
pub(crate) struct OpenGpu<'nvml> {
    nvml: &'nvml Nvml,
    raw: sys::nvmlDevice_t,
}

/// The counters of a GPU instance at one moment, from GPM, which the driver has from Hopper on; freed when dropped.
pub(crate) struct GpmSample<'nvml> {
    raw: sys::nvmlGpmSample_t,
    nvml: &'nvml Nvml,
}

impl<'nvml> OpenGpu<'nvml> {
    pub(crate) fn of(nvml: &'nvml Nvml, gpu: NvmlIndex) -> Result<Self, NvmlError> {
        Ok(Self { nvml, raw: nvml.raw_device(gpu)? })
    }

    /// Percent of the last moments in which a kernel ran: nvml.h says between 1/6 s and 1 s, by product.
    pub(crate) fn utilisation(self) -> Result<u32, Code> {
        let mut rates = sys::nvmlUtilization_t { gpu: 0, memory: 0 };
        call!(self.nvml, nvmlDeviceGetUtilizationRates(self.raw, &raw mut rates))?;
        Ok(rates.gpu)
    }

    /// Tells whether the GPU has GPM.
    pub(crate) fn has_gpm(self) -> Result<bool, Code> {
        let version = sys::NVML_GPM_SUPPORT_VERSION;
        let mut support = sys::nvmlGpmSupport_t { version, isSupportedDevice: 0 };
        call!(self.nvml, nvmlGpmQueryDeviceSupport(self.raw, &raw mut support))?;
        Ok(support.isSupportedDevice != 0)
    }

    /// Reads the counters of the GPU instance with this id.
    pub(crate) fn gpm_sample(self, gi: u32) -> Result<GpmSample<'nvml>, Code> {
        let mut raw = std::ptr::null_mut();
        call!(self.nvml, nvmlGpmSampleAlloc(&raw mut raw))?;
        let sample = GpmSample { raw, nvml: self.nvml };
        call!(self.nvml, nvmlGpmMigSampleGet(self.raw, gi, sample.raw))?;
        Ok(sample)
    }

    /// True for an active NVLink.
    pub(crate) fn nvlink_active(self, link: u32) -> Result<bool, Code> {
        let mut active = 0;
        call!(self.nvml, nvmlDeviceGetNvLinkState(self.raw, link, &raw mut active))?;
        Ok(active != 0)
    }

    /// KiB that all NVLinks of the GPU have sent and received since the driver was loaded, without what the protocol adds.
    pub(crate) fn nvlink_kib(self) -> Result<(u64, u64), Code> {
        let fields = [
            field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
            field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
        ];
        let mut values = fields.map(|field| {
            // SAFETY: a C struct of numbers: all zeroes is a valid value.
            let mut value: sys::nvmlFieldValue_t = unsafe { std::mem::zeroed() };
            (value.fieldId, value.scopeId) = (field, ALL_LINKS);
            value
        });
        call!(self.nvml, nvmlDeviceGetFieldValues(self.raw, 2, values.as_mut_ptr()))?;
        let [sent, received] = values.map(whole_number);
        Ok((sent?, received?))
    }

    /// KB/s that the GPU sends and receives over PCIe, the mean over 20 ms. Each of the two takes these 20 ms.
    pub(crate) fn pcie_kb_s(self) -> Result<(u32, u32), Code> {
        let (mut sent, mut received) = (0, 0);
        call!(self.nvml, nvmlDeviceGetPcieThroughput(self.raw, SENT, &raw mut sent))?;
        call!(self.nvml, nvmlDeviceGetPcieThroughput(self.raw, RECEIVED, &raw mut received))?;
        Ok((sent, received))
    }
}

impl GpmSample<'_> {
    /// The part of the time until a second sample in which a program was active, percent, as the driver says it.
    pub(crate) fn active_until(&self, second: &Self) -> Result<f64, Code> {
        // SAFETY: a C struct of numbers, pointers and arrays of them only: all zeroes is a valid value.
        let mut asked: GpmQuestion = unsafe { std::mem::zeroed() };
        let get = &mut asked.get;
        get.version = sys::NVML_GPM_METRICS_GET_VERSION;
        get.numMetrics = 1;
        (get.sample1, get.sample2) = (self.raw, second.raw);
        get.metrics[0].metricId = sys::nvmlGpmMetricId_t_NVML_GPM_METRIC_GRAPHICS_UTIL;
        call!(self.nvml, nvmlGpmMetricsGet((&raw mut asked).cast()))?;
        let told = asked.get.metrics[0];
        Code::check(told.nvmlReturn)?;
        Ok(told.value)
    }
}

impl Drop for GpmSample<'_> {
    fn drop(&mut self) {
        // A buffer that cannot be freed leaves nothing to do: the library is soon unloaded.
        let _ = call!(self.nvml, nvmlGpmSampleFree(self.raw));
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
