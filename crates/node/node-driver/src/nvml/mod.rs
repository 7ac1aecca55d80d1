//! NVML as this crate uses it: typed, by GPU index, with errors that name GPU, profile and place.

mod calls;
mod code;
mod driver_time;
mod error;
#[expect(unsafe_code, reason = "NVML's C interface; every block names whose promise it relies on")]
mod ffi;
mod mig;
mod processes;
mod profiles;
mod usage;

pub use calls::{GpuInfo, MigMode, Nvml};
pub use code::Code;
pub use driver_time::driver_time;
pub use error::{NvmlError, at};
pub use ffi::text;
pub use mig::{ComputeInstance, GpuInstance};
pub use profiles::LiveProfile;
pub use usage::Usage;

/// No GPU has more NVLinks.
pub const MAX_LINKS: u32 = 18;
