//! The nodes that Slurm is not offered at first where it is asked when a job can start.

use std::collections::HashSet;

use node_state::Gpu;

use crate::effect::Effect;
use crate::engine::Engine;
use crate::narrow::Narrowed;
use crate::slurm::{Ask, Slurm, Test};
use crate::view::{GresKind, NodeView, Want};

/// Nodes for a second test; all empty where Slurm is asked something else.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// All nodes that could serve the job, in order.
    pub(super) left: Vec<usize>,
    /// Busy ones of them that Slurm misjudges while it looks ahead, and is not offered at first.
    pub(super) misjudged: Vec<usize>,
    /// The others, if some of them are not offered at first because enough like them have room now; else empty.
    wider: Vec<usize>,
}

impl Aside {
    /// Takes nodes out of those that Slurm is offered. Those that it misjudges stay where it will not be asked again.
    pub(super) fn of(
        (test, want): (Test, &Want),
        asks_again: bool,
        engine: &Engine,
        slurm: &impl Slurm,
        narrowed: &mut Narrowed,
    ) -> Self {
        if test.ask != Ask::WillRun {
            return Self::default();
        }
        let left = kept(slurm.nodes(), &narrowed.out);
        let misjudged =
            if asks_again { misjudged((test, want), engine, slurm, narrowed) } else { Vec::new() };
        narrowed.out.extend(&misjudged);
        let wider = if narrowed.aside.is_empty() { Vec::new() } else { kept(slurm.nodes(), &narrowed.out) };
        narrowed.out.append(&mut narrowed.aside);
        Self { left, misjudged, wider }
    }

    /// Gives the nodes for a second test, where Slurm has left busy nodes aside and foretells no start now: those that it was left
    /// with may lack cores for long, or be too few. `starts_at`: the start that it foretells, if any.
    pub(super) fn widened(&self, starts_at: Option<i64>, now: u64) -> Option<Effect> {
        let nodes = match starts_at {
            Some(start) if u64::try_from(start).unwrap_or(0) <= now => return None,
            None if !self.misjudged.is_empty() => &self.left,
            _ => &self.wider,
        };
        (!nodes.is_empty()).then(|| Effect::Offer(nodes.clone()))
    }
}

fn kept(nodes: &[NodeView], out: &[usize]) -> Vec<usize> {
    let out: HashSet<usize> = out.iter().copied().collect();
    nodes.iter().map(|node| node.index).filter(|index| !out.contains(index)).collect()
}

/// Names the busy nodes that Slurm takes for free too early for whole GPUs, if enough others are left.
fn misjudged(
    (test, want): (Test, &Want),
    engine: &Engine,
    slurm: &impl Slurm,
    narrowed: &Narrowed,
) -> Vec<usize> {
    if want.kind != GresKind::Gpu || !slurm.forgets_shards() {
        return Vec::new();
    }
    let nodes = slurm.nodes();
    let busy = narrowed.later.iter().filter_map(|at| nodes.get(*at));
    let is_cut =
        |node: &&NodeView| engine.node(*node).is_some_and(|state| state.gpus.iter().any(Gpu::is_cut));
    let misjudged: Vec<&NodeView> = busy.filter(is_cut).collect();
    let enough = narrowed.able.len() - misjudged.len() >= test.min_nodes.max(1) as usize;
    let insists = misjudged.iter().any(|node| node.required);
    if enough && !insists { misjudged.iter().map(|node| node.index).collect() } else { Vec::new() }
}
