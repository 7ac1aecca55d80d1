//! The wall between a hook's Rust body and its C caller.

use std::cell::Cell;
use std::error::Error;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};

use crate::{Chain, log};

thread_local! {
    // Plain data without destructors: a thread-local with one would pin the plugin against dlclose.
    static HOOK: Cell<&'static str> = const { Cell::new("outside any hook") };
    static JOB: Cell<u32> = const { Cell::new(0) };
}

/// Names the job the current hook works on, for the line a panic logs.
pub fn set_job(job_id: u32) {
    JOB.set(job_id);
}

/// Runs `body`, the whole of one plugin hook. An error or a panic becomes one logged line and
/// `fallback`; nothing unwinds into Slurm.
pub fn guard<T, E: Error>(hook: &'static str, fallback: T, body: impl FnOnce() -> Result<T, E>) -> T {
    let outer = (HOOK.replace(hook), JOB.replace(0));
    let answer = match quietly(body) {
        Some(Ok(value)) => value,
        Some(Err(e)) => {
            // A `Display` that panics must not undo the guard.
            let _logged = quietly(|| log::error(format_args!("{hook}: {}", Chain(&e))));
            fallback
        }
        None => fallback, // the panic hook has already logged message and place
    };
    HOOK.set(outer.0);
    JOB.set(outer.1);
    answer
}

/// As [`guard`], for a hook that only a bug can make fail.
pub fn guard_ok<T>(hook: &'static str, fallback: T, body: impl FnOnce() -> T) -> T {
    guard(hook, fallback, || Ok::<_, std::convert::Infallible>(body()))
}

/// Runs `body`; `None` if it panicked.
fn quietly<T>(body: impl FnOnce() -> T) -> Option<T> {
    match panic::catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // A payload's destructor may panic as well, and that one would abort the host.
            std::mem::forget(payload);
            None
        }
    }
}

/// Makes a panic in this plugin one line in Slurm's log instead of text on the host's stderr.
///
/// Call it from the plugin's `init`. The hook belongs to this plugin's own copy of std.
pub fn install_panic_hook() {
    panic::set_hook(Box::new(|info| log::error(describe(info))));
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let what = info
        .payload()
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| info.payload().downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    let place = info.location().map_or_else(String::new, |l| format!(" at {}:{}", l.file(), l.line()));
    let job = match JOB.get() {
        0 => String::new(),
        id => format!(" (job {id})"),
    };
    format!("{}: bug in this plugin{job}: {what}{place}", HOOK.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::fmt;

    thread_local! {
        // Of the thread: the sink is the process's, and other tests log at the same time.
        static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    #[derive(Debug)]
    struct Bad;
    impl fmt::Display for Bad {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("in display")
        }
    }
    impl Error for Bad {}

    #[test]
    fn errors_and_panics_become_the_fallback_and_one_line() {
        log::tests::SINK.get_or_init(|| {
            |_, line| LINES.with_borrow_mut(|lines| lines.push(line.to_string_lossy().into()))
        });
        install_panic_hook();
        assert_eq!(guard("ok", 1, || Ok::<_, Bad>(2)), 2);
        assert_eq!(guard("bad", 1, || Err::<i32, _>(Bad)), 1);
        let by_panic = guard("job_test", 7, || -> Result<i32, Bad> {
            set_job(42);
            panic!("two\nlines")
        });
        assert_eq!(by_panic, 7);
        let _default = panic::take_hook();
        let lines = LINES.take();
        let [display, two_lines] = lines.as_slice() else { panic!("not one line each: {lines:?}") };
        assert!(display.starts_with("tessera: bad: bug in this plugin: in display at "), "{display}");
        assert!(
            two_lines.starts_with("tessera: job_test: bug in this plugin (job 42): two lines at "),
            "{two_lines}"
        );
        assert_eq!(HOOK.get(), "outside any hook");
    }
}
