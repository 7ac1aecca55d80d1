//! `tests/programs/scale.c` on a fleet: submissions, queries and ends of jobs, each timed.

use std::fs;
use std::path::PathBuf;

use lab::command::{Done, run};
use lab::fleet::Fleet;
use lab::{HarnessError, User};

use crate::command::{TaskError, at};
use crate::submissions::program::compile;

/// The program, built for the fleet's Slurm.
pub(super) struct Client {
    program: PathBuf,
}

/// A submission that was accepted or refused.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Submitted {
    pub(super) us: f64,
    /// `None`: refused.
    pub(super) job: Option<u32>,
    /// Got its nodes at once.
    pub(super) runs: bool,
    pub(super) label: String,
}

impl Client {
    pub(super) fn build(fleet: &Fleet) -> Result<Self, TaskError> {
        Ok(Self { program: compile(fleet.cluster(), "scale")? })
    }

    /// Submits all of `jobs` as root, in the name of their users.
    pub(super) fn submit(&self, fleet: &Fleet, jobs: &str) -> Result<Vec<Submitted>, TaskError> {
        let file = self.file(fleet, "submit", jobs)?;
        let done = self.run(fleet, &["submit", &file])?;
        // What was refused is in the lines, and the first reasons say why.
        done.stderr.lines().take(5).for_each(|line| eprintln!("scale: {line}"));
        done.ok()?.lines().map(|line| submitted(line).ok_or_else(|| unreadable(line))).collect()
    }

    /// Reads a table so many times: microseconds of each.
    pub(super) fn load(&self, fleet: &Fleet, what: &str, count: usize) -> Result<Vec<f64>, TaskError> {
        let lines = self.run(fleet, &["load", what, &count.to_string()])?.ok()?;
        lines.lines().map(|line| line.parse().map_err(|_| unreadable(line))).collect()
    }

    /// Ends jobs.
    pub(super) fn cancel(&self, fleet: &Fleet, jobs: &[u32]) -> Result<(), TaskError> {
        let text: String = jobs.iter().map(|job| format!("{job}\n")).collect();
        let file = self.file(fleet, "cancel", &text)?;
        self.run(fleet, &["cancel", &file])?.ok()?;
        Ok(())
    }

    fn file(&self, fleet: &Fleet, name: &str, text: &str) -> Result<String, TaskError> {
        let path = fleet.cluster().layout().jobs().join(format!("{name}.txt"));
        at(&path, fs::write(&path, text))?;
        Ok(path.display().to_string())
    }

    fn run(&self, fleet: &Fleet, args: &[&str]) -> Result<Done, HarnessError> {
        let mut command = fleet.cluster().command(User::Root, &self.program.display().to_string())?;
        run(command.args(args))
    }
}

fn unreadable(line: &str) -> TaskError {
    TaskError::Other(format!("the client printed `{line}`"))
}

fn submitted(line: &str) -> Option<Submitted> {
    let mut fields = line.split('\t');
    let us = fields.next()?.parse().ok()?;
    let job: u32 = fields.next()?.parse().ok()?;
    let runs = fields.next()? == "1";
    Some(Submitted { us, job: (job > 0).then_some(job), runs, label: fields.next()?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_job_has_no_number() {
        let read = |line| submitted(line).unwrap();
        let label = "half a GPU".to_owned();
        assert_eq!(read("812\t7\t1\thalf a GPU"), Submitted { us: 812.0, job: Some(7), runs: true, label });
        assert_eq!(read("812\t0\t0\tx").job, None);
        assert_eq!(submitted("812"), None);
    }
}
