//! One node of the replay: its jobs, and what it has answered since they last changed.

use geometry::JobId;
use mapa::Memo;
use node_state::{Ask, Node, Policy};
use placement::{decide_with, fits};
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
}

pub(crate) struct ReplayedNode {
    node: Node,
    /// Its jobs, and when each ends at the latest.
    jobs: Vec<(JobId, u64)>,
    /// By class.
    answers: Vec<ClassAnswer>,
    memo: Memo,
}

impl ReplayedNode {
    pub(crate) fn new(node: &Node, classes: usize) -> Self {
        let answers = vec![ClassAnswer::default(); classes];
        Self { node: node.clone(), jobs: Vec::new(), answers, memo: Memo::default() }
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

    /// Gives the job its place. `None`: there is none.
    pub(crate) fn start(
        &mut self,
        ask: &Ask,
        policy: &Policy,
        latest_end: u64,
    ) -> Option<(Grant, Instances)> {
        let grant = decide_with(&self.node, ask, policy, &mut self.memo).chosen?;
        let before = self.node.clone();
        self.node.apply(ask.job, ask.uid, &grant).ok()?;
        self.jobs.push((ask.job, latest_end));
        self.changed();
        Some((grant, Instances::between(&before, &self.node)))
    }

    pub(crate) fn end(&mut self, job: JobId) {
        self.node.release(job);
        self.jobs.retain(|(id, _)| *id != job);
        self.changed();
    }

    fn changed(&mut self) {
        self.answers.fill(ClassAnswer::default());
    }
}
