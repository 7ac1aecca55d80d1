//! CUDA's driver, as far as a task's device goes. Every call is looked up: the library is not linked with the driver.

use std::ffi::{CStr, CString, c_int, c_uint, c_void};

const SUCCESS: c_int = 0;
const NOT_INITIALIZED: c_int = 3;

type CuUuid = [u8; 16];

macro_rules! driver {
    ($load:expr, $name:literal, ($($t:ty),*), $($arg:expr),*) => {{
        static PLACE: std::sync::atomic::AtomicPtr<c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        $crate::ffi::driver::remembered(&PLACE, $name, $load).map(|found| {
            // SAFETY: cuda.h: the function of this name has this C signature.
            let call = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn($($t),*) -> c_int>(found) };
            call($($arg),*)
        })
    }};
}
pub(super) use driver;

/// Tells whether the program has initialised CUDA.
fn is_initialised() -> bool {
    let mut context: *mut c_void = std::ptr::null_mut();
    let answer = driver!(false, c"cuCtxGetCurrent", (*mut *mut c_void), &raw mut context);
    answer.is_some_and(|answer| answer != NOT_INITIALIZED)
}

/// The UUID of the first device that the process sees, if CUDA is initialised and it can see no other.
pub(super) fn bound() -> Option<String> {
    is_initialised().then(|| uuid_of(0)).flatten()
}

/// The UUID of a device as NVML writes it, without `GPU-` or `MIG-`.
fn bare(device: c_int) -> Option<String> {
    let mut uuid: CuUuid = [0; 16];
    let answer = driver!(true, c"cuDeviceGetUuid_v2", (*mut CuUuid, c_int), &raw mut uuid, device);
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let parts = [&uuid[..4], &uuid[4..6], &uuid[6..8], &uuid[8..10], &uuid[10..]].map(hex);
    (answer == Some(SUCCESS)).then(|| parts.join("-"))
}

/// UUID as `CUDA_VISIBLE_DEVICES` writes it: the driver does not say whether it is an instance.
fn uuid_of(device: c_int) -> Option<String> {
    let bare = bare(device)?;
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").unwrap_or_default();
    let named = visible.split(',').find(|name| name.ends_with(&bare));
    Some(named.map_or_else(|| format!("GPU-{bare}"), str::to_owned))
}

/// Lets CUDA see these devices through this MPS daemon, if it is not initialised yet.
pub(super) fn show(visible: &str, mps_pipe: &str) {
    if is_initialised() {
        return;
    }
    set(c"CUDA_VISIBLE_DEVICES", visible);
    if !mps_pipe.is_empty() {
        set(c"CUDA_MPS_PIPE_DIRECTORY", mps_pipe);
    }
}

/// Sets a variable of the environment, without the standard library's lock: see `process`.
fn set(name: &CStr, value: &str) {
    let Ok(value) = CString::new(value) else { return };
    // SAFETY: setenv(3): two C strings. CUDA has no other way to be told, and a program that uses its environment in another
    // thread while it starts CUDA or begins a task is outside what `tessera_task.h` allows.
    unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
}

/// Makes a device the calling thread's: its primary context, as `cudaSetDevice` does. Without CUDA nothing happens. Returns the
/// context; 0 for none.
pub(super) fn select(uuid: &str, ordinal: u64) -> u64 {
    if driver!(true, c"cuInit", (c_uint), 0) != Some(SUCCESS) {
        return 0;
    }
    let mut count: c_int = 0;
    driver!(true, c"cuDeviceGetCount", (*mut c_int), &raw mut count);
    let found = (0..count).find(|device| bare(*device).is_some_and(|bare| uuid.ends_with(&bare)));
    let device = found.or_else(|| c_int::try_from(ordinal).ok()).unwrap_or(0);
    let mut context: *mut c_void = std::ptr::null_mut();
    let retained =
        driver!(true, c"cuDevicePrimaryCtxRetain", (*mut *mut c_void, c_int), &raw mut context, device);
    if retained != Some(SUCCESS) {
        return 0;
    }
    driver!(true, c"cuCtxSetCurrent", (*mut c_void), context);
    context.expose_provenance() as u64
}

/// Tells whether a context is the calling thread's and was not destroyed, as a reset of its device does.
pub(super) fn is_current(context: u64) -> bool {
    let mut device: c_int = 0;
    context != 0
        && current_context() == context
        && driver!(false, c"cuCtxGetDevice", (*mut c_int), &raw mut device) == Some(SUCCESS)
}

/// The calling thread's current context; 0 for none.
pub(super) fn current_context() -> u64 {
    let mut context: *mut c_void = std::ptr::null_mut();
    driver!(false, c"cuCtxGetCurrent", (*mut *mut c_void), &raw mut context);
    context.expose_provenance() as u64
}

/// Tells whether a device's primary context exists.
pub(super) fn has_primary_context(device: c_int) -> bool {
    let (mut flags, mut active): (c_uint, c_int) = (0, 0);
    let answer = driver!(
        false,
        c"cuDevicePrimaryCtxGetState",
        (c_int, *mut c_uint, *mut c_int),
        device,
        &raw mut flags,
        &raw mut active
    );
    answer == Some(SUCCESS) && active != 0
}

/// A device's primary context, if it is there; 0 otherwise.
pub(super) fn primary_context(device: c_int) -> u64 {
    if !has_primary_context(device) {
        return 0;
    }
    let mut context: *mut c_void = std::ptr::null_mut();
    let retained =
        driver!(false, c"cuDevicePrimaryCtxRetain", (*mut *mut c_void, c_int), &raw mut context, device);
    if retained == Some(SUCCESS) {
        driver!(false, c"cuDevicePrimaryCtxRelease_v2", (c_int), device);
    }
    context.expose_provenance() as u64
}
