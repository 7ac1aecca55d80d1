//! The moves of GRMU: a GPU is put together for a job that finds no place, and half-used GPUs become one.

use geometry::{GpuIndex, JobId};
use node_state::{Gpu, GpuState, Holder, Node, Policy};
use protocol::{Grant, MigSpec};

use super::class::{Class, Want};
use super::grmu::{Basket, CONSOLIDATE_MS, Grmu, index, roomiest};
use super::mfi::fragmentation;
use super::node::NodeState;
use super::published::{held, starts};

/// A job that moves, on a node.
pub(crate) struct Move {
    pub(crate) job: JobId,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) grant: Grant,
}

impl Grmu {
    /// Finds moves within one light GPU that make room for a job of this class.
    pub(crate) fn defragment(&self, nodes: &[NodeState], class: &Class, policy: &Policy) -> Vec<Move> {
        let mut light: Vec<(i64, usize, usize)> = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            let has_cores = node.has_cores(class);
            let gpus = node.node.gpus.iter().enumerate();
            let gpus = gpus.filter(|(i, _)| has_cores && self.basket[at][*i] == Basket::Light);
            light.extend(gpus.map(|(i, gpu)| (-fragmentation(gpu.model, held(gpu)), at, i)));
        }
        light.sort_unstable();
        for (_, at, i) in light {
            let node = &nodes[at];
            let Want::Instance(profile) = node.want(class, policy) else { return Vec::new() };
            if let Some(moves) = put_together(&node.node, at, i, profile) {
                return moves;
            }
        }
        Vec::new()
    }

    /// Finds two half-used light GPUs that can be one, at intervals.
    pub(crate) fn consolidate(&mut self, nodes: &[NodeState], now_ms: u64) -> Vec<Move> {
        if now_ms < self.next_ms {
            return Vec::new();
        }
        self.next_ms = now_ms + CONSOLIDATE_MS;
        let mut halves: Vec<(usize, usize, JobId, MigSpec)> = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            for (i, gpu) in node.node.gpus.iter().enumerate() {
                let Some([(job, spec)]) = alone_on(gpu, i).and_then(|all| <[_; 1]>::try_from(all).ok())
                else {
                    continue;
                };
                let size = gpu.model.profile_by_id(spec.profile).map_or(0, |p| p.size);
                if self.basket[at][i] == Basket::Light && size * 2 == gpu.model.placement_units {
                    halves.push((at, i, job, spec));
                }
            }
        }
        let mut moves = Vec::new();
        while let Some((from, _, job, spec)) = halves.pop() {
            let target = halves.iter().position(|(to, i, ..)| {
                let node = &nodes[*to];
                let moved = node_job_cores(&nodes[from], job);
                let has_cores = *to == from || node.cpus >= moved.0 && node.mem_mib >= moved.1;
                let gpu = &node.node.gpus[*i];
                has_cores && gpu.model.profile_by_id(spec.profile).is_some_and(|p| roomiest(gpu, p).is_some())
            });
            let Some(target) = target else { continue };
            let (to, i, ..) = halves.remove(target);
            let gpu = &nodes[to].node.gpus[i];
            let start = gpu.model.profile_by_id(spec.profile).and_then(|p| roomiest(gpu, p));
            let Some(start) = start else { continue };
            let grant = Grant::Mig(vec![MigSpec { gpu: index(i), profile: spec.profile, start }]);
            moves.push(Move { job, from, to, grant });
        }
        moves
    }
}

fn node_job_cores(node: &NodeState, job: JobId) -> (u32, u64) {
    node.running.iter().find(|running| running.job == job).map_or((0, 0), |running| running.asks())
}

/// Lists the jobs' instances on a GPU; `None` if something else is on it.
fn alone_on(gpu: &Gpu, i: usize) -> Option<Vec<(JobId, MigSpec)>> {
    let GpuState::Mig(all) = &gpu.state else { return None };
    let jobs = all.iter().filter(|instance| instance.holder != Holder::Idle);
    jobs.map(|instance| match instance.holder {
        Holder::Isolated(job) => {
            Some((job, MigSpec { gpu: index(i), profile: instance.profile, start: instance.start }))
        }
        _ => None,
    })
    .collect()
}

/// Puts the instances of a GPU onto it one by one as if it were empty, the longest first. The moves, if the profile then fits.
fn put_together(node: &Node, at: usize, i: usize, profile: &geometry::Profile) -> Option<Vec<Move>> {
    let gpu = &node.gpus[i];
    let mut jobs = alone_on(gpu, i)?;
    let size = |spec: &MigSpec| gpu.model.profile_by_id(spec.profile).map_or(0, |p| p.size);
    jobs.sort_by_key(|(job, spec)| (std::cmp::Reverse(size(spec)), *job));
    let mut mock = Node::new(vec![Gpu::new(gpu.model, gpu.policy)], topology::HardwareGraph::uniform(1, 1.0));
    let mut moves = Vec::new();
    for (job, spec) in jobs {
        let start = roomiest(&mock.gpus[0], gpu.model.profile_by_id(spec.profile)?)?;
        let here = MigSpec { gpu: GpuIndex(0), profile: spec.profile, start };
        mock.apply(job, geometry::Uid(1000), &Grant::Mig(vec![here])).ok()?;
        if start != spec.start {
            let grant = Grant::Mig(vec![MigSpec { start, ..spec }]);
            moves.push(Move { job, from: at, to: at, grant });
        }
    }
    (!moves.is_empty() && !starts(&mock.gpus[0], profile).is_empty()).then_some(moves)
}
