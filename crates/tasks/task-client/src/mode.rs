//! Decides whether the library answers for a process's allocations.

/// Mode of the library in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing: the process is outside a job of GPU tasks, or the library was linked and not preloaded.
    Off,
    /// The program asks for its tasks itself: its allocations pass.
    Probed,
    /// The program says nothing: it holds what its job declared from its first driver call to its end.
    Whole,
}

/// The file name of the library.
pub const LIBRARY: &str = "libtessera_task.so";

fn is_library(path: &str) -> bool {
    path.rsplit('/').next() == Some(LIBRARY)
}

/// The mode of a process, from `TESSERA_TASK_SOCKET` and `LD_PRELOAD` as it was started with them, and the libraries that its
/// program and their libraries say they need.
pub fn mode<'a>(socket: Option<&str>, preload: Option<&str>, needed: impl FnOnce() -> Vec<&'a str>) -> Mode {
    let is_preloaded = || preload.unwrap_or_default().split([':', ' ']).any(is_library);
    match () {
        () if socket.is_none_or(str::is_empty) || !is_preloaded() => Mode::Off,
        () if needed().into_iter().any(is_library) => Mode::Probed,
        () => Mode::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_acts_only_where_it_was_preloaded_into_a_job_of_tasks() {
        let plain = || vec!["libc.so.6", "libcuda.so.1"];
        let probed = || vec!["libc.so.6", "libtessera_task.so"];
        let never = || -> Vec<&str> { panic!("not looked at where it does not matter") };
        let check = |socket, preload, needed: fn() -> Vec<&'static str>, expect| {
            assert_eq!(mode(socket, preload, needed), expect, "{socket:?} {preload:?}");
        };
        let preload = Some("/usr/lib/x.so:/usr/lib/tessera/libtessera_task.so");
        check(None, preload, never, Mode::Off);
        check(Some(""), preload, never, Mode::Off);
        check(Some("/run/1.sock"), None, never, Mode::Off);
        check(Some("/run/1.sock"), Some("/x/mylibtessera_task.so"), never, Mode::Off);
        check(Some("/run/1.sock"), preload, plain, Mode::Whole);
        check(Some("/run/1.sock"), Some("/a.so libtessera_task.so"), plain, Mode::Whole);
        check(Some("/run/1.sock"), preload, probed, Mode::Probed);
    }
}
