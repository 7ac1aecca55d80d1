//! Jobs that get every GPU of their nodes: which ones is Slurm's choice, their order follows the job's pattern.

use protocol::set_summary::encode;
use protocol::wire::JobPlacement;
use topology::GpuSet;

use crate::engine::Engine;
use crate::place_on_node::{place, why_of_all};
use crate::view::{Allocated, ChosenView, EntryChoice, GresKind, JobView, Want, union};

/// Placement of an exclusive job.
pub(crate) struct WholeNodes {
    /// All GPUs of its nodes, in the order of its ranks.
    pub(crate) placement: JobPlacement,
    /// Why in this order, for the job's user.
    pub(crate) why: String,
    /// Method by which the order was chosen on each node, as the SPANK environment has it.
    pub(crate) matched: Option<String>,
}

/// Derives the need of an exclusive job whose GPUs are ours to order, and to cap; `None`: it is none, or its GPUs are left
/// as Slurm gives them.
pub(crate) fn wanted(view: &JobView) -> Option<Want> {
    let plain = view.exclusive.then(|| JobView { exclusive: false, ..view.clone() })?;
    plain.want().filter(|want| want.kind == GresKind::Gpu && !want.slurms_choice)
}

/// The placement of an exclusive job that Slurm has just `allocated`; `None`: it is none, or has nothing that is ours to
/// order.
pub(crate) fn in_order(engine: &Engine, view: &JobView, allocated: &[Allocated]) -> Option<WholeNodes> {
    let want = wanted(view)?;
    let question = engine.question(view, &want);
    let mut placement = JobPlacement { job: view.id, nodes: Vec::new() };
    let (mut whys, mut matched) = (Vec::new(), Vec::new());
    for (node, all) in gpus_by_node(allocated) {
        let gpus = engine.to_be_had_whole(&node, all);
        if gpus.is_empty() {
            continue;
        }
        let entry = EntryChoice { chosen: gpus, available: gpus, ..EntryChoice::default() };
        let slurm = ChosenView { name: node.clone(), entries: vec![entry], near: GpuSet::EMPTY };
        // A node that is left to Slurm has nothing to be ordered.
        let Some(placed) = place(engine, question.clone(), &want, &slurm) else { continue };
        let placed = placed.ok()?;
        whys.push((placed.gbps, placed.why));
        matched.extend(placed.matched.map(|m| (node.clone(), m)));
        placement.nodes.push((node, placed.grant.into()));
    }
    if placement.nodes.is_empty() {
        return None;
    }
    engine.set_caps_late(&mut placement.nodes, want.cap_of());
    let why = why_of_all(whys, &placement.nodes);
    let matched = (!matched.is_empty()).then(|| encode(&matched));
    Some(WholeNodes { placement, why, matched })
}

/// The whole GPUs of each node. A node has one entry for each type of its GPUs.
fn gpus_by_node(allocated: &[Allocated]) -> Vec<(String, GpuSet)> {
    let mut all: Vec<(String, GpuSet)> = Vec::new();
    for on in allocated.iter().filter(|on| on.kind == GresKind::Gpu) {
        match all.iter_mut().find(|(node, _)| *node == on.node) {
            Some((_, gpus)) => *gpus = union([*gpus, on.gpus].into_iter()),
            None => all.push((on.node.clone(), on.gpus)),
        }
    }
    all
}
