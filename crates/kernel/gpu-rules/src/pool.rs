//! The site's rules for devices that GPU tasks of several jobs share: how many seats a device has.

use geometry::{Model, Profile};

/// Most clients of one MPS daemon (NVIDIA's documentation of MPS, "Limitations", since Volta).
const MPS_CLIENTS: u32 = 48;

/// Gives the most clients of MPS on a device, a part of them on a part of the GPU; `profile` is `None` for the whole GPU.
#[must_use]
pub fn clients(model: &Model, profile: Option<&Profile>) -> u32 {
    let all = u32::from(model.compute_slices.max(1));
    MPS_CLIENTS * profile.map_or(all, |p| u32::from(p.compute_slices)) / all
}

/// The site's settings of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolPolicy {
    /// Seats of a device per compute slice; a GPU that cannot be cut is one slice.
    pub workers_per_slice: u32,
    /// Memory that a process takes of its device beside what its tasks ask for, MiB.
    pub context_mib: u64,
    /// Most GPUs of a node on which the tasks of one job may run; at least 1.
    pub gpus_per_job: u32,
}

impl Default for PoolPolicy {
    /// The paper's 4 processes per `1g` and 8 per `2g` (CASE for MIG, section 3.1), and what CUDA 12 takes at most.
    fn default() -> Self {
        Self { workers_per_slice: 4, context_mib: 512, gpus_per_job: 1 }
    }
}

impl PoolPolicy {
    /// Seats of a device; `profile` is `None` for the whole GPU. Never more than MPS serves on the device's part of the
    /// GPU, nor than the device has shards: Slurm counts a shard for each seat.
    #[must_use]
    pub fn seats(&self, model: &Model, profile: Option<&Profile>) -> u32 {
        let all = u32::from(model.compute_slices.max(1));
        let slices = profile.map_or(all, |p| u32::from(p.compute_slices));
        let shards = profile.map_or(model.shards(), |p| model.profile_shards(p));
        self.workers_per_slice.saturating_mul(slices).min(clients(model, profile)).min(shards)
    }

    /// Memory that a device must have for one process that takes `mem_mib`, MiB.
    #[must_use]
    pub fn needed_mib(&self, mem_mib: Option<u64>) -> u64 {
        mem_mib.map_or(0, |mem| mem.saturating_add(self.context_mib))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_the_papers_and_within_what_mps_and_slurm_count() {
        let of = |policy: PoolPolicy, key: &str, profile: &str| {
            let model = Model::find(key).unwrap();
            policy.seats(model, model.profile(profile))
        };
        let paper = PoolPolicy::default();
        assert_eq!([of(paper, "a30-24gb", "1g.6gb"), of(paper, "a100-40gb", "1g.5gb")], [4, 4]);
        assert_eq!([of(paper, "a100-40gb", "2g.10gb"), of(paper, "a100-40gb", "3g.20gb")], [8, 12]);
        assert_eq!([of(paper, "a100-40gb", ""), of(paper, "v100-16gb", "")], [28, 4]);
        let many = PoolPolicy { workers_per_slice: 48, ..paper };
        // 48 clients over 7 slices; 10 shards of a 2g.10gb; 16 of a V100.
        assert_eq!([of(many, "a100-40gb", "1g.5gb"), of(many, "a100-40gb", "2g.10gb")], [5, 10]);
        assert_eq!([of(many, "a100-80gb", "1g.10gb"), of(many, "v100-16gb", "")], [6, 16]);
    }
}
