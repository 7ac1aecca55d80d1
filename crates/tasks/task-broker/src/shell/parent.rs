//! The process that does nothing but restart the broker, and the one that starts it in the background.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use node_driver::process::HeldProcess;
use rustix::process::Signal;
use task_control::Broker;

use super::files::Folder;
use super::options::Options;
use super::privilege::{drop_capabilities, raise_priority};
use super::{ANOTHER_SERVES, ServeError};

/// Longest time that a broker gets to answer for the first time.
const START: Duration = Duration::from_secs(8);
/// A broker that lived shorter is restarted after a pause.
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The first argument of a parent. Those after it are the broker's, already checked: a process that has read no command line
/// stays small.
pub const PARENT: &str = "parent";
/// The C library gives back to the system what is free above this, bytes. Without it, what one look at the devices took stays.
const KEPT_FREE: &str = "65536";

fn program() -> Result<PathBuf, ServeError> {
    std::env::current_exe().map_err(ServeError::io("find the broker's own program"))
}

/// Becomes the parent. Returns only if that fails.
#[must_use]
pub fn become_parent(options: &Options) -> ServeError {
    match program() {
        Ok(program) => {
            let failed = Command::new(program).arg(PARENT).args(options.arguments()).exec();
            ServeError::io("start the broker's parent")(failed)
        }
        Err(error) => error,
    }
}

/// Restarts the broker until it ends by itself. The broker has the parent's priority.
///
/// # Errors
///
/// It cannot be started at all, or capabilities cannot be given up.
pub fn keep_alive(arguments: Vec<OsString>) -> Result<ExitCode, ServeError> {
    // A child of a shell may lead its process group; then it has a session already.
    let _ = rustix::process::setsid();
    raise_priority();
    drop_capabilities()?;
    let program = program()?;
    let mut pause = Duration::from_millis(100);
    loop {
        let start = Instant::now();
        let mut child = Command::new(&program);
        child.args(&arguments).arg("--serve").current_dir("/").stdin(Stdio::null());
        child.env("MALLOC_TRIM_THRESHOLD_", KEPT_FREE).env("MALLOC_MMAP_THRESHOLD_", KEPT_FREE);
        let status = child.status().map_err(ServeError::io("start the broker"))?;
        match (status.code(), status.signal()) {
            (Some(0), _) => return Ok(ExitCode::SUCCESS),
            (Some(code), _) if code == i32::from(ANOTHER_SERVES) => {
                return Ok(ExitCode::from(ANOTHER_SERVES));
            }
            _ => {}
        }
        // The broker's file of messages. If it cannot be written, there is nobody to tell.
        let _ =
            writeln!(std::io::stderr(), "tessera-broker: the broker ended with {status}: starting it again");
        if start.elapsed() < SHORT_LIFE {
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        } else {
            pause = Duration::from_millis(100);
        }
    }
}

/// Starts the broker in the background and returns when it answers.
///
/// # Errors
///
/// It ends or does not answer in time.
pub fn start(options: &Options) -> Result<ExitCode, ServeError> {
    let answers = || Broker::at(&options.run_dir, Duration::from_millis(500)).status().is_ok();
    if answers() {
        return Ok(ExitCode::SUCCESS);
    }
    let folder = Folder::make(&options.run_dir)?;
    let mut parent = None;
    let start = Instant::now();
    while start.elapsed() < START {
        if answers() {
            return Ok(ExitCode::SUCCESS);
        }
        // A parent whose broker keeps failing tries on, and one is enough. It may also be about to end.
        if parent.is_none() {
            parent = match folder.parent_lock()? {
                Some(lock) => Some(background(options, &folder, lock)?),
                None => end_other(options, &folder).map(|()| None)?,
            };
        }
        let ended = parent.as_mut().map(Child::try_wait).transpose();
        let ended = ended.map_err(ServeError::io("look after the broker"))?.flatten();
        // Another one may just have been started: by a start with other arguments, if this one was killed.
        if ended.and_then(|status| status.code()).is_some_and(|code| code != i32::from(ANOTHER_SERVES)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(ServeError::NoAnswer { messages: folder.path().join("broker.log") })
}

/// Ends a parent with other arguments while no broker serves: with those, none may ever do.
fn end_other(options: &Options, folder: &Folder) -> Result<(), ServeError> {
    let noted = folder.noted_parent().filter(|(.., arguments)| *arguments != options.arguments());
    let Some((pid, start, _)) = noted else { return Ok(()) };
    // Kept until the parent is gone: the broker that it may be starting now ends.
    if let Some(_lock) = folder.lock()?
        && let Some(parent) = HeldProcess::open(pid).filter(|held| held.start_time == start)
    {
        parent.signal(Signal::KILL);
        let sent = Instant::now();
        while parent.alive() && sent.elapsed() < SHORT_LIFE {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

/// Starts the parent in the background. It keeps `lock`, as its standard input, for as long as it lives.
fn background(options: &Options, folder: &Folder, lock: File) -> Result<Child, ServeError> {
    let log = folder.messages()?;
    let second = |log: &File| log.try_clone().map_err(ServeError::io("open the file of messages again"));
    let (out, err) = (second(&log)?, second(&log)?);
    let mut parent = Command::new(program()?);
    parent.arg(PARENT).args(options.arguments()).current_dir("/").stdin(lock).stdout(out).stderr(err);
    let parent = parent.spawn().map_err(ServeError::io("start the broker"))?;
    if let Some(held) = HeldProcess::open(parent.id()) {
        // One that could not be noted is left to try on.
        let _ = folder.note_parent(&(held.pid, held.start_time, options.arguments()));
    }
    Ok(parent)
}
