//! A step begins although its job's prolog has not run: makes now what the prolog would have made.
//!
//! slurmd skips the prolog for a job whose number it remembers. This happens in two cases (`docs/slurm-quirks.md`): a killed
//! slurmctld has forgotten its last seconds, and starts a job again or gives its number to another one; or, in Slurm
//! before 23.02, a job was requeued within two minutes to a busy node.
//!
//! A step daemon is still root in `init_post_opt`, and no task exists. Slurm does not send it the placement, and what
//! the step's environment holds is the user's to fill. So slurmctld is asked what it has written into the job's
//! AdminComment, which only it and administrators can write. It is asked only by such a step.

use std::time::{Duration, Instant};

use geometry::JobId;
use node_driver::process::is_alone_with_its_job;
use node_jobs::{JobContext, begin_batch};
use node_journal::Entry;
use node_slurm::live_steps;
use plugin_rt::{Chain, log};
use protocol::wire::plain_why;
use protocol::{AdminComment, CommentBody, Started};

use crate::args::Args;
use crate::check_placement::check_started;
use crate::spank::{Spank, SpankError};
use crate::submit::asks_for_ours;
use crate::this_node::ThisNode;
use crate::{describe, slurmd, squeue};

/// Longest wait for slurmctld's answer.
const ASK_TIMEOUT: Duration = Duration::from_secs(15);
/// Prefix of the select plugin's AdminComment.
const COMMENT: &str = "tessera: ";
/// Columns of the question.
const COLUMNS: [(&str, usize); 5] =
    [("jobid", 12), ("userid", 12), ("statecompact", 6), ("restartcnt", 12), ("admin_comment", 1000)];
/// Words of slurmctld about a job that it knows.
type Cells = [String; COLUMNS.len()];

/// A job that slurmctld has started here.
#[derive(Debug, PartialEq, Eq)]
struct PlacedJob {
    restart: u32,
    started: Started,
}

