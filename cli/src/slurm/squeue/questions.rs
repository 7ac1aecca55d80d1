//! Questions that need few columns.

use std::collections::{HashMap, HashSet};

use geometry::{JobId, Uid};
use site_limits::tres::Tres;

use super::super::command::run;
use super::ask::asked;
use super::limit;
use crate::outcome::Failure;

/// A running job with the TRES that Slurm has given it.
pub(crate) struct RunningJob {
    pub(crate) id: JobId,
    pub(crate) user: String,
    pub(crate) account: String,
    pub(crate) qos: String,
    pub(crate) partition: String,
    pub(crate) given: String,
}

/// All jobs that count against limits: those that have started and not ended.
pub(crate) fn running() -> Result<Vec<RunningJob>, Failure> {
    let columns = [
        ("JobID", 14),
        ("State", 20),
        ("UserName", 64),
        ("Account", 64),
        ("QOS", 64),
        ("Partition", 128),
        ("tres-alloc", 512),
    ];
    let counts = ["RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED", "SIGNALING"];
    let one = |cells: Vec<String>| match <[String; 7]>::try_from(cells) {
        Ok([id, state, user, account, qos, partition, given]) if counts.contains(&state.as_str()) => {
            Some(RunningJob { id: JobId(id.parse().ok()?), user, account, qos, partition, given })
        }
        _ => None,
    };
    Ok(asked(&columns, None, false)?.into_iter().filter_map(one).collect())
}

/// How a job was submitted, and for how long it has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Submitted {
    /// By `sbatch`.
    pub(crate) is_batch: bool,
    /// Without `--no-requeue`.
    pub(crate) requeue: bool,
    /// Seconds, without the time for which it was suspended.
    pub(crate) ran_s: Option<u64>,
}

/// How these jobs were submitted.
pub(crate) fn submitted(ids: &[u32]) -> Result<HashMap<u32, Submitted>, Failure> {
    let columns = [("JobID", 14), ("BatchFlag", 10), ("Requeue", 10), ("TimeUsed", 22)];
    let one = |cells: Vec<String>| match &cells[..] {
        [id, batch, requeue, used] => {
            let (is_batch, requeue) = (batch == "1", requeue == "1");
            Some((id.parse().ok()?, Submitted { is_batch, requeue, ran_s: limit(used) }))
        }
        _ => None,
    };
    Ok(asked(&columns, Some(ids), false)?.into_iter().filter_map(one).collect())
}

/// Whose each job that Slurm knows is.
pub(crate) fn owners() -> Result<HashMap<JobId, Uid>, Failure> {
    let one = |cells: &Vec<String>| match &cells[..] {
        [id, uid] => Some((JobId(id.parse().ok()?), Uid(uid.parse().ok()?))),
        _ => None,
    };
    Ok(asked(&[("JobID", 14), ("UserID", 14)], None, false)?.iter().filter_map(one).collect())
}

/// The lists of GRES that a job asks Slurm for.
pub(crate) fn tres(job: u32) -> Result<Tres, Failure> {
    Ok(every_tres(Some(&[job]))?.remove(&job).unwrap_or_default())
}

/// Asks about these jobs, or about all that Slurm knows.
pub(crate) fn every_tres(only: Option<&[u32]>) -> Result<HashMap<u32, Tres>, Failure> {
    let lists = ["tres-per-job", "tres-per-node", "tres-per-socket", "tres-per-task"].map(|name| (name, 512));
    let columns: Vec<(&str, usize)> = [("JobID", 14)].into_iter().chain(lists).collect();
    let of_job = |cells: Vec<String>| {
        let [id, per_job, per_node, per_socket, per_task] = <[String; 5]>::try_from(cells).ok()?;
        let list = |text: String| Some(text).filter(|text| !text.is_empty());
        let [per_job, per_node, per_socket, per_task] = [per_job, per_node, per_socket, per_task].map(list);
        Some((id.parse().ok()?, Tres { per_job, per_node, per_socket, per_task, tasks_per_gpu: None }))
    };
    Ok(asked(&columns, only, false)?.into_iter().filter_map(of_job).collect())
}

/// The Comment of each of these jobs; without a list, of the caller's own jobs, or of all if root asks. A Comment is
/// whatever the job's user wrote.
pub(crate) fn comments(only: Option<&[u32]>) -> Result<Vec<(u32, String)>, Failure> {
    let own = only.is_none() && !rustix::process::geteuid().is_root();
    let one = |cells: Vec<String>| match <[String; 2]>::try_from(cells) {
        Ok([id, comment]) => Some((id.parse().ok()?, comment)),
        Err(_) => None,
    };
    Ok(asked(&[("JobID", 14), ("Comment", 1024)], only, own)?.into_iter().filter_map(one).collect())
}

/// The file to which each of the caller's own jobs writes its output; of all jobs if root asks.
pub(crate) fn outputs() -> Result<Vec<(u32, String)>, Failure> {
    let own = !rustix::process::geteuid().is_root();
    let one = |cells: Vec<String>| match <[String; 2]>::try_from(cells) {
        Ok([id, path]) => Some((id.parse().ok()?, path)),
        Err(_) => None,
    };
    Ok(asked(&[("JobID", 14), ("StdOut", 4096)], None, own)?.into_iter().filter_map(one).collect())
}

/// The jobs on a node that are in one of these states, a list of squeue's abbreviations.
pub(crate) fn on_node(node: &str, states: &str) -> Result<HashSet<JobId>, Failure> {
    let text = run("squeue", &["--noheader", "--nodelist", node, "--states", states, "--format", "%A"])?;
    Ok(text.lines().filter_map(|l| l.trim().parse().ok()).map(JobId).collect())
}
