//! The number of whole GPUs and compute slices of a job, which Slurm bills and limits. Pure.

use std::collections::BTreeSet;

use geometry::GpuIndex;
use node_state::slices;
use protocol::wire::JobPlacement;
use protocol::{Grant, ShareOn};
use site_limits::amounts::Amount;

use crate::engine::Engine;
use crate::slurm::Slurm;
use crate::view::{Allocated, EntryChoice, GresKind, GresRequest, JobView, NodeView, union};

/// Counts a job's GPUs and slices on each node, from its placement and from what Slurm has allocated to it without one. A job without GPUs has nothing:
/// the slices of an earlier start or test stay among its licenses if its user has removed its GRES since.
pub(crate) fn held(
    engine: &Engine,
    view: &JobView,
    placement: Option<&JobPlacement>,
    allocated: &[Allocated],
) -> Vec<(String, Amount)> {
    if !view.may_have_gpus() && placement.is_none() {
        return Vec::new();
    }
    let decided = placement.into_iter().flat_map(|placement| &placement.nodes);
    let mut all: Vec<(String, Amount)> =
        decided.map(|(node, given)| (node.clone(), of_grant(engine, node, &given.grant))).collect();
    let undecided: Vec<&Allocated> =
        allocated.iter().filter(|on| placement.is_none_or(|p| p.on(&on.node).is_none())).collect();
    let nodes: BTreeSet<&str> = undecided.iter().map(|on| on.node.as_str()).collect();
    all.extend(nodes.into_iter().map(|node| {
        let here: Vec<&Allocated> = undecided.iter().copied().filter(|on| on.node == node).collect();
        (node.to_owned(), of_allocated(engine, node, &here))
    }));
    all
}

/// Counts the GPUs and slices of a job without a decision of ours, on the nodes that Slurm's test has chosen.
pub(crate) fn taken_without_decision(engine: &Engine, view: &JobView, slurm: &impl Slurm) -> Amount {
    if view.may_have_gpus() {
        taken_in_test(engine, view, None, slurm.nodes(), slurm)
    } else {
        Amount::default()
    }
}

/// Counts a job's GPUs and slices on the `nodes` that Slurm's test has chosen: by our decision, and on nodes without one by what Slurm means to
/// give. Slurm holds the job to its limits with the slices.
pub(crate) fn taken_in_test(
    engine: &Engine,
    view: &JobView,
    placement: Option<&JobPlacement>,
    nodes: &[NodeView],
    slurm: &impl Slurm,
) -> Amount {
    let decided = placement.into_iter().flat_map(|placement| &placement.nodes);
    let decided: Amount = decided.map(|(node, given)| of_grant(engine, node, &given.grant)).sum();
    let undecided = nodes.iter().filter(|node| placement.is_none_or(|p| p.on(&node.name).is_none()));
    decided + undecided.map(|node| of_slurms_choice(engine, view, node, slurm)).sum::<Amount>()
}

fn of_slurms_choice(engine: &Engine, view: &JobView, node: &NodeView, slurm: &impl Slurm) -> Amount {
    if view.exclusive {
        let all = slurm.gpus(node).or_else(|| engine.described_gpus(&node.name)).unwrap_or(0);
        return of_whole(engine, &node.name, (0..u16::try_from(all).unwrap_or(0)).map(GpuIndex));
    }
    let Some(slurms) = slurm.choice(node) else { return Amount::default() };
    let entries = view.gres.iter().zip(&slurms.entries).filter(|(_, entry)| !entry.chosen.is_empty());
    let given = |(asked, entry): (&GresRequest, &EntryChoice)| Allocated {
        node: node.name.to_string(),
        kind: asked.kind,
        gpus: entry.chosen,
        amount: entry.amount,
    };
    let given: Vec<Allocated> = entries.map(given).collect();
    of_allocated(engine, &node.name, &given.iter().collect::<Vec<_>>())
}

fn of_whole(engine: &Engine, node: &str, gpus: impl Iterator<Item = GpuIndex>) -> Amount {
    let one = |gpu| Amount { gpus: 1, slices: slices::slices_for_gpu(engine.model_of(node, gpu)) };
    gpus.map(one).sum()
}

fn of_grant(engine: &Engine, node: &str, grant: &Grant) -> Amount {
    let pool = engine.site().tasks.as_ref().map(|tasks| tasks.pool).unwrap_or_default();
    let slices = slices::slices_for_grant(grant, |gpu| engine.model_of(node, gpu), pool);
    Amount { gpus: slices::whole_gpus(grant), slices }
}

