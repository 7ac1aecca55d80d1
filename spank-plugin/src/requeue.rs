//! A job that cannot have its place on this node, for a reason that is not its own, is requeued instead of failed.
//!
//! A failing prolog requeues its job as well, but Slurm then drains the node, which other jobs can use. So the prolog asks
//! slurmctld, as root, for this one job. A job with `--no-requeue` is not to run twice. While the prolog of its only node runs,
//! none of it has run: it may be requeued this once. On several nodes its script may run already, beside another node's
//! prolog: its steps here are refused instead. slurmctld cannot requeue `salloc` and `srun`: their steps are refused with the
//! reason. A requeued job does not start again for two minutes (`docs/slurm-quirks.md`); one that was started too often is
//! held, so that it does not go round for ever.

use std::time::Duration;

use geometry::counted;
use plugin_rt::log;
use protocol::{AdminComment, CommentBody};

use crate::squeue::{self, RunCommand};

/// A job that has been started again so often is held.
const MOST_RESTARTS: u32 = 5;
/// Longest wait for each answer of slurmctld.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// Columns of the question.
const COLUMNS: [(&str, usize); 8] = [
    ("jobid", 12),
    ("arrayjobid", 12),
    ("arraytaskid", 12),
    ("restartcnt", 12),
    ("batchflag", 12),
    ("requeue", 12),
    ("numnodes", 12),
    ("admin_comment", 2048),
];
/// A comment that is at least so long may be cut: it has the last column's width, or ended in blanks there.
const PERHAPS_CUT: usize = 2048 - 8;

/// Facts about the job in slurmctld's answer.
#[derive(Debug, PartialEq, Eq)]
struct StartedJob {
    /// The number by which Slurm finds it alone: the first task of an array to be left has the number of the whole array.
    number: String,
    restarts: u32,
    /// A batch job with `--no-requeue`, of which nothing runs before the prolog of its one node has ended.
    runs_once_here: bool,
    /// `None` where it may be cut.
    comment: Option<AdminComment>,
}

/// Lets slurmctld start the job again later, and shows why in its AdminComment. False: it may not, or cannot be.
pub(crate) fn requeue(job: u32, node: &str, why: &str, env: &dyn Fn(&str) -> Option<String>) -> bool {
    requeue_by(job, node, why, &squeue::commands(env, ASK_TIMEOUT))
}

fn requeue_by(job: u32, node: &str, why: &str, run: RunCommand<'_>) -> bool {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let started = match squeue::ask(job, &COLUMNS, run).map(|cells| cells.and_then(|cells| facts(&cells))) {
        Ok(Some(started)) => started,
        Ok(None) => return false,
        Err(e) => {
            log::error(format_args!("job {job} cannot be requeued: {e}"));
            return false;
        }
    };
    let (id, held) = (&started.number, started.restarts >= MOST_RESTARTS);
    let verb = if held { "requeuehold" } else { "requeue" };
    let may_be = |requeue: &str| {
        let set = words(&["update", &format!("JobId={id}"), &format!("Requeue={requeue}")]);
        started.runs_once_here.then(|| run("scontrol", set)).and_then(Result::err)
    };
    let allowed = may_be("1");
    let requeued = run("scontrol", words(&[verb, id]));
    let as_before = may_be("0");
    if let Some(e) = allowed.or(as_before) {
        log::info(format_args!("job {job} has --no-requeue: {e}"));
    }
    if let Err(e) = requeued {
        log::info(format_args!("job {job} is not requeued: {e}"));
        return false;
    }
    let also = if held {
        format!(
            ", and held after {} (`scontrol release {id}` lets it try again)",
            counted(started.restarts, "restart")
        )
    } else {
        String::new()
    };
    log::info(format_args!("job {job}: requeued{also}"));
    // A comment that is cut would lose what the job asks.
    if let Some(comment) = started.comment.filter(AdminComment::is_ours) {
        let comment =
            AdminComment { says: CommentBody::Requeued(format!("by {node}{also}: {why}")), ..comment };
        let update = words(&["update", &format!("JobId={id}"), &format!("AdminComment={comment}")]);
        if let Err(e) = run("scontrol", update) {
            log::info(format_args!("job {job}: its AdminComment does not say why: {e}"));
        }
    }
    true
}

