//! Lanes of jobs, side by side. Each job's output is kept whole.

use std::collections::VecDeque;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::command::{TaskError, at};

/// One program to run to its end.
#[derive(Debug)]
pub(super) struct Job {
    name: String,
    command: Command,
    has_tests: bool,
}

impl Job {
    /// A check that succeeds or fails as a whole.
    pub(super) fn check(name: &str, command: Command) -> Self {
        Self { name: name.to_owned(), command, has_tests: false }
    }

    /// A program of tests, which prints how many passed and failed.
    pub(super) fn tests(name: &str, command: Command) -> Self {
        Self { name: name.to_owned(), command, has_tests: true }
    }

    /// The same job at the lowest priority of the scheduler.
    pub(super) fn at_low_priority(self) -> Self {
        let mut nice = Command::new("nice");
        nice.args(["-n", "19"]).arg(self.command.get_program()).args(self.command.get_args());
        if let Some(dir) = self.command.get_current_dir() {
            nice.current_dir(dir);
        }
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => nice.env(name, value),
                None => nice.env_remove(name),
            };
        }
        Self { command: nice, ..self }
    }

    /// Runs the job. Its output goes to a file in `outputs` and not through a pipe: a daemon that a failed test leaves
    /// behind would keep a pipe open.
    fn run(mut self, outputs: &Path) -> Result<Outcome, TaskError> {
        let path = outputs.join(format!("{}.txt", self.name.replace(' ', "-")));
        let file = at(&path, fs::File::create(&path))?;
        let errors = at(&path, file.try_clone())?;
        let begin = Instant::now();
        let ended = self.command.stdin(Stdio::null()).stdout(file).stderr(errors).status();
        let program = || self.command.get_program().to_string_lossy().into_owned();
        let status = ended.map_err(|source| TaskError::Start { program: program(), source })?;
        let mut output = String::from_utf8_lossy(&at(&path, fs::read(&path))?).into_owned();
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        Ok(Outcome {
            name: self.name,
            output,
            succeeded: status.success(),
            has_tests: self.has_tests,
            elapsed: begin.elapsed(),
        })
    }
}

/// How a job ended.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) name: String,
    /// Everything it printed.
    pub(super) output: String,
    /// Whether it ended with 0.
    pub(super) succeeded: bool,
    pub(super) has_tests: bool,
    pub(super) elapsed: Duration,
}

/// Jobs in the order in which they start.
#[derive(Debug)]
pub(super) struct Lane {
    /// How many of them run at a time.
    pub(super) width: usize,
    pub(super) jobs: Vec<Job>,
}

/// Runs all lanes at once, and calls `report` for each job when it has ended.
///
/// # Errors
///
/// The first job that could not be started, or the first error of `report`. The jobs that run are waited for.
pub(super) fn run(
    lanes: impl IntoIterator<Item = Lane>,
    outputs: &Path,
    mut report: impl FnMut(Outcome) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    at(outputs, fs::create_dir_all(outputs))?;
    let lanes: Vec<(usize, Mutex<VecDeque<Job>>)> =
        lanes.into_iter().map(|lane| (lane.width, Mutex::new(lane.jobs.into()))).collect();
    thread::scope(|scope| {
        let (send, outcomes) = mpsc::channel();
        for (width, queue) in &lanes {
            for _ in 0..*width {
                let send = send.clone();
                scope.spawn(move || {
                    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    // Nobody receives any more after an error: no further job starts.
                    while let Some(job) = next() {
                        if send.send(job.run(outputs)).is_err() {
                            break;
                        }
                    }
                });
            }
        }
        drop(send);
        outcomes.into_iter().try_for_each(|outcome| report(outcome?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job::check(name, command)
    }

    #[test]
    fn jobs_of_a_lane_run_side_by_side_and_their_output_stays_whole() {
        let dir = tempfile::tempdir().unwrap();
        // Each waits for the other: one after the other, they would never end.
        let meet = |mine: &str, other: &str| {
            let dir = dir.path().display();
            shell(
                mine,
                &format!(
                    "echo {mine}; : > {dir}/{mine}; until [ -e {dir}/{other} ]; do sleep 0.01; done; echo end >&2"
                ),
            )
        };
        let lane = Lane { width: 2, jobs: vec![meet("a", "b"), meet("b", "a"), shell("c", "exit 3")] };
        let mut ended = Vec::new();
        run([lane], &dir.path().join("outputs"), |outcome| {
            ended.push((outcome.name, outcome.output, outcome.succeeded));
            Ok(())
        })
        .unwrap();
        ended.sort();
        let expected = [("a", "a\nend\n", true), ("b", "b\nend\n", true), ("c", "", false)];
        assert_eq!(ended, expected.map(|(name, output, ok)| (name.to_owned(), output.to_owned(), ok)));
    }

    #[test]
    fn low_priority_changes_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo $(nice) $GREETING; pwd"]).env("GREETING", "hello").current_dir("/");
        let lane = Lane { width: 1, jobs: vec![Job::check("nice", command).at_low_priority()] };
        let mut output = String::new();
        run([lane], dir.path(), |outcome| {
            output = outcome.output;
            Ok(())
        })
        .unwrap();
        assert_eq!(output, "19 hello\n/\n");
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let lane = Lane { width: 1, jobs: vec![Job::check("none", Command::new("/nonexistent/program"))] };
        let error = run([lane], dir.path(), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/program"), "{error:?}");
    }
}
