//! The state of a node's GPUs as capacity that is left.

use geometry::Model;
use node_state::{Gpu, GpuState, Purpose};

/// Capacity left of a GPU for shares, or for a job that takes all of it, in thousandths. Instances leave nothing for those, and
/// neither does the pool of GPU tasks.
#[must_use]
pub fn free_milli(gpu: &Gpu) -> u16 {
    match &gpu.state {
        _ if matches!(gpu.purpose, Purpose::Static | Purpose::Slurm) => 0,
        GpuState::Free => 1000,
        GpuState::Mig(_) if !gpu.has_job() => 1000,
        GpuState::Mps(shares) => {
            let promised = shares.iter().fold(0, |sum: u64, share| sum.saturating_add(share.mem_mib));
            1000 - part_milli(promised, gpu.model)
        }
        GpuState::Whole(_) | GpuState::Tasks(_) | GpuState::Mig(_) => 0,
    }
}

/// Part of a model's GPU that so much memory is, in thousandths: at least one, and at most all of it.
#[must_use]
pub fn part_milli(mem_mib: u64, model: &Model) -> u16 {
    let milli = mem_mib.saturating_mul(1000) / model.visible_mib().max(1);
    u16::try_from(milli.clamp(1, 1000)).unwrap_or(1000)
}
