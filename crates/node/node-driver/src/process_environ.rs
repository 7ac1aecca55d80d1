//! Reads the environment that another user's process was started with, in bounded time.
//!
//! The kernel reads it from the process's memory, and first takes that memory's lock [proc(5); Linux `fs/proc/base.c`,
//! `environ_read`]. A user can have the lock held for as long as he likes: by unmapping a file of his own file system (FUSE),
//! which waits until his program answers. Only a signal that kills ends such a wait. So a child process reads, and is killed
//! when it takes too long. A thread would not do: it cannot be ended, and a plugin may be unloaded under it.

use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;

use crate::deadline::{Backoff, Deadline, kill_child};
use crate::scarce::users_can_cause;

/// Longest time without progress of a reader that waits for nothing but the memory's lock.
const PATIENCE: Duration = Duration::from_millis(500);
/// Longest time of a reader that only waits for a processor: a busy node is no hostile user.
const BUSY: Duration = Duration::from_secs(10);
/// After so many that could not be read in time, this process reads no more: users could have many of those.
const MOST_LOST: u32 = 8;
/// More than the kernel lets a program be started with (6 MiB); a process can declare more to be its environment.
const MOST_BYTES: u64 = 8 << 20;

/// Counts what could not be read in time.
static LOST: AtomicU32 = AtomicU32::new(0);

/// Says why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The time is over, or so many were late that no more are read: nobody knows what is in it.
    Late,
    /// Cannot be read: most likely the process has ended.
    Gone,
}

/// Reads the environment that a process was started with, by its directory in `/proc` or that of one of its threads: variables
/// that end with a zero byte each.
pub fn of(process: &Path) -> Result<Vec<u8>, Unread> {
    if LOST.load(Ordering::Relaxed) >= MOST_LOST {
        return Err(Unread::Late);
    }
    let answer = within(&process.join("environ"), PATIENCE);
    if answer == Err(Unread::Late) {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
    answer.and_then(|environ| if environ.is_empty() { Err(Unread::Gone) } else { Ok(environ) })
}

/// Reads a file that may never answer.
fn within(path: &Path, patience: Duration) -> Result<Vec<u8>, Unread> {
    let mut output = rustix::fs::memfd_create("tessera", MemfdFlags::CLOEXEC)
        .map(std::fs::File::from)
        .map_err(|e| without(&e.into()))?;
    let mut command = Command::new("head");
    command.arg(format!("--bytes={MOST_BYTES}")).arg(path).current_dir("/");
    command.env_clear().env("PATH", "/usr/bin:/bin");
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command.stdout(output.try_clone().map_err(|e| without(&e))?);
    let mut child = command.spawn().map_err(|e| without(&e))?;
    let deadline = Deadline::after(BUSY);
    let mut backoff = Backoff::new(Duration::from_micros(200), Duration::from_millis(2));
    let mut stands_since = Instant::now();
    let has_succeeded = loop {
        if wants_processor(child.id()) {
            stands_since = Instant::now();
        }
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            // slurmstepd waits for any child of its own from 25.05 on, and has taken its end [interfaces/proctrack.c].
            Err(_) => break true,
            Ok(None) if stands_since.elapsed() < patience && backoff.pause(&deadline) => {}
            Ok(None) => {
                kill_child(child);
                return Err(Unread::Late);
            }
        }
    };
    let mut read = Vec::new();
    let whole = output.rewind().and_then(|()| output.read_to_end(&mut read));
    if has_succeeded && whole.is_ok() { Ok(read) } else { Err(Unread::Gone) }
}

/// Nothing can be read without a file or a child of our own. Where users may have used them up, the process may live.
fn without(e: &std::io::Error) -> Unread {
    if users_can_cause(e) { Unread::Late } else { Unread::Gone }
}

/// Tells whether a child runs, or waits for nothing but a processor.
fn wants_processor(child: u32) -> bool {
    // The state stands behind the program's name.
    let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_read_whole() {
        let long = "x".repeat(100_000);
        let mut child =
            Command::new("sleep").arg("600").env("LONG", &long).env("SLURM_JOB_ID", "12").spawn().unwrap();
        let wanted = [format!("LONG={long}"), "SLURM_JOB_ID=12".to_owned()];
        let read = |variable: &String| {
            let environ = of(format!("/proc/{}", child.id()).as_ref()).unwrap_or_default();
            environ.split(|b| *b == 0).any(|one| one == variable.as_bytes())
        };
        // The program has it a moment after the process is there.
        let found = wanted.iter().all(|variable| (0..1000).any(|_| read(variable)));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found);
        assert_eq!(of("/proc/0".as_ref()), Err(Unread::Gone));
    }

    #[test]
    fn a_reader_that_waits_for_a_processor_does_not_stand_still() {
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut still = Command::new("sleep").arg("600").spawn().unwrap();
        let (busy_id, still_id) = (busy.id(), still.id());
        let wants = (0..1000).any(|_| wants_processor(busy_id));
        let stands = (0..30_000).any(|_| !wants_processor(still_id));
        for child in [&mut busy, &mut still] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(wants && stands && !wants_processor(busy_id));
    }

    /// A pipe that nobody writes to keeps its reader waiting, as the memory of a hostile process does.
    #[test]
    fn what_never_answers_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("environ");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let begin = Instant::now();
        assert_eq!(within(&pipe, Duration::from_millis(100)), Err(Unread::Late));
        assert!(begin.elapsed() < Duration::from_secs(20));
        assert_eq!(within(&dir.path().join("none"), lab::command::PATIENCE), Err(Unread::Gone));
    }
}
