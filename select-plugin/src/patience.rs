//! Sensitive jobs that wait for better GPUs than they could have now. Pure: clock and records are inputs.
//!
//! What a waiting job is told depends on what Slurm wants to know:
//!
//! - *Run now*: while enough nodes have a set above the job's threshold, the other nodes are ruled out. Slurm may be
//!   unable to use the good ones, so every second test offers all. A start on less is refused, and the wait begins. While
//!   waiting, the job preempts nobody for less.
//! - *Will run*, asked by backfill: a start that would be refused now is refused here as well. Backfill then reserves
//!   nothing for the job, and others pass it.
//! - *Will run*, asked by anybody else: the answer is when jobs end and leave a set above the threshold, or when the
//!   wait is over, whichever comes first.
//!
//! A job that may run on several kinds of node waits for the best kind. When its wait is over it takes any.

use std::collections::HashSet;

use geometry::JobId;
use node_state::Node;
use protocol::{SetWait, Turn};

use crate::engine::{Engine, Question, SEARCHES, without};
use crate::view::{JobView, NodeView};

/// A job that still refuses sets below its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patient {
    pub(crate) wait: SetWait,
    /// End of its wait, seconds since 1970; `None`: it has not begun.
    pub(crate) until: Option<u64>,
    /// Latest end of its wait: a job with a deadline has to start.
    latest: Option<u64>,
}

/// Seconds between the end of the wait and the last start that a deadline leaves: both schedulers come by meanwhile, with
/// Slurm's default intervals of one minute and half of one. Slurm cancels a job that has missed it.
const BEFORE_DEADLINE: u64 = 120;

/// The nodes with room now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Split {
    /// Number of nodes that have a set above the threshold, or one for which nothing is predicted.
    pub(crate) good: u32,
    /// The indices of the others, those included that were too many to be looked at this time.
    pub(crate) poor: Vec<usize>,
    /// The job insists on one of the latter.
    pub(crate) insists_on_poor: bool,
}

impl Split {
    /// Tells whether the job could do with good nodes alone.
    pub(crate) fn has_good(&self, min_nodes: u32) -> bool {
        !self.insists_on_poor && self.good >= min_nodes.max(1)
    }
}

impl Patient {
    /// `None`: the job takes what there is.
    pub(crate) fn of(question: &Question, view: &JobView) -> Option<Self> {
        let wait = question.wait()?;
        let until = view.comment.waits_until();
        let latest = view.starts_by.map(|start| start.saturating_sub(BEFORE_DEADLINE));
        let over = [until, latest].into_iter().flatten().any(|end| end <= view.now);
        (!over && view.comment.is_ours()).then_some(Self { wait, until, latest })
    }

    /// Tells nodes with a set above the threshold from those with less.
    pub(crate) fn split(self, engine: &mut Engine, question: &Question, nodes: &[NodeView]) -> Split {
        let mut split = Split::default();
        let mut searches = SEARCHES;
        for node in nodes.iter().filter(|n| !n.completing && n.registered) {
            match engine.fits_now(node, question) {
                None => split.good += 1,
                Some(false) => {}
                Some(true) => {
                    let best = engine.best_now(node, question, &mut searches);
                    if best.is_some_and(|gbps| self.wait.is_met_by(gbps)) {
                        split.good += 1;
                    } else {
                        split.poor.push(node.index);
                        split.insists_on_poor |= node.required;
                    }
                }
            }
        }
        split
    }

    /// The node among those chosen with the least bandwidth, if that is not above the threshold, and that bandwidth.
    /// Nodes on which the job does not fit do not count.
    pub(crate) fn poorest<'a>(
        self,
        engine: &mut Engine,
        question: &Question,
        nodes: &'a [NodeView],
    ) -> Option<(&'a str, f64)> {
        let mut searches = SEARCHES;
        let best =
            nodes.iter().filter_map(|n| Some((&*n.name, engine.best_now(n, question, &mut searches)?)));
        self.least(best)
    }

    /// Finds the poorest node once these jobs are gone.
    pub(crate) fn poorest_without<'a>(
        self,
        engine: &Engine,
        question: &Question,
        nodes: &'a [NodeView],
        gone: &HashSet<JobId>,
    ) -> Option<(&'a str, f64)> {
        let mut searches = SEARCHES;
        let best = nodes.iter().filter_map(|n| {
            let node = without(engine.node(n)?, gone);
            Some((&*n.name, question.best_within(&node, &mut searches)?))
        });
        self.least(best)
    }

    fn least<'a>(self, best: impl Iterator<Item = (&'a str, f64)>) -> Option<(&'a str, f64)> {
        best.filter(|(_, gbps)| *gbps > 0.0 && !self.wait.is_met_by(*gbps)).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Decides what the job does about a set of `gbps`, on nodes of which the best could have `best_gbps`.
    pub(crate) fn turn(self, gbps: f64, best_gbps: f64, view: &JobView) -> Turn {
        match self.wait.turn(gbps, best_gbps, &view.comment, view.now) {
            Turn::Wait { until, begins } => {
                Turn::Wait { until: self.latest.map_or(until, |latest| until.min(latest)), begins }
            }
            Turn::Take => Turn::Take,
        }
    }

    /// Gives the job's start on a node where it could at `start`, in seconds since 1970: the first of the jobs' ends that
    /// leaves a set above the threshold, or the end of its wait. The latter also where `searches`, which all nodes of a
    /// test share, does not last: whoever asks holds slurmctld's locks.
    pub(crate) fn start(
        self,
        node: &Node,
        question: &Question,
        mut ends: Vec<(i64, JobId)>,
        start: i64,
        searches: &mut u32,
    ) -> i64 {
        let instant = |seconds| i64::try_from(seconds).unwrap_or(i64::MAX);
        let begun = self.until.map(instant);
        let over = begun.unwrap_or_else(|| start.saturating_add(i64::from(self.wait.seconds)));
        let over = self.latest.map_or(over, |latest| over.min(instant(latest))).max(start);
        let mut node = node.clone();
        ends.sort_unstable();
        let gone = ends.partition_point(|(end, _)| *end <= start);
        ends[..gone].iter().for_each(|(_, id)| {
            node.release(*id);
        });
        let mut is_good = |node: &Node| Some(self.wait.is_met_by(question.best_within(node, searches)?));
        match is_good(&node) {
            Some(true) => return start,
            Some(false) => {}
            None => return over,
        }
        for (end, id) in &ends[gone..] {
            if *end >= over {
                break;
            }
            node.release(*id);
            match is_good(&node) {
                Some(true) => return *end,
                Some(false) => {}
                None => break,
            }
        }
        over
    }
}

#[cfg(test)]
mod tests;
