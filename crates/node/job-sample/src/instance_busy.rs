//! How busy GPU instances are, by two looks at the counters that the driver keeps for each of them.

use std::time::Duration;

use node_driver::NvmlIndex;
use node_driver::nvml::{Code, Nvml, NvmlError, at};

use crate::ffi::{GpmSample, OpenGpu};

/// Time between two looks: NVML's reference asks for more than 100 ms, as the driver renews the counters no more often
/// (`nvmlGpmMetricsGet`).
pub const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// The first look at a GPU instance. It borrows the library: the driver's samples do not outlive it.
pub(crate) struct FirstLook<'nvml> {
    nvml: &'nvml Nvml,
    gpu: NvmlIndex,
    gi: u32,
    sample: GpmSample<'nvml>,
}

/// Tells whether the driver counts how busy each of the GPU's instances is: from Hopper on.
pub(crate) fn counts_for_instances(nvml: &Nvml, gpu: NvmlIndex) -> Result<bool, NvmlError> {
    match OpenGpu::of(nvml, gpu)?.has_gpm() {
        // Old drivers lack the function.
        Err(Code::NOT_SUPPORTED | Code::FUNCTION_NOT_FOUND) => Ok(false),
        answer => answer.map_err(at(gpu, "cannot ask whether it counts for instances")),
    }
}

const UNREADABLE: &str = "cannot read an instance's counters";

impl<'nvml> FirstLook<'nvml> {
    /// Looks at the GPU instance with this id.
    pub(crate) fn at(nvml: &'nvml Nvml, gpu: NvmlIndex, gi: u32) -> Result<Self, NvmlError> {
        let sample = OpenGpu::of(nvml, gpu)?.gpm_sample(gi).map_err(at(gpu, UNREADABLE))?;
        Ok(FirstLook { nvml, gpu, gi, sample })
    }

    /// The part of the time since the first look in which a program was active on the instance, percent.
    ///
    /// # Errors
    ///
    /// As NVML answers; [`Code::NO_DATA`] if that is no percentage, as after too short a time.
    pub(crate) fn busy_percent(self) -> Result<f64, NvmlError> {
        let Self { nvml, gpu, gi, sample: first } = self;
        let second = Self::at(nvml, gpu, gi)?.sample;
        let error = at(gpu, UNREADABLE);
        percentage(first.active_until(&second).map_err(&error)?).ok_or_else(|| error(Code::NO_DATA))
    }
}

/// Checks that the driver's answer is a percentage: rounding may take it a little above 100.
fn percentage(said: f64) -> Option<f64> {
    (-1.0..=101.0).contains(&said).then(|| said.clamp(0.0, 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_percentage_says_nothing() {
        let said = [0.0, 42.5, 100.3, -0.0, f64::NAN, f64::INFINITY, 250.0, -7.0];
        let expected = [Some(0.0), Some(42.5), Some(100.0), Some(0.0), None, None, None, None];
        assert_eq!(said.map(percentage), expected);
    }
}
