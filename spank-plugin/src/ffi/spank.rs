//! SPANK's calls as safe functions: one per item, because `spank_get_item` is variadic and believes any pointer.

use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;

use super::sys;
use job_options::Spec;

/// The process that has loaded the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// srun.
    Local,
    /// sbatch, salloc, scrontab.
    Allocator,
    /// slurmstepd with a step.
    Remote,
    /// slurmd.
    Slurmd,
    /// slurmstepd for a prolog or epilog.
    JobScript,
    /// None that we know.
    Other,
}

/// The plugin's context now.
pub(crate) fn context() -> Context {
    // SAFETY: slurm/spank.h: takes nothing and only reads the plugin stack's type.
    match unsafe { sys::spank_context() } {
        sys::S_CTX_LOCAL => Context::Local,
        sys::S_CTX_ALLOCATOR => Context::Allocator,
        sys::S_CTX_REMOTE => Context::Remote,
        sys::S_CTX_SLURMD => Context::Slurmd,
        sys::S_CTX_JOB_SCRIPT => Context::JobScript,
        _ => Context::Other,
    }
}

/// One hook's handle. It does not outlive the hook.
pub(crate) struct Spank<'hook> {
    raw: sys::spank_t,
    hook: PhantomData<&'hook ()>,
}

/// A SPANK call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{call} failed (SPANK error {code})")]
pub(crate) struct SpankError {
    call: &'static str,
    code: u32,
}

fn checked(call: &'static str, code: sys::spank_err_t) -> Result<(), SpankError> {
    if code == sys::ESPANK_SUCCESS { Ok(()) } else { Err(SpankError { call, code }) }
}

/// Longest value read back from a step's environment.
const MAX_VALUE: usize = 4096;

