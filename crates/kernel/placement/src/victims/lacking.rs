//! Resources other than GPUs that a job lacks on nodes.

use super::HostResources;

/// Room that a node has for jobs, and room that a job needs of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// All that an empty node has.
    pub empty: HostResources,
    /// Room that the job takes there.
    pub needed: HostResources,
}

/// Room that the job needs on each node beyond what the `running` jobs leave, in the nodes' order. `has` is what a running
/// job has on the node of this index.
///
/// slurmctld holds its locks meanwhile, and there may be many running jobs: they are walked once at most, no further when they leave
/// nothing anywhere, and a node on which they leave nothing is not asked for again.
pub fn lacking<J>(
    nodes: &[Needs],
    running: impl IntoIterator<Item = J>,
    has: impl Fn(&J, usize) -> HostResources,
) -> Vec<HostResources> {
    let mut free: Vec<HostResources> = nodes.iter().map(|node| node.empty).collect();
    let mut with_room: Vec<usize> = (0..nodes.len()).collect();
    with_room.retain(|at| !free[*at].is_nothing());
    for job in running {
        if with_room.is_empty() {
            break;
        }
        with_room.retain(|at| {
            free[*at] = free[*at].minus(has(&job, *at));
            !free[*at].is_nothing()
        });
    }
    nodes.iter().zip(free).map(|(node, free)| node.needed.minus(free)).collect()
}
