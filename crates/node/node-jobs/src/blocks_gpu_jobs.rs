//! A node whose GPUs are not those that the site describes, or whose journal cannot be used, takes no GPU job until that is
//! mended. It is not drained: jobs without GPUs have nothing to do with it.
//!
//! The node says so in its `extra`, where slurmctld's plugin would publish its layout, and `sinfo` shows the reason. The
//! plugin then starts no job with GPUs there. At the end of the same text the node says that it loads Tessera: see
//! `protocol::node_word`. A note beside the journal lets the health check look again; another one in
//! `run_dir` does where nothing can be written beside the journal.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use error_chain::Chain;
use geometry::JobId;
use node_slurm::slurm_table::SlurmTable;
use protocol::node_word::UNFIT;
use protocol::sick;
use protocol::{Extra, NodeWord, Said};
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
/// A slurmctld that is killed forgets what it has not saved, which takes up to 5 s.
pub const SAVED_AFTER: Duration = Duration::from_secs(10);
/// Begins every text of ours in a node's `extra`.
const OURS: &str = "tessera ";

/// Slurm's commands, for one node.
#[derive(Clone, Debug)]
pub struct NodeInSlurm<'a> {
    name: &'a str,
    state_dir: &'a Path,
    env: Vec<(&'static str, String)>,
}

fn notes(settings: &Settings) -> [PathBuf; 2] {
    [&settings.state_dir, &settings.run_dir].map(|dir| dir.join("unfit"))
}

/// Tells whether this node was marked and not cleared since.
#[must_use]
pub fn blocks_gpu_jobs(settings: &Settings) -> bool {
    notes(settings).iter().any(|note| note.is_file())
}

