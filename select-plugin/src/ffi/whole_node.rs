//! Jobs that get every GPU of their nodes: which ones is Slurm's choice, their order follows the job's pattern.

use placement::JobId;
use placement::ask::GpuSet;
use placement::matched::encode;
use placement::wire::JobPlacement;

use super::hooks::State;
use super::host::Host;
use super::{read, sys, write};
use crate::commit::{place, why_of_all};
use crate::view::{ChosenView, EntryChoice, GresKind, JobView, union};

/// The placement of an exclusive job that Slurm has just allocated, with its reason in the job's environment; `None`: it is
/// none, or has nothing that is ours to order.
pub(super) fn in_order(state: &State, host: &Host, job: &mut sys::job_record_t) -> Option<JobPlacement> {
    let engine = state.engine.as_ref()?;
    let view = read::job(host, job);
    if !view.exclusive {
        return None;
    }
    let view = JobView { exclusive: false, ..view };
    let want = view.want().filter(|w| w.kind == GresKind::Gpu)?;
    let question = engine.question(view.id, view.uid, &want);
    let mut placement = JobPlacement { job: JobId(job.job_id), nodes: Vec::new() };
    let (mut whys, mut matched) = (Vec::new(), Vec::new());
    // A node has one entry for each type of its GPUs.
    let mut all: Vec<(String, GpuSet)> = Vec::new();
    for on in read::allocated(host, job).into_iter().filter(|on| on.kind == GresKind::Gpu) {
        match all.iter_mut().find(|(node, _)| *node == on.node) {
            Some((_, gpus)) => *gpus = union([*gpus, on.gpus].into_iter()),
            None => all.push((on.node, on.gpus)),
        }
    }
    for (node, gpus) in all {
        let entry = EntryChoice { chosen: gpus, available: gpus, sockets: Vec::new() };
        let slurm = ChosenView { name: node.clone(), entries: vec![entry], near: GpuSet::EMPTY };
        let placed = place(engine, question.clone(), &want, &slurm)?.ok()?;
        whys.push((placed.gbps, placed.why));
        matched.extend(placed.matched.map(|m| (node.clone(), m)));
        placement.nodes.push((node, placed.grant));
    }
    if placement.nodes.is_empty() {
        return None;
    }
    write::why(host, job, Some(&why_of_all(whys, &placement.nodes)));
    let told = (!matched.is_empty()).then(|| encode(&matched));
    write::matched(host, job, told.as_deref());
    Some(placement)
}
