//! A program whose first thread ends before the others, for tests of whoever asks `/proc` whether a process lives.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use crate::command::{Done, PATIENCE, run, wait_for};
use crate::error::{HarnessError, at};

const SOURCE: &str = include_str!("../threads/threads.c");

/// Builds it in `dir`, where every user may then run it; the source says what its two commands do.
///
/// # Errors
///
/// If files cannot be written, or there is no C compiler.
pub fn build(dir: &Path) -> Result<PathBuf, HarnessError> {
    let (source, program) = (dir.join("threads.c"), dir.join("threads"));
    at(&source, fs::write(&source, SOURCE))?;
    at(dir, fs::set_permissions(dir, fs::Permissions::from_mode(0o755)))?;
    let mut cc = Command::new("cc");
    run(cc.args(["-pthread", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(&source))
        .and_then(Done::ok)?;
    Ok(program)
}

/// The program while it runs. Dropping it kills it.
#[derive(Debug)]
pub struct Running(pub Child);

impl Running {
    /// Starts it by `command`.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn start(command: &mut Command) -> Result<Self, HarnessError> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.spawn().map(Self).map_err(|source| HarnessError::Start { program, source })
    }

    /// Waits until its first thread has ended.
    ///
    /// # Errors
    ///
    /// If that thread does not end.
    pub fn without_first_thread(self) -> Result<Self, HarnessError> {
        wait_for("the first thread to end", PATIENCE, || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap_or_default();
            if stat.contains(") Z ") { Ok(()) } else { Err(stat) }
        })?;
        Ok(self)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
