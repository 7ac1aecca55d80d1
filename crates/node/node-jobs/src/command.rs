//! Runs another program: no shell, a deadline, its output kept for messages.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::MemfdFlags;

use node_driver::deadline::{Backoff, Deadline, kill_child};
use node_driver::scarce::users_can_cause;

/// A program that did not do its work.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum CommandError {
    /// Could not be started.
    #[error("cannot run {program}")]
    Start {
        program: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// Did not end in time and was told to end.
    #[error("{program} did not end within {timeout_ms} ms")]
    Timeout { program: PathBuf, timeout_ms: u128 },
    /// Ended with an error.
    #[error("{program} failed ({status}): {output}")]
    Failed {
        program: PathBuf,
        status: ExitStatus,
        /// The last of what it wrote, on one line.
        output: String,
    },
}

impl CommandError {
    /// True for an error that users can cause; see [`users_can_cause`].
    pub(crate) fn users_can_cause(&self) -> bool {
        matches!(self, Self::Start { source, .. } if users_can_cause(source))
    }
}

/// Runs a program as we are and returns what it wrote, errors included. No shell; what a job can set in our environment
/// is kept from it, but for `env`.
///
/// # Errors
///
/// It cannot be started, fails, or does not end within `timeout`.
pub fn ask(
    program: &str,
    args: Vec<String>,
    env: Vec<(&str, String)>,
    timeout: Duration,
) -> Result<String, CommandError> {
    let run = ToolRun { program: program.into(), args, env, input: "", user: None };
    run.output(&Deadline::after(timeout))
}

/// As [`ask`], but returns the bytes that the program printed, at most 4 MiB, without its errors.
///
/// # Errors
///
/// As of [`ask`].
pub fn printed(
    program: &str,
    args: Vec<String>,
    env: Vec<(&str, String)>,
    timeout: Duration,
) -> Result<Vec<u8>, CommandError> {
    let run = ToolRun { program: program.into(), args, env, input: "", user: None };
    run.printed(&Deadline::after(timeout))
}

/// A program to run.
pub struct ToolRun<'a> {
    /// Its path, or a name in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Beside ours, from which everything that a job can influence is removed.
    pub env: Vec<(&'a str, String)>,
    /// Fed to its standard input.
    pub input: &'a str,
    /// User and group to run as; `None`: as we are.
    pub user: Option<(u32, u32)>,
}

/// Most of a program's output that is kept for messages.
const OUTPUT_LIMIT: u64 = 64 * 1024;
/// Most of a table that is read: thousands of records.
const TABLE_LIMIT: u64 = 4 << 20;

impl ToolRun<'_> {
    /// Runs it to its end and returns what it wrote.
    ///
    /// # Errors
    ///
    /// It cannot be started, fails, or does not end in time.
    pub fn output(self, deadline: &Deadline) -> Result<String, CommandError> {
        let output = scratch().map_err(|source| self.cannot_start(source))?;
        let failed = output.try_clone().map_err(|source| self.cannot_start(source))?;
        Ok(String::from_utf8_lossy(&self.run(output, failed, OUTPUT_LIMIT, deadline)?).into_owned())
    }

    /// Runs it to its end and returns the bytes that it printed, without its errors.
    ///
    /// # Errors
    ///
    /// As of [`Self::output`].
    fn printed(self, deadline: &Deadline) -> Result<Vec<u8>, CommandError> {
        let output = scratch().map_err(|source| self.cannot_start(source))?;
        let errors = scratch().map_err(|source| self.cannot_start(source))?;
        self.run(output, errors, TABLE_LIMIT, deadline)
    }

    fn cannot_start(&self, source: std::io::Error) -> CommandError {
        CommandError::Start { program: self.program.clone(), source }
    }

    /// Runs it to its end, and reads its output up to `limit`.
    fn run(
        self,
        output: File,
        errors: File,
        limit: u64,
        deadline: &Deadline,
    ) -> Result<Vec<u8>, CommandError> {
        let program = self.program.clone();
        let start = |source| CommandError::Start { program: program.clone(), source };
        // Files, not pipes: a daemon that the program leaves behind may keep its end open for ever.
        let mut input = scratch().map_err(start)?;
        input.write_all(self.input.as_bytes()).and_then(|()| input.rewind()).map_err(start)?;
        let share = |f: &File| f.try_clone().map(Stdio::from);
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir("/");
        command.stdin(Stdio::from(input)).stdout(share(&output).map_err(start)?);
        command.stderr(share(&errors).map_err(start)?).process_group(0);
        clean_environment(&mut command);
        command.envs(self.env.iter().map(|(k, v)| (*k, v.as_str())));
        if let Some((uid, gid)) = self.user {
            // The standard library drops supplementary groups with the user.
            command.gid(gid).uid(uid);
        }
        let mut child = command.spawn().map_err(start)?;
        let mut backoff = Backoff::new(Duration::from_micros(200), Duration::from_millis(2));
        let status = loop {
            if let Some(status) = child.try_wait().map_err(start)? {
                break status;
            }
            if !backoff.pause(deadline) {
                kill_child(child);
                let timeout_ms = deadline.timeout.as_millis();
                return Err(CommandError::Timeout { program, timeout_ms });
            }
        };
        if status.success() {
            return read(output, limit).map_err(start);
        }
        let errors = read(errors, OUTPUT_LIMIT).map_err(start)?;
        Err(CommandError::Failed { program, status, output: tail(&String::from_utf8_lossy(&errors)) })
    }
}

