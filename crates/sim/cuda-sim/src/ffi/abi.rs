//! What the C functions share: the process's driver, the current context, the guard, and out arguments as types.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::core::code::{Answer, Code};
use crate::core::driver::Driver;

/// The driver, for the rest of the process.
static DRIVER: OnceLock<&'static Driver> = OnceLock::new();
static OPENING: Mutex<()> = Mutex::new(());

thread_local! {
    /// Contexts that the thread has pushed; the last is current.
    static STACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// `cuInit`.
pub(super) fn open() -> Answer<()> {
    let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if DRIVER.get().is_some() {
        return driver().map(drop);
    }
    let opened: &'static Driver = Box::leak(Box::new(Driver::open()?));
    let _ = DRIVER.set(opened);
    // SAFETY: atexit takes any function without arguments.
    unsafe { libc::atexit(at_exit) };
    start_beating(opened);
    Ok(())
}

/// The driver.
pub(super) fn driver() -> Answer<&'static Driver> {
    let driver = DRIVER.get().ok_or(Code::NotInitialized)?;
    // A child has its parent's memory but not its contexts: CUDA C++ Programming Guide, "fork".
    if driver.pid() == std::process::id() { Ok(driver) } else { Err(Code::NotInitialized) }
}

extern "C" fn at_exit() {
    let _ = catch_unwind(|| driver().map(Driver::end));
}

/// Renews the process's records from a thread that no signal handler of the program's ever runs on.
fn start_beating(driver: &'static Driver) {
    // SAFETY: a signal set is plain data; all zero is one.
    let (mut all, mut old): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: `all` is a signal set of this frame.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: both sets are of this frame.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut old) };
    let pause = std::time::Duration::from_millis(nvidia_ml::engine::usage::BEAT_MS);
    // Without a thread the process's memory goes at once when it is killed; nothing else is lost.
    let _ = std::thread::Builder::new().name("cuda-sim".to_owned()).stack_size(64 << 10).spawn(move || {
        loop {
            std::thread::sleep(pause);
            driver.beat();
        }
    });
    // SAFETY: `old` is what the call above wrote.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, std::ptr::null_mut()) };
}

/// The thread's current context, if it has one.
pub(super) fn current() -> Option<u64> {
    STACK.with(|stack| stack.borrow().last().copied())
}

/// The driver and the current context.
pub(super) fn here() -> Answer<(&'static Driver, u64)> {
    let driver = driver()?;
    Ok((driver, current().ok_or(Code::InvalidContext)?))
}

/// Changes the thread's stack of contexts.
pub(super) fn stack<T>(change: impl FnOnce(&mut Vec<u64>) -> T) -> T {
    STACK.with(|stack| change(&mut stack.borrow_mut()))
}

/// Runs the whole of one C function; a panic becomes `CUDA_ERROR_UNKNOWN` and does not unwind into C.
pub(super) fn guard(body: impl FnOnce() -> Answer<()>) -> c_uint {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code as c_uint,
        Err(_) => Code::Unknown as c_uint,
    }
}

/// Defines C functions, and `functions`, the list of them. Several names may share a body.
macro_rules! exports {
    ($($(fn $name:ident)|+ ($($arg:ident : $ty:ty),* $(,)?) $body:block)*) => {
        /// The functions of this module.
        pub(super) fn functions() -> Vec<(&'static str, usize)> {
            vec![$($((stringify!($name), $name as *const () as usize)),+),*]
        }
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
            return Err(Code::InvalidValue);
        }
        // SAFETY: cuda.h: a non-null pointer argument points to a valid T. All T used here are plain C data.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Writes the answer.
    pub(super) fn put(self, value: T) -> Answer<()> {
        if self.0.is_null() {
            return Err(Code::InvalidValue);
        }
        // SAFETY: cuda.h: a non-null pointer argument points to memory for one T of the caller's.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the answer where the caller wants it: null is allowed.
    pub(super) fn put_if(self, value: T) -> Answer<()> {
        if self.0.is_null() { Ok(()) } else { self.put(value) }
    }

    /// The pointer `index` T further on.
    pub(super) fn at(self, index: usize) -> Out<T> {
        if self.0.is_null() { self } else { Out(self.0.wrapping_add(index)) }
    }

    /// The same pointer to another type.
    pub(super) fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }
}

impl Out<c_char> {
    /// Writes text and its NUL into a buffer of `length` bytes, cut off where it does not fit.
    pub(super) fn put_text(self, length: i32, text: &str) -> Answer<()> {
        let room = usize::try_from(length).ok().and_then(|n| n.checked_sub(1)).ok_or(Code::InvalidValue)?;
        let bytes = text.bytes().take(room).chain([0]);
        bytes.enumerate().try_for_each(|(i, byte)| self.at(i).put(c_char::from_ne_bytes([byte])))
    }
}

/// A `const char *` argument.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct CText(*const c_char);

impl CText {
    /// The text; null or invalid UTF-8 is an invalid value.
    pub(super) fn get(self) -> Answer<String> {
        if self.0.is_null() {
            return Err(Code::InvalidValue);
        }
        // SAFETY: cuda.h: string arguments are NUL-terminated; the borrow ends within this call.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| Code::InvalidValue)
    }
}

/// A byte pointer from an address that C gave.
pub(super) fn bytes_at(address: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0))
}
