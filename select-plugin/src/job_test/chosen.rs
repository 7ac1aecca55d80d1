//! A job on the nodes that Slurm chose for it, and the decision for it.

use geometry::JobId;
use placement::Short;
use protocol::set_summary::SetSummary;
use protocol::wire::{JobPlacement, plain_why, with_node};

use crate::engine::{Engine, Question};
use crate::limited;
use crate::slurm::Slurm;
use crate::view::{GresKind, JobView, NodeView, Want};

/// A job's question on the nodes that Slurm chose for it.
pub(super) struct Asked<'a, S> {
    pub(super) question: Question,
    pub(super) view: &'a JobView,
    pub(super) want: &'a Want,
    pub(super) nodes: &'a [NodeView],
    pub(super) slurm: &'a S,
}

/// Decision for a job on all its nodes.
pub(super) struct Decided {
    pub(super) placement: JobPlacement,
    /// Why, for the job's user: of several nodes, the one with the least bandwidth.
    pub(super) why: String,
    /// Summaries of the choices of sets of whole GPUs, by node.
    pub(super) matched: Vec<(String, SetSummary)>,
    /// The node whose set is predicted to reach the least, and that, GB/s.
    pub(super) poorest: Option<(String, f64)>,
}

impl Decided {
    /// Gives the job its power cap on each node, and says where it comes from if the job has not stated it.
    pub(super) fn take_caps(&mut self, engine: &Engine, want: &Want) -> Result<(), Short> {
        let lower = engine.set_caps(&mut self.placement.nodes, want.cap_of())?;
        let mut said = self.why.clone();
        if let Some(auto) =
            self.placement.nodes.first().and_then(|(node, _)| engine.auto_cap(node, want.cap_of()))
        {
            said = format!("{said}, {}", auto.why);
        }
        if lower {
            let least = self.placement.nodes.iter().filter_map(|(_, given)| given.cap_w).min().unwrap_or(0);
            said = format!("{said}, at {least} W: its power budget has no more free");
        }
        self.why = plain_why(&said);
        Ok(())
    }
}

impl Decided {
    /// Adds why the job is on its node, if something can be said of that.
    pub(super) fn add_node(&mut self, why: Option<String>) {
        if let Some(why) = why {
            self.why = with_node(&self.why, &why);
        }
    }
}

impl<'a, S: Slurm> Asked<'a, S> {
    pub(super) fn new(view: &'a JobView, want: &'a Want, engine: &Engine, slurm: &'a S) -> Self {
        let question = engine.question(view, want);
        Self { question, view, want, nodes: slurm.nodes(), slurm }
    }

    /// Why the job must not have several GPUs of a node of ours whole, as it would by its plain shards.
    pub(super) fn whole_of_several(&self, engine: &Engine) -> Option<String> {
        let several = |node: &&NodeView| {
            engine.node(*node).is_some() && self.slurm.choice(node).is_some_and(|c| c.chosen().len() > 1)
        };
        let plain = self.want.kind == GresKind::Shard && !self.want.managed;
        if !plain || !self.nodes.iter().any(|node| several(&node)) {
            return None;
        }
        limited::why_not_whole(self.view, self.nodes, engine)
    }

    /// The question on one of the nodes, with the number of GPUs that Slurm chose there.
    pub(super) fn question_on(&self, node: &NodeView) -> Question {
        let mut question = self.question.clone();
        if self.want.kind == GresKind::Gpu {
            let chosen = self.slurm.choice(node).map_or(0, |c| c.chosen().len());
            question.ask.request.gpus = u32::try_from(chosen).ok().filter(|n| *n > 0);
        }
        question
    }

    /// Tells whether a node has a place for the job once the jobs are gone that end before a time, seconds since 1970.
    pub(super) fn has_place_before(&self, engine: &mut Engine, node: &NodeView, at: i64) -> bool {
        if engine.fits_now(node, &self.question) == Some(true) {
            return true;
        }
        let over = self.ends(engine, &node.name).into_iter().filter(|(end, _)| *end < at).map(|(_, id)| id);
        engine.fits_without(node, &self.question, &over.collect())
    }

    /// Ends of the jobs on a node, seconds since 1970.
    pub(super) fn ends(&self, engine: &Engine, node: &str) -> Vec<(i64, JobId)> {
        engine.jobs_on(node).into_iter().map(|id| (self.slurm.end_of(id), id)).collect()
    }
}
