//! The C functions of `libcuda.so.1`. A function converts its arguments, calls the driver once and writes the answer.
//!
//! Handles (`CUcontext`, `CUstream`, …), device addresses and host addresses are all 64-bit integer arguments here: on x86-64 they are
//! passed like pointers, and only a copy, a kernel or an out argument ever becomes one.

mod abi;
mod context;
mod copy;
mod copy_shapes;
mod device;
mod image;
mod launch;
mod memory;
mod module;
mod pointer;
mod proc_address;
mod set;
mod stream;
mod stubs;
mod vmm;

pub use proc_address::find_function;
pub use stubs::NOT_SUPPORTED;

/// Every function that is implemented, by its C name, with its address.
#[must_use]
pub fn implemented() -> Vec<(&'static str, usize)> {
    [
        device::functions(),
        context::functions(),
        copy::functions(),
        copy_shapes::functions(),
        launch::functions(),
        memory::functions(),
        module::functions(),
        pointer::functions(),
        proc_address::functions(),
        set::functions(),
        stream::functions(),
        vmm::functions(),
    ]
    .concat()
}
