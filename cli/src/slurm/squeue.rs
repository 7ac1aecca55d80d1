//! `squeue`: jobs, in columns of fixed width, which no user's text can shift or break: see [`super::records`].
//!
//! `squeue --json` differs from release to release and needs a plugin that not every site installs; `scontrol show job`
//! mixes users' words with fields. These columns are the same in 22.05 and 24.11; in 26.05 one has another name.

mod ask;
mod columns;
mod job;
mod node_options;
mod questions;
mod tasks;

use std::collections::HashMap;

use geometry::JobId;
use site_config::hostlist;

use super::exclusive;
use super::records::SlurmTable;
use crate::outcome::Failure;
pub(crate) use ask::MOST_IDS;
use ask::printed;
use columns::COLUMNS;
pub(crate) use job::{QueuedJob, is_limit, is_waiting, task_of};
pub(crate) use node_options::{NodeOptions, node_options};
pub(crate) use questions::{
    RunningJob, Submitted, comments, every_tres, on_node, outputs, owners, running, submitted, tres,
};
pub(crate) use tasks::{count_tasks, has_task, listed_for_scontrol};

/// Half a year, seconds. A longer time limit tells no end: a job without one has a year's from backfill, and Slurm expects starts by that.
pub(crate) const NO_LIMIT_S: u64 = 182 * 86_400;

/// The column that says whether a job has its nodes to itself, and the one that says it from 26.05 on.
const ALONE: [&str; 2] = ["OverSubscribe", "Exclusive"];

