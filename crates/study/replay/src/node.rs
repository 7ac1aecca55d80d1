//! A node of the replay: its jobs, and what it has answered since they last changed.

use std::collections::HashMap;

use geometry::JobId;
use mapa::Memo;
use node_state::{Ask, Node, Policy};
use placement::{NodeCost, decide_with, fits};
use protocol::Grant;

use crate::{Host, Instances};

/// When a job without a limit is expected to end, seconds from its start: later than all that have one.
pub(crate) const UNLIMITED_S: u64 = 10 * 365 * 86_400;

/// Answer to a class of jobs.
#[derive(Clone, Copy, Default)]
struct ClassAnswer {
    fits: Option<bool>,
    /// When there is room, if nobody else comes; `Some(None)`: never.
    soonest: Option<Option<u64>>,
    /// Cost of its best choice to the others; `Some(None)`: there is no room.
    cost: Option<Option<NodeCost>>,
}

pub(crate) struct ReplayedNode {
    node: Node,
    /// Jobs on the node, and when each ends at the latest.
    jobs: Vec<(JobId, u64)>,
    /// CPUs and memory that no job has.
    free: Host,
    /// CPUs and memory of its jobs.
    held: HashMap<JobId, Host>,
    /// By class.
    answers: Vec<ClassAnswer>,
    memo: Memo,
}

impl ReplayedNode {
    pub(crate) fn new(node: &Node, host: Host, classes: usize) -> Self {
        let answers = vec![ClassAnswer::default(); classes];
        let (jobs, held, memo) = (Vec::new(), HashMap::new(), Memo::default());
        Self { node: node.clone(), jobs, free: host, held, answers, memo }
    }

    /// True if a job of this class could start here now.
    pub(crate) fn fits(&mut self, class: usize, (ask, need): (&Ask, Host), policy: &Policy) -> bool {
        let (node, free) = (&self.node, self.free);
        *self.answers[class].fits.get_or_insert_with(|| free.has(need) && fits(node, ask, policy))
    }

    /// When a job of this class could start here at the latest if nobody else comes; 0: now. `None`: never.
    pub(crate) fn soonest(
        &mut self,
        class: usize,
        (ask, need): (&Ask, Host),
        policy: &Policy,
    ) -> Option<u64> {
        if self.fits(class, (ask, need), policy) {
            return Some(0);
        }
        let (node, jobs, held) = (&self.node, &mut self.jobs, &self.held);
        let mut free = self.free;
        *self.answers[class].soonest.get_or_insert_with(|| {
            jobs.sort_by_key(|(_, end)| *end);
            let mut later = node.clone();
            jobs.iter().find_map(|(job, end)| {
                later.release(*job);
                free = free.and(held.get(job).copied());
                (free.has(need) && fits(&later, ask, policy)).then_some(*end)
            })
        })
    }

    /// Returns what a job of this class would cost the others here; `None`: there is no room.
    pub(crate) fn cost(&mut self, class: usize, ask: &Ask, policy: &Policy) -> Option<NodeCost> {
        let (node, memo) = (&self.node, &mut self.memo);
        *self.answers[class]
            .cost
            .get_or_insert_with(|| placement::rank(node, &decide_with(node, ask, policy, memo)))
    }

    /// CPUs that its jobs have.
    pub(crate) fn cpus(&self) -> u64 {
        self.held.values().fold(0, |sum, held| sum.saturating_add(held.cpus))
    }

    /// CPUs that no job has.
    pub(crate) fn free_cpus(&self) -> u64 {
        self.free.cpus
    }

    /// Gives the job its place. `None`: there is none.
    pub(crate) fn start(
        &mut self,
        ask: &Ask,
        policy: &Policy,
        (latest_end, held): (u64, Host),
    ) -> Option<(Grant, Instances)> {
        let grant = decide_with(&self.node, ask, policy, &mut self.memo).chosen?;
        let before = self.node.clone();
        self.node.apply(ask.job, ask.uid, &grant).ok()?;
        self.jobs.push((ask.job, latest_end));
        self.free = self.free.without(held);
        self.held.insert(ask.job, held);
        self.changed();
        Some((grant, Instances::between(&before, &self.node)))
    }

    pub(crate) fn end(&mut self, job: JobId) {
        self.node.release(job);
        self.jobs.retain(|(id, _)| *id != job);
        self.free = self.free.and(self.held.remove(&job));
        self.changed();
    }

    fn changed(&mut self) {
        self.answers.fill(ClassAnswer::default());
    }
}

impl Host {
    fn has(self, need: Self) -> bool {
        need.cpus <= self.cpus && need.mem_mib <= self.mem_mib
    }

    fn and(self, more: Option<Self>) -> Self {
        let more = more.unwrap_or(Self { cpus: 0, mem_mib: 0 });
        Self { cpus: self.cpus.saturating_add(more.cpus), mem_mib: self.mem_mib.saturating_add(more.mem_mib) }
    }

    fn without(self, less: Self) -> Self {
        Self { cpus: self.cpus.saturating_sub(less.cpus), mem_mib: self.mem_mib.saturating_sub(less.mem_mib) }
    }
}
