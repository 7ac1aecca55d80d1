//! SPANK's calls as safe functions: one per item, because `spank_get_item` is variadic and believes any pointer.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::marker::PhantomData;

use slurm_numbers as numbers;

use super::{host_symbols, process, sys};
use crate::spank::{Context, Errors, OptionsOfSrun, Spank, SpankError};
use job_options::Spec;

/// The plugin's context now.
pub(super) fn context() -> Context {
    // SAFETY: slurm/spank.h: takes nothing and only reads the plugin stack's type.
    match unsafe { sys::spank_context() } {
        numbers::S_CTX_LOCAL => Context::Local,
        numbers::S_CTX_ALLOCATOR => Context::Allocator,
        numbers::S_CTX_REMOTE => Context::Remote,
        numbers::S_CTX_SLURMD => Context::Slurmd,
        numbers::S_CTX_JOB_SCRIPT => Context::JobScript,
        _ => Context::Other,
    }
}

/// A hook's handle. It does not outlive the hook.
pub(super) struct Handle<'hook> {
    raw: sys::spank_t,
    /// Takes the text of an option that is registered through the handle.
    option_given: sys::spank_opt_cb_f,
    hook: PhantomData<&'hook ()>,
}

fn checked(call: &'static str, code: sys::spank_err_t) -> Result<(), SpankError> {
    if code == numbers::ESPANK_SUCCESS { Ok(()) } else { Err(SpankError { call, code }) }
}

/// Bytes for a value of a step's environment, with its NUL: for most, and for the longest that Linux passes to a program.
const VALUE: [usize; 2] = [4 << 10, 128 << 10];

impl Handle<'_> {
    /// Wraps a hook's handle.
    ///
    /// # Safety
    ///
    /// `raw` is the handle that Slurm passed to the hook in which the result is used.
    pub(super) unsafe fn from_raw(raw: sys::spank_t, option_given: sys::spank_opt_cb_f) -> Self {
        Self { raw, option_given, hook: PhantomData }
    }

    /// A string of Slurm's own, copied; `None` after an error, or where it is not UTF-8.
    fn list(&self, code: sys::spank_err_t, value: *const c_char) -> Option<String> {
        if code != numbers::ESPANK_SUCCESS || value.is_null() {
            return None;
        }
        // SAFETY: src/common/plugstack.c hands out a string of the step's record, which outlives the hook.
        unsafe { CStr::from_ptr(value) }.to_str().ok().map(str::to_owned)
    }
}

/// Functions that read one number of the job or step.
macro_rules! numbers_of_the_step {
    ($($name:ident: $value:ty = $item:ident;)*) => { $(
        fn $name(&self) -> Result<u32, SpankError> {
            let mut value: $value = 0;
            // SAFETY: slurm/spank.h: the item takes a pointer to a value of the row's type; the handle is this hook's.
            let code = unsafe { sys::spank_get_item(self.raw, numbers::$item, &raw mut value) };
            checked(stringify!($item), code).map(|()| value)
        }
    )* };
}

