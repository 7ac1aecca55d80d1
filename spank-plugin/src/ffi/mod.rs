//! The symbols Slurm looks for. Each converts, guards, calls one Rust function and returns.
//!
//! Slurm stops a hook's caller on a negative value only up to 25.04, on any other than 0 later: a failure is always
//! [`FAILED`].

#[cfg(test)]
mod fake;
mod host;
mod process;
mod spank;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use plugin_rt::{Chain, guard, install_panic_hook, log};

pub(crate) use host::{configured_node_name, fences_devices};
pub(crate) use process::{Errors, effective_uid, set_env, spawn_detached};
pub(crate) use spank::{Context, Spank, SpankError};

use crate::args::Args;
use crate::submit::SubmitOutcome;
use crate::{slurmd, slurmstepd, start_reconcile, submit};
use job_options::{Spec, Typed};

include!(concat!(env!("OUT_DIR"), "/sys.rs"));

const OK: c_int = 0;
const FAILED: c_int = -1;

// The name is also part of the variables in which Slurm forwards options.
plugin_rt::exported_text!(plugin_name, "tessera");
plugin_rt::exported_text!(plugin_type, "spank");
plugin_rt::exported_text!(tessera_version, env!("CARGO_PKG_VERSION"));

/// The Slurm whose headers this was built with; major and minor must be those of the Slurm that loads it.
#[unsafe(no_mangle)]
pub(crate) static plugin_version: c_uint = sys::SLURM_VERSION_NUMBER;

/// Version of the plugin itself; Slurm only wants it to be there.
#[unsafe(no_mangle)]
pub(crate) static spank_plugin_version: c_uint = 1;

/// Options as they arrive, until `init_post_opt` takes them.
static TYPED: Mutex<Typed> = Mutex::new(Typed::new());
/// The command runs in a job that has instances or a share.
static IN_PART: AtomicBool = AtomicBool::new(false);
/// Number of calls of `init_post_opt`: one per component of a heterogeneous job.
static COMPONENTS: AtomicU32 = AtomicU32::new(0);

/// Runs one hook: arguments in, status out.
///
/// # Safety
///
/// The three arguments are those of a SPANK hook, as Slurm passed them.
unsafe fn hook<E: std::error::Error>(
    name: &'static str,
    raw: sys::spank_t,
    argc: c_int,
    argv: *mut *mut c_char,
    body: impl FnOnce(&Spank<'_>, &Args) -> Result<c_int, E>,
) -> c_int {
    install_panic_hook();
    guard(name, FAILED, || {
        // SAFETY: the caller's promise: the handle of this very hook.
        let spank = unsafe { Spank::from_raw(raw) };
        // SAFETY: slurm/spank.h: `argv` holds `argc` NUL-terminated strings that outlive the hook.
        let (args, problems) = Args::parse(unsafe { spank::strings(argc, argv) });
        if name == "init" {
            problems.iter().for_each(log::error);
        }
        body(&spank, &args)
    })
}

/// Every process: registers the options; in slurmd, starts the reconciliation instead.
///
/// # Safety
///
/// For Slurm only: see `slurm/spank.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn slurm_spank_init(
    raw: sys::spank_t,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    // SAFETY: Slurm's arguments, passed on as they came.
    unsafe {
        hook("init", raw, argc, argv, |spank, args| {
            match spank::context() {
                Context::Slurmd => start_reconcile::init(args),
                Context::JobScript | Context::Other => {}
                Context::Local | Context::Allocator if !args.options => {}
                Context::Local | Context::Allocator => {
                    IN_PART.store(submit::job_has_part_of_a_gpu(&env), Ordering::Relaxed);
                    submit::inherited_variables(args, &env).iter().for_each(|v| process::forget_env(v));
                    register_options(spank, args)?;
                }
                Context::Remote => register_options(spank, args)?,
            }
            Ok::<_, SpankError>(OK)
        })
    }
}

fn register_options(spank: &Spank<'_>, args: &Args) -> Result<(), SpankError> {
    for (position, spec) in (0..).zip(&Spec::ALL) {
        spank.register(args.name_of(spec), position, spec, Some(option_given))?;
    }
    Ok(())
}

/// Takes an option's text. In slurmstepd nothing is taken: the placement is what counts there.
///
/// Values are only checked in `init_post_opt`, together: the message is ours, and Slurm adds none.
unsafe extern "C" fn option_given(position: c_int, text: *const c_char, remote: c_int) -> c_int {
    guard("option", FAILED, || {
        let Some(spec) = usize::try_from(position).ok().and_then(Spec::by_position) else {
            return Ok(FAILED);
        };
        if remote != 0 || text.is_null() {
            return Ok(OK);
        }
        if let Some(why) = submit::unusable_command(&comm()) {
            log::error(why);
            return Ok(FAILED);
        }
        let source = submit::source(&comm(), process::command_line(), text.addr());
        // SAFETY: slurm/spank.h: the option's argument, NUL-terminated, valid during the call.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        TYPED.lock().unwrap_or_else(PoisonError::into_inner).push(spec.opt, &text, source);
        Ok::<_, Infallible>(OK)
    })
}

