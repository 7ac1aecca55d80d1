//! NVML as this crate uses it: typed, by GPU index, with errors that name GPU, profile and place.

mod calls;
mod clock;
mod code;
mod error;
mod ffi;
mod known;
mod mig;
mod topology;

pub use calls::{GpuInfo, MigMode, Nvml};
pub use clock::driver_time;
pub use code::Code;
pub use error::NvmlError;
pub use known::LiveProfile;
pub use mig::{ComputeInstance, GpuInstance};
pub use topology::{Answers as LinkAnswers, NvLink};
