//! The parsers of what users wrote, for fuzzing: each reads its input and forgets what it read.

use crate::commands::{plan, simulate};
use crate::only_instance::OnlyInstance;
use crate::slurm;

/// Reads the output of `squeue` in our columns.
pub fn squeue(table: &[u8]) {
    let _ = slurm::squeue::read(table, false);
}

/// Reads the output of `sacct` in our columns.
pub fn sacct(table: &[u8]) {
    let _ = slurm::sacct::parse(table);
    let _ = slurm::sacct::jobs::parse(table);
}

/// A batch of tasks, CSV or JSON lines.
pub fn tasks(text: &str) {
    plan::read_tasks(text);
}

/// Grants of a job, as its AdminComment has them.
pub fn only_instance(got: &str) {
    let _ = OnlyInstance::parse(got);
}

/// The note of a plan in a job's Comment.
pub fn note(comment: &str) {
    plan::read_note(comment);
}

/// The jobs of `tessera simulate case`, and the steps of its `--replay`, JSON lines.
pub fn case_jobs(text: &str) {
    simulate::read_case(text);
}
