//! One node of the replay: its jobs, and what it has answered since they last changed.

use std::collections::HashMap;

use geometry::JobId;
use mapa::Memo;
use node_state::{Ask, Node, Policy};
use placement::{NodeCost, decide_with, fits};
use protocol::Grant;

use crate::Instances;

/// When a job without a limit is expected to end, seconds from its start: later than all that have one.
pub(crate) const UNLIMITED_S: u64 = 10 * 365 * 86_400;

/// What a class of jobs was told.
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
    /// Its jobs, and when each ends at the latest.
    jobs: Vec<(JobId, u64)>,
    /// CPUs of its jobs.
    cpus: HashMap<JobId, u64>,
    /// By class.
    answers: Vec<ClassAnswer>,
    memo: Memo,
}

impl ReplayedNode {
    pub(crate) fn new(node: &Node, classes: usize) -> Self {
        let answers = vec![ClassAnswer::default(); classes];
        Self { node: node.clone(), jobs: Vec::new(), cpus: HashMap::new(), answers, memo: Memo::default() }
    }

    /// Whether a job of this class could start here now.
    pub(crate) fn fits(&mut self, class: usize, ask: &Ask, policy: &Policy) -> bool {
        let node = &self.node;
        *self.answers[class].fits.get_or_insert_with(|| fits(node, ask, policy))
    }

    /// When a job of this class could start here at the latest if nobody else comes; 0: now. `None`: never.
    pub(crate) fn soonest(&mut self, class: usize, ask: &Ask, policy: &Policy) -> Option<u64> {
        if self.fits(class, ask, policy) {
            return Some(0);
        }
        let (node, jobs) = (&self.node, &mut self.jobs);
        *self.answers[class].soonest.get_or_insert_with(|| {
            jobs.sort_by_key(|(_, end)| *end);
            let mut later = node.clone();
            jobs.iter().find_map(|(job, end)| {
                later.release(*job);
                fits(&later, ask, policy).then_some(*end)
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
        self.cpus.values().fold(0, |sum, cpus| sum.saturating_add(*cpus))
    }

    /// Gives the job its place. `None`: there is none.
    pub(crate) fn start(
        &mut self,
        ask: &Ask,
        policy: &Policy,
        (latest_end, cpus): (u64, u64),
    ) -> Option<(Grant, Instances)> {
        let grant = decide_with(&self.node, ask, policy, &mut self.memo).chosen?;
        let before = self.node.clone();
        self.node.apply(ask.job, ask.uid, &grant).ok()?;
        self.jobs.push((ask.job, latest_end));
        self.cpus.insert(ask.job, cpus);
        self.changed();
        Some((grant, Instances::between(&before, &self.node)))
    }

    pub(crate) fn end(&mut self, job: JobId) {
        self.node.release(job);
        self.jobs.retain(|(id, _)| *id != job);
        self.cpus.remove(&job);
        self.changed();
    }

    fn changed(&mut self) {
        self.answers.fill(ClassAnswer::default());
    }
}
