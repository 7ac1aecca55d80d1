//! What the C functions share: the guard, the last error, out arguments.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Answer, Error, describe};

thread_local! {
    static LAST: Cell<u32> = const { Cell::new(0) };
}

/// The functions of this module.
pub(super) const NAMES: &[&str] =
    &["cudaGetLastError", "cudaPeekAtLastError", "cudaGetErrorName", "cudaGetErrorString"];

/// Runs the whole of one C function: a panic becomes `cudaErrorUnknown`, and an error the thread's last one.
pub(super) fn guard(body: impl FnOnce() -> Answer<()>) -> c_uint {
    let number = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error.0,
        Err(_) => Error::UNKNOWN.0,
    };
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

/// Defines C functions and `NAMES`, the list of them. Several names may share a body.
macro_rules! exports {
    ($($(fn $name:ident)|+ ($($arg:ident : $ty:ty),* $(,)?) $body:block)*) => {
        /// The functions of this module.
        pub(super) const NAMES: &[&str] = &[$($(stringify!($name)),+),*];
        $(crate::ffi::abi::exports!(@each [$($name)+] ($($arg : $ty),*) $body);)*
    };
    (@each [$($name:ident)+] $args:tt $body:block) => {
        $(crate::ffi::abi::exports!(@one $name $args $body);)+
    };
    (@one $name:ident ($($arg:ident : $ty:ty),*) $body:block) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_uint {
            crate::ffi::abi::guard(|| $body)
        }
    };
}
pub(super) use exports;

/// A pointer argument to one `T`, or null. Only C makes one, as an argument.
#[repr(transparent)]
pub(super) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}

impl<T: Copy> Out<T> {
    /// True for a null pointer.
    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The address.
    pub(super) fn address(self) -> u64 {
        self.0.expose_provenance() as u64
    }

    /// What the caller has there.
    pub(super) fn get(self) -> Answer<T> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: cuda_runtime_api.h: a non-null pointer argument points to a valid T. All T used here are plain C data.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Writes the answer.
    pub(super) fn put(self, value: T) -> Answer<()> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: cuda_runtime_api.h: a non-null pointer argument points to memory for one T of the caller's.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }
}

/// A `const char *` argument.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct CText(*const c_char);

impl CText {
    /// The text, without a NUL.
    pub(super) fn get(self) -> Answer<String> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: string arguments are NUL-terminated; the borrow ends within this call.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| Error::INVALID_VALUE)
    }

    /// The address.
    pub(super) fn address(self) -> u64 {
        self.0.expose_provenance() as u64
    }
}
