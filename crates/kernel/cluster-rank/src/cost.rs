//! The cost of a request on a node.

use crate::shape::{NodeView, Shape};
use crate::tables::{OfModel, Tables};

/// Costs of whole GPUs are multiples of this: 0.3 GPU.
pub const WHOLE_STEP: i64 = 300_000;

/// Part of a node that a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Idle GPUs, as many as the request has, or cores alone.
    Idle,
    /// A part of this GPU, counted in the node.
    PartOf(usize),
}

impl Tables {
    /// Computes what choices on a node cost: the expected loss of the cluster, in millionths of a GPU. `None`: the request, or a
    /// choice, has no room there.
    #[must_use]
    pub fn costs<'a>(
        &'a self,
        node: &'a NodeView<'_>,
        shape: &'a Shape,
    ) -> Option<impl Fn(Taken) -> Option<i64> + 'a> {
        if !node.fits(shape) {
            return None;
        }
        let left: u32 = node.free_milli.iter().fold(0, |sum, &free| sum.saturating_add(u32::from(free)));
        let cores = node.cores_milli - shape.cores_milli;
        let stranded = self.stranded(left.saturating_sub(shape.total_milli()), cores)
            - self.stranded(left, node.cores_milli);
        let model = self.of(node);
        let lost = move |idle: usize| stranded + model.lost(node, idle, cores);
        Some(move |taken| match taken {
            Taken::Idle => {
                let cost = lost(usize::from(shape.gpus)) - i64::from(shape.gpus) * model.residual(1000);
                Some(if shape.gpus == 0 { cost } else { rounded(cost, WHOLE_STEP) })
            }
            Taken::PartOf(gpu) => {
                let free = *node.free_milli.get(gpu)?;
                let rest = free.checked_sub(shape.milli)?;
                Some(lost(usize::from(free >= 1000)) + model.residual(rest) - model.residual(free))
            }
        })
    }
}

impl OfModel {
    /// Adds up the sets for which the node has room now, and not with so many idle GPUs fewer and these cores.
    fn lost(&self, node: &NodeView<'_>, idle: usize, cores_milli: u32) -> i64 {
        let now = node.idle_gpus();
        let then = now.saturating_sub(idle);
        let lost = self.sets.iter().filter(|set| {
            let has = |gpus: usize, cores: u32| gpus >= usize::from(set.gpus) && cores >= set.cores_milli;
            has(now, node.cores_milli) && !has(then, cores_milli)
        });
        lost.map(|set| set.worth).sum()
    }
}

/// Rounds to the nearest multiple, halves up.
#[must_use]
pub fn rounded(cost: i64, step: i64) -> i64 {
    (cost + step / 2).div_euclid(step) * step
}
