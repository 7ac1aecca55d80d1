//! Runs other programs. An error names the command and how it ended.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lab::command::line;

/// Why a task failed, in words for the person who started it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    /// A program could not be started.
    #[error("cannot run {program}")]
    Start { program: String, source: std::io::Error },
    /// A program ended with an error.
    #[error("{line}: {status}{output}")]
    Failed { line: String, status: std::process::ExitStatus, output: String },
    /// A file could not be read or written.
    #[error("{path}")]
    File { path: String, source: std::io::Error },
    /// The cluster harness reported an error.
    #[error(transparent)]
    Harness(#[from] lab::HarnessError),
    /// Anything else, said in full.
    #[error("{0}")]
    Other(String),
}

/// Attaches the path to an I/O error.
pub(crate) fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T, TaskError> {
    result.map_err(|source| TaskError::File { path: path.display().to_string(), source })
}

/// `dir` as every daemon can use it.
pub(crate) fn absolute(dir: &Path) -> Result<PathBuf, TaskError> {
    at(dir, std::path::absolute(dir))
}

/// Runs a command whose output the user sees.
pub(crate) fn run(command: &mut Command) -> Result<(), TaskError> {
    let status = command.status().map_err(|source| start_error(command, source))?;
    if status.success() {
        return Ok(());
    }
    Err(TaskError::Failed { line: line(command), status, output: String::new() })
}

/// Runs a command quietly and returns its stdout; on failure the error carries the end of what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, TaskError> {
    let done = command.stdin(Stdio::null()).output().map_err(|source| start_error(command, source))?;
    let stdout = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.success() {
        return Ok(stdout);
    }
    let all = format!("{stdout}{}", String::from_utf8_lossy(&done.stderr));
    let lines: Vec<&str> = all.lines().collect();
    let tail = lines[lines.len().saturating_sub(20)..].join("\n");
    Err(TaskError::Failed { line: line(command), status: done.status, output: format!("\n{tail}") })
}

fn start_error(command: &Command, source: std::io::Error) -> TaskError {
    TaskError::Start { program: command.get_program().to_string_lossy().into_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind::NotFound;

    use error_chain::with_causes;
    use lab::repeats_a_cause;

    use super::*;

    #[test]
    fn no_message_repeats_its_cause() {
        let start = || TaskError::Start { program: "sbatch".to_owned(), source: NotFound.into() };
        let file = || TaskError::File { path: "slurm.conf".to_owned(), source: NotFound.into() };
        let harness = || lab::HarnessError::File { path: "slurm.conf".to_owned(), source: NotFound.into() };
        for error in [start(), file(), TaskError::Harness(harness())] {
            assert!(!repeats_a_cause(&error), "{}", with_causes(&error));
        }
        assert_eq!(with_causes(&TaskError::Harness(harness())), with_causes(&file()));
    }
}
