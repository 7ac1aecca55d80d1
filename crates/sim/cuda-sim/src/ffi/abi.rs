//! What the C functions share: the process's driver, the current context, and the library's status codes at the C edge.

use std::cell::RefCell;
use std::ffi::c_uint;
use std::panic::catch_unwind;
use std::sync::{Mutex, OnceLock, PoisonError};

use c_edge::Status;

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

impl Status for Code {
    const INVALID: Self = Self::InvalidValue;
    const UNKNOWN: Self = Self::Unknown;

    fn number(self) -> c_uint {
        self as c_uint
    }
}

/// A pointer argument.
pub(super) type Out<T> = c_edge::Out<T, Code>;
/// A `const char *` argument.
pub(super) type CText = c_edge::CText<Code>;

/// Runs the whole of one C function.
pub(super) fn guard(body: impl FnOnce() -> Answer<()>) -> c_uint {
    c_edge::guard(body)
}

/// Defines C functions, and `functions`, the list of them. Several names may share a body.
macro_rules! exports {
    ($($(fn $name:ident)|+ ($($arg:ident : $ty:ty),* $(,)?) $body:block)*) => {
        /// The functions of this module.
        pub(super) fn functions() -> Vec<(&'static str, usize)> {
            vec![$($((stringify!($name), $name as *const () as usize)),+),*]
        }
        c_edge::entries! { crate::ffi::abi::guard; $($(fn $name)|+ ($($arg : $ty),*) () $body)* }
    };
}
pub(super) use exports;

/// A byte pointer from an address that C gave.
pub(super) fn bytes_at(address: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0))
}
