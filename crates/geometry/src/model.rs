//! GPU models and their MIG geometry.
//!
//! The data is `data/models.toml`: public captures and headers, each row with its source. It serves planning,
//! simulation and checks. On a node, the driver is asked before anything is created.

use crate::size::gigabytes_as_mib;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::ids::{ProfileId, Slice};
use crate::profile::Profile;

/// The geometry file itself, with sources, engines and compute instances that [`Model`] leaves out.
pub const GEOMETRY: &str = include_str!("../data/models.toml");

/// How a change of MIG mode comes into force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum MigReset {
    /// Pending until the GPU is reset: A30, A100.
    #[serde(rename = "gpu-reset")]
    GpuReset,
    /// In force at once: Hopper and later.
    #[serde(rename = "resetless")]
    Resetless,
}

/// One GPU model whose MIG geometry is known.
#[derive(Debug, PartialEq, Eq)]
pub struct Model {
    /// Tessera's name for it, as in `tessera.toml`: `a100-40gb`.
    pub key: String,
    /// Names that NVML reports for it: `NVIDIA A100-SXM4-40GB`.
    pub names: Vec<String>,
    /// Architecture, lower case: `ampere`.
    pub arch: String,
    /// How a change of MIG mode comes into force.
    pub mig_reset: MigReset,
    /// Size of the framebuffer, MiB; the driver keeps a part of it.
    pub total_memory_mib: u64,
    /// Compute slices of the GPU: 7, or 4 on an A30.
    pub compute_slices: u8,
    /// Placement units of the GPU: 8, 4 on an A30, 12 on an RTX PRO 6000.
    pub placement_units: u8,
    /// Streaming multiprocessors of the whole GPU.
    pub full_gpu_sm: u32,
    /// Profiles, smallest first: by placement units, then compute slices, plain ones before variants, then id.
    pub profiles: Vec<Profile>,
    /// See [`Model::placements_left`]: entry `m` is for the taken units in bit mask `m`.
    left: Vec<u16>,
}

impl Model {
    /// Every model whose geometry is known well enough to place instances, in the file's order.
    #[must_use]
    pub fn all() -> &'static [Model] {
        static MODELS: OnceLock<Vec<Model>> = OnceLock::new();
        MODELS.get_or_init(load)
    }

    /// The model with this key or NVML name, in upper or lower case.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Model> {
        let same = |s: &String| s.eq_ignore_ascii_case(name);
        Model::all().iter().find(|m| same(&m.key) || m.names.iter().any(same))
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

    /// How many (base profile, start) pairs are free on a GPU on which the units of bit mask `taken` are held.
    #[must_use]
    #[inline]
    pub fn placements_left(&self, taken: u16) -> u16 {
        self.left.get(usize::from(taken)).copied().unwrap_or(0)
    }

    /// Memory that a share or a whole-GPU job can be promised without MIG, MiB: as much as the largest instance has. The
    /// driver takes the rest of the framebuffer, and no capture says how much of the rest is usable outside MIG mode.
    #[must_use]
    #[inline]
    pub fn usable_mib(&self) -> u64 {
        self.profiles.iter().map(|p| p.memory_mib).max().unwrap_or(0)
    }

    /// SMs of the largest instance, the most that MIG can give: 98 of an A100's 108.
    #[must_use]
    #[inline]
    pub fn mig_sm(&self) -> u32 {
        self.profiles.iter().map(|p| p.sm).max().unwrap_or(0)
    }

    /// A profile's part of the framebuffer by its placement units, MiB: 1/8 of an A100's for a `1g.5gb`. Unlike unit
    /// counts, these can be compared between models.
    #[must_use]
    #[inline]
    pub fn span_mib(&self, profile: &Profile) -> u64 {
        self.total_memory_mib * u64::from(profile.size) / u64::from(self.placement_units.max(1))
    }

    /// Shards of the whole GPU in Slurm: nominal gigabytes, memory slices times the smallest profile's.
    /// A30 24, A100-40 40, H100-80 80, H200 144.
    #[must_use]
    pub fn shards(&self) -> u32 {
        self.shards_of_units(self.placement_units)
    }

    /// The memory that the whole GPU is named by, MiB: 38147 (40 GB) for an A100-40.
    #[must_use]
    pub fn nominal_mib(&self) -> u64 {
        gigabytes_as_mib(self.shards())
    }

    /// Shards that an instance of `profile` counts for.
    #[must_use]
    pub fn profile_shards(&self, profile: &Profile) -> u32 {
        self.shards_of_units(profile.size)
    }

    fn shards_of_units(&self, units: u8) -> u32 {
        self.profiles
            .first()
            .map_or(0, |smallest| u32::from(units) / u32::from(smallest.size) * smallest.nominal_gb())
    }
}

