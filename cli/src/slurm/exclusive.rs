//! How Slurm's commands show that a job has its nodes to itself.

use super::version;

/// Tells whether Slurm's commands have a field of its own for it. Before 26.05 the field for sharing says it too: `NO` of a job,
/// `EXCLUSIVE` of a partition. From then on, that field says `NO` of nearly every job.
pub(crate) fn has_its_field() -> bool {
    version::known().is_some_and(|version| version.since(26, 5))
}

/// Tells whether a value of that field says that nodes are given as a whole. Others are `NO`, `USER` and `MCS`.
pub(crate) fn is_whole(value: &str) -> bool {
    ["NODE", "TOPO"].contains(&value)
}