/// Reads the cells of [`COLUMNS`].
fn facts(cells: &[String; COLUMNS.len()]) -> Option<StartedJob> {
    let [job, array, task, restarts, batch, requeue, nodes, comment] = cells;
    let restarts = restarts.parse().ok()?;
    let runs_once_here = batch == "1" && requeue == "0" && nodes == "1";
    let comment = (comment.len() < PERHAPS_CUT).then(|| AdminComment::parse(comment));
    Some(StartedJob { number: node_jobs::one_job(job, array, task), restarts, runs_once_here, comment })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// The commands that follow, where squeue answers with these values and slurmctld may refuse a requeue.
    fn commands(restarts: u32, comment: &str, may: bool) -> (bool, Vec<String>) {
        commands_of(["1", "1", "1"], restarts, comment, may)
    }

    /// Runs a requeue with these values of `batchflag`, `requeue` and `numnodes`.
    fn commands_of(of: [&str; 3], restarts: u32, comment: &str, may: bool) -> (bool, Vec<String>) {
        let [batch, requeue, nodes] = of;
        let run = RefCell::new(Vec::new());
        let done = requeue_by(12, "n1", "GPU 0 is busy", &|program, args| {
            if program == "squeue" {
                let job = format!(
                    "{:<12}{:<12}{:<12}{restarts:<12}{batch:<12}{requeue:<12}{nodes:<12}",
                    12, 12, "N/A"
                );
                return Ok(format!("{job}{comment:<2048.2048}\n").into_bytes());
            }
            run.borrow_mut().push(args.join(" "));
            if may { Ok(Vec::new()) } else { Err("Requested operation is presently disabled".to_owned()) }
        });
        (done, run.into_inner())
    }

    #[test]
    fn a_job_is_requeued_and_told_why() {
        let (done, run) = commands(0, "tessera: n1=mig:3/2g.10gb@4: as named", true);
        assert!(done);
        let said = "tessera: requeued by n1: GPU 0 is busy";
        assert_eq!(run, ["requeue 12".to_owned(), format!("update JobId=12 AdminComment={said}")]);
        let (_, run) = commands(0, "tessera: n1=mig:3/2g.10gb@4: as named; asks v1 iso=mig times=1g:9", true);
        assert!(run[1].ends_with("GPU 0 is busy; asks v1 iso=mig times=1g:9"), "{run:?}");
        let (_, run) = commands(0, "benchmark of June", true);
        assert_eq!(run, ["requeue 12"]);
    }

    #[test]
    fn a_task_of_an_array_is_requeued_without_the_others() {
        let run = RefCell::new(Vec::new());
        let done = requeue_by(12, "n1", "GPU 0 is busy", &|program, args| {
            if program == "squeue" {
                let task = |job, task| {
                    format!("{job:<12}{:<12}{task:<12}{:<12}{:<12}{:<12}{:<12}{:<2048}\n", 12, 0, 1, 1, 1, "")
                };
                return Ok([task(13, 0), task(12, 2)].concat().into_bytes());
            }
            run.borrow_mut().push(args.join(" "));
            Ok(Vec::new())
        });
        let run = run.into_inner();
        assert!(done && run[0] == "requeue 12_2" && run[1].starts_with("update JobId=12_2 "), "{run:?}");
    }

    #[test]
    fn one_that_goes_round_is_held() {
        assert_eq!(commands(4, "", true).1[0], "requeue 12");
        let (done, run) = commands(5, "", true);
        assert!(
            done && run[0] == "requeuehold 12"
                && run[1].contains("requeued by n1, and held after 5 restarts ("),
            "{run:?}"
        );
    }

    #[test]
    fn one_that_is_not_to_run_twice_has_not_run_and_is_requeued_this_once() {
        let (done, run) = commands_of(["1", "0", "1"], 0, "benchmark of June", true);
        assert!(done);
        assert_eq!(run, ["update JobId=12 Requeue=1", "requeue 12", "update JobId=12 Requeue=0"]);
        let (done, run) = commands_of(["1", "0", "1"], 0, "", false);
        assert!(!done && run.last().is_some_and(|last| last.ends_with("Requeue=0")), "{run:?}");
        // Of srun and salloc.
        assert_eq!(commands_of(["0", "0", "1"], 0, "benchmark of June", true).1, ["requeue 12"]);
    }

    /// slurmctld refuses the requeue, and the steps here are refused.
    #[test]
    fn one_that_is_not_to_run_twice_may_run_already_on_another_of_its_nodes() {
        assert_eq!(commands_of(["1", "0", "2"], 0, "", false), (false, vec!["requeue 12".to_owned()]));
        assert_eq!(commands_of(["1", "0", ""], 0, "", false).1, ["requeue 12"]);
    }

    #[test]
    fn a_comment_that_is_cut_is_not_written_back() {
        let asks =
            |size: usize| format!("tessera: waits for power: x; asks v1 iso=mig times={}", "1".repeat(size));
        let (done, run) = commands(0, &asks(1500), true);
        assert!(done && run[1].ends_with(&"1".repeat(1500)), "{run:?}");
        assert_eq!(commands(0, &asks(2500), true), (true, vec!["requeue 12".to_owned()]));
        // Cut at a blank.
        let blank = format!("tessera: waits for power: {} and more; asks v1 iso=mig", "x".repeat(2021));
        assert_eq!(commands(0, &blank, true).1, ["requeue 12"]);
    }

    #[test]
    fn one_that_may_not_be_requeued_is_left_alone() {
        assert_eq!(commands(0, "", false), (false, vec!["requeue 12".to_owned()]));
        let unknown =
            requeue_by(12, "n1", "x", &|_, _| Ok(format!("{:<12}{:<72}{:<2048}\n", 13, 0, "").into_bytes()));
        assert!(!unknown);
        assert!(!requeue_by(12, "n1", "x", &|_, _| Err("slurmctld is away".to_owned())));
    }

    proptest::proptest! {
        #[test]
        fn no_answer_panics(text in ".*") {
            let _ = requeue_by(12, "n1", "x", &|_, _| Ok(text.clone().into_bytes()));
        }
    }
}
