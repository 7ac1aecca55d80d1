//! The C functions of `libcudart.so.12`. Pointers and handles are 64-bit integers here, as in cuda-sim's `ffi`.

mod abi;
mod copy;
mod device;
#[expect(clippy::too_many_arguments, reason = "the driver's functions have as many")]
mod driver;
mod launch;
mod memory;
mod properties;
mod register;
mod state;
mod stream;
mod stubs;

pub use properties::PROPERTIES_SIZE;
pub use stubs::NOT_SUPPORTED;

/// Every function that is implemented, by its C name.
#[must_use]
pub fn implemented() -> Vec<&'static str> {
    let all = [
        abi::NAMES,
        copy::NAMES,
        device::NAMES,
        launch::NAMES,
        memory::NAMES,
        register::NAMES,
        state::NAMES,
        stream::NAMES,
    ];
    all.concat()
}
