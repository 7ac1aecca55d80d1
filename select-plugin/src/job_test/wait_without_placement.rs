//! Jobs without a placement of ours that wait nevertheless: for nodes that are not fit, not registered, or without power.

use super::{PendingTest, wait};
use crate::effect::Effect;
use crate::engine::Engine;
use crate::engine::power::SlurmsGpus;
use crate::memory::{Tried, Ways};
use crate::slurm::{Ask, Slurm};
use crate::view::{GresKind, GresRequest, NodeView};
use crate::whole_node;

impl PendingTest {
    /// Says in the AdminComment of a job with a request of ours which nodes keep it waiting because they do not load Tessera, have
    /// another file or an unhealthy GPU, or takes that back.
    pub(super) fn say_that_it_waits_for_nodes(&self, engine: &Engine, slurm: &impl Slurm) -> Option<Effect> {
        if self.test.ask != Ask::RunNow || !self.view.asks_us() {
            return None;
        }
        let nodes = if self.view.may_have_gpus() { slurm.nodes() } else { &[] };
        let away = |node: &&NodeView| engine.is_away(*node) || engine.has_sick(*node);
        let serve = nodes.iter().filter(|node| !node.unfit && !away(node)).count();
        let too_few = serve < self.test.min_nodes.max(1) as usize;
        let waits = too_few || nodes.iter().any(|node| node.required && away(&node));
        let says = waits.then(|| wait::for_nodes(engine, nodes)).flatten().unwrap_or_default();
        Effect::said(&self.view, says)
    }

    /// A job that asks for a mixture of GRES, or gets all GPUs of a node, starts on no node whose GPUs are not those of
    /// `tessera.toml` or with an unhealthy GPU, and with a request of ours on none that does not load Tessera.
    pub(super) fn rule_out_unfit(&self, engine: &Engine, slurm: &impl Slurm) -> Option<Effect> {
        if !self.view.may_have_gpus() || self.test.ask == Ask::TestOnly {
            return None;
        }
        let asks = self.view.asks_us();
        let away = |node: &NodeView| asks && engine.is_away(node) || engine.has_sick(node);
        let unfit = |node: &NodeView| node.unfit || away(node);
        let unfit: Vec<usize> =
            slurm.nodes().iter().filter(|node| unfit(node)).map(|node| node.index).collect();
        (!unfit.is_empty()).then_some(Effect::RuleOut(unfit))
    }

    /// An exclusive job gets every device of its nodes, but only those that Slurm knows by then: before a node has
    /// registered with a restarted slurmctld, these are none.
    pub(super) fn rule_out_unregistered(&self, engine: &Engine, slurm: &impl Slurm) -> Option<Effect> {
        if !self.view.exclusive || self.test.ask != Ask::RunNow {
            return None;
        }
        let nodes = slurm.nodes();
        let unknown = nodes.iter().filter(|node| !node.registered && engine.node(*node).is_some());
        let out: Vec<usize> = unknown.map(|node| node.index).collect();
        (!out.is_empty()).then_some(Effect::RuleOut(out))
    }

    /// A job that gets GPUs by another way than a placement of ours starts only where the power budgets leave what its GPUs may
    /// draw: the whole node's for an exclusive job, at the highest cap for one whose cap nobody sets. One of several nodes is kept
    /// to as many as have power at once, but not in two tests after each other: see [`Ways`].
    pub(super) fn rule_out_without_power(
        &self,
        engine: &Engine,
        tried: &mut Tried,
        slurm: &impl Slurm,
    ) -> Option<Effect> {
        if self.test.ask != Ask::RunNow || !self.draws_unplaced(engine) {
            return None;
        }
        let at_once = self.test.min_nodes > 1 && !tried.take(&self.view).powered;
        let out = self.short_of_power(engine, slurm.nodes(), at_once);
        tried.add(&self.view, Ways { powered: at_once && !out.is_empty(), ..Ways::default() });
        (!out.is_empty()).then_some(Effect::RuleOut(out))
    }

    /// Tells whether power counts for the job although it gets no placement of ours at its start.
    pub(super) fn draws_unplaced(&self, engine: &Engine) -> bool {
        engine.has_budgets() && self.want.is_none() && self.view.may_have_gpus()
    }

    /// Lists those of these nodes that have no power for such a job: each by itself, or all `at_once`.
    pub(super) fn short_of_power(&self, engine: &Engine, nodes: &[NodeView], at_once: bool) -> Vec<usize> {
        let names: Vec<&str> = nodes.iter().map(|node| &*node.name).collect();
        let short = engine.without_power(&names, self.slurms_gpus(), at_once);
        nodes.iter().filter(|node| short.contains(&&*node.name)).map(|node| node.index).collect()
    }

    fn slurms_gpus(&self) -> SlurmsGpus {
        if self.view.exclusive {
            let wanted = whole_node::wanted(&self.view);
            let asked_w = wanted.as_ref().and_then(|want| want.request.cap_w);
            return SlurmsGpus { gpus: None, asked_w, fixed: wanted.is_none() };
        }
        let gpus = |entry: &GresRequest| match entry.kind {
            GresKind::Gpu => entry.per_node,
            GresKind::Shard => 1,
        };
        // A number that is not per node can be any: then it needs power for all.
        let gpus = self
            .view
            .gres
            .iter()
            .map(gpus)
            .try_fold(0, |sum: u64, n| (n > 0).then_some(sum.saturating_add(n)));
        SlurmsGpus { gpus, asked_w: None, fixed: true }
    }
}
