//! The policies that choose a node and its GPUs.

mod fgd;
mod kept;
mod rank;
mod tessera;

use crate::draw::Draw;
use crate::node::{Gpus, Node};
use crate::scores::Scores;
use crate::trace::{TaskSpec, Trace};

pub(crate) use fgd::Fgd;
pub(crate) use tessera::Tessera;

/// Names of the policies, as `--policy` takes them.
pub const NAMES: [&str; 6] = ["tessera", "slurm", "first-fit", "best-fit", "fgd", "random"];

/// A policy with what it knows.
pub(crate) enum Policy {
    /// The rank of `cluster-rank`, with the mix learnt from what has arrived.
    Tessera(Box<Tessera>),
    /// Slurm's node: the fewest free cores that suffice, the first among equals; the fullest GPU on it.
    Slurm,
    /// The first node with room, its first GPUs.
    FirstFit,
    /// The least left over of cores and GPUs, in hundredths of the largest node, the first among equals; the
    /// fullest GPU.
    BestFit,
    /// Weng et al., "Beware of Fragmentation", ATC '23.
    Fgd(Fgd),
    /// Any node with room and any of its GPUs, each as likely as the others.
    Random,
}

impl Policy {
    pub(crate) fn named(name: &str, trace: &Trace) -> Option<Self> {
        Some(match name {
            "tessera" => Self::Tessera(Box::new(Tessera::new(trace))),
            "slurm" => Self::Slurm,
            "first-fit" => Self::FirstFit,
            "best-fit" => Self::BestFit,
            "fgd" => Self::Fgd(Fgd::new(trace)),
            "random" => Self::Random,
            _ => return None,
        })
    }

    /// Learns that a task has arrived, before its decision.
    pub(crate) fn arrived(&mut self, task: &TaskSpec) {
        if let Self::Tessera(tessera) = self {
            tessera.arrived(task);
        }
    }

    /// Learns that a node is used by one more task.
    pub(crate) fn changed(&mut self, node: usize) {
        if let Self::Tessera(tessera) = self {
            tessera.changed(node);
        }
    }

    /// Chooses a node for the task among those with room.
    pub(crate) fn node(
        &mut self,
        nodes: &[Node],
        task: &TaskSpec,
        scores: &mut Scores,
        ties: &[u32],
        draw: &mut Draw,
    ) -> Option<usize> {
        let fits = |at: &usize| nodes[*at].fits(task);
        match self {
            Self::Tessera(tessera) => tessera.node(nodes, task),
            Self::FirstFit => (0..nodes.len()).find(fits),
            Self::Slurm => (0..nodes.len()).filter(fits).min_by_key(|&at| nodes[at].cpu_milli),
            Self::Random => {
                let all: Vec<usize> = (0..nodes.len()).filter(fits).collect();
                all.get(draw.below(all.len())).copied()
            }
            Self::Fgd(fgd) => {
                let of = scores.of(task.shape_at, |at| fgd.score(&nodes[at], task));
                least(of, nodes, task, |at| ties[at])
            }
            Self::BestFit => {
                let of = scores.of(task.shape_at, |at| left_over(&nodes[at], task));
                least(of, nodes, task, |at| ties[at])
            }
        }
    }

    /// Chooses the task's GPUs on its node.
    pub(crate) fn gpus(&self, node: &Node, task: &TaskSpec, draw: &mut Draw) -> Gpus {
        match self {
            Self::FirstFit => node.first(task),
            Self::Slurm | Self::BestFit => node.fullest(task),
            Self::Random if task.shape.gpus == 1 => {
                let all: Gpus = node.with_room(task).collect();
                all.get(draw.below(all.len())).copied().into_iter().collect()
            }
            Self::Random => node.first(task),
            Self::Fgd(fgd) => fgd.gpus(node, task),
            Self::Tessera(tessera) => tessera.gpus(node, task),
        }
    }
}

/// Finds the node with the least score among those with memory for the task. Of equals, the one that comes first in `order`,
/// which has a place for each node.
fn least(
    scores: &[(u32, f64)],
    nodes: &[Node],
    task: &TaskSpec,
    order: impl Fn(usize) -> u32,
) -> Option<usize> {
    let (mut best, mut chosen) = (f64::INFINITY, None);
    for (at, &(_, score)) in scores.iter().enumerate() {
        if score > best || score.is_infinite() || nodes[at].memory_mib < task.memory_mib {
            continue;
        }
        if score < best || chosen.is_none_or(|chosen| order(at) < order(chosen)) {
            (best, chosen) = (score, Some(at));
        }
    }
    chosen
}

/// Scores best fit: half of what is left of 128 cores, half of what is left of 8 GPUs, in whole hundredths.
fn left_over(node: &Node, task: &TaskSpec) -> f64 {
    if !node.view().fits(&task.shape) {
        return f64::INFINITY;
    }
    let cores = f64::from(node.cpu_milli - task.shape.cores_milli) / 128_000.0;
    let gpus = f64::from(node.free_milli() - task.shape.total_milli()) / 8000.0;
    -((1.0 - 0.5 * cores - 0.5 * gpus) * 100.0).trunc()
}