/// Why no job's entry can be written or read here; `None`: it can be.
#[must_use]
pub fn journal_problem(settings: &Settings) -> Option<String> {
    let journal = Journal::open(&settings.state_dir).and_then(|journal| journal.try_out());
    let usable = journal.and_then(|()| lock::try_out(&settings.state_dir));
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

    /// Keeps the node's other processes from changing its `extra` between a look at it and a change. `None` where the lock cannot be
    /// had: a directory that is bad must not keep the node from saying so.
    fn alone(&self) -> Option<Locks> {
        Locks::for_extra(self.state_dir, &Deadline::after(ALONE_TIMEOUT)).ok()
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
        let dirs = [(&settings.state_dir, Mode::RWXU), (&settings.run_dir, public)];
        for ((dir, mode), note) in dirs.into_iter().zip(notes(settings)) {
            if own_dirs::own(dir, mode).is_ok() {
                let _next_prolog_tries_again = fs::write(note, why);
            }
        }
        let _alone = self.alone();
        let extra = self.extra()?;
        let extra = Extra::read(&extra);
        let text = format!("{UNFIT}{why}");
        if extra.before == text {
            return Ok(false);
        }
        if extra.before.is_empty() || extra.before.starts_with(OURS) {
            self.show(Extra { before: &text, ..extra })?;
        } else {
            self.update(&["State=DRAIN".to_owned(), format!("Reason=tessera: {why}")])?;
        }
        Ok(true)
    }

    /// Lets jobs with GPUs onto the node again; `layout` is what it shows until slurmctld publishes the next one. True: that is
    /// new. The node stays marked until slurmctld has surely saved it: one that was killed before shows the old text again.
    ///
    /// # Errors
    ///
    /// slurmctld cannot be asked; the node stays marked.
    pub fn unblock_gpu_jobs(&self, settings: &Settings, layout: &str) -> Result<bool, CommandError> {
        let _alone = self.alone();
        let extra = self.extra()?;
        let extra = Extra::read(&extra);
        let is_new = extra.before.starts_with(UNFIT);
        if is_new {
            self.show(Extra { before: layout, ..extra })?;
        }
        for note in notes(settings) {
            let _the_next_check_tries_again = if is_new {
                File::options().append(true).open(note).and_then(|note| note.set_modified(SystemTime::now()))
            } else if is_older(&note, SAVED_AFTER) {
                fs::remove_file(note)
            } else {
                Ok(())
            };
        }
        Ok(is_new)
    }

    /// Tells slurmctld that the node loads Tessera, and with which file. True: that is new.
    ///
    /// # Errors
    ///
    /// slurmctld cannot be asked.
    pub fn say(&self, said: Said) -> Result<bool, CommandError> {
        let _alone = self.alone();
        let extra = self.extra()?;
        let extra = Extra::read(&extra);
        if extra.word.and_then(NodeWord::said) == Some(said) {
            return Ok(false);
        }
        // slurmctld writes the layout anew if it has changed meanwhile.
        self.show(Extra { word: Some(NodeWord::Says(said)), ..extra })?;
        Ok(true)
    }

    /// Names the GPUs that get no new jobs, by the word of [`sick`]. True: that is new.
    ///
    /// # Errors
    ///
    /// slurmctld cannot be asked.
    pub fn name_sick(&self, word: &str) -> Result<bool, CommandError> {
        let _alone = self.alone();
        let extra = self.extra()?;
        let extra = Extra::read(&extra);
        if sick::parse(word) == Some(sick::parse(extra.sick).unwrap_or_default()) {
            return Ok(false);
        }
        // The layout is the one that was just read, so the node's own word has slurmctld write it again.
        let says = extra.word.and_then(NodeWord::said).map(NodeWord::Says);
        self.show(Extra { sick: word, word: says.or(extra.word), ..extra })?;
        Ok(true)
    }

    /// Names the jobs that use no GPU, by the word of [`protocol::idle`]; an empty one is taken away. A text of the site's own stays before it.
    ///
    /// # Errors
    ///
    /// slurmctld cannot be asked.
    pub fn name_idle(&self, word: &str) -> Result<(), CommandError> {
        let _alone = self.alone();
        let extra = self.extra()?;
        let extra = Extra::read(&extra);
        // The layout is the one that was just read, so the node's own word has slurmctld write it again.
        let says = extra.word.and_then(NodeWord::said).map(NodeWord::Says);
        self.show(Extra { idle: word, word: says.or(extra.word), ..extra }).map(|_| ())
    }

    /// Has Slurm requeue a job, and what Slurm says if it refuses.
    ///
    /// # Errors
    ///
    /// Slurm does not answer, or refuses.
    pub fn requeue(&self, job: JobId) -> Result<(), CommandError> {
        let table = SlurmTable { program: "squeue", columns: &NUMBERS, gap: 0 };
        let number = job.to_string();
        let asks = ["--noheader", "--jobs", &number, "--Format", &table.format()].map(str::to_owned);
        let shown = self.run("squeue", asks.to_vec())?;
        // Of an array's last task, the number is the array's, and squeue shows all tasks.
        let alone = match table.find(shown.as_bytes(), job.0).ok().flatten().as_deref() {
            Some([_, array, task]) => one_job(&number, array, task),
            _ => number,
        };
        self.run("scontrol", ["requeue".to_owned(), alone].to_vec()).map(|_| ())
    }

    /// Asks for the start time of the slurmd that has registered, seconds since 1970; `None`: none has.
    ///
    /// # Errors
    ///
    /// slurmctld cannot be asked.
    pub fn slurmd_started(&self) -> Result<Option<u64>, CommandError> {
        let shown = self.run("scontrol", ["show", "node", self.name].map(str::to_owned).to_vec())?;
        let mut words = shown.split_whitespace();
        let started = words.find_map(|word| word.strip_prefix("SlurmdStartTime="));
        Ok(started.and_then(|time| time.parse().ok()))
    }

    fn extra(&self) -> Result<String, CommandError> {
        let args = ["--noheader", "--Node", "--nodes", self.name, "--Format", "extra:16000"];
        let text = self.run("sinfo", args.map(str::to_owned).to_vec())?;
        // A line per partition, all alike. Warnings come before them.
        let shown = text.lines().next_back().unwrap_or_default().trim();
        Ok(if shown == "(null)" { String::new() } else { shown.to_owned() })
    }

    fn show(&self, extra: Extra<'_>) -> Result<String, CommandError> {
        self.update(&[format!("Extra={extra}")])
    }

    fn update(&self, changes: &[String]) -> Result<String, CommandError> {
        let mut args = vec!["update".to_owned(), format!("NodeName={}", self.name)];
        args.extend_from_slice(changes);
        self.run("scontrol", args)
    }

    fn run(&self, program: &str, args: Vec<String>) -> Result<String, CommandError> {
        ask(program, args, self.env.clone(), ASK_TIMEOUT)
    }
}

/// Columns of squeue that [`one_job`] takes.
const NUMBERS: [(&str, usize); 3] = [("jobid", 12), ("arrayjobid", 12), ("arraytaskid", 12)];

/// Gives the number that Slurm's commands know one job alone by: `12_2` for an array's task, whose number may be that of the whole array.
/// `array` and `task` are what squeue shows as ArrayJobID and ArrayTaskID.
#[must_use]
pub fn one_job(job: &str, array: &str, task: &str) -> String {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number(array) && is_number(task) { format!("{array}_{task}") } else { job.to_owned() }
}

fn is_older(file: &Path, age: Duration) -> bool {
    let modified = fs::metadata(file).and_then(|meta| meta.modified());
    // A clock that was set back must not keep the note for ever.
    modified.is_ok_and(|at| at.elapsed().map_or(true, |elapsed| elapsed >= age))
}

#[cfg(test)]
mod tests;
