//! `squeue`: jobs, in columns of fixed width, which no user's text can shift or break: see [`super::records`].
//!
//! `squeue --json` differs from release to release and needs a plugin that not every site installs; `scontrol show job`
//! mixes users' words with fields. These columns are the same in 22.05 and 24.11; in 26.05 one has another name.

mod columns;
mod node_options;

use std::collections::{HashMap, HashSet};

use columns::COLUMNS;
use geometry::{JobId, Uid};
use site_config::hostlist;
use site_limits::tres::Tres;

use super::command::{prepare, run};
use super::exclusive;
use super::records::SlurmTable;
use crate::outcome::Failure;
pub(crate) use node_options::{NodeOptions, node_options};

/// How many jobs one command line names at most.
pub(crate) const MOST_IDS: usize = 5000;

/// Half a year, seconds. A longer time limit tells no end: a job without one has a year's from backfill, and Slurm expects starts by that.
pub(crate) const NO_LIMIT_S: u64 = 182 * 86_400;

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

/// Tells whether a list of tasks as squeue writes it, `1-3,7%2` or `0-8:2`, has this one. What squeue has cut may have any.
pub(crate) fn has_task(tasks: &str, task: u32) -> bool {
    let (list, _) = tasks.split_once('%').unwrap_or((tasks, ""));
    list.split(',').any(|part| {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse::<u32>(), last.parse::<u32>(), step.parse::<u32>()) {
            (Ok(first), Ok(last), Ok(step)) if step > 0 => {
                (first..=last).contains(&task) && (task - first).is_multiple_of(step)
            }
            _ => part.ends_with("..."),
        }
    })
}

/// Most tasks that are written one by one.
const MOST_TASKS: usize = 4096;

/// Gives tasks of an array as scontrol takes them: `0-8:4%2` is `0,4,8`. With a colon in it, scontrol takes a number for the name of a job. `None`: it is no
/// list, or has too many tasks.
pub(crate) fn listed_for_scontrol(tasks: &str) -> Option<String> {
    let list = tasks.split('%').next().unwrap_or_default();
    let parts = list.split(',').map(|part| {
        let Some((range, step)) = part.split_once(':') else {
            return part.bytes().all(|b| b.is_ascii_digit() || b == b'-').then(|| part.to_owned());
        };
        let (first, last) = range.split_once('-')?;
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let tasks = (first..=last).step_by(step.parse().ok().filter(|step| *step > 0)?);
        let tasks: Vec<String> = tasks.take(MOST_TASKS + 1).map(|task| task.to_string()).collect();
        (tasks.len() <= MOST_TASKS).then(|| tasks.join(","))
    });
    let parts: Option<Vec<String>> = parts.collect();
    parts.map(|parts| parts.join(",")).filter(|list| list.split(',').count() <= MOST_TASKS)
}

/// The tasks in a list of an array's, `1-3,7` or `0-8:2%4`; 1 in what is no list.
pub(crate) fn count_tasks(tasks: &str) -> usize {
    let count = |part: &str| {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        let step = step.parse::<usize>().ok().filter(|step| *step > 0)?;
        Some((last.saturating_sub(first) / step).saturating_add(1))
    };
    let list = tasks.split('%').next().unwrap_or_default();
    list.split(',').filter_map(count).fold(0, usize::saturating_add).max(1)
}

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

fn arguments([option, format]: [&str; 2], only: Option<&[u32]>, own: bool) -> Vec<String> {
    let mut arguments: Vec<String> = ["-h", "-a", "-t", "all", option, format].map(str::to_owned).to_vec();
    // A longer list would not fit into an argument: then all jobs are asked for.
    if let Some(ids) = only.filter(|ids| ids.len() <= MOST_IDS) {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        arguments.push(format!("--jobs={}", ids.join(",")));
    }
    if own {
        arguments.push("--me".to_owned());
    }
    arguments
}

/// Returns squeue's output in these columns, of these jobs or of all, of one's `own` alone.
fn printed(columns: &[(&str, usize)], only: Option<&[u32]>, own: bool) -> Result<Vec<u8>, Failure> {
    let format: Vec<String> = columns.iter().map(|(name, width)| format!("{name}:{width}")).collect();
    output(["-O", &format.join(",")], only, own)
}

/// Runs squeue with this option for its columns.
fn output(format: [&str; 2], only: Option<&[u32]>, own: bool) -> Result<Vec<u8>, Failure> {
    let mut command = prepare("squeue");
    let out = command
        .args(arguments(format, only, own))
        .env("SLURM_TIME_FORMAT", "%s")
        .output()
        .map_err(|e| Failure::new(format!("cannot run squeue: {e}")).hint("is Slurm installed here?"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    // Slurm forgets a job MinJobAge after its end, and squeue fails when it knows none of those asked for.
    if !out.status.success() && !said.contains("Invalid job id specified") {
        return Err(Failure::new(format!("squeue failed: {}", said.trim())));
    }
    Ok(out.stdout)
}

/// Returns squeue's output as cells.
fn asked(columns: &[(&str, usize)], only: Option<&[u32]>, own: bool) -> Result<Vec<Vec<String>>, Failure> {
    Ok(SlurmTable { program: "squeue", columns, gap: 0 }.read(&printed(columns, only, own)?)?)
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
    fn tasks_for_scontrol_have_no_colon() {
        let listed = |tasks: &str| listed_for_scontrol(tasks);
        assert_eq!(listed("1-43:21,50-60%4").as_deref(), Some("1,22,43,50-60"));
        assert_eq!(listed("0-8190:2").map(|list| list.split(',').count()), Some(4096));
        for none in ["1,3,...", "0-4000000000:2", "0-8192:2", "1-5:0", "1-x:2", "5:2"] {
            assert_eq!(listed(none), None, "{none}");
        }
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
    fn ones_own_jobs_are_asked_for_by_me() {
        let of = |only: Option<&[u32]>, own| arguments(["-O", "JobID:14"], only, own)[6..].join(" ");
        assert_eq!((of(None, false), of(None, true)), (String::new(), "--me".to_owned()));
        assert_eq!(of(Some(&[7, 9]), false), "--jobs=7,9");
        assert_eq!(of(Some(&[1; MOST_IDS + 1]), false), "");
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
