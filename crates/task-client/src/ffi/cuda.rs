//! CUDA's driver, as far as a task's device goes. Every call is looked up: the library is not linked with the driver.

use std::ffi::{CStr, c_int, c_uint, c_void};

const SUCCESS: c_int = 0;
const NOT_INITIALIZED: c_int = 3;

type CuUuid = [u8; 16];

/// A function of the loaded driver, by its name in cuda.h.
fn function(name: &CStr, may_load: bool) -> Option<*mut c_void> {
    let flags = libc::RTLD_NOW | if may_load { 0 } else { libc::RTLD_NOLOAD };
    // SAFETY: dlopen(3): a valid string and flags. CUDA's initialisers are what the program asks for anyway.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), flags) };
    if library.is_null() {
        return None;
    }
    // SAFETY: dlsym(3): a handle from dlopen and a valid string.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

macro_rules! driver {
    ($load:expr, $name:literal, ($($t:ty),*), $($arg:expr),*) => {
        function($name, $load).map(|found| {
            // SAFETY: cuda.h: the function of this name has this C signature.
            let call = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn($($t),*) -> c_int>(found) };
            call($($arg),*)
        })
    };
}

/// Whether the program has initialised CUDA.
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

/// The same as `CUDA_VISIBLE_DEVICES` writes it: the driver does not say whether it is an instance.
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
    // SAFETY: std: no other thread may read or write the environment meanwhile. CUDA has no other way to be told, and a
    // program that changes its environment in another thread while it begins a task is outside what `tessera_task.h` allows.
    unsafe { std::env::set_var("CUDA_VISIBLE_DEVICES", visible) };
    if !mps_pipe.is_empty() {
        // SAFETY: as above.
        unsafe { std::env::set_var("CUDA_MPS_PIPE_DIRECTORY", mps_pipe) };
    }
}

/// Makes a device the calling thread's: its primary context, as `cudaSetDevice` does. Without CUDA nothing happens.
pub(super) fn select(uuid: &str, ordinal: u64) {
    if driver!(true, c"cuInit", (c_uint), 0) != Some(SUCCESS) {
        return;
    }
    let mut count: c_int = 0;
    driver!(true, c"cuDeviceGetCount", (*mut c_int), &raw mut count);
    let found = (0..count).find(|device| bare(*device).is_some_and(|bare| uuid.ends_with(&bare)));
    let device = found.or_else(|| c_int::try_from(ordinal).ok()).unwrap_or(0);
    let mut context: *mut c_void = std::ptr::null_mut();
    let retained =
        driver!(true, c"cuDevicePrimaryCtxRetain", (*mut *mut c_void, c_int), &raw mut context, device);
    if retained == Some(SUCCESS) {
        driver!(true, c"cuCtxSetCurrent", (*mut c_void), context);
    }
}
