//! The hooks as Slurm calls them, in its order.

use std::ffi::{CString, c_char, c_int};
use std::ptr::null_mut;

use super::fake::{CONTEXT, CONTROL, OPTIONS, STEP};
use job_options::Spec;

use super::entry::*;
use super::handle::Handle;
use super::process::spawn_detached;
use slurm_numbers as numbers;

use super::sys;
use crate::spank::{Errors, Spank as _};

/// Calls a hook with the arguments of a `plugstack.conf` line.
fn call(hook: unsafe extern "C" fn(sys::spank_t, c_int, *mut *mut c_char) -> c_int, args: &[&str]) -> c_int {
    let args: Vec<CString> = args.iter().map(|a| CString::new(*a).unwrap()).collect();
    let mut pointers: Vec<*mut c_char> = args.iter().map(|a| a.as_ptr().cast_mut()).collect();
    // SAFETY: the fake SPANK never reads the handle; the arguments outlive the call.
    unsafe { hook(null_mut(), c_int::try_from(pointers.len()).unwrap(), pointers.as_mut_ptr()) }
}

fn give(position: c_int, value: &str, remote: c_int) -> c_int {
    let value = CString::new(value).unwrap();
    // SAFETY: a NUL-terminated string that outlives the call.
    unsafe { option_given(position, value.as_ptr(), remote) }
}

fn request() -> Option<String> {
    CONTROL.with_borrow(|c| c.get("TESSERA_REQUEST").cloned())
}

#[test]
fn a_submission_from_first_hook_to_last() {
    assert_eq!(call(slurm_spank_init, &["rename=gpu-mem:site-gpu-mem", "nonsense"]), OK);
    let names = OPTIONS.with_borrow(|o| o.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>());
    assert_eq!(names[..2], ["site-gpu-mem", "gpu-isolation"]);
    assert_eq!(names.len(), Spec::ALL.len() + Spec::OLD.len());

    CONTROL.with_borrow_mut(|c| c.insert("TESSERA_PLACEMENT".to_owned(), "v1 forged".to_owned()));
    assert_eq!(give(1, "10G", 0), OK);
    assert_eq!(give(1, "99G", 1), OK, "slurmstepd repeats options: nobody listens");
    assert_eq!(give(99, "x", 0), FAILED, "not an option of ours");
    assert_eq!(call(slurm_spank_init_post_opt, &[]), OK);
    assert_eq!(request().as_deref(), Some("v1 iso=auto mem=9537"));
    assert!(CONTROL.with_borrow(|c| !c.contains_key("TESSERA_PLACEMENT")), "only slurmctld decides");

    assert_eq!(call(slurm_spank_init_post_opt, &[]), OK);
    assert_eq!(request(), None, "the next component of a heterogeneous job asked for nothing");
}

#[test]
fn a_step_of_a_job_that_is_not_ours_is_left_alone() {
    CONTEXT.set(numbers::S_CTX_REMOTE);
    let args = ["config=/nonexistent/tessera.toml"];
    assert_eq!(call(slurm_spank_init, &args), OK);
    assert_eq!(call(slurm_spank_init_post_opt, &args), OK);
    assert_eq!(call(slurm_spank_task_init_privileged, &args), OK);
    assert_eq!(call(slurm_spank_task_init, &args), OK);
    assert_eq!(call(slurm_spank_task_exit, &args), OK);
    assert!(STEP.with_borrow(|s| s.is_empty()));
    CONTEXT.set(numbers::S_CTX_JOB_SCRIPT);
    assert_eq!(call(slurm_spank_job_prolog, &args), OK);
    assert_eq!(call(slurm_spank_job_epilog, &args), OK);
}

#[test]
fn a_variable_of_many_libraries_is_read_whole() {
    // SAFETY: the fake SPANK never reads the handle.
    let handle = unsafe { Handle::from_raw(null_mut(), None) };
    for (bytes, is_read) in [(4095, true), (4096, true), ((128 << 10) - 1, true), (128 << 10, false)] {
        let list = "x".repeat(bytes);
        STEP.with_borrow_mut(|s| s.insert("LD_PRELOAD".to_owned(), list.clone()));
        assert_eq!(handle.getenv(c"LD_PRELOAD"), is_read.then_some(list), "{bytes} bytes");
    }
}

#[test]
fn slurmd_starts_without_the_command() {
    CONTEXT.set(numbers::S_CTX_SLURMD);
    assert_eq!(call(slurm_spank_init, &["tessera=/nonexistent/tessera"]), OK);
}

#[test]
fn what_a_prolog_leaves_running_holds_none_of_its_pipes() {
    let dir = tempfile::tempdir().unwrap();
    let errors_of = |errors: Errors, name: &str| {
        let out = dir.path().join(name);
        let text = format!("readlink /proc/$$/fd/2 > {0}.new; mv {0}.new {0}", out.display());
        let argv = ["/bin/sh", "-c", text.as_str()].map(str::to_owned);
        spawn_detached(&argv, &["PATH=/usr/bin:/bin".to_owned()], errors).unwrap();
        let begin = std::time::Instant::now();
        while !out.exists() && begin.elapsed().as_secs() < 120 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        std::fs::read_to_string(&out).unwrap()
    };
    assert_eq!(errors_of(Errors::Nowhere, "nowhere").lines().next(), Some("/dev/null"));
    let ours = std::fs::read_link("/proc/self/fd/2").unwrap().display().to_string();
    assert_eq!(errors_of(Errors::Ours, "ours").lines().next(), Some(ours.as_str()));
}