/// Counts what Slurm gives on a node without a placement: GPUs that the site leaves to it, or of a node that `tessera.toml` does not
/// describe. How large a shard is there, nobody has said. An exclusive job has its GPUs' shards as well.
fn of_allocated(engine: &Engine, node: &str, here: &[&Allocated]) -> Amount {
    let of_kind = |kind| here.iter().filter(move |on| on.kind == kind);
    let whole = union(of_kind(GresKind::Gpu).map(|on| on.gpus));
    let share = |on: &&Allocated| {
        let left = engine.left_to_slurm(node, on.gpus);
        let ours = |gpu: &GpuIndex| !left.contains(*gpu) && engine.model_of(node, *gpu).is_some();
        let several: Vec<GpuIndex> =
            on.gpus.iter().filter(|gpu| !whole.contains(*gpu) && ours(gpu)).collect();
        if several.len() > 1 {
            // They become the job's as a whole: `place_on_node::unmanaged`.
            return Some(of_whole(engine, node, several.into_iter()));
        }
        let gpu = on.gpus.iter().find(|gpu| !whole.contains(*gpu))?;
        let mem_mib = engine.model_of(node, gpu)?.shards_mib(u32::try_from(on.amount).unwrap_or(u32::MAX));
        Some(of_grant(engine, node, &Grant::Mps { on: ShareOn::Gpu(gpu), mem_mib, threads: 1 }))
    };
    let shares: Amount = of_kind(GresKind::Shard).filter_map(share).sum();
    of_whole(engine, node, whole.iter()) + shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use geometry::JobId;
    use topology::GpuSet;

    fn engine() -> Engine {
        let text = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"dynamic\"\n\
                    [[nodes]]\nnames = \"n2\"\ngpu = \"a30\"\ncount = 2\nmig = \"dynamic\"\n";
        Engine::of_tests(text)
    }

    fn view(exclusive: bool) -> JobView {
        JobView { id: JobId(5), exclusive, ..JobView::of_tests() }
    }

    fn on(node: &str, kind: GresKind, bits: u64, amount: u64) -> Allocated {
        Allocated { node: node.to_owned(), kind, gpus: GpuSet::from_bits(bits), amount }
    }

    fn counted(held: &[(String, Amount)]) -> u64 {
        held.iter().map(|(_, amount)| amount.slices).sum()
    }

    #[test]
    fn whatever_slurm_has_allocated_counts() {
        let of = |allocated: &[Allocated]| counted(&held(&engine(), &view(true), None, allocated));
        let gpu = GresKind::Gpu;
        assert_eq!(of(&[on("n1", gpu, 0b11, 2), on("n2", gpu, 0b1, 1)]), 18);
        assert_eq!(of(&[on("n1", GresKind::Shard, 0b1, 20)]), 4);
        // Those of several GPUs are the job's as a whole.
        assert_eq!(of(&[on("n1", GresKind::Shard, 0b11, 50)]), 14);
        // A node that nobody has described: its GPUs count as uncut ones, its shards not.
        assert_eq!(of(&[on("x1", gpu, 0b111, 3)]), 21);
        assert_eq!(of(&[on("x1", GresKind::Shard, 0b1, 20)]), 0);
        // All of a node, by both names.
        assert_eq!(of(&[on("n1", gpu, 0b11, 2), on("n1", GresKind::Shard, 0b11, 80)]), 14);
        assert_eq!(held(&engine(), &view(false), None, &[]), [], "its user removed its GRES");
    }

    #[test]
    fn a_placement_counts_before_what_slurm_counts() {
        let engine = engine();
        let model = engine.model_of("n1", GpuIndex(0)).unwrap();
        let profile = model.profile("2g.10gb").unwrap().id;
        let spec = protocol::MigSpec { gpu: GpuIndex(0), profile, start: geometry::Slice(0) };
        let placement =
            JobPlacement { job: JobId(5), nodes: vec![("n1".to_owned(), Grant::Mig(vec![spec]).into())] };
        let of = |allocated: &[Allocated]| counted(&held(&engine, &view(false), Some(&placement), allocated));
        assert_eq!(of(&[on("n1", GresKind::Shard, 1, 10)]), 2);
        assert_eq!(of(&[on("n2", GresKind::Gpu, 1, 1)]), 6);
    }
}
