//! The symbols Slurm looks for. Each converts, guards, calls one Rust function and returns.
//!
//! Slurm stops a hook's caller on a negative value only up to 24.11, on any other than 0 later: a failure is always
//! [`FAILED`].

use std::convert::Infallible;
use std::ffi::{CStr, c_char, c_int, c_uint};

use plugin_rt::{Chain, guard, install_panic_hook, log};

use super::handle::{self, Handle};
use super::{process, sys};
use crate::args::Args;
use crate::hooks::{self, Found, Next};
use crate::spank::SpankError;
use crate::{slurmd, slurmstepd};

pub(super) const OK: c_int = 0;
pub(super) const FAILED: c_int = -1;

// The name is also part of the variables in which Slurm forwards options.
plugin_rt::exported_text!(plugin_name, "tessera");
plugin_rt::exported_text!(plugin_type, "spank");
plugin_rt::exported_text!(tessera_version, env!("CARGO_PKG_VERSION"));

/// Version of the plugin itself; Slurm only wants it to be there.
#[unsafe(no_mangle)]
pub(crate) static spank_plugin_version: c_uint = 1;

/// Runs one hook: arguments in, status out.
///
/// # Safety
///
/// The three arguments are those of a SPANK hook, as Slurm passed them.
unsafe fn run<E: std::error::Error>(
    name: &'static str,
    raw: sys::spank_t,
    argc: c_int,
    argv: *mut *mut c_char,
    body: impl FnOnce(&Handle<'_>, &Args) -> Result<c_int, E>,
) -> c_int {
    install_panic_hook();
    guard(name, FAILED, || {
        // SAFETY: the caller's promise: the handle of this very hook.
        let spank = unsafe { Handle::from_raw(raw, Some(option_given)) };
        // SAFETY: slurm/spank.h: `argv` holds `argc` NUL-terminated strings that outlive the hook.
        let (args, problems) = Args::parse(unsafe { handle::strings(argc, argv) });
        if name == "init" {
            problems.iter().for_each(log::error);
        }
        body(&spank, &args)
    })
}

/// Exports a hook: its symbol, its name in messages, and its body.
macro_rules! hook {
    ($(#[$doc:meta])* $symbol:ident, $name:literal, |$spank:pat_param, $args:pat_param| $body:expr) => {
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// For Slurm only: see `slurm/spank.h`.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $symbol(raw: sys::spank_t, argc: c_int, argv: *mut *mut c_char) -> c_int {
            // SAFETY: Slurm's arguments, passed on as they came.
            unsafe { run($name, raw, argc, argv, |$spank, $args| $body) }
        }
    };
}

hook! {
    /// Every process: registers the options; in slurmd, starts the reconciliation instead.
    slurm_spank_init, "init", |spank, args| {
        hooks::init(spank, handle::context(), args, &env).map(|()| OK)
    }
}

/// The callback of every option: see [`hooks::option_given`].
pub(super) unsafe extern "C" fn option_given(position: c_int, text: *const c_char, remote: c_int) -> c_int {
    guard("option", FAILED, || {
        let Ok(position) = usize::try_from(position) else { return Ok(FAILED) };
        // Without a text there is nothing to take, as in slurmstepd.
        let remote = remote != 0 || text.is_null();
        let found = Found { comm: comm(), command_line: process::command_line(), address: text.addr() };
        // SAFETY: slurm/spank.h: the option's argument, NUL-terminated, valid during the call.
        let text = if remote { "".into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy() };
        let taken = hooks::option_given(position, &text, remote, found);
        Ok::<_, Infallible>(if taken { OK } else { FAILED })
    })
}

hook! {
    /// Options are complete: in a submitting command they become the request, in slurmstepd (still root) the step's share
    /// of the node is read.
    slurm_spank_init_post_opt, "init_post_opt", |spank, args| {
        match hooks::init_post_opt(spank, handle::context(), args, &env)? {
            Next::GoOn => Ok::<_, SpankError>(OK),
            Next::EndCommand(status) => process::end_command(status),
        }
    }
}

hook! {
    /// Root, before the job's first process on the node: makes the placement real.
    slurm_spank_job_prolog, "job_prolog", |spank, args| slurmd::prolog(spank, args, &env).map(|()| OK)
}

hook! {
    /// Root, after the job's last process on the node: takes everything back.
    slurm_spank_job_epilog, "job_epilog", |spank, args| slurmd::epilog(spank, args, &env).map(|()| OK)
}

hook! {
    /// Root, in each task before it becomes the user's: the limits of the job's control group.
    slurm_spank_task_init_privileged, "task_init_privileged", |_, _| {
        slurmstepd::task_init_privileged();
        Ok::<_, Infallible>(OK)
    }
}

hook! {
    /// The user, in each task before exec: the environment of what it got.
    slurm_spank_task_init, "task_init", |spank, args| {
        if let Err(e) = slurmstepd::task_init(spank, args) {
            // For the user: without the hook's name.
            log::error(Chain(&e));
            return Ok(FAILED);
        }
        Ok::<_, Infallible>(OK)
    }
}

hook! {
    /// Root, in slurmstepd, after a task has ended: the job's log.
    slurm_spank_task_exit, "task_exit", |spank, _| slurmstepd::task_exit(spank).map(|()| OK)
}

/// A variable of this process; one that is not UTF-8 counts as unset.
fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The name of the program that hosts us.
fn comm() -> String {
    std::fs::read_to_string("/proc/self/comm").unwrap_or_default().trim().to_owned()
}
