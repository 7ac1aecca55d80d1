//! Finds out if a smaller request had a place on a node before the job started there.
//!
//! # Problem
//! A job asked for more than it used, and waited. Given what all jobs had on its node meanwhile, find the first instant from
//! which a smaller request could have stayed there until the job started, if that can be said for certain.
//!
//! # Approach
//! The smaller request has a place from an instant on if the engine finds one among the jobs of that instant, and every job
//! that started later has its own place beside it. So nobody would have had to wait for it, whatever the priorities were. The
//! request as it was must have had no place in all that time: else something other than the GPUs kept the job (cores, limits,
//! its turn, a drained node), and would have kept the smaller one as well. Only in the last moments it may have had one:
//! an epilog ends, and Slurm looks at its queue at intervals.
//!
//! Idle instances are left out: they make way for whoever needs their slices.

use std::collections::BTreeSet;

use geometry::{JobId, Uid};
use node_state::{Ask, Node, Policy};
use placement::decide;
use protocol::Grant;

/// Most instants at which jobs started or ended that are looked at: beyond, nothing is said.
const MOST_INSTANTS: usize = 1000;

/// A job's grant on the node, and when it had it. Times are seconds since any epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// When it started.
    pub start: u64,
    /// When it ended; `None`: it still runs.
    pub end: Option<u64>,
    /// Whose it is.
    pub uid: Uid,
    /// Grant of the job.
    pub grant: Grant,
}

impl Held {
    fn is_there(&self, at: u64) -> bool {
        self.start <= at && self.end.is_none_or(|end| at < end)
    }
}

/// A job that waited for a node.
#[derive(Clone, Copy, Debug)]
pub struct Waited<'a> {
    /// The node without jobs.
    pub node: &'a Node,
    /// Grants of the other jobs there.
    pub held: &'a [Held],
    /// When the job could have started, but for the GPUs.
    pub from: u64,
    /// When it started.
    pub to: u64,
    /// How long before its start there may have been a place for what it asked, seconds.
    pub slack: u64,
    /// Request of the job.
    pub asked: &'a Ask,
    /// Request that it could have made.
    pub smaller: &'a Ask,
    /// The site's.
    pub policy: &'a Policy,
}

/// How much earlier than the request as it was the smaller one had a place, which stayed until the job started, seconds;
/// `None`: it had none, or that cannot be said: what the jobs had does not go together, or the request as it was had a place
/// long before the start.
#[must_use]
pub fn earlier(waited: &Waited<'_>) -> Option<u64> {
    // At the start itself what the job got must have been free: else the accounting lacks something.
    let fits = |at: u64, ask: &Ask| Some(decide(&waited.at(at, None)?, ask, waited.policy).chosen.is_some());
    if waited.from >= waited.to || fits(waited.to, waited.asked) != Some(true) {
        return None;
    }
    let instants = waited.instants();
    if instants.len() > MOST_INSTANTS {
        return None;
    }
    // Ascending: first what was kept by the GPUs, at last the moments in which there was a place for all of it.
    let fits = instants.iter().map(|at| fits(*at, waited.asked)).collect::<Option<Vec<bool>>>()?;
    let last = fits.iter().rposition(|fits| !fits)?;
    let opened = instants.get(last + 1).copied().unwrap_or(waited.to);
    if waited.to - opened > waited.slack {
        return None;
    }
    let first = fits[..last].iter().rposition(|fits| *fits).map_or(0, |at| at + 1);
    let found = (first..=last).find(|place| waited.stays(&instants[*place..]))?;
    Some(opened - instants[found])
}

impl Waited<'_> {
    /// When the node changed while the job waited, and the beginning of the wait, ascending.
    fn instants(&self) -> Vec<u64> {
        let changes = self.held.iter().flat_map(|job| [Some(job.start), job.end]).flatten();
        let within = changes.filter(|at| (self.from..self.to).contains(at));
        within.chain([self.from]).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The node with the jobs of an instant, and beside them `extra`. `None`: they do not go together.
    fn at(&self, at: u64, extra: Option<&Grant>) -> Option<Node> {
        let mut node = self.node.clone();
        if let Some(grant) = extra {
            node.apply(self.smaller.job, self.smaller.uid, grant).ok()?;
        }
        for (id, job) in (1..).map(JobId).zip(self.held).filter(|(_, job)| job.is_there(at)) {
            node.apply(id, job.uid, &job.grant).ok()?;
        }
        Some(node)
    }

    /// True if the smaller request has a place at the first of these instants and keeps it at the others.
    fn stays(&self, instants: &[u64]) -> bool {
        let Some((first, later)) = instants.split_first() else { return false };
        let node = self.at(*first, None);
        let place = node.and_then(|node| decide(&node, self.smaller, self.policy).chosen);
        place.is_some_and(|grant| later.iter().all(|at| self.at(*at, Some(&grant)).is_some()))
    }
}
