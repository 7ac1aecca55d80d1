//! Calls that std offers only as unsafe or not at all: variables and command line of this process, a
//! command's end with Slurm's own exit status, and a process that outlives its parent without becoming its child.

use std::ffi::{CString, c_char, c_int};
use std::io;
use std::ops::Range;

use crate::spank::Errors;

/// See [`crate::spank::Spank::forget_env`].
pub(super) fn forget_env(name: &str) {
    let Ok(name) = CString::new(name) else { return };
    // SAFETY: POSIX unsetenv with a NUL-terminated name; the command is single-threaded at this point.
    let _never_fails_on_a_plain_name = unsafe { libc::unsetenv(name.as_ptr()) };
}

/// Address range of this process's command line in its memory; `None` where the kernel does not say.
///
/// Source: proc(5), fields 48 and 49 of `/proc/PID/stat`.
pub(super) fn command_line() -> Option<Range<usize>> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in brackets, and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(45).map(str::parse);
    let range = fields.next()?.ok()?..fields.next()?.ok()?;
    (!range.is_empty()).then_some(range)
}

/// See [`crate::spank::Spank::set_env`].
pub(super) fn set_env(name: &str, value: &str) {
    if std::env::var_os(name).is_some_and(|now| now == value) {
        return;
    }
    let (Ok(name), Ok(value)) = (CString::new(name), CString::new(value)) else { return };
    // SAFETY: POSIX setenv with NUL-terminated strings, which it copies; no other thread reads variables, as the trait says.
    let _only_fails_without_memory = unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
}

/// Ends a submitting command as Slurm itself does after a refusal, running its exit handlers.
pub(super) fn end_command(status: c_int) -> ! {
    // SAFETY: C's exit. It does not return, so nothing of ours runs after a handler has unloaded the plugin.
    unsafe { libc::exit(status) }
}

pub(super) fn effective_uid() -> u32 {
    // SAFETY: POSIX geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// See [`crate::spank::Spank::spawn_detached`].
pub(super) fn spawn_detached(argv: &[String], env: &[String], errors: Errors) -> io::Result<()> {
    let own = |texts: &[String]| -> io::Result<Vec<CString>> {
        texts.iter().map(|t| CString::new(t.as_str()).map_err(io::Error::other)).collect()
    };
    let (argv, env) = (own(argv)?, own(env)?);
    let pointers = |texts: &[CString]| -> Vec<*const c_char> {
        texts.iter().map(|t| t.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(&argv), pointers(&env));
    let Some(program) = argv.first().copied().filter(|p| !p.is_null()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // SAFETY: POSIX fork; the child only makes calls that are safe after a fork in a threaded process.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: this is the child of the fork above, and the vectors end with a null pointer.
        0 => unsafe { detach_and_exec(program, &argv, &env, errors) },
        _ => {
            let mut status = 0;
            // SAFETY: POSIX waitpid for our own child, which ends at once.
            let _ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
            Ok(())
        }
    }
}

/// The child's part: forks again, so that init adopts the grandchild, and executes the program there.
///
/// # Safety
///
/// In a forked child only; `argv` and `env` end with a null pointer and hold NUL-terminated strings.
unsafe fn detach_and_exec(
    program: *const c_char,
    argv: &[*const c_char],
    env: &[*const c_char],
    errors: Errors,
) -> ! {
    // SAFETY: async-signal-safe calls on descriptors and strings prepared by the parent; the signal set is only
    // passed on after sigemptyset has filled it.
    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one straight line of system calls after fork")]
    unsafe {
        libc::setsid();
        if libc::fork() == 0 {
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            libc::dup2(null, 0);
            libc::dup2(null, 1);
            if errors == Errors::Nowhere {
                libc::dup2(null, 2);
            }
            libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32);
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
            libc::execve(program, argv.as_ptr(), env.as_ptr());
        }
        libc::_exit(0)
    }
}
