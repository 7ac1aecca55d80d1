//! Claims of isolated jobs on devices of the pool: see [`placement::await_pool`].
//!
//! A claim begins when the job could have started but for the pool, and is renewed in each of its tests. It ends when the job
//! starts, is not pending any more, or has not been tested for [`CLAIM_SECONDS`]: a job that is held, or that other jobs have
//! overtaken, keeps nothing.

use std::collections::{BTreeSet, HashMap};

use geometry::JobId;
use node_state::Claim;
use placement::{Awaited, await_pool};

use super::{Engine, Question};
use crate::view::NodeView;

/// Seconds that a claim lasts without a test of its job: three rounds of the main scheduler with its default interval.
const CLAIM_SECONDS: u64 = 180;

/// The claims of jobs.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// The nodes of each job's claims, and when they end, seconds since 1970.
    jobs: HashMap<JobId, (BTreeSet<String>, u64)>,
    /// Nodes whose layout does not show their claims yet.
    unpublished: BTreeSet<String>,
}

impl Engine {
    /// Tells whether a job has claimed anything.
    pub(crate) fn has_claims(&self) -> bool {
        !self.claims.jobs.is_empty()
    }

    /// Makes the job of the question claim devices on `wanted` of these nodes, those that it gets soonest, instead of what it
    /// had claimed before. It claims nothing if fewer nodes would do. What it has claimed on none of the nodes of this test, which
    /// are those of one of its partitions, lasts as it is.
    pub(crate) fn claim<'n>(
        &mut self,
        question: &Question,
        (all, nodes): (&[NodeView], impl Iterator<Item = &'n NodeView>),
        wanted: usize,
        now: u64,
        end: &dyn Fn(JobId) -> i64,
    ) {
        let job = question.ask.job;
        if self.pool_grants == 0 {
            return self.unclaim(job);
        }
        let elsewhere = |names: &BTreeSet<String>| !all.iter().any(|node| names.contains(&*node.name));
        if self.claims.jobs.get(&job).is_some_and(|(names, until)| *until > now && elsewhere(names)) {
            return;
        }
        let await_on = |view: &NodeView| {
            let node = self.node(view).filter(|node| node.pool().next().is_some())?;
            Some((view.name.to_string(), await_pool(node, &question.ask, &question.policy, end)?))
        };
        let mut found: Vec<(String, Awaited)> = nodes.filter_map(await_on).collect();
        found.sort_by(|a, b| (a.1.free_at, &a.0).cmp(&(b.1.free_at, &b.0)));
        found.truncate(wanted);
        if found.len() < wanted {
            return self.unclaim(job);
        }
        let names: BTreeSet<String> = found.iter().map(|(name, _)| name.clone()).collect();
        let before = self.claims.jobs.insert(job, (names.clone(), now + CLAIM_SECONDS));
        let left = before.map(|(names, _)| names).unwrap_or_default();
        left.difference(&names).for_each(|name| self.set_claims(name, job, &[]));
        for (name, awaited) in &found {
            let own: Vec<Claim> = awaited.devices.iter().map(|on| Claim { job, on: *on }).collect();
            self.set_claims(name, job, &own);
        }
    }

    /// Lets the claims of a job that could start now last on.
    pub(crate) fn renew_claims(&mut self, job: JobId, now: u64) {
        if let Some((_, until)) = self.claims.jobs.get_mut(&job) {
            *until = now + CLAIM_SECONDS;
        }
    }

    /// Ends the claims of a job.
    pub(crate) fn unclaim(&mut self, job: JobId) {
        let Some((names, _)) = self.claims.jobs.remove(&job) else { return };
        names.iter().for_each(|name| self.set_claims(name, job, &[]));
    }

    /// Ends the claims that nobody needs any more.
    pub(crate) fn expire_claims(&mut self, now: u64, is_pending: &dyn Fn(JobId) -> bool) {
        let over = |(job, (_, until)): (&JobId, &(BTreeSet<String>, u64))| {
            (*until <= now || !is_pending(*job)).then_some(*job)
        };
        let over: Vec<JobId> = self.claims.jobs.iter().filter_map(over).collect();
        over.into_iter().for_each(|job| self.unclaim(job));
    }

    /// The nodes whose layouts have changed by claims since this was asked last.
    pub(crate) fn take_claimed_nodes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.claims.unpublished).into_iter().collect()
    }

    /// Makes these all claims of a job on a node.
    fn set_claims(&mut self, name: &str, job: JobId, own: &[Claim]) {
        let Some(entry) = self.nodes.get_mut(name) else { return };
        let before: Vec<Claim> = entry.node.claims.iter().filter(|c| c.job == job).copied().collect();
        if before == own {
            return;
        }
        entry.node.claims.retain(|claim| claim.job != job);
        entry.node.claims.extend(own);
        entry.changed();
        self.claims.unpublished.insert(name.to_owned());
    }
}