/// The columns of a Slurm that has a column `Exclusive` or none.
fn columns(has_exclusive: bool) -> [(&'static str, usize); COLUMNS.len()] {
    COLUMNS.map(|(name, width)| (if has_exclusive && name == ALONE[0] { ALONE[1] } else { name }, width))
}

/// Jobs that Slurm still knows: all, or some of them and perhaps others, in whatever state.
pub(crate) fn jobs(only: Option<&[u32]>) -> Result<Vec<QueuedJob>, Failure> {
    let has_exclusive = exclusive::has_its_field();
    read(&printed(&columns(has_exclusive), only, false)?, has_exclusive)
}

/// Gives the AdminComments of jobs, all or some, by their numbers: slurmctld hands a job's comment to the accounting only at its end. None if
/// it does not answer.
pub(crate) fn admin_comments(only: Option<&[u32]>) -> HashMap<String, String> {
    let known = jobs(only).unwrap_or_default();
    known.into_iter().map(|job| (job.id.to_string(), job.comment)).collect()
}

/// Names of jobs as Slurm's commands write them: `4711_2` for a task of an array.
#[derive(Debug, Default)]
pub(crate) struct JobNames(HashMap<u32, String>);

impl JobNames {
    /// Asks squeue for the names of some jobs. Without its answer each job has its number alone.
    pub(crate) fn of(ids: impl Iterator<Item = JobId>) -> Self {
        let ids: Vec<u32> = ids.map(|job| job.0).collect();
        let listed = if ids.is_empty() { Vec::new() } else { jobs(Some(&ids)).unwrap_or_default() };
        Self::listed(&listed)
    }

    fn listed(jobs: &[QueuedJob]) -> Self {
        Self(jobs.iter().map(|job| (job.id, job.number())).collect())
    }

    /// Gives the name of a job.
    pub(crate) fn name(&self, job: JobId) -> String {
        self.0.get(&job.0).cloned().unwrap_or_else(|| job.to_string())
    }
}

/// The jobs that have started and not ended, by node. A list of nodes that squeue has cut is passed over.
pub(crate) fn by_node(jobs: &[QueuedJob]) -> HashMap<String, Vec<JobId>> {
    let mut found: HashMap<String, Vec<JobId>> = HashMap::new();
    for job in jobs.iter().filter(|job| !job.ended() && !job.waits() && !job.nodes.is_empty()) {
        for node in hostlist::expand(&job.nodes).unwrap_or_default() {
            found.entry(node).or_default().push(JobId(job.id));
        }
    }
    found
}

/// The jobs in squeue's table of [`COLUMNS`], of a Slurm that has a column `Exclusive` or none.
pub(crate) fn read(table: &[u8], has_exclusive: bool) -> Result<Vec<QueuedJob>, Failure> {
    let table = SlurmTable { program: "squeue", columns: &COLUMNS, gap: 0 }.read(table)?;
    Ok(table.iter().filter_map(|cells| job(cells, has_exclusive)).collect())
}

/// A job in the cells of [`COLUMNS`].
fn job(cells: &[String], has_exclusive: bool) -> Option<QueuedJob> {
    let mut cells = cells.iter();
    let mut column = || cells.next().cloned().unwrap_or_default();
    let id = column().parse().ok()?;
    let array: Option<u32> = column().parse().ok();
    // The tasks of an array that has not been split yet: `1-3`.
    let tasks = column();
    let het: Option<u32> = column().parse().ok();
    Some(QueuedJob {
        id,
        het: het.filter(|&h| h != 0),
        array: array.zip(Some(tasks).filter(|tasks| !tasks.is_empty())),
        user: column(),
        account: column(),
        partition: column(),
        qos: column(),
        priority: column().parse().unwrap_or(0),
        nice: column().parse().unwrap_or(0),
        state: column(),
        reason: column(),
        dependency: column(),
        n_nodes: column(),
        nodes: column(),
        wanted_nodes: column(),
        reservation: column(),
        submit: column().parse().ok(),
        start: column().parse().ok(),
        end: column().parse().ok(),
        limit: limit(&column()),
        gres: [column(), column(), column(), column()],
        exclusive: match column() {
            value if has_exclusive => exclusive::is_whole(&value),
            // From 24.05 on TOPO, too. The other values are OK, YES, and those of jobs that exclude some users alone.
            value => value == "NO" || exclusive::is_whole(&value),
        },
        comment: column(),
    })
}

/// Seconds in a limit as Slurm writes it, `1-02:03:04`, `2:03:04` or `3:04`.
pub(crate) fn limit(text: &str) -> Option<u64> {
    let (days, time) = text.split_once('-').unwrap_or(("0", text));
    let parts: Vec<u64> = time.split(':').map(|p| p.parse().ok()).collect::<Option<_>>()?;
    let seconds = parts.iter().try_fold(0_u64, |sum, part| sum.checked_mul(60)?.checked_add(*part))?;
    // "5" alone would be minutes; Slurm does not write that.
    let days = days.parse::<u64>().ok()?.checked_mul(86_400)?;
    (parts.len() > 1).then(|| days.checked_add(seconds)).flatten()
}

#[cfg(test)]
mod tests {
    use super::columns::line;
    use super::*;

    fn one(line: &str) -> Option<QueuedJob> {
        let table = SlurmTable { program: "squeue", columns: &COLUMNS, gap: 0 };
        job(&table.read(format!("{line}\n").as_bytes()).unwrap()[0], false)
    }

    #[test]
    fn columns_are_read_by_their_width() {
        let text = line(&[
            ("JobID", "12"),
            ("ArrayJobID", "12"),
            ("ArrayTaskID", "N/A"),
            ("HetJobID", "N/A"),
            ("UserName", "alice"),
            ("Account", "(null)"),
            ("Partition", "gpu"),
            ("QOS", "(null)"),
            ("PriorityLong", "4294901759"),
            ("Nice", "5"),
            ("State", "PENDING"),
            ("Reason", "Dependency"),
            ("Dependency", "afterany:7(unfulfilled)"),
            ("NumNodes", "1"),
            ("ReqNodes", "n1"),
            ("StartTime", "N/A"),
            ("EndTime", "N/A"),
            ("TimeLimit", "1-00:01:00"),
            ("OverSubscribe", "OK"),
            ("admin_comment", "tessera: asks v1 iso=mig times=1g:60"),
        ]);
        let job = one(&text).unwrap();
        assert_eq!((job.id, job.het, job.nice, job.start), (12, None, 5, None));
        assert_eq!((job.user.as_str(), job.account.as_str(), job.wanted_nodes.as_str()), ("alice", "", "n1"));
        assert_eq!(job.comment, "tessera: asks v1 iso=mig times=1g:60");
        assert!(!job.ended() && !job.exclusive);
        assert_eq!(job.limit, Some(86_460));
    }

    #[test]
    fn an_array_that_waits_has_the_number_of_its_first_job() {
        let of = |tasks| {
            let ids = [("JobID", "12"), ("ArrayJobID", "12"), ("ArrayTaskID", tasks), ("HetJobID", "N/A")];
            let job = one(&line(&ids)).unwrap();
            (job.number(), job.to_change(), job.waiting())
        };
        let told = |number: &str, change: &str, n| (number.to_owned(), Some(change.to_owned()), n);
        assert_eq!(of("1-3"), told("12_[1-3]", "12_[1-3]", 3));
        assert_eq!(of("0-8:4,11%2"), told("12_[0-8:4,11%2]", "12_[0,4,8,11]", 2));
        assert_eq!(of("4"), told("12_4", "12_[4]", 1));
        assert_eq!(of("N/A"), told("12", "12", 1));
        let cut = of("1,3,5,7,9,11,13,15,...");
        assert_eq!((cut.1, cut.2), (None, 8));
        assert_eq!(of("0-18446744073709551615,1-9:0").2, usize::MAX);
    }

    #[test]
    fn a_task_of_an_array_has_its_name_and_an_unknown_job_its_number() {
        let task = [("JobID", "15"), ("ArrayJobID", "12"), ("ArrayTaskID", "4"), ("HetJobID", "N/A")];
        let names = JobNames::listed(&[one(&line(&task)).unwrap()]);
        assert_eq!([15, 16].map(|job| names.name(JobId(job))), ["12_4", "16"]);
    }

    #[test]
    fn time_limits_read_as_seconds() {
        let limits = ["1:00", "2:03:04", "1-02:03:04", "365-00:00:00"].map(limit);
        assert_eq!(limits, [Some(60), Some(7384), Some(93_784), Some(31_536_000)]);
        for none in ["UNLIMITED", "NOT_SET", "INVALID", "", "5", "1:x"] {
            assert_eq!(limit(none), None, "{none}");
        }
    }

    #[test]
    fn what_is_no_job_is_passed_over() {
        assert_eq!(one(&line(&[])), None);
        assert_eq!(one(&line(&[("JobID", "CLUSTER: x")])), None);
        let array = line(&[
            ("JobID", "12"),
            ("ArrayJobID", "9"),
            ("ArrayTaskID", "2"),
            ("State", "COMPLETED"),
            ("StartTime", "1"),
            ("EndTime", "2"),
            ("OverSubscribe", "NO"),
        ]);
        let job = one(&array).unwrap();
        assert!(job.ended() && job.exclusive);
        assert_eq!((job.number(), job.to_change()), ("9_2".to_owned(), Some("12".to_owned())));
    }

    #[test]
    fn a_job_that_has_its_nodes_to_itself_has_a_column_of_its_own_from_26_05_on() {
        let has = |has_exclusive, wanted| columns(has_exclusive).iter().any(|(name, _)| *name == wanted);
        assert!(has(false, "OverSubscribe") && !has(false, "Exclusive"));
        assert!(!has(true, "OverSubscribe") && has(true, "Exclusive"));
        for (value, alone) in [("NODE", true), ("TOPO", true), ("NO", false), ("USER", false)] {
            let text = line(&[("JobID", "7"), ("OverSubscribe", value)]);
            let jobs = read(format!("{text}\n").as_bytes(), true).unwrap();
            assert_eq!(jobs[0].exclusive, alone, "{value}");
        }
        for (value, alone) in [("NO", true), ("TOPO", true), ("OK", false), ("YES", false), ("USER", false)] {
            assert_eq!(
                one(&line(&[("JobID", "7"), ("OverSubscribe", value)])).unwrap().exclusive,
                alone,
                "{value}"
            );
        }
    }
}
