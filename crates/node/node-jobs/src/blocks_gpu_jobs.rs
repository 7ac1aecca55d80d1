//! A node whose GPUs are not those that the site describes, or whose journal cannot be used, takes no GPU job until that is
//! mended. It is not drained: jobs without GPUs have nothing to do with it.
//!
//! The node says so in its `extra`, where slurmctld's plugin would publish its layout, and `sinfo` shows the reason. The
//! plugin then starts no job with GPUs there. A note beside the journal lets the health check look again; another one in
//! `run_dir` does where nothing can be written beside the journal. `gpu-node` takes the mark back, and has what else the node says
//! at the end of the same text.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use error_chain::Chain;
use protocol::Extra;
use protocol::node_word::UNFIT;
use rustix::fs::Mode;

use crate::command::{CommandError, ask};
use crate::settings::Settings;
use node_driver::deadline::Deadline;
use node_journal::Journal;
use node_journal::lock::Locks;
use node_journal::{lock, own_dirs};

/// Longest wait for each answer of slurmctld.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for another process that changes the node's `extra`: it asks twice.
const ALONE_TIMEOUT: Duration = Duration::from_secs(25);
/// Begins every text of ours in a node's `extra`.
const OURS: &str = "tessera ";

/// Slurm's commands, for one node.
#[derive(Clone, Debug)]
pub struct NodeInSlurm<'a> {
    /// The node's name.
    pub name: &'a str,
    /// The directory of its journal and locks.
    pub state_dir: &'a Path,
    /// Variables of the commands.
    pub env: Vec<(&'static str, String)>,
}

/// The files that say that the node is marked; either may be missing.
#[must_use]
pub fn unfit_notes(settings: &Settings) -> [PathBuf; 2] {
    [&settings.node.state_dir, &settings.node.run_dir].map(|dir| dir.join("unfit"))
}

/// Why no job's entry can be written or read here; `None`: it can be.
#[must_use]
pub fn journal_problem(settings: &Settings) -> Option<String> {
    let journal = Journal::open(&settings.node.state_dir).and_then(|journal| journal.try_out());
    let usable = journal.and_then(|()| lock::try_out(&settings.node.state_dir));
    usable.err().map(|e| Chain(&e).to_string())
}

impl<'a> NodeInSlurm<'a> {
    /// Names the node, and the directory of its journal and locks. `conf` is `SLURM_CONF`, where that is set.
    #[must_use]
    pub fn new(name: &'a str, state_dir: &'a Path, conf: Option<String>) -> Self {
        let seconds = ("SLURM_TIME_FORMAT", "%s".to_owned());
        Self {
            name,
            state_dir,
            env: conf.map(|path| ("SLURM_CONF", path)).into_iter().chain([seconds]).collect(),
        }
    }

    /// Lets no more jobs with GPUs onto the node, for this reason. True: that is new. A node whose `extra` is the site's own
    /// is drained instead.
    ///
    /// # Errors
    ///
    /// slurmctld cannot be asked. The next job, or the next health check, tries again.
    pub fn block_gpu_jobs(&self, settings: &Settings, why: &str) -> Result<bool, CommandError> {
        // The notes are only for the health check.
        let public = Mode::from_bits_truncate(0o755);
        let dirs = [(&settings.node.state_dir, Mode::RWXU), (&settings.node.run_dir, public)];
        for ((dir, mode), note) in dirs.into_iter().zip(unfit_notes(settings)) {
            if own_dirs::own(dir, mode).is_ok() {
                let _next_prolog_tries_again = fs::write(note, why);
            }
        }
        self.change(|extra| {
            let text = format!("{UNFIT}{why}");
            if extra.before == text {
                return None;
            }
            if extra.before.is_empty() || extra.before.starts_with(OURS) {
                return Some(vec![format!("Extra={}", Extra { before: &text, ..extra })]);
            }
            Some(vec!["State=DRAIN".to_owned(), format!("Reason=tessera: {why}")])
        })
    }

    /// Changes the node alone among its processes: `change` makes arguments of `scontrol update` from the present `extra`. True: it did.
    ///
    /// # Errors
    ///
    /// slurmctld cannot be asked.
    pub fn change(
        &self,
        change: impl FnOnce(Extra<'_>) -> Option<Vec<String>>,
    ) -> Result<bool, CommandError> {
        // Without the lock where it cannot be had: a directory that is bad must not keep the node from saying so.
        let _alone = Locks::for_extra(self.state_dir, &Deadline::after(ALONE_TIMEOUT)).ok();
        let extra = self.extra()?;
        let Some(changes) = change(Extra::read(&extra)) else { return Ok(false) };
        let mut args = vec!["update".to_owned(), format!("NodeName={}", self.name)];
        args.extend(changes);
        self.run("scontrol", args).map(|_| true)
    }

    fn extra(&self) -> Result<String, CommandError> {
        let args = ["--noheader", "--Node", "--nodes", self.name, "--Format", "extra:16000"];
        let text = self.run("sinfo", args.map(str::to_owned).to_vec())?;
        // A line per partition, all alike. Warnings come before them.
        let shown = text.lines().next_back().unwrap_or_default().trim();
        Ok(if shown == "(null)" { String::new() } else { shown.to_owned() })
    }

    /// Runs one of Slurm's commands and returns what it wrote.
    ///
    /// # Errors
    ///
    /// It fails, or slurmctld does not answer in time.
    pub fn run(&self, program: &str, args: Vec<String>) -> Result<String, CommandError> {
        ask(program, args, self.env.clone(), ASK_TIMEOUT)
    }
}

/// Gives the number that Slurm's commands know one job alone by: `12_2` for an array's task, whose number may be that of the whole array.
/// `array` and `task` are what squeue shows as ArrayJobID and ArrayTaskID.
#[must_use]
pub fn one_job(job: &str, array: &str, task: &str) -> String {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number(array) && is_number(task) { format!("{array}_{task}") } else { job.to_owned() }
}
