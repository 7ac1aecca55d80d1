//! Runs commands and keeps everything they print.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::HarnessError;

/// A command that has ended.
#[derive(Debug, Clone)]
pub struct Done {
    /// The command as a person would type it.
    pub line: String,
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Output of the command.
    pub stdout: String,
    /// Errors that it printed.
    pub stderr: String,
}

impl Done {
    /// Returns stdout.
    ///
    /// # Errors
    ///
    /// Command, status and all output, if it did not end with 0.
    pub fn ok(self) -> Result<String, HarnessError> {
        if self.code == Some(0) { Ok(self.stdout) } else { Err(self.unexpected("was to succeed")) }
    }

    /// Returns stderr, for a command that must be refused.
    ///
    /// # Errors
    ///
    /// Command and output, if it ended with 0.
    pub fn refused(self) -> Result<String, HarnessError> {
        if self.code == Some(0) { Err(self.unexpected("was to be refused")) } else { Ok(self.stderr) }
    }

    fn unexpected(&self, wish: &str) -> HarnessError {
        HarnessError::Unexpected(format!(
            "command {wish}: {}\nexit: {:?}\nstdout:\n{}\nstderr:\n{}",
            self.line, self.code, self.stdout, self.stderr
        ))
    }
}

/// Runs `command` to its end.
///
/// # Errors
///
/// [`HarnessError::Start`] if it cannot be started.
pub fn run(command: &mut Command) -> Result<Done, HarnessError> {
    let line = line(command);
    let output = command.stdin(Stdio::null()).output().map_err(|source| HarnessError::Start {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    })?;
    Ok(Done {
        line,
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// The command as a person would type it.
#[must_use]
pub fn line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}

/// How long a test waits for what must come. The machine may be ten times slower than ours, or stand still for seconds.
/// Only a failure takes that long.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Calls `look` until it returns a value, at most for `limit`: every 0.1 s in the first second, later every 0.25 s, for a look is
/// often a command of Slurm. Its `Err` says what it saw instead.
///
/// # Errors
///
/// [`HarnessError::Timeout`] with what was last seen.
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<T, String>,
) -> Result<T, HarnessError> {
    let begin = Instant::now();
    loop {
        match look() {
            Ok(value) => return Ok(value),
            Err(last) if begin.elapsed() >= limit => {
                return Err(HarnessError::Timeout { what: what.to_owned(), seconds: limit.as_secs(), last });
            }
            Err(_) => {
                let soon = begin.elapsed() < Duration::from_secs(1);
                std::thread::sleep(Duration::from_millis(if soon { 100 } else { 250 }));
            }
        }
    }
}
