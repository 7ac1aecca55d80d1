//! GRMU: Siavashi and Momtazpour, "A Multi-Objective Framework for Optimizing GPU-Enabled VM Placement in Cloud Data Centers
//! with Multi-Instance GPU Technology", arXiv:2502.01909.
//!
//! GPUs are divided into a *heavy* basket for jobs that take a whole GPU and a *light* one for smaller instances. A basket
//! takes GPUs from the pool as it needs them, up to its part of all GPUs; a job goes to the first GPU of its basket with room, at
//! the start that leaves most placements. A GPU without jobs goes back to the pool.
//!
//! If a light job finds no place, the instances of a light GPU are put together again, the most fragmented GPU first, if that
//! makes room. At intervals, two light GPUs with one instance of half a GPU each are made one. An instance cannot move while its
//! job runs, so here the job is requeued: it starts again at the new place.
//!
//! The paper knows neither sets nor cores nor nodes that are asked for whole. Here, whole GPUs are of the heavy basket.

use geometry::{GpuIndex, Slice};
use node_state::{Gpu, Node, Policy};
use protocol::{Grant, MigSpec};

use super::class::{Class, Want};
use super::node::NodeState;
use super::published::{held, starts};

/// The heavy basket has at most so many hundredths of the GPUs.
const HEAVY_PERCENT: usize = 30;
/// Light GPUs are made one at such intervals, ms.
pub(super) const CONSOLIDATE_MS: u64 = 3_600_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Basket {
    Pool,
    Light,
    Heavy,
}

/// Baskets of the GPUs.
pub(crate) struct Grmu {
    pub(super) basket: Vec<Vec<Basket>>,
    pub(super) next_ms: u64,
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

    /// Tells whether the paper says where jobs of a class go.
    pub(crate) fn takes(&self, nodes: &[NodeState], class: &Class, policy: &Policy) -> bool {
        nodes.iter().any(|node| !matches!(node.want(class, policy), Want::Other))
    }

    /// Chooses node and place.
    pub(crate) fn place(
        &self,
        nodes: &[NodeState],
        class: &Class,
        policy: &Policy,
        without: &[usize],
    ) -> Option<(usize, Grant)> {
        let may = |at: usize, node: &NodeState| node.has_cores(class) && !without.contains(&at);
        let all = || nodes.iter().enumerate().filter(|(at, node)| may(*at, node));
        // First the basket's own GPUs, then those of the pool.
        for pool in [false, true] {
            for (at, node) in all() {
                let grant = match node.want(class, policy) {
                    Want::Whole(n) => self.whole(at, node, n, pool),
                    Want::Instance(profile) => {
                        let heavy =
                            node.node.gpus.first().is_some_and(|g| g.model.placement_units == profile.size);
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
        gpus.filter_map(|(i, gpu)| Some((i, roomiest(gpu, profile)?)))
            .next()
            .map(|(i, start)| Grant::Mig(vec![MigSpec { gpu: index(i), profile: profile.id, start }]))
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
}

pub(super) fn index(i: usize) -> GpuIndex {
    GpuIndex(u16::try_from(i).unwrap_or(u16::MAX))
}

/// Finds the start that leaves most placements.
pub(super) fn roomiest(gpu: &Gpu, profile: &geometry::Profile) -> Option<Slice> {
    let before = held(gpu);
    let left = |start: &Slice| gpu.model.placements_left(before | profile.at(*start).mask());
    starts(gpu, profile).into_iter().rev().max_by_key(left)
}