impl Spank<'_> {
    /// Wraps a hook's handle.
    ///
    /// # Safety
    ///
    /// `raw` is the handle that Slurm passed to the hook in which the result is used.
    pub(super) unsafe fn from_raw(raw: sys::spank_t) -> Self {
        Self { raw, hook: PhantomData }
    }

    /// The job's id.
    pub(crate) fn job_id(&self) -> Result<u32, SpankError> {
        let mut value: u32 = 0;
        // SAFETY: slurm/spank.h: S_JOB_ID takes a `uint32_t *`; the handle is this hook's.
        let code = unsafe { sys::spank_get_item(self.raw, sys::S_JOB_ID, &raw mut value) };
        checked("S_JOB_ID", code).map(|()| value)
    }

    /// The job's user.
    pub(crate) fn job_uid(&self) -> Result<u32, SpankError> {
        let mut value: libc::uid_t = 0;
        // SAFETY: slurm/spank.h: S_JOB_UID takes a `uid_t *`; the handle is this hook's.
        let code = unsafe { sys::spank_get_item(self.raw, sys::S_JOB_UID, &raw mut value) };
        checked("S_JOB_UID", code).map(|()| value)
    }

    /// The job's group.
    pub(crate) fn job_gid(&self) -> Result<u32, SpankError> {
        let mut value: libc::gid_t = 0;
        // SAFETY: slurm/spank.h: S_JOB_GID takes a `gid_t *`; the handle is this hook's.
        let code = unsafe { sys::spank_get_item(self.raw, sys::S_JOB_GID, &raw mut value) };
        checked("S_JOB_GID", code).map(|()| value)
    }

    /// The step's number; that of a batch script or interactive step is one of slurm/slurm.h's own.
    pub(crate) fn step_id(&self) -> Result<u32, SpankError> {
        let mut value: u32 = 0;
        // SAFETY: slurm/spank.h: S_JOB_STEPID takes a `uint32_t *`; the handle is this hook's.
        let code = unsafe { sys::spank_get_item(self.raw, sys::S_JOB_STEPID, &raw mut value) };
        checked("S_JOB_STEPID", code).map(|()| value)
    }

    /// The job's cores on this node, as a list; `None` where the step is not told.
    pub(crate) fn job_cores(&self) -> Option<String> {
        let mut value: *const c_char = std::ptr::null();
        // SAFETY: slurm/spank.h: S_JOB_ALLOC_CORES takes a `char **`; the handle is this hook's.
        let code = unsafe { sys::spank_get_item(self.raw, sys::S_JOB_ALLOC_CORES, &raw mut value) };
        self.list(code, value)
    }

    /// Lists the cores of the step.
    pub(crate) fn step_cores(&self) -> Option<String> {
        let mut value: *const c_char = std::ptr::null();
        // SAFETY: slurm/spank.h: S_STEP_ALLOC_CORES takes a `char **`; the handle is this hook's.
        let code = unsafe { sys::spank_get_item(self.raw, sys::S_STEP_ALLOC_CORES, &raw mut value) };
        self.list(code, value)
    }

    /// A string of Slurm's own, copied; `None` after an error, or where it is not UTF-8.
    fn list(&self, code: sys::spank_err_t, value: *const c_char) -> Option<String> {
        if code != sys::ESPANK_SUCCESS || value.is_null() {
            return None;
        }
        // SAFETY: src/common/plugstack.c hands out a string of the step's record, which outlives the hook.
        unsafe { CStr::from_ptr(value) }.to_str().ok().map(str::to_owned)
    }

    /// Number of times that the job was requeued; 0 where the step is not told.
    pub(crate) fn restart_count(&self) -> u32 {
        let mut value: u32 = 0;
        // SAFETY: slurm/spank.h: S_SLURM_RESTART_COUNT takes a `uint32_t *`; the handle is this hook's.
        let code = unsafe { sys::spank_get_item(self.raw, sys::S_SLURM_RESTART_COUNT, &raw mut value) };
        if code == sys::ESPANK_SUCCESS { value } else { 0 }
    }

    /// Tasks of this step on this node.
    pub(crate) fn local_task_count(&self) -> Result<u32, SpankError> {
        let mut value: u32 = 0;
        // SAFETY: slurm/spank.h: S_JOB_LOCAL_TASK_COUNT takes a `uint32_t *`; the handle is this hook's.
        let code = unsafe { sys::spank_get_item(self.raw, sys::S_JOB_LOCAL_TASK_COUNT, &raw mut value) };
        checked("S_JOB_LOCAL_TASK_COUNT", code).map(|()| value)
    }

    /// This task's number on this node, from 0.
    pub(crate) fn local_task(&self) -> Result<u32, SpankError> {
        let mut value: c_int = 0;
        // SAFETY: slurm/spank.h: S_TASK_ID takes an `int *`; the handle is this hook's.
        let code = unsafe { sys::spank_get_item(self.raw, sys::S_TASK_ID, &raw mut value) };
        checked("S_TASK_ID", code)?;
        u32::try_from(value).map_err(|_| SpankError { call: "S_TASK_ID", code: 0 })
    }

    /// A variable of the step's environment; `None` if unset or longer than [`MAX_VALUE`].
    pub(crate) fn getenv(&self, name: &CStr) -> Option<String> {
        let mut buffer = [0u8; MAX_VALUE];
        let len = c_int::try_from(buffer.len()).ok()?;
        let at = buffer.as_mut_ptr().cast::<c_char>();
        // SAFETY: slurm/spank.h: writes at most `len` bytes, the NUL included, to a buffer of that size.
        let code = unsafe { sys::spank_getenv(self.raw, name.as_ptr(), at, len) };
        checked("spank_getenv", code).ok()?;
        CStr::from_bytes_until_nul(&buffer).ok().map(|s| s.to_string_lossy().into_owned())
    }

    /// Sets a variable in the environment of the step, or of the task in a task hook.
    pub(crate) fn setenv(&self, name: &str, value: &str) -> Result<(), SpankError> {
        let (name, value) = (no_nul(name), no_nul(value));
        // SAFETY: slurm/spank.h: both strings are NUL-terminated and copied by the call.
        let code = unsafe { sys::spank_setenv(self.raw, name.as_ptr(), value.as_ptr(), 1) };
        checked("spank_setenv", code)
    }

    /// Takes a variable out of the task's environment, in a task hook; one that is not set is no error.
    pub(crate) fn unsetenv(&self, name: &str) {
        let name = no_nul(name);
        // SAFETY: slurm/spank.h: the string is NUL-terminated and outlives the call.
        let _not_set = unsafe { sys::spank_unsetenv(self.raw, name.as_ptr()) };
    }

    /// Sets a variable that travels with the job to slurmctld, prolog and epilog.
    pub(crate) fn control_setenv(&self, name: &str, value: &str) -> Result<(), SpankError> {
        let (name, value) = (no_nul(name), no_nul(value));
        // SAFETY: slurm/spank.h: both strings are NUL-terminated and copied by the call.
        let code = unsafe { sys::spank_job_control_setenv(self.raw, name.as_ptr(), value.as_ptr(), 1) };
        checked("spank_job_control_setenv", code)
    }

    /// Removes such a variable; one that is not set is no error.
    pub(crate) fn control_unsetenv(&self, name: &str) {
        let name = no_nul(name);
        let mut buffer: [c_char; 1] = [0];
        // SAFETY: slurm/spank.h: writes at most one byte to a buffer of one; too small a buffer still says "is set".
        let known = unsafe { sys::spank_job_control_getenv(self.raw, name.as_ptr(), buffer.as_mut_ptr(), 1) };
        if known != sys::ESPANK_ENV_NOEXIST {
            // SAFETY: slurm/spank.h: the string is NUL-terminated and outlives the call.
            let _not_set = unsafe { sys::spank_job_control_unsetenv(self.raw, name.as_ptr()) };
        }
    }

    /// Registers an option, which is only possible in `slurm_spank_init`.
    pub(super) fn register(
        &self,
        name: &str,
        position: c_int,
        spec: &Spec,
        callback: sys::spank_opt_cb_f,
    ) -> Result<(), SpankError> {
        let (name, arginfo, usage) = (no_nul(name), no_nul(spec.arginfo), no_nul(spec.usage));
        let mut option = sys::spank_option {
            name: name.as_ptr().cast_mut(),
            arginfo: arginfo.as_ptr().cast_mut(),
            usage: usage.as_ptr().cast_mut(),
            has_arg: 1,
            val: position,
            cb: callback,
        };
        // SAFETY: slurm/spank.h; plugstack.c copies the struct and its strings, and writes to none of them.
        let code = unsafe { sys::spank_option_register(self.raw, &raw mut option) };
        checked("spank_option_register", code)
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
