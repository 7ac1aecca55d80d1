//! GPU models and their MIG geometry.
//!
//! On a node, the driver is asked before anything is created: this is for planning, simulation and checks.

use serde::Deserialize;

use crate::compute::{ComputeProfile, split_compute_name};
use crate::ids::ProfileId;
use crate::profile::Profile;
use crate::size::gigabytes_as_mib;

/// The event by which a change of MIG mode comes into force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum MigReset {
    /// Pending until the GPU is reset: A30, A100.
    #[serde(rename = "gpu-reset")]
    GpuReset,
    /// In force at once: Hopper and later.
    #[serde(rename = "resetless")]
    Resetless,
}

/// Why a GPU model has no MIG instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum NoMig {
    /// The chip cannot be partitioned.
    #[serde(rename = "none")]
    None,
    /// The chip can be partitioned, but the placements of its instances are not known.
    #[serde(rename = "unknown")]
    Unknown,
}

/// A GPU model: its memory, its SMs and, if it can be partitioned, its MIG geometry.
#[derive(Debug, PartialEq, Eq)]
pub struct Model {
    /// Tessera's name for it, as in `tessera.toml`: `a100-40gb`.
    pub key: String,
    /// Names that NVML reports for it: `NVIDIA A100-SXM4-40GB`.
    pub names: Vec<String>,
    /// Architecture, lower case: `ampere`. Empty if a site that described the model did not say.
    pub arch: String,
    /// The event by which a change of MIG mode comes into force, or why there is no MIG mode.
    pub mig: Result<MigReset, NoMig>,
    /// Size of the framebuffer, MiB; the driver keeps a part of it.
    pub total_memory_mib: u64,
    /// Memory that the whole GPU is named by, GB: 16 for a V100-16.
    pub nominal_gb: u32,
    /// See [`Model::usable_mib`].
    pub(crate) usable_mib: u64,
    /// See [`Model::visible_mib`].
    pub(crate) visible_mib: u64,
    /// Compute slices of the GPU: 7, or 4 on an A30; 1 without MIG.
    pub compute_slices: u8,
    /// Placement units of the GPU: 8, 4 on an A30, 12 on an RTX PRO 6000; 1 without MIG.
    pub placement_units: u8,
    /// Streaming multiprocessors of the whole GPU.
    pub full_gpu_sm: u32,
    /// Profiles, smallest first: by placement units, then compute slices, plain ones before variants, then id. None
    /// without MIG.
    pub profiles: Vec<Profile>,
    /// See [`Model::placements_left`]: entry `m` is for the taken units in bit mask `m`.
    pub(crate) left: Vec<u16>,
}

impl Model {
    /// Tells whether the GPU can be partitioned into instances that can be placed.
    #[must_use]
    #[inline]
    pub fn has_mig(&self) -> bool {
        self.mig.is_ok()
    }

    /// Tells whether the driver counts how busy each GPU instance is (NVML's GPM): from Hopper on. `None`: a site described
    /// the model and did not say its architecture.
    #[must_use]
    pub fn counts_for_instances(&self) -> Option<bool> {
        const OLDER: [&str; 5] = ["pascal", "volta", "turing", "ampere", "ada"];
        let family = self.arch.split('-').next().filter(|family| !family.is_empty())?;
        Some(!OLDER.contains(&family))
    }

    /// The profile with this name.
    #[must_use]
    #[inline]
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|p| p.name == name)
    }

    /// The profile with this id.
    #[must_use]
    #[inline]
    pub fn profile_by_id(&self, id: ProfileId) -> Option<&Profile> {
        self.profiles.iter().find(|p| p.id == id)
    }

    /// The GPU instance profile and the size of compute instance that a name such as `4c.7g.40gb` means.
    #[must_use]
    pub fn compute_profile(&self, name: &str) -> Option<(&Profile, &ComputeProfile)> {
        let (slices, profile) = split_compute_name(name)?;
        let profile = self.profile(profile)?;
        Some((profile, profile.compute(slices)?))
    }

    /// Counts the (base profile, start) pairs that are free on a GPU on which the units of bit mask `taken` are held.
    #[must_use]
    #[inline]
    pub fn placements_left(&self, taken: u16) -> u16 {
        self.left.get(usize::from(taken)).copied().unwrap_or(0)
    }

    /// Memory that a share or a whole-GPU job can be promised without MIG, MiB: as much as the largest instance has. Without
    /// MIG, what a program sees less a CUDA context.
    #[must_use]
    #[inline]
    pub fn usable_mib(&self) -> u64 {
        self.usable_mib
    }

    /// Memory that a program sees on the whole GPU outside MIG mode, MiB: the framebuffer less what the driver keeps. For a
    /// model with MIG it is estimated: the driver keeps 1 GiB, or less where the largest instance has more.
    #[must_use]
    #[inline]
    pub fn visible_mib(&self) -> u64 {
        self.visible_mib
    }

    /// SMs of the largest instance, the most that MIG can give: 98 of an A100's 108.
    #[must_use]
    #[inline]
    pub fn mig_sm(&self) -> u32 {
        self.profiles.iter().map(|p| p.sm).max().unwrap_or(0)
    }

    /// Writes a number of SMs as users read it: `14 of 108 SMs`.
    #[must_use]
    pub fn sms_in_words(&self, sms: u32) -> String {
        format!("{sms} of {} SMs", self.full_gpu_sm)
    }

    /// Gives the fewest SMs that an instance must have for a job that asks for this percentage of the GPU: 2 % of the GPU less than
    /// that, because the natural fractions of a GPU just miss the round numbers. A `2g` of an H100 has 32 of 132 SMs, a `4g` has 64.
    #[must_use]
    pub fn least_sm(&self, percent: u8) -> u32 {
        const TOLERANCE: u8 = 2;
        (u32::from(percent.saturating_sub(TOLERANCE)) * self.mig_sm()).div_ceil(100)
    }

    /// A profile's part of the framebuffer by its placement units, MiB: 1/8 of an A100's for a `1g.5gb`. Unlike unit
    /// counts, these can be compared between models.
    #[must_use]
    #[inline]
    pub fn span_mib(&self, profile: &Profile) -> u64 {
        self.total_memory_mib * u64::from(profile.size) / u64::from(self.placement_units.max(1))
    }

    /// Shards of the whole GPU in Slurm: its nominal gigabytes. V100-16 16, A30 24, A100-40 40, H100-80 80, H200 144.
    #[must_use]
    #[inline]
    pub fn shards(&self) -> u32 {
        self.nominal_gb
    }

    /// The memory that `count` of its shards stand for, MiB: a decimal gigabyte each, or the shard's part of the memory that
    /// jobs can be promised where that is less. All shards of a GPU together are thus never more than it has.
    #[must_use]
    pub fn shards_mib(&self, count: u32) -> u64 {
        let part = self.usable_mib.saturating_mul(count.into()) / u64::from(self.nominal_gb.max(1));
        u64::from(count).saturating_mul(SHARD_MIB).min(part).max(1)
    }

    /// The memory that the whole GPU is named by, MiB: 38147 (40 GB) for an A100-40.
    #[must_use]
    pub fn nominal_mib(&self) -> u64 {
        gigabytes_as_mib(self.nominal_gb)
    }

    /// Shards that an instance of `profile` counts for.
    #[must_use]
    pub fn profile_shards(&self, profile: &Profile) -> u32 {
        self.profiles.first().map_or(0, |smallest| {
            u32::from(profile.size) / u32::from(smallest.size.max(1)) * smallest.nominal_gb()
        })
    }
}

