//! Submits jobs and reads their state.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fmt, fs};

use error_chain::with_causes;

use crate::cluster::Cluster;
use crate::command::{Done, PATIENCE, wait_for};
use crate::error::{HarnessError, at};
use crate::user::User;

/// Slurm's number of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u32);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Output of `scontrol show job` on a job.
#[derive(Debug, Clone)]
pub struct Job {
    fields: BTreeMap<String, String>,
}

impl Job {
    /// A field, by scontrol's name; empty if it is not shown.
    #[must_use]
    pub fn get(&self, key: &str) -> &str {
        self.fields.get(key).map_or("", String::as_str)
    }

    /// `PENDING`, `RUNNING`, `COMPLETED` and so on.
    #[must_use]
    pub fn state(&self) -> &str {
        self.get("JobState")
    }

    /// Why it waits.
    #[must_use]
    pub fn reason(&self) -> &str {
        self.get("Reason")
    }
}

/// States a job does not leave.
const FINAL: [&str; 8] =
    ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"];

impl Cluster {
    /// Submits `script` (without its first line) and gives sbatch's own result, for submissions that must fail.
    ///
    /// # Errors
    ///
    /// If sbatch cannot be started.
    pub fn try_sbatch(&self, user: User, args: &[&str], script: &str) -> Result<Done, HarnessError> {
        let name = format!("script-{:x}.sh", fnv(script));
        let path = self.layout().jobs().join(name);
        if !path.exists() {
            at(&path, fs::write(&path, format!("#!/bin/sh\n{script}\n")))?;
            at(&path, fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))?;
        }
        let output = format!("--output={}", self.layout().jobs().join("%j.out").display());
        let chdir = format!("--chdir={}", self.layout().jobs().display());
        let mut all = vec!["--parsable", &output, &chdir];
        all.extend(args);
        let path = path.display().to_string();
        all.push(&path);
        self.run(user, "sbatch", &all)
    }

    /// Submits `script` and returns the job.
    ///
    /// # Errors
    ///
    /// What sbatch said, if it refused.
    pub fn sbatch(&self, user: User, args: &[&str], script: &str) -> Result<JobId, HarnessError> {
        let out = self.try_sbatch(user, args, script)?.ok()?;
        let number = out.trim().split(';').next().unwrap_or_default();
        number
            .parse()
            .map(JobId)
            .map_err(|_| HarnessError::Unexpected(format!("sbatch printed no job: {out}")))
    }

    /// Asks Slurm about a job.
    ///
    /// # Errors
    ///
    /// If scontrol fails.
    pub fn job(&self, id: JobId) -> Result<Job, HarnessError> {
        let out = self.run(User::Root, "scontrol", &["-d", "-o", "show", "job", &id.to_string()])?.ok()?;
        let pair = |word: &str| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        Ok(Job { fields: out.split_whitespace().filter_map(pair).collect() })
    }

    /// Waits until `wish` holds for the job.
    ///
    /// # Errors
    ///
    /// The job's last state and reason, and what it printed.
    pub fn wait_job(&self, id: JobId, what: &str, wish: impl Fn(&Job) -> bool) -> Result<Job, HarnessError> {
        wait_for(&format!("job {id} to be {what}"), PATIENCE, || {
            let job = self.job(id).map_err(|error| with_causes(&error))?;
            if wish(&job) {
                return Ok(job);
            }
            Err(format!("{} ({}); output: {}", job.state(), job.reason(), self.output(id)))
        })
    }

    /// Waits until the job runs.
    ///
    /// # Errors
    ///
    /// As [`Cluster::wait_job`].
    pub fn wait_running(&self, id: JobId) -> Result<Job, HarnessError> {
        self.wait_job(id, "running", |job| job.state() == "RUNNING")
    }

    /// Waits until the job has ended, in whatever way.
    ///
    /// # Errors
    ///
    /// As [`Cluster::wait_job`].
    pub fn wait_end(&self, id: JobId) -> Result<Job, HarnessError> {
        self.wait_job(id, "ended", |job| FINAL.contains(&job.state()))
    }

    /// Waits until slurmctld has written down what it knows now, which it does some seconds later: killed then, it knows
    /// it again. `id` is a job of any kind and state; its comment is overwritten.
    ///
    /// # Errors
    ///
    /// What scontrol said, or that nothing was written.
    pub fn wait_saved(&self, id: JobId) -> Result<(), HarnessError> {
        static MARKS: AtomicU32 = AtomicU32::new(0);
        // A file's time does not tell: it is written some time after what it holds was gathered, and not again if nothing
        // has changed since.
        let mark = format!("saved-{}-{}", std::process::id(), MARKS.fetch_add(1, Ordering::Relaxed));
        let change = ["update", &format!("JobId={id}"), &format!("Comment={mark}")];
        self.run(User::Root, "scontrol", &change)?.ok()?;
        // slurmctld writes nodes after jobs, with the layouts in them, and only if one of them asks for it.
        for node in self.nodes() {
            let change = ["update", &format!("NodeName={node}"), &format!("Comment={mark}")];
            self.run(User::Root, "scontrol", &change)?.ok()?;
        }
        wait_for("slurmctld to save its jobs and nodes", PATIENCE, || {
            match (self.saved_jobs_hold(&mark), self.saved("node_state", &mark)) {
                (Ok(true), Ok(true)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
    }

    /// True if slurmctld's file of jobs contains a text.
    ///
    /// # Errors
    ///
    /// If there is no such file.
    pub fn saved_jobs_hold(&self, text: &str) -> Result<bool, HarnessError> {
        self.saved("job_state", text)
    }

    /// Tells whether a file of slurmctld's state holds a text.
    fn saved(&self, file: &str, text: &str) -> Result<bool, HarnessError> {
        let path = self.layout().at("state").join(file);
        // It is not there for a moment whenever it is replaced.
        let state = wait_for(&format!("slurmctld's {file}"), PATIENCE, || {
            fs::read(&path).map_err(|e| e.to_string())
        })?;
        Ok(state.windows(text.len()).any(|part| part == text.as_bytes()))
    }

    /// Submits, waits for success, and returns what the job printed.
    ///
    /// # Errors
    ///
    /// State and output of a job that did not end with `COMPLETED`.
    pub fn complete(&self, user: User, args: &[&str], script: &str) -> Result<String, HarnessError> {
        let id = self.sbatch(user, args, script)?;
        let job = self.wait_end(id)?;
        let output = self.output(id);
        if job.state() == "COMPLETED" {
            return Ok(output);
        }
        Err(HarnessError::Unexpected(format!("job {id} ended {} ({}): {output}", job.state(), job.reason())))
    }

    /// Returns the output of a job so far.
    #[must_use]
    pub fn output(&self, id: JobId) -> String {
        let path = self.layout().jobs().join(format!("{id}.out"));
        fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Waits until no job runs or completes any more.
    ///
    /// # Errors
    ///
    /// The jobs that are left.
    pub fn wait_idle(&self) -> Result<(), HarnessError> {
        wait_for("all nodes to be idle", PATIENCE, || {
            let nodes =
                self.run(User::Root, "sinfo", &["-h", "-N", "-o", "%N %T"]).map_err(|e| with_causes(&e))?;
            if nodes.stdout.lines().all(|line| line.ends_with(" idle")) && nodes.code == Some(0) {
                return Ok(());
            }
            Err(format!("{}{}", nodes.stdout, nodes.stderr))
        })
    }
}

/// A short name for a text (FNV-1a, 64 bits).
fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
