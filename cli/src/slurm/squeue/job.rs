//! A job as squeue shows it.

use super::tasks::{count_tasks, has_task, listed_for_scontrol};

/// A job as squeue shows it; a column that squeue leaves empty is an empty text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueuedJob {
    pub(crate) id: u32,
    /// Number of the heterogeneous job that it is a component of.
    pub(crate) het: Option<u32>,
    /// Array of the job: its number, and the task, or the tasks that wait as Slurm lists them, `1-3`.
    pub(crate) array: Option<(u32, String)>,
    pub(crate) user: String,
    pub(crate) account: String,
    pub(crate) partition: String,
    pub(crate) qos: String,
    pub(crate) priority: u64,
    pub(crate) nice: i64,
    pub(crate) state: String,
    pub(crate) reason: String,
    pub(crate) dependency: String,
    pub(crate) n_nodes: String,
    pub(crate) nodes: String,
    pub(crate) wanted_nodes: String,
    pub(crate) reservation: String,
    /// Seconds since the epoch.
    pub(crate) submit: Option<u64>,
    /// Seconds since the epoch; for a running job its begin, for a pending one what Slurm expects, if anything.
    pub(crate) start: Option<u64>,
    /// Seconds since the epoch; for a running job when its time limit ends it.
    pub(crate) end: Option<u64>,
    /// Seconds; `None` if the job has no limit or squeue shows none.
    pub(crate) limit: Option<u64>,
    /// The GRES that it asked for, of the whole job, of each node, socket and task, as Slurm lists them.
    pub(crate) gres: [String; 4],
    /// It asked for its nodes to itself (`--exclusive`), or its partition says so.
    pub(crate) exclusive: bool,
    /// AdminComment, which only an administrator, the planner and our plugins write.
    pub(crate) comment: String,
}

impl QueuedJob {
    /// Writes the number as Slurm's commands do: `4711`, a task of an array `4711_2`, those that wait `4711_[3-5]`.
    pub(crate) fn number(&self) -> String {
        match &self.array {
            None => self.id.to_string(),
            Some((array, task)) if task.bytes().all(|b| b.is_ascii_digit()) => format!("{array}_{task}"),
            Some((array, tasks)) => format!("{array}_[{tasks}]"),
        }
    }

    /// Gives the number of the job as scontrol takes it in a change, for an array exactly the tasks that wait: by its number alone, those that have started
    /// would be changed, too. `None`: squeue has cut the list, or it is too long for scontrol.
    pub(crate) fn to_change(&self) -> Option<String> {
        match &self.array {
            Some((array, tasks)) if *array == self.id => {
                listed_for_scontrol(tasks).map(|list| format!("{array}_[{list}]"))
            }
            _ => Some(self.id.to_string()),
        }
    }

    /// Counts the jobs of this line, as `squeue -r` lists them: of an array all tasks that wait. Tasks that squeue has cut are left out.
    pub(crate) fn jobs(&self) -> usize {
        self.array.as_ref().map_or(1, |(_, tasks)| count_tasks(tasks))
    }

    /// How many jobs wait in this line: the tasks of an array, no more than it lets run at once.
    pub(crate) fn waiting(&self) -> usize {
        let Some((_, tasks)) = &self.array else { return 1 };
        let most = tasks.split_once('%').and_then(|(_, most)| most.parse().ok());
        count_tasks(tasks).min(most.unwrap_or(usize::MAX)).max(1)
    }

    /// Gives number and user, `4711_2 (bob)`.
    pub(crate) fn named(&self) -> String {
        format!("{} ({})", self.number(), self.user)
    }

    /// True if it has ended and its nodes are free.
    pub(crate) fn ended(&self) -> bool {
        ENDED.contains(&self.state.as_str())
    }

    /// True if it waits for its start, held or not.
    pub(crate) fn waits(&self) -> bool {
        is_waiting(&self.state)
    }
}

/// True if a job in this state waits for its start, held or not.
pub(crate) fn is_waiting(state: &str) -> bool {
    WAITING.contains(&state)
}

/// Tells whether by this reason a limit of a QOS or an association keeps a job. A QOS also has limits for each account and user:
/// `MaxGRESPerAccount`.
pub(crate) fn is_limit(reason: &str) -> bool {
    let of_member =
        || reason.starts_with("Max") && (reason.ends_with("PerAccount") || reason.ends_with("PerUser"));
    reason.starts_with("QOS") || reason.starts_with("Assoc") || of_member()
}

/// States of jobs that have ended; of one in `STAGE_OUT`, only files are still written. Any other state can change (`job_state_string`).
const ENDED: [&str; 12] = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "STAGE_OUT",
    "TIMEOUT",
    "?",
];

/// States of jobs that wait. Slurm shows the last three of jobs that are pending and that it holds.
const WAITING: [&str; 5] = ["PENDING", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "EXPEDITING"];

/// Finds a task of an array: the record of that task alone comes before the one that lists several, whose list squeue may have cut.
pub(crate) fn task_of<'a>(
    jobs: impl Iterator<Item = &'a QueuedJob>,
    array: u32,
    task: u32,
) -> Option<&'a QueuedJob> {
    let tasks =
        |job: &'a QueuedJob| job.array.as_ref().filter(|(of, _)| *of == array).map(|(_, tasks)| tasks);
    let with_it = jobs.filter(|job| tasks(job).is_some_and(|tasks| has_task(tasks, task)));
    with_it.min_by_key(|job| tasks(job).is_some_and(|tasks| tasks.parse() != Ok(task)))
}

#[cfg(test)]
mod tests {
    use super::super::by_node;
    use super::*;

    #[test]
    fn a_held_job_waits_and_has_not_ended() {
        let of = |state: &str| {
            let job = QueuedJob { state: state.to_owned(), nodes: "n1".to_owned(), ..QueuedJob::default() };
            (job.waits(), job.ended(), by_node(&[job]).len())
        };
        for held in ["PENDING", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"] {
            assert_eq!(of(held), (true, false, 0), "{held}");
        }
        for runs in ["RUNNING", "COMPLETING", "RESIZING", "SUSPENDED", "SIGNALING", "STOPPED"] {
            assert_eq!(of(runs), (false, false, 1), "{runs}");
        }
        assert_eq!(["COMPLETED", "STAGE_OUT"].map(of), [(false, true, 0); 2]);
    }

    #[test]
    fn a_task_that_runs_is_found_before_a_list_that_squeue_has_cut() {
        let job =
            |id, tasks: &str| QueuedJob { id, array: Some((12, tasks.to_owned())), ..QueuedJob::default() };
        let jobs = [job(12, "17,22,..."), job(13, "3"), job(14, "4")];
        let id = |task| task_of(jobs.iter(), 12, task).map(|job| job.id);
        assert_eq!([id(3), id(4), id(17), id(99)], [Some(13), Some(14), Some(12), Some(12)]);
        assert_eq!([task_of(jobs[1..].iter(), 12, 5), task_of(jobs.iter(), 13, 3)], [None; 2]);
    }
}
