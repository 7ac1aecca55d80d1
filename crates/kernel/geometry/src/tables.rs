//! Reads `data/models.toml`: the models whose instances can be placed. Each row is from public captures and headers, with its
//! source.

use serde::Deserialize;

use crate::compute::{ComputeProfile, sizes_by_rule, starts_by_rule};
use crate::ids::{ProfileId, Slice};
use crate::model::{MigReset, Model};
use crate::profile::Profile;

/// The geometry file itself, with sources and engines that [`Model`] leaves out.
pub const GEOMETRY: &str = include_str!("../data/models.toml");

/// Rows of [`GEOMETRY`] as `build.rs` writes them.
const ROWS: &str = include_str!(concat!(env!("OUT_DIR"), "/models.json"));

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
    #[serde(default)]
    compute_instances: Vec<RawCompute>,
}

/// A captured row of `nvidia-smi mig -lcip`.
#[derive(Deserialize)]
struct RawCompute {
    gi: String,
    enum_value: u32,
    slices: u8,
    sm: u32,
    max_instances: u32,
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

pub(crate) fn load() -> Vec<Model> {
    // The rows are part of the program and a unit test reads them, so unreadable ones need not panic here.
    let rows: Vec<RawModel> = serde_json::from_str(ROWS).unwrap_or_default();
    rows.into_iter().filter(|m| m.simulate != Some(false)).filter_map(model).collect()
}

/// Most memory that the driver keeps of a GPU with MIG, MiB.
const KEPT_BY_DRIVER_MIB: u64 = 1024;

/// SMs per compute slice if the whole GPU's count is unknown: no model has fewer than the A100.
const SM_PER_SLICE_FLOOR: u32 = 14;

fn model(raw: RawModel) -> Option<Model> {
    let placement_units = raw.placement_units?;
    let full_gpu_sm = raw.full_gpu_sm.unwrap_or(SM_PER_SLICE_FLOOR * u32::from(raw.compute_slices));
    let captured = raw.compute_instances;
    let mut profiles: Vec<Profile> = raw
        .profiles
        .into_iter()
        .filter_map(|p| {
            let size = p.size?;
            let slices = u32::from(p.compute_slices);
            let sm = p.sm.unwrap_or(full_gpu_sm * slices / (u32::from(raw.compute_slices) + 1));
            Some(Profile {
                id: ProfileId(p.id?),
                starts: p.starts?.into_iter().map(Slice).collect(),
                size,
                memory_mib: p
                    .memory_mib
                    .unwrap_or_else(|| cautious_memory_mib(raw.total_memory_mib, size, placement_units)),
                memory_known: p.memory_mib.is_some(),
                sm,
                compute: compute(&captured, &p.name, p.compute_slices, sm),
                name: p.name,
                enum_value: p.enum_value,
                compute_slices: p.compute_slices,
                max_instances: p.max_instances,
            })
        })
        .collect();
    let largest_mib = profiles.iter().map(|p| p.memory_mib).max().unwrap_or(0);
    profiles.sort_by_key(|p| (p.size, p.compute_slices, p.is_variant(), p.id));
    let smallest = profiles.first()?;
    Some(Model {
        key: raw.key,
        names: raw.names,
        arch: raw.arch,
        mig: Ok(raw.mig_reset),
        nominal_gb: u32::from(placement_units) / u32::from(smallest.size.max(1)) * smallest.nominal_gb(),
        // As much as the largest instance has: no capture says how much of the rest is usable outside MIG mode.
        usable_mib: largest_mib,
        visible_mib: largest_mib.max(raw.total_memory_mib.saturating_sub(KEPT_BY_DRIVER_MIB)),
        total_memory_mib: raw.total_memory_mib,
        compute_slices: raw.compute_slices,
        placement_units,
        full_gpu_sm,
        left: crate::capability::placements_left(placement_units, &profiles),
        profiles,
    })
}

/// A `1c` with more SMs, inside an H100's `2g`. It is left out: its name is that of the plain `1c`.
const ENUM_1_SLICE_REV1: u32 = 7;

/// The sizes of compute instances in a GPU instance of `of` compute slices and `sm` SMs: as captured, else by rule.
fn compute(captured: &[RawCompute], name: &str, of: u8, sm: u32) -> Vec<ComputeProfile> {
    let plain = name.split(['+', '-']).next().unwrap_or(name);
    let rows: Vec<&RawCompute> =
        captured.iter().filter(|c| c.gi == plain && c.enum_value != ENUM_1_SLICE_REV1).collect();
    let size = |slices: u8| {
        let row = rows.iter().find(|c| c.slices == slices);
        let starts = starts_by_rule(slices, of);
        ComputeProfile {
            slices,
            sm: row.map_or(sm * u32::from(slices) / u32::from(of.max(1)), |c| c.sm),
            max_instances: row.map_or(u32::try_from(starts.len()).unwrap_or(1), |c| c.max_instances),
            starts,
        }
    };
    let known = |slices: &u8| rows.is_empty() || rows.iter().any(|c| c.slices == *slices);
    sizes_by_rule(of).filter(known).map(size).collect()
}

/// A lower bound on the memory of a profile that nobody has captured, MiB. Captured profiles hold 91 to 99 % of their
/// share of the framebuffer, and promising too little is the safe side.
fn cautious_memory_mib(total_mib: u64, size: u8, units: u8) -> u64 {
    total_mib * u64::from(size) / u64::from(units) * 90 / 100 / 64 * 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_usable_models_are_read() {
        assert!(serde_json::from_str::<Vec<RawModel>>(ROWS).is_ok());
        assert_eq!(load().len(), 16, "18 in the file, two marked simulate = false");
        assert!(load().iter().all(|m| m.profiles.iter().all(|p| p.memory_mib > 0 && p.sm > 0)));
    }

    #[test]
    fn cautious_memory_never_exceeds_a_capture() {
        for m in load() {
            for p in m.profiles.iter().filter(|p| p.memory_known) {
                let guess = cautious_memory_mib(m.total_memory_mib, p.size, m.placement_units);
                assert!(guess <= p.memory_mib, "{} {}: {guess} > {}", m.key, p.name, p.memory_mib);
            }
        }
    }
}
