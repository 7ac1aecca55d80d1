//! What the driver decides, in safe Rust: no C type appears below this module.

pub mod account;
pub mod allocate;
pub mod attribute;
pub mod code;
pub mod contexts;
pub mod control;
pub mod device;
pub mod driver;
pub mod heap;
pub mod log;
mod mappings;
pub mod memory;
pub mod mps;
mod stream;
pub mod streams;
pub mod visible;
pub mod vmm;
