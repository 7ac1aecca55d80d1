//! Asks slurmctld about one job, by squeue.

use std::time::Duration;

use node_slurm::slurm_table::SlurmTable;
use plugin_rt::Chain;

/// Runs one of Slurm's commands: its name and arguments, to what it prints or why it fails.
pub(crate) type RunCommand<'a> = &'a dyn Fn(&str, Vec<String>) -> Result<Vec<u8>, String>;

/// Runs Slurm's commands with the slurm.conf of this environment, each for at most `timeout`.
pub(crate) fn commands(
    env: &dyn Fn(&str) -> Option<String>,
    timeout: Duration,
) -> impl Fn(&str, Vec<String>) -> Result<Vec<u8>, String> {
    move |program, args| {
        let conf = env("SLURM_CONF").map(|path| ("SLURM_CONF", path));
        node_jobs::printed(program, args, conf.into_iter().collect(), timeout)
            .map_err(|e| Chain(&e).to_string())
    }
}

/// A question about a job: its columns, of which the first is `jobid`, and their widths.
pub(crate) const fn question<'a>(columns: &'a [(&'a str, usize)]) -> SlurmTable<'a> {
    SlurmTable { program: "squeue", columns, gap: 0 }
}

/// The cells of a job's columns; `None` if slurmctld's answer does not name the job.
///
/// # Errors
///
/// slurmctld cannot be asked, or its answer is no such table.
pub(crate) fn ask<const N: usize>(
    job: u32,
    columns: &[(&str, usize); N],
    run: RunCommand<'_>,
) -> Result<Option<[String; N]>, String> {
    let table = question(columns);
    let args = ["--noheader", "--jobs", &job.to_string(), "--Format", &table.format()].map(str::to_owned);
    cells(&run("squeue", args.to_vec())?, job, columns)
}

/// Reads squeue's answer.
pub(crate) fn cells<const N: usize>(
    answer: &[u8],
    job: u32,
    columns: &[(&str, usize); N],
) -> Result<Option<[String; N]>, String> {
    let found = question(columns).find(answer, job).map_err(|e| e.to_string())?;
    Ok(found.and_then(|cells| cells.try_into().ok()))
}
