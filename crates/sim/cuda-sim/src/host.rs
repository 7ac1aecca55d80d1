//! Host memory that stands for device memory: mappings that the driver owns.

#[expect(
    unsafe_code,
    reason = "maps and unmaps the memory that addresses of the simulated devices stand for"
)]
mod ffi;

pub use ffi::{Memory, Region};