/// Makes what slurmctld has granted to the step's job; the answer is what the prolog would have journalled, or why it
/// cannot be had.
pub(crate) fn realise(
    spank: &dyn Spank,
    args: &Args,
    node: &ThisNode,
    batch: bool,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Entry, String> {
    if is_alone_with_its_job() {
        return Err(
            "its GPUs cannot be made ready from its PID namespace, where others' processes are not seen"
                .to_owned(),
        );
    }
    let begin = Instant::now();
    let lost = |e: SpankError| Chain(&e).to_string();
    let (job, uid, gid) =
        (spank.job_id().map_err(lost)?, spank.job_uid().map_err(lost)?, spank.job_gid().map_err(lost)?);
    let cells = ask(job, env)?;
    let PlacedJob { restart, started } =
        placed(cells, uid).map_err(|why| format!("slurmctld was asked for its GPUs, but {why}"))?;
    // Whether it agrees with the GPUs in the step's credential is seen in each task.
    let granted = check_started(node, job, &started)?;
    args.env_on(&node.name).for_each(|(name, value)| spank.set_env(name, &value));
    let grant = node.translate(&granted.given.grant, env).map_err(|e| e.why)?;
    let mut context = JobContext {
        job: JobId(job),
        uid,
        gid,
        restart,
        grant,
        cap_w: granted.given.cap_w,
        decision: describe::why_on(&node.name, &granted.nodes, &plain_why(&started.why)),
        // The user's own variable: it decides only how the GPUs are named to the user's tasks.
        plain: !asks_for_ours(spank),
        // Only told to the user; slurmctld does not show it.
        matched: None,
        live: None,
        // Slurm tells a step's root nothing of it but by the control group itself.
        group: None,
        slurmd: None,
    };
    let done = slurmd::realise_waiting(&node.settings, &mut context, &|| {
        live_steps::jobs_with_steps(&node.name, env)
    })
    .map_err(|fault| Chain(&fault).to_string())?;
    if batch {
        begin_batch(&node.settings, JobId(job)).map_err(|fault| Chain(&fault).to_string())?;
    }
    log::info(format_args!(
        "job {job} on {}: {}; made at its start, for slurmd has not run its prolog; took {} ms",
        node.name,
        describe::got(&done.entry),
        begin.elapsed().as_millis()
    ));
    Ok(done.entry)
}

fn ask(job: u32, env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Cells>, String> {
    squeue::ask(job, &COLUMNS, &squeue::commands(env, ASK_TIMEOUT))
        .map_err(|e| format!("slurmctld cannot be asked for its GPUs: {e}"))
}

/// Why a job that has asked for GPUs of ours may not run on those that Slurm gave it, on a node that Tessera does not manage;
/// `None`: slurmctld has placed it nowhere. Also where it cannot be asked: the job's devices may be others' then.
pub(crate) fn placed_by_us(job: u32, uid: u32, env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    ask(job, env).map_or_else(Some, |cells| placed_here(cells, uid))
}

fn placed_here(cells: Option<Cells>, uid: u32) -> Option<String> {
    let comment = match running(cells, uid) {
        Ok((_, comment)) => AdminComment::parse(&comment),
        Err(why) => return Some(format!("slurmctld was asked for the job's GPUs, but {why}")),
    };
    let placed = matches!(comment.says, CommentBody::Started(_) | CommentBody::Requeued(_));
    placed.then(|| "slurmctld has placed the job here by an earlier version".to_owned())
}

/// Finds out what slurmctld has granted to a running job of this user.
fn placed(cells: Option<Cells>, uid: u32) -> Result<PlacedJob, String> {
    let (restart, comment) = running(cells, uid)?;
    // One that was cut short, at slurmctld's limit, may end within the placement.
    let whole = comment.strip_prefix(COMMENT).is_some_and(|text| text.contains(": "));
    match AdminComment::parse(&comment).says {
        CommentBody::Started(started) if whole => Ok(PlacedJob { restart, started }),
        _ => Err("the job's AdminComment names no GPUs".to_owned()),
    }
}

/// Restarts and AdminComment of a running job of this user.
fn running(cells: Option<Cells>, uid: u32) -> Result<(u32, String), String> {
    let numbers = |[_, user, state, restart, comment]: Cells| {
        Some((user.parse::<u32>().ok()?, state, restart.parse().ok()?, comment))
    };
    let (user, state, restart, comment) = cells.and_then(numbers).ok_or("it does not know the job")?;
    if user != uid {
        return Err(format!("there the job is uid {user}'s"));
    }
    if !matches!(state.as_str(), "R" | "CF") {
        return Err(format!("there the job is in state {state}"));
    }
    Ok((restart, comment))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(job: u32, uid: u32, state: &str, comment: &str) -> String {
        format!("{job:<12}{uid:<12}{state:<6}{:<12}{comment:<1000}\n", 2)
    }

    /// Gives the cells of job 12 in an answer of squeue.
    fn job_12(text: &str) -> Option<Cells> {
        squeue::cells(text.as_bytes(), 12, &COLUMNS).unwrap()
    }

    #[test]
    fn the_controllers_word_is_read() {
        let comment = "tessera: n1=mig:3/2g.10gb@4;n2=whole:0: as named, leaves 3 places: enough";
        let text = line(7, 7, "R", "x\n12 forged") + &line(12, 1001, "CF", comment);
        let job = placed(job_12(&text), 1001).unwrap();
        assert_eq!((job.restart, job.started.got.as_str()), (2, "n1=mig:3/2g.10gb@4;n2=whole:0"));
        assert_eq!(job.started.why, "as named, leaves 3 places: enough");
    }

    #[test]
    fn anything_else_is_no_grant() {
        for (text, want) in [
            (String::new(), "does not know the job"),
            (line(13, 1001, "R", "tessera: n1=whole:0: x"), "does not know the job"),
            (line(12, 1002, "R", "tessera: n1=whole:0: x"), "is uid 1002's"),
            (line(12, 1001, "PD", "tessera: n1=whole:0: x"), "in state PD"),
            (line(12, 1001, "R", "ask Ann"), "names no GPUs"),
            (line(12, 1001, "R", "tessera: n1=mig:3/2g.10gb@4;n2=wh"), "names no GPUs"),
            (line(12, 1001, "R", "tessera: plan v1 size=7g.40gb until=9: x"), "names no GPUs"),
            (line(12, 1001, "R", ""), "names no GPUs"),
        ] {
            let why = placed(job_12(&text), 1001).unwrap_err();
            assert!(why.contains(want), "{text}: {why}");
        }
    }

    /// The node has left the file since the job was placed on it.
    #[test]
    fn a_placed_job_does_not_run_on_bare_gpus() {
        let why = |state, comment| placed_here(job_12(&line(12, 1001, state, comment)), 1001);
        assert_eq!(why("R", "benchmark of June"), None);
        assert_eq!(why("R", "tessera: asks v1 iso=mig"), None);
        let placed = why("R", "tessera: n2=mig:3/2g.10gb@4: as named").unwrap();
        assert!(placed.contains("has placed the job here"), "{placed}");
        // Cut within the placement.
        assert!(why("R", "tessera: n1=mig:3/2g.10gb@4;n2=wh: ").is_some());
        assert!(why("R", "tessera: requeued by n2: this node does not know its GPUs").is_some());
        // Its prolog has given it back, and it is about to end.
        assert!(why("CG", "tessera: asks v1 iso=mig").unwrap().contains("in state CG"));
        assert!(placed_here(None, 1001).unwrap().contains("does not know the job"));
    }

    proptest::proptest! {
        #[test]
        fn no_answer_panics(text in ".*") {
            let cells = squeue::cells(text.as_bytes(), 12, &COLUMNS).unwrap_or_default();
            let _ = placed(cells.clone(), 1001);
            let _ = placed_here(cells, 1001);
            let comment = [text.clone()].map(|text| ["12", "1001", "R", "0", &text].map(str::to_owned));
            let _ = placed(comment.into_iter().next(), 1001);
        }
    }
}
