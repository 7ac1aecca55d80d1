//! The cost of a grant in compute slices, the unit in which Slurm bills and limits all GPU jobs.
//!
//! # Problem
//! `gres/gpu` counts whole GPUs and `gres/shard` memory: neither adds up instances, shares and whole GPUs.
//!
//! # Approach
//! Count compute slices. A GPU has those of its model, 7 or an A30's 4. One that cannot be cut counts as 7, like the largest
//! of those that can. An instance counts its own, a compute instance those of its part. A share counts the larger of its
//! part of the memory and its part of the SMs; a seat counts its part of the device's seats. What a job has on a node is
//! added up, and a fraction at the end counts as a slice.

use geometry::{GpuIndex, Model};
use gpu_rules::PoolPolicy;
use protocol::{Grant, MigSpec, ShareOn, TaskDevices, TaskGrant};

/// Compute slices that a GPU counts as which cannot be cut, or of which nothing is known.
pub const OF_UNCUT_GPU: u64 = 7;

/// The compute slices that a whole GPU counts as; `None`: a GPU that nobody has described.
#[must_use]
pub fn slices_for_gpu(model: Option<&Model>) -> u64 {
    model.filter(|m| m.has_mig()).map_or(OF_UNCUT_GPU, |m| u64::from(m.compute_slices))
}

/// The compute slices that a job has on a node, at least 1.
///
/// `model_of` gives the model of each of the node's GPUs, `pool` what the site says of devices that GPU tasks share.
#[must_use]
pub fn slices_for_grant<'a>(
    grant: &Grant,
    model_of: impl Fn(GpuIndex) -> Option<&'a Model>,
    pool: PoolPolicy,
) -> u64 {
    let counted = match grant {
        Grant::Mig(specs) => specs.iter().map(|spec| slices_for_instance(*spec, model_of(spec.gpu))).sum(),
        Grant::Compute { part, .. } => u64::from(part.slices),
        Grant::Mps { on, mem_mib, threads } => slices_for_share(*on, *mem_mib, *threads, model_of(on.gpu())),
        Grant::Tasks(tasks) => slices_for_tasks(tasks, model_of, pool),
        Grant::Whole(gpus) => gpus.iter().map(|gpu| slices_for_gpu(model_of(*gpu))).sum(),
    };
    counted.max(1)
}

/// The GPUs that a grant has whole.
#[must_use]
pub fn whole_gpus(grant: &Grant) -> u64 {
    match grant {
        Grant::Whole(gpus) => gpus.len() as u64,
        Grant::Tasks(TaskGrant { on: TaskDevices::Own { gpus, .. }, .. }) => gpus.len() as u64,
        Grant::Mig(_) | Grant::Compute { .. } | Grant::Mps { .. } | Grant::Tasks(_) => 0,
    }
}

fn slices_for_instance(spec: MigSpec, model: Option<&Model>) -> u64 {
    let profile = model.and_then(|m| m.profile_by_id(spec.profile));
    profile.map_or(0, |p| u64::from(p.compute_slices))
}

/// The slices and the memory (MiB) of a device.
fn device(on: ShareOn, model: Option<&Model>) -> (u64, u64) {
    match (on, model) {
        (ShareOn::Gpu(_), model) => (slices_for_gpu(model), model.map_or(0, |m| m.total_memory_mib)),
        (ShareOn::Instance(spec), model) => {
            let memory = model.and_then(|m| m.profile_by_id(spec.profile)).map_or(0, |p| p.memory_mib);
            (slices_for_instance(spec, model), memory)
        }
    }
}

fn slices_for_share(on: ShareOn, mem_mib: u64, threads: u8, model: Option<&Model>) -> u64 {
    let (slices, memory_mib) = device(on, model);
    let of_memory = (slices * mem_mib).div_ceil(memory_mib.max(1)).min(slices);
    of_memory.max((slices * u64::from(threads)).div_ceil(100))
}

