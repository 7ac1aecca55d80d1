//! What the command line alone asks NVML about a GPU: its health, links, draw, and the driver's version.
//!
//! No plugin and no daemon links it: what those ask is in `node-driver`.
#![deny(unsafe_code)]

mod draw;
#[expect(unsafe_code, reason = "NVML's C interface; every block names whose promise it relies on")]
mod ffi;
mod health;
mod links;

use node_driver::nvml::{Nvml, NvmlError};

pub use draw::{is_persistent, power_draw_mw, power_enforced_mw};
pub use health::{GpuHealth, health};
pub use links::{NvLink, numa_node, nvlinks, pcie_level, pcie_slot};

/// The driver's version.
///
/// # Errors
///
/// As NVML answers.
pub fn driver_version(nvml: &Nvml) -> Result<String, NvmlError> {
    ffi::driver_version(nvml).map_err(|code| NvmlError::Node { what: "cannot read the driver version", code })
}
