//! Looks for an earlier start where Slurm foretells one on nodes that have no place for the job by then.
//!
//! Slurm counts shards, not slices, and up to 24.11 forgets while it looks ahead that a GPU full of shards is taken. It takes the first
//! nodes that suffice by its counts, and [`later`](super::start::later) moves the start to the end of the jobs in the way, which may
//! be days off. Backfill would keep those nodes free for the job, and give others, on which it could start soon, to
//! jobs behind it for ever.

use geometry::JobId;

use super::PendingTest;
use super::chosen::Asked;
use super::start::{foretold, placed};
use crate::effect::Effect;
use crate::engine::Engine;
use crate::slurm::{Ask, Slurm};
use crate::view::NodeView;

/// Slurm's first answer, and the nodes that may have a better one.
pub(crate) struct FirstAnswer {
    nodes: Vec<usize>,
    /// What Slurm says, seconds since 1970.
    says: i64,
    /// The start to which that has to be moved.
    start: i64,
    /// Nodes with a place before that.
    early: Vec<usize>,
}

impl FirstAnswer {
    /// Has Slurm look at the nodes that may have a better answer.
    pub(crate) fn ask_again(&self) -> Effect {
        Effect::Offer(self.early.clone())
    }

    /// Puts the answer back.
    pub(crate) fn stands(self) -> Vec<Effect> {
        vec![Effect::Offer(self.nodes), Effect::StartAt(self.says)]
    }
}

impl PendingTest {
    /// Tells whether Slurm may be asked twice when the job can start: not where it could preempt other jobs for an earlier start, nor for
    /// a reservation, which has no job, and keeps the cores and GPUs of Slurm's last answer [`_resv_select`, reservation.c].
    pub(crate) fn may_look_earlier(&self) -> bool {
        let is_job = self.view.id != JobId(0);
        is_job && self.want.is_some() && self.test.ask == Ask::WillRun && !self.test.may_preempt
    }

    /// Finds out whether Slurm's answer to when the job can start has to be moved past a place on one of the nodes that it was
    /// `offered`. `None`: it is as good as any.
    pub(crate) fn first_answer(
        &self,
        engine: &mut Engine,
        slurm: &impl Slurm,
        offered: &[NodeView],
    ) -> Option<FirstAnswer> {
        let want = self.want.as_ref()?;
        let asked = Asked::new(&self.view, want, engine, slurm);
        let now = i64::try_from(slurm.now()).unwrap_or(i64::MAX);
        // Other nodes may share the power that these wait for.
        if placed(&asked, engine) <= slurm.asked_from().max(now) {
            return None;
        }
        let start = foretold(&asked, engine);
        let among = |list: &[usize], node: &NodeView| list.binary_search(&node.index).is_ok();
        let mut misjudged = offered.iter().filter(|node| among(&self.aside.misjudged, node));
        if start <= slurm.start_time() && !misjudged.any(|node| asked.has_place_before(engine, node, start)) {
            return None;
        }
        let may_serve = offered.iter().filter(|node| among(&self.aside.left, node));
        let early = may_serve.filter(|node| asked.has_place_before(engine, node, start));
        let early: Vec<usize> = early.map(|node| node.index).collect();
        let insists_on_late = offered.iter().any(|node| node.required && !early.contains(&node.index));
        let wanted = usize::try_from(self.test.min_nodes.max(1)).unwrap_or(usize::MAX);
        let nodes = asked.nodes.iter().map(|node| node.index).collect();
        let says = slurm.says_start();
        (early.len() >= wanted && !insists_on_late).then_some(FirstAnswer { nodes, says, start, early })
    }

    /// Tells whether another answer is better: it has to be moved less far.
    pub(crate) fn is_before(&self, first: &FirstAnswer, engine: &Engine, slurm: &impl Slurm) -> bool {
        let Some(want) = &self.want else { return false };
        foretold(&Asked::new(&self.view, want, engine, slurm), engine) < first.start
    }
}