fn slices_for_tasks<'a>(
    tasks: &TaskGrant,
    model_of: impl Fn(GpuIndex) -> Option<&'a Model>,
    pool: PoolPolicy,
) -> u64 {
    let seats = match &tasks.on {
        TaskDevices::Own { gpus, .. } => return gpus.iter().map(|gpu| slices_for_gpu(model_of(*gpu))).sum(),
        TaskDevices::Pool(seats) => seats,
    };
    // In ten-thousandths of a slice: devices of one job may differ.
    let of_device = |on: ShareOn, seats: u32| {
        let Some(model) = model_of(on.gpu()) else { return 0 };
        let profile = match on {
            ShareOn::Gpu(_) => None,
            ShareOn::Instance(spec) => model.profile_by_id(spec.profile),
        };
        let all = u64::from(pool.seats(model, profile).max(1));
        (device(on, Some(model)).0 * u64::from(seats) * 10_000).div_ceil(all)
    };
    seats.iter().map(|s| of_device(s.on, s.seats)).sum::<u64>().div_ceil(10_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use geometry::Slice;
    use protocol::{ComputeSpec, PoolSeats};

    const GPU: GpuIndex = GpuIndex(0);

    fn counted(key: &str, grant: &Grant) -> u64 {
        let model = Model::find(key).unwrap();
        slices_for_grant(grant, |_| Some(model), PoolPolicy::default())
    }

    fn spec(key: &str, profile: &str) -> MigSpec {
        let profile = Model::find(key).unwrap().profile(profile).unwrap().id;
        MigSpec { gpu: GPU, profile, start: Slice(0) }
    }

    const A100: &str = "a100-40gb";

    #[test]
    fn a_whole_gpu_counts_all_its_slices_and_one_that_cannot_be_cut_counts_seven() {
        let two = Grant::Whole(vec![GPU, GpuIndex(1)]);
        assert_eq!([counted(A100, &two), counted("a30", &two), counted("v100-16gb", &two)], [14, 8, 14]);
        assert_eq!(slices_for_grant(&two, |_| None, PoolPolicy::default()), 14);
    }

    #[test]
    fn instances_count_their_compute_slices() {
        let of = |profile| counted(A100, &Grant::Mig(vec![spec(A100, profile)]));
        let all = ["1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"].map(of);
        assert_eq!(all, [1, 1, 2, 3, 4, 7]);
        let three = Grant::Mig(vec![spec(A100, "2g.10gb"); 3]);
        assert_eq!(counted(A100, &three), 6);
        let part = ComputeSpec { slices: 2, start: Slice(0) };
        let within = spec(A100, "4g.20gb");
        assert_eq!(counted(A100, &Grant::Compute { within, part, mem_mib: 100 }), 2);
    }

    #[test]
    fn a_share_counts_the_larger_of_its_memory_and_its_sms() {
        let share = |on, mem_mib, threads| counted(A100, &Grant::Mps { on, mem_mib, threads });
        let gpu = ShareOn::Gpu(GPU);
        assert_eq!([share(gpu, 40_960, 100), share(gpu, 20_480, 25), share(gpu, 1, 50)], [7, 4, 4]);
        assert_eq!(share(gpu, 1, 1), 1);
        let within = ShareOn::Instance(spec(A100, "4g.20gb"));
        assert_eq!([share(within, 100, 50), share(within, 1_000_000, 10)], [2, 4]);
    }

    #[test]
    fn seats_count_their_part_of_the_devices_seats() {
        let seats = |seats: &[(ShareOn, u32)]| {
            let pool = seats.iter().map(|(on, seats)| PoolSeats { on: *on, seats: *seats }).collect();
            let on = TaskDevices::Pool(pool);
            counted(A100, &Grant::Tasks(TaskGrant { on, mem_mib: None, probes: false }))
        };
        let two = ShareOn::Instance(spec(A100, "2g.10gb"));
        // Eight seats on a `2g`.
        assert_eq!(
            [seats(&[(two, 8)]), seats(&[(two, 4)]), seats(&[(two, 5)]), seats(&[(two, 0)])],
            [2, 1, 2, 1]
        );
        assert_eq!(seats(&[(two, 2), (two, 2)]), 1);
        let on = TaskDevices::Own { gpus: vec![GPU], seats: 3 };
        assert_eq!(counted(A100, &Grant::Tasks(TaskGrant { on, mem_mib: None, probes: false })), 7);
    }
}