/// MiB in a shard, rounded up: one nominal, decimal GB.
pub const SHARD_MIB: u64 = 954;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Placement, Slice};

    #[test]
    fn every_model_is_found_by_its_own_names_alone() {
        let all = Model::all();
        for model in all {
            for name in model.names.iter().chain([&model.key]) {
                assert_eq!(Model::find(name).map(|m| &m.key), Some(&model.key), "{name}");
            }
            assert_eq!(all.iter().filter(|m| m.key == model.key).count(), 1, "{}", model.key);
        }
    }

    #[test]
    fn natural_fractions_of_a_gpu_are_round_numbers() {
        let smallest = |model: &str, percent: u8| {
            let model = Model::find(model).unwrap();
            let plain = model.profiles.iter().filter(|p| !p.is_variant() && p.sm >= model.least_sm(percent));
            plain.map(|p| (p.compute_slices, p.size)).min().unwrap().0
        };
        assert_eq!([13, 25, 50, 100].map(|percent| smallest("h100-80gb-sxm", percent)), [1, 2, 4, 7]);
        assert_eq!([12, 25, 50, 57, 100].map(|percent| smallest("a100-40gb", percent)), [1, 2, 4, 4, 7]);
        assert_eq!(smallest("a100-40gb", 17), 2, "a 1g has 14 of 98");
        let a100 = Model::find("a100-40gb").unwrap();
        assert_eq!((a100.least_sm(0), a100.least_sm(1), a100.least_sm(100)), (0, 0, 97));
    }

    #[test]
    fn every_model_has_memory_for_jobs() {
        for m in Model::all() {
            assert!(m.usable_mib() > 0 && m.usable_mib() <= m.visible_mib(), "{}", m.key);
            assert!(m.visible_mib() <= m.total_memory_mib, "{}", m.key);
            // No job is promised much more than the name says, nor much less: ECC and a context take a tenth of a T4.
            let nominal = gigabytes_as_mib(m.nominal_gb);
            assert!(m.usable_mib() * 100 >= nominal * 90, "{}", m.key);
            assert!(m.usable_mib() * 100 <= nominal * 110, "{}", m.key);
            assert_eq!(m.has_mig(), !m.profiles.is_empty(), "{}", m.key);
        }
    }

    #[test]
    fn shards_are_nominal_gigabytes() {
        let shards = |key: &str| Model::find(key).unwrap().shards();
        assert_eq!(
            [shards("a30-24gb"), shards("a100-40gb"), shards("h100-80gb-sxm"), shards("h200-141gb")],
            [24, 40, 80, 144]
        );
        assert_eq!([shards("rtx-pro-6000-96gb"), shards("v100-16gb"), shards("l40s-48gb")], [96, 16, 48]);
        let a100 = Model::find("NVIDIA A100-SXM4-40GB").unwrap();
        assert_eq!(a100.profile_shards(a100.profile("3g.20gb").unwrap()), 20);
    }

    #[test]
    fn all_shards_of_a_gpu_are_what_it_can_promise_or_less() {
        for m in Model::all() {
            assert!(m.shards_mib(m.shards()) <= m.usable_mib(), "{}", m.key);
            let parts = u64::from(m.shards()) * m.shards_mib(1);
            assert!(parts <= m.usable_mib() && m.shards_mib(1) * 10 >= 9 * 950, "{}", m.key);
        }
        let mib = |key: &str, n| Model::find(key).unwrap().shards_mib(n);
        assert_eq!([mib("a100-40gb", 10), mib("t4-16gb", 16), mib("t4-16gb", 1)], [9540, 14406, 900]);
    }

    #[test]
    fn a_placements_mask_has_its_memory_slices() {
        assert_eq!(Placement { start: Slice(4), size: 4 }.mask(), 0xf0);
        assert_eq!(Placement { start: Slice(0), size: 12 }.mask(), 0xfff);
    }
}
