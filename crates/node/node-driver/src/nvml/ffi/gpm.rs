//! Calls about GPM, the counters that the driver keeps for each GPU instance from Hopper on.

use nvml_wrapper_sys::bindings as sys;

use super::{Code, Device, Lib, Plain as _};

/// Buffer of a question about metrics, with room behind it: newer headers have more metrics in the same version of the struct.
#[repr(C)]
pub(super) struct GpmQuestion {
    get: sys::nvmlGpmMetricsGet_t,
    room: [sys::nvmlGpmMetric_t; 1024],
}

/// The counters of a GPU instance at one moment; freed when dropped.
pub(in crate::nvml) struct GpmSample<'lib> {
    raw: sys::nvmlGpmSample_t,
    lib: &'lib Lib,
}

impl Lib {
    /// Tells whether the GPU has GPM.
    pub(in crate::nvml) fn has_gpm(&self, gpu: Device<'_>) -> Result<bool, Code> {
        let mut support = sys::nvmlGpmSupport_t::zeroed();
        support.version = sys::NVML_GPM_SUPPORT_VERSION;
        call!(self, nvmlGpmQueryDeviceSupport(gpu.raw, &raw mut support))?;
        Ok(support.isSupportedDevice != 0)
    }

    /// Reads the counters of the GPU instance with this id.
    pub(in crate::nvml) fn gpm_sample(&self, gpu: Device<'_>, gi: u32) -> Result<GpmSample<'_>, Code> {
        let mut raw = std::ptr::null_mut();
        call!(self, nvmlGpmSampleAlloc(&raw mut raw))?;
        let sample = GpmSample { raw, lib: self };
        call!(self, nvmlGpmMigSampleGet(gpu.raw, gi, sample.raw))?;
        Ok(sample)
    }

    /// The part of the time between two samples in which a program was active, percent, as the driver says it.
    pub(in crate::nvml) fn gpm_active(
        &self,
        first: &GpmSample<'_>,
        second: &GpmSample<'_>,
    ) -> Result<f64, Code> {
        let mut asked = GpmQuestion::zeroed();
        let get = &mut asked.get;
        get.version = sys::NVML_GPM_METRICS_GET_VERSION;
        get.numMetrics = 1;
        (get.sample1, get.sample2) = (first.raw, second.raw);
        get.metrics[0].metricId = sys::nvmlGpmMetricId_t_NVML_GPM_METRIC_GRAPHICS_UTIL;
        call!(self, nvmlGpmMetricsGet((&raw mut asked).cast()))?;
        let told = asked.get.metrics[0];
        Code::check(told.nvmlReturn)?;
        Ok(told.value)
    }
}

impl Drop for GpmSample<'_> {
    fn drop(&mut self) {
        // A buffer that cannot be freed leaves nothing to do: the library is soon unloaded.
        let _ = call!(self.lib, nvmlGpmSampleFree(self.raw));
    }
}
