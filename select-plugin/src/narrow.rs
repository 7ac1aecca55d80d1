//! Which of the nodes Slurm offers cannot serve a job. Pure: it only names nodes.
//!
//! What "cannot" means depends on what Slurm wants to know:
//!
//! - *Run now*: the node has no legal placement in its present state. With preemption candidates it must be one that
//!   it could never have: which jobs go is for Slurm to choose, and what they leave is checked afterwards.
//! - *Test only* asks whether the job could run on an empty cluster: only a node that could never serve it is ruled
//!   out. Ruling out busy ones would make slurmctld reject a job that merely has to wait.
//! - *Will run* asks when. cons_tres answers by taking running jobs away in the order of their end, so busy nodes must
//!   stay, or backfill would never reserve anything for the job. Yet it counts shards, not slices, and may say "now,
//!   on n1" where only n2 has room: a busy node is therefore ruled out when enough nodes *of the same configuration
//!   record* have room now and the job insists on none. Whatever the busy one could ever serve, they can too. A start
//!   on a busy node that is left is moved to when its jobs are over: [`first_fit`].

use placement::{JobId, Node};

use crate::engine::{Engine, Question};
use crate::view::{NodeView, Want};

/// What Slurm wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Start it.
    RunNow {
        /// There are jobs that may be preempted for it.
        preempt: bool,
    },
    /// Could it run on an empty cluster?
    TestOnly,
    /// When can it start?
    WillRun,
}

/// The indices of the nodes to take out of Slurm's bitmap.
pub(crate) fn narrow(
    engine: &mut Engine,
    question: &Question,
    want: &Want,
    mode: Mode,
    min_nodes: u32,
    nodes: &[NodeView],
) -> Vec<usize> {
    let verdicts: Vec<Verdict> = nodes.iter().map(|n| judge(engine, question, want, n)).collect();
    let out = |i: &usize| match mode {
        Mode::RunNow { preempt: false } => verdicts[*i] != Verdict::Now,
        Mode::RunNow { preempt: true } | Mode::TestOnly => verdicts[*i] == Verdict::Never,
        Mode::WillRun => match verdicts[*i] {
            Verdict::Never => true,
            Verdict::Now => false,
            // Others are no help to a job that insists on this one.
            Verdict::Later if nodes.iter().any(|n| n.required) => false,
            Verdict::Later => {
                let alike = |j: &usize| verdicts[*j] == Verdict::Now && nodes[*j].config == nodes[*i].config;
                let ready = (0..nodes.len()).filter(alike).count();
                u32::try_from(ready).unwrap_or(u32::MAX) >= min_nodes.max(1)
            }
        },
    };
    (0..nodes.len()).filter(out).map(|i| nodes[i].index).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Now,
    Later,
    Never,
}

fn judge(engine: &mut Engine, question: &Question, want: &Want, node: &NodeView) -> Verdict {
    match engine.fits_now(&node.name, question) {
        // Slurm alone decides on nodes that Tessera does not manage, for jobs that do not ask for it.
        None if want.managed => Verdict::Never,
        None => Verdict::Now,
        // What the last job held is not given back before its epilog is over.
        Some(true) if node.completing => Verdict::Later,
        Some(true) => Verdict::Now,
        Some(false) if engine.fits_ever(&node.name, question) == Some(true) => Verdict::Later,
        Some(false) => Verdict::Never,
    }
}

/// The first of the jobs' ends, from `start` on, after which the request fits the node, in seconds since 1970; `None`
/// if it does at `start`, or never.
///
/// Jobs that end by `start` are gone then, as in Slurm's own simulation.
pub(crate) fn first_fit(
    node: &Node,
    question: &Question,
    mut ends: Vec<(i64, JobId)>,
    start: i64,
) -> Option<i64> {
    let mut node = node.clone();
    ends.sort_unstable();
    let over = ends.partition_point(|(end, _)| *end <= start);
    let mut fits_without = |gone: &[(i64, JobId)]| {
        gone.iter().for_each(|(_, id)| {
            node.release(*id);
        });
        question.decide(&node).chosen.is_some()
    };
    if fits_without(&ends[..over]) {
        return None;
    }
    (over..ends.len()).find(|i| fits_without(&ends[*i..=*i])).map(|i| ends[i].0)
}
