//! Chooses the jobs that must end for a request to fit a node: the fewest, and of these the least important.
//!
//! # Problem
//! Of the jobs that may be ended, least important first, choose a set after whose end the request fits the node, and which
//! gives back the cores and memory that the job lacks there. Fewest jobs first; between sets of one size the one whose
//! most important job is least important, then the second most important, and so on.
//!
//! # Approach
//! A request that lies on one GPU needs jobs to go from one GPU: `search` tries every set of the jobs there, small ones
//! first. Where no further GPU may be cut, one that gets empty opens an uncut one as well. A job without whose end the
//! request cannot fit on that GPU is in each of these sets. A request for several whole GPUs needs all jobs to go from some
//! GPUs: every set of GPUs is tried. To each set that makes room on the GPUs the fewest jobs are added that give back what is
//! still lacking. As a set of jobs is a number whose highest bit is its most important job, sets of one size are tried in
//! ascending order.
//!
//! # Limits
//! slurmctld holds its locks meanwhile. At most [`MOST_WEIGHED`] GPUs are weighed, over all sets that are tried. Then, and with
//! more than 128 jobs, the best set known counts: at first the best that `greedy` makes. That has a limit of its own,
//! [`MOST_SPARED`]; where that ends it, some of its jobs may be unnecessary, and they still make room.

mod greedy;
mod lacking;
mod search;

use std::collections::HashMap;

use geometry::{GpuIndex, JobId};
use node_state::{Ask, Claim, Gpu, Node, Policy, Spread};
use protocol::Isolation;
use topology::{GpuSet, HardwareGraph};

use crate::decide::fits;

pub use lacking::{Needs, lacking};

/// Most GPUs that are weighed, summed over all sets that are tried. Every set of the jobs of one GPU takes 1024 on a node with
/// eight GPUs and seven jobs on each. `cargo bench -p placement --bench victims` shows how long that takes.
pub const MOST_WEIGHED: u32 = 2048;
/// Most GPUs that are weighed for each way of making a first set.
pub const MOST_SPARED: u32 = 1024;

/// Cores and memory of a job on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostResources {
    /// Cores.
    pub cores: u64,
    /// Memory, MiB.
    pub memory_mib: u64,
}

impl HostResources {
    /// Room that is left of it without what is `given`, never below nothing.
    #[must_use]
    pub fn minus(self, given: Self) -> Self {
        Self {
            cores: self.cores.saturating_sub(given.cores),
            memory_mib: self.memory_mib.saturating_sub(given.memory_mib),
        }
    }

    fn plus(self, more: Self) -> Self {
        Self {
            cores: self.cores.saturating_add(more.cores),
            memory_mib: self.memory_mib.saturating_add(more.memory_mib),
        }
    }

    fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// A job that may be ended, and what it gives back on the node beside GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The job.
    pub job: JobId,
    /// Room that it has of the node.
    pub has: HostResources,
}

/// The fewest and least important of `victims`, which come least important first, that must end for the request to fit
/// the node and for `lacks` to be given back there. `None`: not even the end of all would do.
#[must_use]
pub fn least_victims(
    node: &Node,
    ask: &Ask,
    policy: &Policy,
    victims: &[Victim],
    lacks: HostResources,
) -> Option<Vec<JobId>> {
    let places = victims.iter().zip(0..).map(|(v, i)| (v.job, i)).collect();
    let case = Case { node, ask, policy, victims, places, lacks };
    let pools = case.pools();
    let known = greedy::best(&case, &pools)?;
    let least = if victims.len() <= 128 { search::better(&case, &pools, &known) } else { None };
    Some(least.unwrap_or(known).into_iter().map(|i| victims[i].job).collect())
}

/// Jobs of which some must go, by their place among the victims, and where the request must then fit.
struct Pool {
    node: Node,
    ask: Ask,
    jobs: Vec<usize>,
}

/// GPUs from which jobs must go.
enum Pools {
    /// Any one of these makes room.
    Any(Vec<Pool>),
    /// All jobs must go from so many of these GPUs.
    Emptied(usize, Vec<Vec<usize>>),
}

/// Parameters of the question.
struct Case<'a> {
    node: &'a Node,
    ask: &'a Ask,
    policy: &'a Policy,
    victims: &'a [Victim],
    places: HashMap<JobId, usize>,
    lacks: HostResources,
}