fn scratch() -> std::io::Result<File> {
    let fd = rustix::fs::memfd_create("tessera", MemfdFlags::CLOEXEC)?;
    Ok(File::from(fd))
}

/// Reads a scratch file from its beginning.
fn read(mut file: File, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Keeps our environment but for what a job or its user can set.
fn clean_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["SPANK_", "SLURM", "TESSERA_", "CUDA_"].iter().any(|p| text.starts_with(p)) {
            command.env_remove(&name);
        }
    }
    if std::env::var_os("PATH").is_none() {
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    }
}

fn tail(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let skip = line.chars().count().saturating_sub(200);
    line.chars().skip(skip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(program: &str, args: &[&str], input: &str, ms: u64) -> Result<String, CommandError> {
        let args = args.iter().map(|a| (*a).to_owned()).collect();
        let run = ToolRun {
            program: program.into(),
            args,
            env: vec![("GREETING", "hi".into())],
            input,
            user: None,
        };
        run.output(&Deadline::after(Duration::from_millis(ms)))
    }

    #[test]
    fn output_status_and_deadline() {
        assert_eq!(run("/bin/cat", &[], "in", 60_000).unwrap(), "in");
        assert_eq!(run("/usr/bin/printenv", &["GREETING"], "", 60_000).unwrap(), "hi\n");
        assert!(matches!(run("/bin/sleep", &["60"], "", 50), Err(CommandError::Timeout { .. })));
        let failed = run("/bin/ls", &["/nonexistent"], "", 60_000).unwrap_err().to_string();
        assert!(failed.contains("/nonexistent"), "{failed}");
        assert!(matches!(run("/nonexistent", &[], "", 50), Err(CommandError::Start { .. })));
    }

    /// A command of a user's is one of the user's processes: another one may trace it, and the kernel then keeps its end from us.
    #[test]
    fn a_child_whose_end_a_user_keeps_back_is_not_waited_for() {
        let ended = tempfile::tempdir().unwrap().keep().join("ended");
        let ptrace = if cfg!(target_arch = "x86_64") { 101 } else { 117 };
        let end = format!("sleep 20; open(F, q(>), q({}))", ended.display());
        let seize = format!("syscall({ptrace}, 0x4206, getppid(), 0, 0) == 0 or die $!; {end}");
        let traced = format!("perl -e '{seize}' & exec sleep 60");
        let late = run("/bin/sh", &["-c", &traced], "", 1000);
        assert!(matches!(late, Err(CommandError::Timeout { .. })), "{late:?}");
        assert!(!ended.exists(), "it came back only when the tracer had ended");
    }

    #[test]
    fn a_warning_is_no_part_of_what_was_printed() {
        let sh = |text: &str| {
            let args = ["-c", text].map(str::to_owned).to_vec();
            printed("/bin/sh", args, Vec::new(), Duration::from_secs(60))
        };
        assert_eq!(sh("echo warning >&2; printf '\\377 row'").unwrap(), b"\xff row");
        let failed = sh("echo row; echo why >&2; exit 3").unwrap_err().to_string();
        assert!(failed.ends_with("why"), "{failed}");
    }

    #[test]
    fn arguments_never_reach_a_shell() {
        assert_eq!(run("/bin/echo", &["$(id)", ";id"], "", 60_000).unwrap(), "$(id) ;id\n");
    }
}