impl Spank for Handle<'_> {
    numbers_of_the_step! {
        job_id: u32 = S_JOB_ID;
        job_uid: libc::uid_t = S_JOB_UID;
        job_gid: libc::gid_t = S_JOB_GID;
        step_id: u32 = S_JOB_STEPID;
        local_task_count: u32 = S_JOB_LOCAL_TASK_COUNT;
    }

    fn job_cores(&self) -> Option<String> {
        let mut value: *const c_char = std::ptr::null();
        // SAFETY: slurm/spank.h: S_JOB_ALLOC_CORES takes a `char **`; the handle is this hook's.
        let code = unsafe { sys::spank_get_item(self.raw, numbers::S_JOB_ALLOC_CORES, &raw mut value) };
        self.list(code, value)
    }

    fn step_cores(&self) -> Option<String> {
        let mut value: *const c_char = std::ptr::null();
        // SAFETY: slurm/spank.h: S_STEP_ALLOC_CORES takes a `char **`; the handle is this hook's.
        let code = unsafe { sys::spank_get_item(self.raw, numbers::S_STEP_ALLOC_CORES, &raw mut value) };
        self.list(code, value)
    }

    fn restart_count(&self) -> u32 {
        let mut value: u32 = 0;
        // SAFETY: slurm/spank.h: S_SLURM_RESTART_COUNT takes a `uint32_t *`; the handle is this hook's.
        let code = unsafe { sys::spank_get_item(self.raw, numbers::S_SLURM_RESTART_COUNT, &raw mut value) };
        if code == numbers::ESPANK_SUCCESS { value } else { 0 }
    }

    fn local_task(&self) -> Result<u32, SpankError> {
        let mut value: c_int = 0;
        // SAFETY: slurm/spank.h: S_TASK_ID takes an `int *`; the handle is this hook's.
        let code = unsafe { sys::spank_get_item(self.raw, numbers::S_TASK_ID, &raw mut value) };
        checked("S_TASK_ID", code)?;
        u32::try_from(value).map_err(|_| SpankError { call: "S_TASK_ID", code: 0 })
    }

    fn getenv(&self, name: &CStr) -> Option<String> {
        for size in VALUE {
            let mut buffer = vec![0u8; size];
            let len = c_int::try_from(size).ok()?;
            let at = buffer.as_mut_ptr().cast::<c_char>();
            // SAFETY: slurm/spank.h: writes at most `len` bytes, the NUL included, to a buffer of that size.
            let code = unsafe { sys::spank_getenv(self.raw, name.as_ptr(), at, len) };
            if code != numbers::ESPANK_NOSPACE {
                checked("spank_getenv", code).ok()?;
                return CStr::from_bytes_until_nul(&buffer).ok().map(|s| s.to_string_lossy().into_owned());
            }
        }
        None
    }

    fn setenv(&self, name: &str, value: &str) -> Result<(), SpankError> {
        let (name, value) = (no_nul(name), no_nul(value));
        // SAFETY: slurm/spank.h: both strings are NUL-terminated and copied by the call.
        let code = unsafe { sys::spank_setenv(self.raw, name.as_ptr(), value.as_ptr(), 1) };
        checked("spank_setenv", code)
    }

    fn unsetenv(&self, name: &str) {
        let name = no_nul(name);
        // SAFETY: slurm/spank.h: the string is NUL-terminated and outlives the call.
        let _not_set = unsafe { sys::spank_unsetenv(self.raw, name.as_ptr()) };
    }

    fn control_setenv(&self, name: &str, value: &str) -> Result<(), SpankError> {
        let (name, value) = (no_nul(name), no_nul(value));
        // SAFETY: slurm/spank.h: both strings are NUL-terminated and copied by the call.
        let code = unsafe { sys::spank_job_control_setenv(self.raw, name.as_ptr(), value.as_ptr(), 1) };
        checked("spank_job_control_setenv", code)
    }

    fn control_unsetenv(&self, name: &str) {
        let name = no_nul(name);
        let mut buffer: [c_char; 1] = [0];
        // SAFETY: slurm/spank.h: writes at most one byte to a buffer of one; too small a buffer still says "is set".
        let known = unsafe { sys::spank_job_control_getenv(self.raw, name.as_ptr(), buffer.as_mut_ptr(), 1) };
        if known != numbers::ESPANK_ENV_NOEXIST {
            // SAFETY: slurm/spank.h: the string is NUL-terminated and outlives the call.
            let _not_set = unsafe { sys::spank_job_control_unsetenv(self.raw, name.as_ptr()) };
        }
    }

    fn register(&self, name: &str, position: u8, spec: &Spec) -> Result<(), SpankError> {
        let (name, arginfo, usage) = (no_nul(name), no_nul(spec.arginfo), no_nul(spec.usage));
        let mut option = sys::spank_option {
            name: name.as_ptr().cast_mut(),
            arginfo: arginfo.as_ptr().cast_mut(),
            usage: usage.as_ptr().cast_mut(),
            has_arg: 1,
            val: c_int::from(position),
            cb: self.option_given,
        };
        // SAFETY: slurm/spank.h; plugstack.c copies the struct and its strings, and writes to none of them.
        let code = unsafe { sys::spank_option_register(self.raw, &raw mut option) };
        checked("spank_option_register", code)
    }

    fn options_of_srun(&self) -> OptionsOfSrun {
        OptionsOfSrun {
            is_quiet: host_symbols::srun_is_quiet(),
            gpu_bind: host_symbols::gpu_bind_of_srun(),
            takes_all_gres: host_symbols::srun_takes_all_gres(),
        }
    }

    fn fences_devices(&self) -> Option<bool> {
        host_symbols::fences_devices()
    }

    fn configured_node_name(&self) -> Option<String> {
        node_slurm::configured_node_name()
    }

    fn slurm_number(&self) -> u32 {
        host_symbols::stamped()
    }

    fn detects_gpus(&self) -> bool {
        host_symbols::detects_gpus()
    }

    fn effective_uid(&self) -> u32 {
        process::effective_uid()
    }

    fn set_env(&self, name: &str, value: &str) {
        process::set_env(name, value);
    }

    fn forget_env(&self, name: &str) {
        process::forget_env(name);
    }

    fn spawn_detached(&self, argv: &[String], env: &[String], errors: Errors) -> io::Result<()> {
        process::spawn_detached(argv, env, errors)
    }
}

/// A C string; one with a NUL inside ends there.
fn no_nul(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

/// The strings of a C array.
///
/// # Safety
///
/// `argv` holds `argc` NUL-terminated strings that outlive `'hook`, or `argc` is 0.
pub(super) unsafe fn strings<'hook>(argc: c_int, argv: *mut *mut c_char) -> Vec<&'hook str> {
    let Ok(argc) = usize::try_from(argc) else { return Vec::new() };
    if argv.is_null() || argc == 0 {
        return Vec::new();
    }
    // SAFETY: the caller's promise: `argc` pointers stand there.
    let pointers = unsafe { std::slice::from_raw_parts(argv, argc) };
    pointers
        .iter()
        .filter(|p| !p.is_null())
        // SAFETY: the caller's promise: each is NUL-terminated and outlives the hook.
        .filter_map(|p| unsafe { CStr::from_ptr(*p) }.to_str().ok())
        .collect()
}
