//! The node's own texts in its `extra` that the command line alone writes, and what else it has Slurm do.
//!
//! `node-jobs` marks a node that takes no jobs with GPUs; here the mark is taken back.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use geometry::JobId;
use node_jobs::{CommandError, NodeInSlurm, Settings, one_job, unfit_notes};
use node_slurm::slurm_table::SlurmTable;
use protocol::node_word::UNFIT;
use protocol::{Extra, NodeWord, Said, sick};

/// A slurmctld that is killed forgets what it has not saved, which takes up to 5 s.
pub const SAVED_AFTER: Duration = Duration::from_secs(10);

/// Tells whether this node was marked and not cleared since.
#[must_use]
pub fn blocks_gpu_jobs(settings: &Settings) -> bool {
    unfit_notes(settings).iter().any(|note| note.is_file())
}

fn shown(extra: Extra<'_>) -> Option<Vec<String>> {
    Some(vec![format!("Extra={extra}")])
}

/// Lets jobs with GPUs onto the node again; `layout` is what it shows until slurmctld publishes the next one. True: that is
/// new. The node stays marked until slurmctld has surely saved it: one that was killed before shows the old text again.
///
/// # Errors
///
/// slurmctld cannot be asked; the node stays marked.
pub fn unblock_gpu_jobs(
    slurm: &NodeInSlurm<'_>,
    settings: &Settings,
    layout: &str,
) -> Result<bool, CommandError> {
    let is_new = slurm.change(|extra| {
        let is_unfit = extra.before.starts_with(UNFIT);
        is_unfit.then_some(Extra { before: layout, ..extra }).and_then(shown)
    })?;
    for note in unfit_notes(settings) {
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
pub fn say(slurm: &NodeInSlurm<'_>, said: Said) -> Result<bool, CommandError> {
    slurm.change(|extra| {
        if extra.word.and_then(NodeWord::said) == Some(said) {
            return None;
        }
        // slurmctld writes the layout anew if it has changed meanwhile.
        shown(Extra { word: Some(NodeWord::Says(said)), ..extra })
    })
}

/// Names the GPUs that get no new jobs, by the word of [`sick`]. True: that is new.
///
/// # Errors
///
/// slurmctld cannot be asked.
pub fn name_sick(slurm: &NodeInSlurm<'_>, word: &str) -> Result<bool, CommandError> {
    slurm.change(|extra| {
        if sick::parse(word) == Some(sick::parse(extra.sick).unwrap_or_default()) {
            return None;
        }
        shown(Extra { sick: word, word: says(&extra), ..extra })
    })
}

/// Names the jobs that use no GPU, by the word of [`protocol::idle`]; an empty one is taken away. A text of the site's own stays before it.
///
/// # Errors
///
/// slurmctld cannot be asked.
pub fn name_idle(slurm: &NodeInSlurm<'_>, word: &str) -> Result<(), CommandError> {
    slurm.change(|extra| shown(Extra { idle: word, word: says(&extra), ..extra })).map(|_| ())
}

/// The node's own word where it has one: the layout is the one that was just read, and the word has slurmctld write it again.
fn says(extra: &Extra<'_>) -> Option<NodeWord> {
    extra.word.and_then(NodeWord::said).map(NodeWord::Says).or(extra.word)
}

/// Has Slurm requeue a job, and what Slurm says if it refuses.
///
/// # Errors
///
/// Slurm does not answer, or refuses.
pub fn requeue(slurm: &NodeInSlurm<'_>, job: JobId) -> Result<(), CommandError> {
    let table = SlurmTable { program: "squeue", columns: &NUMBERS, gap: 0 };
    let number = job.to_string();
    let asks = ["--noheader", "--jobs", &number, "--Format", &table.format()].map(str::to_owned);
    let shown = slurm.run("squeue", asks.to_vec())?;
    // Of an array's last task, the number is the array's, and squeue shows all tasks.
    let alone = match table.find(shown.as_bytes(), job.0).ok().flatten().as_deref() {
        Some([_, array, task]) => one_job(&number, array, task),
        _ => number,
    };
    slurm.run("scontrol", ["requeue".to_owned(), alone].to_vec()).map(|_| ())
}

/// Columns of squeue that [`one_job`] takes.
const NUMBERS: [(&str, usize); 3] = [("jobid", 12), ("arrayjobid", 12), ("arraytaskid", 12)];

/// Asks for the start time of the slurmd that has registered, seconds since 1970; `None`: none has.
///
/// # Errors
///
/// slurmctld cannot be asked.
pub fn slurmd_started(slurm: &NodeInSlurm<'_>) -> Result<Option<u64>, CommandError> {
    let shown = slurm.run("scontrol", ["show", "node", slurm.name].map(str::to_owned).to_vec())?;
    let mut words = shown.split_whitespace();
    let started = words.find_map(|word| word.strip_prefix("SlurmdStartTime="));
    Ok(started.and_then(|time| time.parse().ok()))
}

fn is_older(file: &Path, age: Duration) -> bool {
    let modified = fs::metadata(file).and_then(|meta| meta.modified());
    // A clock that was set back must not keep the note for ever.
    modified.is_ok_and(|at| at.elapsed().map_or(true, |elapsed| elapsed >= age))
}

#[cfg(test)]
mod tests;
