//! What the C functions share: the last error, and the library's status codes at the C edge.

use std::cell::Cell;
use std::ffi::{c_char, c_uint};

use c_edge::Status;

use crate::error::{Answer, Error, describe};

thread_local! {
    static LAST: Cell<u32> = const { Cell::new(0) };
}

/// The functions of this module.
pub(super) const NAMES: &[&str] =
    &["cudaGetLastError", "cudaPeekAtLastError", "cudaGetErrorName", "cudaGetErrorString"];

impl Status for Error {
    const INVALID: Self = Self::INVALID_VALUE;
    const UNKNOWN: Self = Self::UNKNOWN;

    fn number(self) -> c_uint {
        self.0
    }
}

/// Runs the whole of one C function, and keeps its error as the thread's last one.
pub(super) fn guard(body: impl FnOnce() -> Answer<()>) -> c_uint {
    let number = c_edge::guard(body);
    // "Not ready" is an answer, not an error.
    if number != 0 && number != Error::NOT_READY.0 {
        LAST.set(number);
    }
    number
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetLastError() -> c_uint {
    LAST.replace(0)
}

#[unsafe(no_mangle)]
extern "C" fn cudaPeekAtLastError() -> c_uint {
    LAST.get()
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorName(number: c_uint) -> *const c_char {
    describe(number).0.as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorString(number: c_uint) -> *const c_char {
    describe(number).1.as_ptr().cast()
}

/// A pointer argument.
pub(super) type Out<T> = c_edge::Out<T, Error>;
/// A `const char *` argument.
pub(super) type CText = c_edge::CText<Error>;

/// Defines C functions and `NAMES`, the list of them. Several names may share a body.
macro_rules! exports {
    ($($(fn $name:ident)|+ ($($arg:ident : $ty:ty),* $(,)?) $body:block)*) => {
        /// The functions of this module.
        pub(super) const NAMES: &[&str] = &[$($(stringify!($name)),+),*];
        c_edge::entries! { crate::ffi::abi::guard; $($(fn $name)|+ ($($arg : $ty),*) () $body)* }
    };
}
pub(super) use exports;