impl Case<'_> {
    /// Tells whether the request fits there once those victims have ended that are `going`, by their place.
    fn makes_room(&self, going: &dyn Fn(usize) -> bool, node: &Node, ask: &Ask) -> bool {
        let mut node = node.clone();
        node.release_all(&|job| self.places.get(&job).is_some_and(|i| going(*i)));
        fits(&node, ask, self.policy)
    }

    fn lacking_after(&self, going: impl IntoIterator<Item = usize>) -> HostResources {
        going.into_iter().fold(self.lacks, |lacks, i| lacks.minus(self.victims[i].has))
    }

    /// The victims that have something on a GPU.
    fn on(&self, gpu: GpuIndex) -> Vec<usize> {
        let alone = self.alone(gpu);
        let here = |v: &Victim| alone.as_ref().is_some_and(|node| node.gpus_of(v.job).next().is_some());
        self.victims.iter().zip(0..).filter(|(v, _)| here(v)).map(|(_, i)| i).collect()
    }

    /// A node that has only this GPU of the node, and the claims on its parts.
    fn alone(&self, gpu: GpuIndex) -> Option<Node> {
        let gpus = vec![self.node.gpus.get(usize::from(gpu.0))?.clone()];
        let here = |claim: &&Claim| claim.on.gpu() == gpu;
        let as_first = |claim: &Claim| Claim { job: claim.job, on: claim.on.with_gpu(GpuIndex(0)) };
        let claims = self.node.claims.iter().filter(here).map(as_first).collect();
        Some(Node { gpus, links: HardwareGraph::uniform(1, 0.0).into(), keep_uncut: 0, claims })
    }

    fn gpus(&self) -> impl Iterator<Item = GpuIndex> + use<> {
        (0_u16..).take(self.node.gpus.len()).map(GpuIndex)
    }

    fn pools(&self) -> Pools {
        let request = &self.ask.request;
        let counts_gpus =
            matches!(request.isolation, Isolation::Whole | Isolation::Auto | Isolation::Tasks { .. });
        if let Some(n) = request.gpus.filter(|n| *n > 1 && counts_gpus) {
            return Pools::Emptied(n as usize, self.emptied_one_by_one(n));
        }
        let one_gpu = self.ask.spread == Spread::OneGpu || request.instances <= 1;
        let mut pools: Vec<Pool> = if one_gpu {
            self.gpus().map(|gpu| self.pool_of(gpu)).collect()
        } else {
            let held = |v: &Victim| self.node.gpus_of(v.job).next().is_some();
            let jobs = self.victims.iter().zip(0..).filter(|(v, _)| held(v)).map(|(_, i)| i).collect();
            vec![Pool { node: self.node.clone(), ask: self.ask.clone(), jobs }]
        };
        pools.retain(|pool| self.makes_room(&|i| pool.jobs.contains(&i), &pool.node, &pool.ask));
        Pools::Any(pools)
    }

    /// The jobs of one GPU, and the question whether the request fits that or a GPU that its emptying opens. Where nothing ties
    /// the GPU to the others, it is looked at alone.
    fn pool_of(&self, gpu: GpuIndex) -> Pool {
        let gpus: GpuSet = self.opened_by(gpu).chain([gpu]).collect();
        let mut jobs: Vec<usize> = gpus.iter().flat_map(|gpu| self.on(gpu)).collect();
        jobs.sort_unstable();
        jobs.dedup();
        let allowed = Some(self.ask.allowed.map_or(gpus, |of| of.and(gpus)));
        let is_tied = self.node.keep_uncut > 0 || self.ask.request.place.is_some();
        match self.alone(gpu).filter(|_| !is_tied && self.ask.permits(gpu)) {
            Some(node) => {
                let ask = Ask { allowed: None, next: GpuSet::EMPTY, ..self.ask.clone() };
                Pool { node, ask, jobs }
            }
            None => Pool { node: self.node.clone(), ask: Ask { allowed, ..self.ask.clone() }, jobs },
        }
    }

    /// The GPUs of which one may get its first part once `gpu` has none: all uncut ones, where none of them may be cut now.
    fn opened_by(&self, gpu: GpuIndex) -> impl Iterator<Item = GpuIndex> {
        let closes = |gpu: &Gpu| gpu.is_flexible() && gpu.is_cut() && self.node.may_be_cut() == 0;
        let opens = self.node.gpus.get(usize::from(gpu.0)).is_some_and(closes);
        let of = self.gpus().zip(&self.node.gpus);
        of.filter(move |(_, other)| opens && other.is_flexible() && !other.is_cut()).map(|(index, _)| index)
    }

    /// The jobs of each GPU that one of the `n` whole GPUs may come from once all victims have ended.
    fn emptied_one_by_one(&self, n: u32) -> Vec<Vec<usize>> {
        let mut one = self.ask.clone();
        one.request.gpus = Some(1);
        one.request.seats = one.request.seats.div_ceil(n.max(1));
        one.quotas.clear();
        let mut emptied = self.node.clone();
        emptied.release_all(&|job| self.places.contains_key(&job));
        let may = |gpu: &GpuIndex| {
            let only: GpuSet = [*gpu].into_iter().collect();
            let ask = Ask { allowed: Some(one.allowed.map_or(only, |of| of.and(only))), ..one.clone() };
            fits(&emptied, &ask, self.policy)
        };
        self.gpus().filter(may).map(|gpu| self.on(gpu)).collect()
    }
}
