//! What a request costs on a node.

use crate::shape::{NodeView, Shape};
use crate::tables::{OfModel, Tables};

/// Costs of whole GPUs are multiples of this: 0.3 GPU.
pub const WHOLE_STEP: i64 = 300_000;
/// Costs of cores alone are multiples of this: 0.1 GPU.
pub const CORES_STEP: i64 = 100_000;
/// Tenths of an idle GPU's residual by which taking a part of it costs less.
pub const OPENING: i64 = 7;

/// Place and cost of a request on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Expected loss of the cluster, in millionths of a GPU; the least is the best.
    pub cost: i64,
    /// The GPU of which a part is taken, counted in the node. `None`: idle GPUs, or none.
    pub gpu: Option<usize>,
}

/// Part of a node that a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Idle GPUs, as many as the request has, or cores alone.
    Idle,
    /// A part of this GPU, counted in the node.
    PartOf(usize),
}

impl Tables {
    /// Ranks a node for a request. `None`: it has no room.
    ///
    /// Of nodes with the same cost, the caller takes the first in the site's order.
    #[must_use]
    pub fn rank(&self, node: &NodeView<'_>, shape: &Shape) -> Option<Place> {
        if !node.fits(shape) {
            return None;
        }
        let lost = self.lost_by(node, shape);
        let model = self.of(node);
        if shape.is_part() {
            return Some(part(model, node, shape, lost));
        }
        Some(Place { cost: whole(model, shape, lost), gpu: None })
    }

    /// Computes what a choice that others have made is expected to cost, in millionths of a GPU, without the discount for an idle
    /// GPU. `None`: it has no room.
    #[must_use]
    pub fn cost_of(&self, node: &NodeView<'_>, shape: &Shape, taken: Taken) -> Option<i64> {
        if !node.fits(shape) {
            return None;
        }
        let lost = self.lost_by(node, shape);
        let model = self.of(node);
        let Taken::PartOf(gpu) = taken else { return Some(whole(model, shape, lost)) };
        let free = *node.free_milli.get(gpu)?;
        let left = free.checked_sub(shape.milli)?;
        Some(lost(usize::from(free >= 1000)) + model.residual(left) - model.residual(free))
    }

    /// What the rest of the node loses if so many idle GPUs are taken for a request that fits.
    fn lost_by<'a>(&'a self, node: &'a NodeView<'_>, shape: &Shape) -> impl Fn(usize) -> i64 + 'a {
        let left: u32 = node.free_milli.iter().fold(0, |sum, &free| sum.saturating_add(u32::from(free)));
        let cores = node.cores_milli - shape.cores_milli;
        let stranded = self.stranded(left.saturating_sub(shape.total_milli()), cores)
            - self.stranded(left, node.cores_milli);
        move |idle| stranded + self.of(node).lost(node, idle, cores)
    }
}

/// Costs of whole GPUs or of cores alone.
fn whole(model: &OfModel, shape: &Shape, lost: impl Fn(usize) -> i64) -> i64 {
    let step = if shape.gpus == 0 { CORES_STEP } else { WHOLE_STEP };
    rounded(lost(usize::from(shape.gpus)) - i64::from(shape.gpus) * model.residual(1000), step)
}

/// Finds the GPU of the node on which a part costs least; the first among equals. `lost` is what the rest of the node loses
/// if so many idle GPUs are taken.
fn part(model: &OfModel, node: &NodeView<'_>, shape: &Shape, lost: impl Fn(usize) -> i64) -> Place {
    let opening = lost(1) - model.residual(1000) * OPENING / 10;
    let filling = lost(0);
    let on = |free: u16| {
        let rest = model.residual(free - shape.milli) - model.residual(free);
        rest + if free >= 1000 { opening } else { filling }
    };
    let all = node.free_milli.iter().enumerate().filter(|&(_, &free)| free >= shape.milli);
    let best = all.map(|(gpu, &free)| (on(free), gpu)).min();
    let (cost, gpu) = best.unwrap_or((i64::MAX, 0));
    Place { cost, gpu: Some(gpu) }
}

impl OfModel {
    /// Adds up the sets for which the node has room now, and not with so many idle GPUs fewer and these cores.
    fn lost(&self, node: &NodeView<'_>, idle: usize, cores_milli: u32) -> i64 {
        let now = node.free_milli.iter().filter(|&&free| free >= 1000).count();
        let then = now.saturating_sub(idle);
        let lost = self.sets.iter().filter(|set| {
            let has = |gpus: usize, cores: u32| gpus >= usize::from(set.gpus) && cores >= set.cores_milli;
            has(now, node.cores_milli) && !has(then, cores_milli)
        });
        lost.map(|set| set.worth).sum()
    }
}

/// Rounds to the nearest multiple, halves up.
fn rounded(cost: i64, step: i64) -> i64 {
    (cost + step / 2).div_euclid(step) * step
}