#[derive(Deserialize)]
struct File {
    model: Vec<RawModel>,
}

#[derive(Deserialize)]
struct RawModel {
    key: String,
    names: Vec<String>,
    arch: String,
    mig_reset: MigReset,
    total_memory_mib: u64,
    compute_slices: u8,
    placement_units: Option<u8>,
    full_gpu_sm: Option<u32>,
    simulate: Option<bool>,
    profiles: Vec<RawProfile>,
}

#[derive(Deserialize)]
struct RawProfile {
    name: String,
    id: Option<u32>,
    enum_value: u32,
    compute_slices: u8,
    memory_mib: Option<u64>,
    sm: Option<u32>,
    max_instances: u32,
    starts: Option<Vec<u8>>,
    size: Option<u8>,
}

fn load() -> Vec<Model> {
    // The file is part of the program and a unit test reads it, so an unreadable one need not panic here.
    let file: File = toml::from_str(GEOMETRY).unwrap_or(File { model: Vec::new() });
    file.model.into_iter().filter(|m| m.simulate != Some(false)).filter_map(model).collect()
}

/// SMs per compute slice if the whole GPU's count is unknown: no model has fewer than the A100.
const SM_PER_SLICE_FLOOR: u32 = 14;

fn model(raw: RawModel) -> Option<Model> {
    let placement_units = raw.placement_units?;
    let full_gpu_sm = raw.full_gpu_sm.unwrap_or(SM_PER_SLICE_FLOOR * u32::from(raw.compute_slices));
    let mut profiles: Vec<Profile> = raw
        .profiles
        .into_iter()
        .filter_map(|p| {
            let size = p.size?;
            let slices = u32::from(p.compute_slices);
            Some(Profile {
                id: ProfileId(p.id?),
                starts: p.starts?.into_iter().map(Slice).collect(),
                size,
                memory_mib: p
                    .memory_mib
                    .unwrap_or_else(|| cautious_memory_mib(raw.total_memory_mib, size, placement_units)),
                memory_known: p.memory_mib.is_some(),
                sm: p.sm.unwrap_or(full_gpu_sm * slices / (u32::from(raw.compute_slices) + 1)),
                name: p.name,
                enum_value: p.enum_value,
                compute_slices: p.compute_slices,
                max_instances: p.max_instances,
            })
        })
        .collect();
    profiles.sort_by_key(|p| (p.size, p.compute_slices, p.is_variant(), p.id));
    (!profiles.is_empty()).then_some(Model {
        key: raw.key,
        names: raw.names,
        arch: raw.arch,
        mig_reset: raw.mig_reset,
        total_memory_mib: raw.total_memory_mib,
        compute_slices: raw.compute_slices,
        placement_units,
        full_gpu_sm,
        left: crate::capability::placements_left(placement_units, &profiles),
        profiles,
    })
}

/// A lower bound on the memory of a profile that nobody has captured, MiB. Captured profiles hold 91 to 99 % of their
/// share of the framebuffer, and promising too little is the safe side.
fn cautious_memory_mib(total_mib: u64, size: u8, units: u8) -> u64 {
    total_mib * u64::from(size) / u64::from(units) * 90 / 100 / 64 * 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Placement;

    #[test]
    fn all_usable_models_are_read() {
        assert!(toml::from_str::<File>(GEOMETRY).is_ok());
        assert_eq!(Model::all().len(), 16, "18 in the file, two marked simulate = false");
        assert!(Model::all().iter().all(|m| m.profiles.iter().all(|p| p.memory_mib > 0 && p.sm > 0)));
    }

    #[test]
    fn cautious_memory_never_exceeds_a_capture() {
        for m in Model::all() {
            for p in m.profiles.iter().filter(|p| p.memory_known) {
                let guess = cautious_memory_mib(m.total_memory_mib, p.size, m.placement_units);
                assert!(guess <= p.memory_mib, "{} {}: {guess} > {}", m.key, p.name, p.memory_mib);
            }
        }
    }

    #[test]
    fn shards_are_nominal_gigabytes() {
        let shards = |key: &str| Model::find(key).unwrap().shards();
        assert_eq!(
            [shards("a30-24gb"), shards("a100-40gb"), shards("h100-80gb-sxm"), shards("h200-141gb")],
            [24, 40, 80, 144]
        );
        assert_eq!(shards("rtx-pro-6000-96gb"), 96);
        let a100 = Model::find("NVIDIA A100-SXM4-40GB").unwrap();
        assert_eq!(a100.profile_shards(a100.profile("3g.20gb").unwrap()), 20);
    }

    #[test]
    fn placement_masks() {
        assert_eq!(Placement { start: Slice(4), size: 4 }.mask(), 0xf0);
        assert_eq!(Placement { start: Slice(0), size: 12 }.mask(), 0xfff);
    }
}
