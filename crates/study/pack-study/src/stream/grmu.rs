//! GRMU: Siavashi and Momtazpour, "A Multi-Objective Framework for Optimizing GPU-Enabled VM Placement in Cloud Data Centers
//! with Multi-Instance GPU Technology", arXiv:2502.01909.
//!
//! GPUs are divided into a *heavy* basket for jobs that take a whole GPU and a *light* one for smaller instances. A basket
//! takes GPUs from the pool as it needs them, up to its part of all GPUs; a job goes to the first GPU of its basket with room, at
//! the start that leaves most placements. A GPU without jobs goes back to the pool.
//!
//! If a light job finds no place, the instances of a light GPU are put together again, the most fragmented GPU first, if that
//! makes room. At intervals, two light GPUs with one instance of half a GPU each are made one. An instance cannot move while its
//! job runs, so here the job is requeued: it starts anew at the new place.
//!
//! The paper knows neither sets nor cores nor nodes that are asked for whole. Here, whole GPUs are of the heavy basket.

use geometry::{GpuIndex, JobId, Slice};
use node_state::{Gpu, GpuState, Holder, Node, Policy};
use protocol::{Grant, MigSpec};

use super::class::{Class, Want};
use super::mfi::fragmentation;
use super::node::NodeState;
use super::published::{held, starts};

/// The heavy basket has at most so many hundredths of the GPUs.
const HEAVY_PERCENT: usize = 30;
/// Light GPUs are made one at such intervals, ms.
const CONSOLIDATE_MS: u64 = 3_600_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basket {
    Pool,
    Light,
    Heavy,
}

/// Which GPU is in which basket.
pub(crate) struct Grmu {
    basket: Vec<Vec<Basket>>,
    next_ms: u64,
}

/// A job that moves, on a node.
pub(crate) struct Move {
    pub(crate) job: JobId,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) grant: Grant,
}

impl Grmu {
    pub(crate) fn new(nodes: &[NodeState]) -> Self {
        let basket = nodes.iter().map(|node| vec![Basket::Pool; node.node.gpus.len()]).collect();
        Self { basket, next_ms: CONSOLIDATE_MS }
    }

    fn spare(&self, basket: Basket) -> usize {
        let all: usize = self.basket.iter().map(Vec::len).sum();
        let heavy = all * HEAVY_PERCENT / 100;
        let most = if basket == Basket::Heavy { heavy } else { all - heavy };
        let used = self.basket.iter().flatten().filter(|b| **b == basket).count();
        most.saturating_sub(used)
    }

    /// Chooses node and place.
    pub(crate) fn place(
        &self,
        nodes: &[NodeState],
        class: &Class,
        policy: &Policy,
        without: &[usize],
    ) -> Option<(usize, Grant)> {
        let may = |at: usize, node: &NodeState| {
            node.cpus >= class.cpus && node.mem_mib >= class.mem_mib && !without.contains(&at)
        };
        let all = || nodes.iter().enumerate().filter(|(at, node)| may(*at, node));
        // First the basket's own GPUs, then those of the pool.
        for pool in [false, true] {
            for (at, node) in all() {
                let grant = match class.want(&node.node, policy) {
                    Want::Whole(n) => self.whole(at, node, n, pool),
                    Want::Instance(profile) => {
                        let heavy = node.node.gpus.first().is_some_and(|g| g.model.placement_units == profile.size);
                        self.instance((at, heavy), node, profile, pool)
                    }
                    Want::Other => None,
                };
                if let Some(grant) = grant {
                    return Some((at, grant));
                }
            }
        }
        None
    }

    fn whole(&self, at: usize, node: &NodeState, n: usize, pool: bool) -> Option<Grant> {
        let mut spare = if pool { self.spare(Basket::Heavy) } else { 0 };
        let mut gpus = Vec::new();
        for (i, gpu) in node.node.gpus.iter().enumerate() {
            let takes = match self.basket[at][i] {
                Basket::Heavy => true,
                Basket::Pool if spare > 0 => {
                    spare -= 1;
                    true
                }
                _ => false,
            };
            if takes && !gpu.has_job() && gpu.is_ever_whole() {
                gpus.push(index(i));
            }
        }
        gpus.truncate(n);
        (n > 0 && gpus.len() == n).then_some(Grant::Whole(gpus))
    }

