//! A job that cannot have its place on this node, for a reason that is not its own, is requeued instead of failed.
//!
//! A failing prolog requeues its job as well, but Slurm then drains the node, which other jobs can use. So the prolog asks
//! slurmctld, as root, for this one job. slurmctld refuses that for jobs with `--no-requeue`, `salloc` and `srun`: their
//! steps are then refused with the reason. A requeued job does not start again for two minutes (`docs/slurm-quirks.md`); one
//! that was started too often is held, so that it does not go round for ever.

use std::time::Duration;

use plugin_rt::{Chain, log};
use protocol::{AdminComment, Says};

/// A job that has been started again so often is held.
const MOST_RESTARTS: u32 = 5;
/// How long slurmctld may take to answer, each time.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// Columns of the question, with the widths of all but the last.
const FORMAT: &str = "jobid:12,restartcnt:12,admin_comment:1000";
const WIDTHS: [usize; 2] = [12, 12];

/// What slurmctld says of the job.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    restarts: u32,
    comment: AdminComment,
}

/// Runs one of Slurm's commands: its name and arguments, to what it prints or why it fails.
type Ask<'a> = &'a dyn Fn(&str, Vec<String>) -> Result<String, String>;

/// Lets slurmctld start the job again later, and shows why in its AdminComment. False: it may not, or cannot be.
pub(crate) fn requeue(job: u32, node: &str, why: &str, env: &dyn Fn(&str) -> Option<String>) -> bool {
    requeue_by(job, node, why, &|program, args| {
        let conf = env("SLURM_CONF").map(|path| ("SLURM_CONF", path));
        gpu_node::ask(program, args, conf.into_iter().collect(), ASK_TIMEOUT)
            .map_err(|e| Chain(&e).to_string())
    })
}

fn requeue_by(job: u32, node: &str, why: &str, ask: Ask<'_>) -> bool {
    let id = job.to_string();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let answer = ask("squeue", words(&["--noheader", "--jobs", &id, "--Format", FORMAT]));
    let told = match answer.map(|text| told(&text, job)) {
        Ok(Some(told)) => told,
        Ok(None) => return false,
        Err(e) => {
            log::error(format_args!("job {job} cannot be requeued: {e}"));
            return false;
        }
    };
    let held = told.restarts >= MOST_RESTARTS;
    let verb = if held { "requeuehold" } else { "requeue" };
    if let Err(e) = ask("scontrol", words(&[verb, &id])) {
        log::info(format_args!("job {job} is not requeued: {e}"));
        return false;
    }
    let also = if held {
        format!(", and held after {} restarts (`scontrol release {id}` lets it try again)", told.restarts)
    } else {
        String::new()
    };
    log::info(format_args!("job {job}: requeued{also}"));
    if told.comment.is_ours() {
        let comment =
            AdminComment { says: Says::Requeued(format!("by {node}{also}: {why}")), ..told.comment };
        let update = words(&["update", &format!("JobId={id}"), &format!("AdminComment={comment}")]);
        if let Err(e) = ask("scontrol", update) {
            log::info(format_args!("job {job}: its AdminComment does not say why: {e}"));
        }
    }
    true
}

/// Reads `squeue`'s answer, whose columns have fixed widths.
fn told(text: &str, job: u32) -> Option<Told> {
    let columns = |line: &str| {
        let (id, rest) = line.split_at_checked(WIDTHS[0])?;
        let (restarts, comment) = rest.split_at_checked(WIDTHS[1])?;
        let restarts = restarts.trim().parse().ok()?;
        (id.trim().parse() == Ok(job))
            .then(|| Told { restarts, comment: AdminComment::parse(comment.trim()) })
    };
    text.lines().find_map(columns)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// The commands that follow, where squeue answers with these values and slurmctld may refuse a requeue.
    fn commands(restarts: u32, comment: &str, may: bool) -> (bool, Vec<String>) {
        let run = RefCell::new(Vec::new());
        let done = requeue_by(12, "n1", "GPU 0 is busy", &|program, args| {
            if program == "squeue" {
                return Ok(format!("squeue: a warning\n{:<12}{restarts:<12}{comment:<1000}\n", 12));
            }
            run.borrow_mut().push(args.join(" "));
            if may { Ok(String::new()) } else { Err("Requested operation is presently disabled".to_owned()) }
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
    fn one_that_may_not_be_requeued_is_left_alone() {
        assert_eq!(commands(0, "", false), (false, vec!["requeue 12".to_owned()]));
        let unknown = requeue_by(12, "n1", "x", &|_, _| Ok(format!("{:<12}{:<12}\n", 13, 0)));
        assert!(!unknown);
        assert!(!requeue_by(12, "n1", "x", &|_, _| Err("slurmctld is away".to_owned())));
    }

    proptest::proptest! {
        #[test]
        fn no_answer_panics(text in ".*") {
            let _ = told(&text, 12);
        }
    }
}
