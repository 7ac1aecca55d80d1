//! What the C functions share: the process's session, the guard, and pointers from C as types.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};

use crate::engine::code::{Answer, Code};
use crate::engine::handle::Handle;
use crate::engine::session::Session;
use crate::engine::state::State;

/// The session and how often it was initialised.
static LIBRARY: RwLock<Option<(Arc<Session>, u32)>> = RwLock::new(None);

/// `nvmlInit`: opens the node, or counts one more user of it.
pub(super) fn init() -> Answer<()> {
    let mut library = LIBRARY.write().unwrap_or_else(PoisonError::into_inner);
    match library.as_mut() {
        Some((_, count)) => *count = count.saturating_add(1),
        None => *library = Some((Arc::new(Session::open()?), 1)),
    }
    Ok(())
}

/// `nvmlShutdown`: one user less; the last one closes.
pub(super) fn shutdown() -> Answer<()> {
    let mut library = LIBRARY.write().unwrap_or_else(PoisonError::into_inner);
    let (_, count) = library.as_mut().ok_or(Code::Uninitialized)?;
    *count -= 1;
    if *count == 0 {
        *library = None;
    }
    Ok(())
}

fn session() -> Answer<Arc<Session>> {
    let library = LIBRARY.read().unwrap_or_else(PoisonError::into_inner);
    library.as_ref().map(|(s, _)| Arc::clone(s)).ok_or(Code::Uninitialized)
}

/// Runs the whole of one C function; a panic becomes `NVML_ERROR_UNKNOWN` and does not unwind into C.
pub(super) fn guard(body: impl FnOnce() -> Answer<()>) -> c_uint {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code as c_uint,
        Err(_) => Code::Unknown as c_uint,
    }
}

/// As [`guard`], with the session and the state of this moment.
pub(super) fn with_state(body: impl FnOnce(&Session, &State) -> Answer<()>) -> c_uint {
    guard(|| {
        let session = session()?;
        let state = session.state()?;
        body(&session, &state)
    })
}

/// Defines C functions and `NAMES`, the list of them. The body sees the session and the state under the two names given.
macro_rules! exports {
    ($(fn $name:ident($($arg:ident : $ty:ty),* $(,)?) |$session:ident, $state:ident| $body:block)*) => {
        /// The functions of this module.
        pub(super) const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_uint {
                crate::ffi::abi::with_state(|$session, $state| {
                    let _ = (&$session, &$state);
                    $body
                })
            }
        )*
    };
}
pub(super) use exports;

/// A handle from the caller: `nvmlDevice_t`, `nvmlGpuInstance_t`, `nvmlComputeInstance_t`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Ref(*mut c_void);

impl Ref {
    /// What it stands for.
    pub(super) fn get(self) -> Answer<Handle> {
        Handle::from_bits(self.0.addr() as u64).ok_or(Code::InvalidArgument)
    }

    /// The physical GPU, where a MIG device will not do.
    pub(super) fn gpu(self, session: &Session, state: &State) -> Answer<u32> {
        session.gpu(state, self.get()?)
    }

    /// The physical GPU, for a GPU or one of its MIG devices.
    pub(super) fn gpu_of_any(self, session: &Session, state: &State) -> Answer<u32> {
        Ok(session.any_gpu(state, self.get()?)?.0)
    }
}

/// A handle as a pointer for the caller.
pub(super) fn pointer<T>(handle: Handle) -> *mut T {
    // 64-bit only: the bits are a user-space address that nothing is mapped at or will ever be read from.
    std::ptr::without_provenance_mut(usize::try_from(handle.to_bits()).unwrap_or(0))
}

/// A pointer argument to one `T` or to an array of them, or null. Only C makes one, as an argument.
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

    /// What the caller has there.
    pub(super) fn get(self) -> Answer<T> {
        if self.0.is_null() {
            return Err(Code::InvalidArgument);
        }
        // SAFETY: nvml.h: a non-null reference argument points to a valid T. All T used here are plain C data.
        Ok(unsafe { self.0.read() })
    }

    /// Writes the answer.
    pub(super) fn put(self, value: T) -> Answer<()> {
        if self.0.is_null() {
            return Err(Code::InvalidArgument);
        }
        // SAFETY: nvml.h: a non-null reference argument points to memory for one T of the caller's.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Writes an array whose room the caller has already been found to have.
    pub(super) fn put_all(self, values: &[T]) -> Answer<()> {
        if self.0.is_null() && !values.is_empty() {
            return Err(Code::InvalidArgument);
        }
        for (i, value) in values.iter().enumerate() {
            // SAFETY: nvml.h: the array has as many elements as the count argument says, which the caller of this checked.
            let slot = unsafe { self.0.add(i) };
            // SAFETY: `slot` lies in that array.
            unsafe { slot.write(*value) };
        }
        Ok(())
    }

    /// The pointer one T further on.
    pub(super) fn at(self, index: usize) -> Out<T> {
        Out(self.0.wrapping_add(index))
    }

    /// The address, as a number.
    pub(super) fn address(self) -> u64 {
        self.0.addr() as u64
    }

    /// The same pointer to another type that begins at the same place.
    pub(super) fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// NVML's way of giving lists: `count` holds the array's room and becomes the number of elements; with too little room, or no
    /// array, only the number is given.
    pub(super) fn put_list(self, count: Out<c_uint>, values: &[T]) -> Answer<()> {
        let room = count.get()?;
        let n = c_uint::try_from(values.len()).map_err(|_| Code::Unknown)?;
        count.put(n)?;
        if n > room || (self.is_null() && n > 0) {
            return Err(Code::InsufficientSize);
        }
        self.put_all(values)
    }
}

impl Out<c_char> {
    /// Writes text and its NUL into a buffer of `length` bytes.
    pub(super) fn put_text(self, length: c_uint, text: &str) -> Answer<()> {
        if self.is_null() {
            return Err(Code::InvalidArgument);
        }
        if text.len() >= length as usize {
            return Err(Code::InsufficientSize);
        }
        let bytes: Vec<c_char> = text.bytes().chain([0]).map(|byte| c_char::from_ne_bytes([byte])).collect();
        self.put_all(&bytes)
    }
}

/// A `const char *` argument.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct CText(*const c_char);

impl CText {
    /// The text; invalid UTF-8 is an invalid argument.
    pub(super) fn get(self) -> Answer<String> {
        if self.0.is_null() {
            return Err(Code::InvalidArgument);
        }
        // SAFETY: nvml.h: string arguments are NUL-terminated; the borrow ends within this call.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| Code::InvalidArgument)
    }
}

/// A fixed buffer of a struct, filled with text, cut off where it does not fit.
pub(super) fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (slot, byte) in out.iter_mut().zip(text.bytes().take(N.saturating_sub(1))) {
        *slot = c_char::from_ne_bytes([byte]);
    }
    out
}

/// The version word of a versioned struct: size and number.
pub(super) const fn version<T>(number: c_uint) -> c_uint {
    #[expect(clippy::cast_possible_truncation, reason = "NVML's structs are far below 16 MiB")]
    let size = size_of::<T>() as c_uint;
    size | number << 24
}