    fn instance(
        &self,
        (at, heavy): (usize, bool),
        node: &NodeState,
        profile: &'static geometry::Profile,
        pool: bool,
    ) -> Option<Grant> {
        let own = if heavy { Basket::Heavy } else { Basket::Light };
        let wanted = if pool { Basket::Pool } else { own };
        if pool && self.spare(own) == 0 {
            return None;
        }
        let gpus = node.node.gpus.iter().enumerate().filter(|(i, _)| self.basket[at][*i] == wanted);
        gpus.filter_map(|(i, gpu)| Some((i, roomiest(gpu, profile)?))).next().map(|(i, start)| {
            Grant::Mig(vec![MigSpec { gpu: index(i), profile: profile.id, start }])
        })
    }

    /// Notes that a job has this on a node.
    pub(crate) fn taken(&mut self, at: usize, node: &Node, grant: &Grant) {
        for gpu in grant.gpus() {
            let i = usize::from(gpu.0);
            let heavy = match grant {
                Grant::Mig(specs) => specs.iter().any(|spec| {
                    let model = node.gpus[i].model;
                    model.profile_by_id(spec.profile).is_some_and(|p| p.size == model.placement_units)
                }),
                _ => true,
            };
            self.basket[at][i] = if heavy { Basket::Heavy } else { Basket::Light };
        }
    }

    /// Gives GPUs without jobs back to the pool.
    pub(crate) fn released(&mut self, at: usize, node: &Node) {
        for (i, gpu) in node.gpus.iter().enumerate() {
            if !gpu.has_job() {
                self.basket[at][i] = Basket::Pool;
            }
        }
    }

    /// Finds moves within one light GPU that make room for a job of this class.
    pub(crate) fn defragment(&self, nodes: &[NodeState], class: &Class, policy: &Policy) -> Vec<Move> {
        let mut light: Vec<(i64, usize, usize)> = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            let has_cores = node.cpus >= class.cpus && node.mem_mib >= class.mem_mib;
            let gpus = node.node.gpus.iter().enumerate();
            let gpus = gpus.filter(|(i, _)| has_cores && self.basket[at][*i] == Basket::Light);
            light.extend(gpus.map(|(i, gpu)| (-fragmentation(gpu.model, held(gpu)), at, i)));
        }
        light.sort_unstable();
        for (_, at, i) in light {
            let node = &nodes[at].node;
            let Want::Instance(profile) = class.want(node, policy) else { return Vec::new() };
            if let Some(moves) = put_together(node, at, i, profile) {
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
                let Some([(job, spec)]) = alone_on(gpu, i).and_then(|all| <[_; 1]>::try_from(all).ok()) else { continue };
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
                has_cores
                    && gpu.model.profile_by_id(spec.profile).is_some_and(|p| roomiest(gpu, p).is_some())
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

fn index(i: usize) -> GpuIndex {
    GpuIndex(u16::try_from(i).unwrap_or(u16::MAX))
}

fn node_job_cores(node: &NodeState, job: JobId) -> (u32, u64) {
    node.running.iter().find(|running| running.job == job).map_or((0, 0), |running| running.asks())
}

/// Finds the start that leaves most placements.
fn roomiest(gpu: &Gpu, profile: &geometry::Profile) -> Option<Slice> {
    let before = held(gpu);
    let left = |start: &Slice| gpu.model.placements_left(before | profile.at(*start).mask());
    starts(gpu, profile).into_iter().rev().max_by_key(left)
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
    let mut mock = Node::new(vec![Gpu::new(gpu.model, gpu.policy)], topology::LinkMatrix::uniform(1, 1.0));
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
