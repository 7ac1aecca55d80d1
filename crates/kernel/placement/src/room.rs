//! Bounds what a node can give as it is now: on a full cluster most nodes have no room, and are told apart without a decision.

use geometry::{Profile, load};
use node_state::{Ask, Gpu, GpuState, Holder, Kind, Node, Policy, Purpose};
use protocol::Isolation;

use crate::decide::{memory, unsuitable};

/// The least that a request needs of a node, by the kinds of grant that may serve it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Least {
    /// Whole GPUs.
    gpus: Option<usize>,
    /// Memory of an instance or share, MiB.
    part_mib: Option<u64>,
    /// It may have seats in the pool of GPU tasks.
    seats: bool,
}

impl Least {
    /// Bounds the need of a request.
    #[must_use]
    pub fn of(ask: &Ask, policy: &Policy) -> Self {
        let request = &ask.request;
        let kinds: &[Kind] = match request.isolation {
            Isolation::Mig(_) => &[Kind::Mig],
            Isolation::Mps => &[Kind::Mps],
            Isolation::Tasks { .. } => &[Kind::Tasks],
            Isolation::Whole => &[Kind::Whole],
            Isolation::Auto => &policy.auto,
            Isolation::None => &[],
        };
        let mut least = Self::default();
        for kind in kinds.iter().filter(|kind| unsuitable(request, **kind, policy).is_none()) {
            match kind {
                Kind::Tasks => least.seats = true,
                Kind::Whole => {
                    least.gpus = Some(request.gpus.unwrap_or(1).try_into().unwrap_or(usize::MAX));
                }
                Kind::Mig | Kind::Mps => {
                    // What plain shards stand for depends on the node.
                    let need = memory(request, *kind, policy).filter(|_| !ask.plain).unwrap_or(0);
                    least.part_mib = Some(least.part_mib.map_or(need, |other| other.min(need)));
                }
            }
        }
        least
    }
}

/// The most that is left of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Healthy GPUs without a job.
    free: usize,
    /// Memory of the largest instance or share that could come onto one GPU, MiB; `None`: no GPU has a place for any.
    part_mib: Option<u64>,
}

impl Room {
    /// Bounds what is left of a node as it is now.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        let healthy = || node.gpus.iter().filter(|gpu| !gpu.left_out);
        let free = healthy().filter(|gpu| !gpu.has_job()).count();
        Self { free, part_mib: healthy().filter_map(part_mib).max() }
    }

    /// Tells whether a request that needs at least this may fit. If not, [`decide`](crate::decide()) would choose nothing.
    #[must_use]
    pub fn may_fit(&self, least: &Least) -> bool {
        let part = || least.part_mib.zip(self.part_mib).is_some_and(|(need, most)| load::fits(need, most));
        least.seats || least.gpus.is_some_and(|gpus| gpus <= self.free) || part()
    }
}

/// Memory of the largest instance or share that could come onto a GPU, MiB; `None`: there is no place for any.
fn part_mib(gpu: &Gpu) -> Option<u64> {
    let left = |device: u64, taken: u64| Some(device.saturating_sub(taken));
    match (&gpu.state, gpu.purpose) {
        (_, Purpose::Whole | Purpose::Slurm) | (GpuState::Whole(_) | GpuState::Tasks(_), _) => None,
        (GpuState::Free, _) => Some(u64::MAX),
        (GpuState::Mps(shares), _) => {
            left(gpu.model.usable_mib(), shares.iter().map(|share| share.mem_mib).sum())
        }
        (GpuState::Mig(instances), _) => {
            let held = instances.iter().filter(|instance| instance.holder != Holder::Idle);
            let held = held.filter_map(|i| Some(gpu.profile_of(i)?.at(i.start).mask()));
            let held = held.fold(0, |all, mask| all | mask);
            let starts = |p: &&Profile| p.starts.iter().any(|start| p.at(*start).mask() & held == 0);
            let new = gpu.model.profiles.iter().filter(starts).map(|p| p.memory_mib);
            let joined = instances.iter().filter_map(|instance| {
                let device = gpu.profile_of(instance)?.memory_mib;
                match &instance.holder {
                    Holder::Shared(shares) => left(device, shares.iter().map(|s| s.mem_mib).sum()),
                    Holder::Compute(holds) => left(device, holds.iter().map(|h| h.mem_mib).sum()),
                    // An idle instance is in nobody's way: its place counts among the new ones.
                    Holder::Idle | Holder::Isolated(_) | Holder::Pool(_) => None,
                }
            });
            new.chain(joined).max()
        }
    }
}