/// Options are complete: in a submitting command they become the request, in slurmstepd (still root) the step's share
/// of the node is read.
///
/// # Safety
///
/// For Slurm only: see `slurm/spank.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn slurm_spank_init_post_opt(
    raw: sys::spank_t,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    // SAFETY: Slurm's arguments, passed on as they came.
    unsafe {
        hook("init_post_opt", raw, argc, argv, |spank, args| {
            let context = spank::context();
            match context {
                Context::Local | Context::Allocator if !args.options => {}
                Context::Local | Context::Allocator => {
                    let mut typed =
                        std::mem::take(&mut *TYPED.lock().unwrap_or_else(PoisonError::into_inner));
                    if COMPONENTS.fetch_add(1, Ordering::Relaxed) > 0 {
                        submit::drop_previous_component(&mut typed, args, &env);
                    }
                    if context == Context::Local && host::srun_is_quiet() {
                        set_env(&submit::QUIET_ENV.to_string_lossy(), "1");
                    }
                    let bind = host::gpu_bind_of_srun();
                    if let Some(why) = submit::wrong_bind(bind.as_deref(), IN_PART.load(Ordering::Relaxed)) {
                        log::error(why);
                        process::end_command(submit::exit_status(&env));
                    }
                    let verdict = submit::init_post_opt(spank, context, args, typed, &env)?;
                    if let SubmitOutcome::Refuse(refusals) = verdict {
                        refusals.iter().for_each(log::error);
                        // Returning an error adds two lines about plugins to ours, and under `optional` in
                        // plugstack.conf it would not even stop the submission.
                        process::end_command(submit::exit_status(&env));
                    }
                }
                Context::Remote => slurmstepd::init_post_opt(spank, args, &env)?,
                Context::Slurmd | Context::JobScript | Context::Other => {}
            }
            Ok::<_, SpankError>(OK)
        })
    }
}

/// Root, before the job's first process on the node: makes the placement real.
///
/// # Safety
///
/// For Slurm only: see `slurm/spank.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn slurm_spank_job_prolog(
    raw: sys::spank_t,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    // SAFETY: Slurm's arguments, passed on as they came.
    unsafe {
        hook("job_prolog", raw, argc, argv, |spank, args| slurmd::prolog(spank, args, &env).map(|()| OK))
    }
}

/// Root, after the job's last process on the node: takes everything back.
///
/// # Safety
///
/// For Slurm only: see `slurm/spank.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn slurm_spank_job_epilog(
    raw: sys::spank_t,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    // SAFETY: Slurm's arguments, passed on as they came.
    unsafe {
        hook("job_epilog", raw, argc, argv, |spank, args| slurmd::epilog(spank, args, &env).map(|()| OK))
    }
}

/// Root, in each task before it becomes the user's: the limits of the job's control group.
///
/// # Safety
///
/// For Slurm only: see `slurm/spank.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn slurm_spank_task_init_privileged(
    raw: sys::spank_t,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    // SAFETY: Slurm's arguments, passed on as they came.
    unsafe {
        hook("task_init_privileged", raw, argc, argv, |_, _| {
            slurmstepd::task_init_privileged();
            Ok::<_, Infallible>(OK)
        })
    }
}

/// The user, in each task before exec: the environment of what it got.
///
/// # Safety
///
/// For Slurm only: see `slurm/spank.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn slurm_spank_task_init(
    raw: sys::spank_t,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    // SAFETY: Slurm's arguments, passed on as they came.
    unsafe {
        hook("task_init", raw, argc, argv, |spank, args| {
            if let Err(e) = slurmstepd::task_init(spank, args) {
                // For the user: without the hook's name.
                log::error(Chain(&e));
                return Ok(FAILED);
            }
            Ok::<_, Infallible>(OK)
        })
    }
}

/// Root, in slurmstepd, after a task has ended: the job's log.
///
/// # Safety
///
/// For Slurm only: see `slurm/spank.h`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn slurm_spank_task_exit(
    raw: sys::spank_t,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    // SAFETY: Slurm's arguments, passed on as they came.
    unsafe { hook("task_exit", raw, argc, argv, |spank, _| slurmstepd::task_exit(spank).map(|()| OK)) }
}

/// A variable of this process; one that is not UTF-8 counts as unset.
fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The name of the program that hosts us.
fn comm() -> String {
    std::fs::read_to_string("/proc/self/comm").unwrap_or_default().trim().to_owned()
}
