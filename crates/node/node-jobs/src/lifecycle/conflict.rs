//! Decides whether two jobs' resources exclude each other.
//!
//! The placement engine never grants such a pair. But the journal may still have a job whose epilog never ran.

use node_driver::NvmlIndex;
use node_journal::{Entry, GpuRecord, GrantKind};

/// A GPU, or a part of it, that two jobs both claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contested {
    pub(crate) gpu: NvmlIndex,
    pub(crate) what: String,
}

/// Finds the first thing that `new` needs and `other` holds, if any.
pub(crate) fn conflict(new: &Entry, other: &Entry, share_between_users: bool) -> Option<Contested> {
    // Slurm alone counts the shards of these.
    let slurms = new.kind == GrantKind::Shards && other.kind == GrantKind::Shards;
    let may_share = slurms
        || new.kind == GrantKind::Mps
            && other.kind == GrantKind::Mps
            && (share_between_users || new.uid == other.uid)
            && new.share.as_ref().map(|s| &s.daemon) == other.share.as_ref().map(|s| &s.daemon);
    let pooled = [new, other].iter().all(|e| e.kind == GrantKind::Tasks && e.shares_device())
        && (share_between_users || new.uid == other.uid);
    let partitioned = |e: &Entry| !e.instances.is_empty();
    for GpuRecord { index: gpu, uuid, .. } in new.gpus.iter().filter(|g| other.uses(&g.uuid)) {
        let gpu = *gpu;
        if may_share {
            continue;
        }
        if pooled && !partitioned(new) && !partitioned(other) {
            continue;
        }
        if !(partitioned(new) && partitioned(other)) {
            return Some(Contested { gpu, what: "the GPU".to_owned() });
        }
        for mine in new.instances_on(uuid) {
            for theirs in other.instances_on(uuid) {
                let same = mine.profile == theirs.profile && mine.start == theirs.start;
                if pooled && same || mine.is_beside(theirs) {
                    continue;
                }
                if mine.placement().mask() & theirs.placement().mask() != 0 {
                    return Some(Contested { gpu, what: format!("{} at {}", theirs.name, theirs.start) });
                }
            }
        }
    }
    None
}
