//! What a GPU draws, and the limit in force.

use node_driver::NvmlIndex;
use node_driver::nvml::{Nvml, NvmlError, at};

use crate::ffi::OpenGpu;

/// The power limit in force, milliwatts: lower than the one that was set where somebody limits the board out of band.
///
/// # Errors
///
/// As NVML answers.
pub fn power_enforced_mw(nvml: &Nvml, gpu: NvmlIndex) -> Result<u32, NvmlError> {
    OpenGpu::of(nvml, gpu)?.power_enforced().map_err(at(gpu, "cannot read its enforced power limit"))
}

/// Tells whether the driver keeps the GPU's settings while no program has it open.
///
/// # Errors
///
/// As NVML answers.
pub fn is_persistent(nvml: &Nvml, gpu: NvmlIndex) -> Result<bool, NvmlError> {
    let mode = OpenGpu::of(nvml, gpu)?.persistence_mode();
    mode.map(|mode| mode == 1).map_err(at(gpu, "cannot read its persistence mode"))
}

/// Reads the draw of the GPU, milliwatts.
///
/// # Errors
///
/// As NVML answers.
pub fn power_draw_mw(nvml: &Nvml, gpu: NvmlIndex) -> Result<u32, NvmlError> {
    OpenGpu::of(nvml, gpu)?.power_draw().map_err(at(gpu, "cannot read its power draw"))
}
