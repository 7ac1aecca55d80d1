//! Everything a GPU model reports: geometry, engines, compute instance profiles, board limits.
//!
//! Geometry is `geometry`; engines and compute instances are read from the same file, which [`Model`] leaves out;
//! power, clocks and link counts are `models/boards.toml`.

use std::sync::OnceLock;

use geometry::{GEOMETRY, Model, Profile, WHOLE_GPUS};
use serde::Deserialize;

/// Number of GPU instance profile enums in the header (13.2: `NVML_GPU_INSTANCE_PROFILE_COUNT`).
pub const GI_PROFILE_COUNT: u32 = 0x12;
/// Number of compute instance profile enums (`NVML_COMPUTE_INSTANCE_PROFILE_COUNT`).
pub const CI_PROFILE_COUNT: u32 = 9;

/// Media and copy engines of a profile. Where no capture tells: the profile's share of what is usual, see [`Chip::find`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Engines {
    /// Number of copy engines.
    pub ce: u32,
    /// Number of video decoders.
    pub dec: u32,
    /// Number of video encoders.
    pub enc: u32,
    /// Number of JPEG decoders.
    pub jpeg: u32,
    /// Optical flow accelerators.
    pub ofa: u32,
}

/// A GPU instance profile with its engines.
#[derive(Debug)]
pub struct GiProfile {
    /// Its size, placements and memory, as the engine knows them.
    pub base: &'static Profile,
    /// Engines of one instance.
    pub engines: Engines,
    /// Graphics capable (`+gfx`).
    pub gfx: bool,
    /// Compute instance profiles of such an instance, by enum.
    pub cis: Vec<CiProfile>,
}

/// A compute instance profile. Its id equals its enum in every capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CiProfile {
    /// Enum and id.
    pub id: u32,
    /// `1c.2g.10gb`, or the GPU instance's name where it takes all of it.
    pub name: String,
    /// Compute slices that it takes.
    pub slices: u32,
    /// Number of streaming multiprocessors.
    pub sm: u32,
    /// Most of them in one GPU instance.
    pub max: u32,
    /// Legal first compute slices.
    pub starts: Vec<u32>,
}

/// Board figures, `models/boards.toml`.
#[derive(Debug, Deserialize)]
pub struct Board {
    /// The model's key in `geometry`.
    pub key: String,
    /// Default and highest power limit, W.
    pub power_w: u32,
    /// Lowest power limit, W.
    pub min_power_w: u32,
    /// What it draws, W.
    pub draw_w: DrawWatts,
    /// Boards of this model with other limits.
    #[serde(default)]
    pub named: Vec<NamedBoard>,
    /// Highest SM clock, MHz.
    pub sm_mhz: u32,
    /// Memory clock, MHz.
    pub mem_mhz: u32,
    /// NVLink connections of the board.
    pub links: u32,
    /// Newest PCIe generation that the board supports.
    pub pcie_gen: u32,
    /// CUDA compute capability.
    pub cc: [i32; 2],
}

/// The causes of a board's draw, each at the highest clock or bandwidth, W.
#[derive(Debug, Deserialize)]
pub struct DrawWatts {
    /// Without work.
    pub idle: f64,
    /// Each GPC in use.
    pub gpc: f64,
    /// All vector units.
    pub vector: f64,
    /// All tensor cores.
    pub tensor: f64,
    /// DRAM and L2.
    pub dram: f64,
}

/// A board of a model with limits of its own.
#[derive(Debug, Deserialize)]
pub struct NamedBoard {
    /// A part of the name that NVML reports.
    pub contains: String,
    /// Default and highest power limit, W.
    pub power_w: u32,
    /// Lowest power limit, W.
    pub min_power_w: u32,
}

/// One GPU model, whole.
#[derive(Debug)]
pub struct Chip {
    /// Names, slices and profiles, as the engine knows them.
    pub model: &'static Model,
    /// Profiles, in the order of `model.profiles`.
    pub profiles: Vec<GiProfile>,
    /// What the board limits: power, clocks, link counts.
    pub board: Board,
    /// PCI device id, high half of `pciDeviceId`.
    pub pci_device: u32,
}

impl Chip {
    /// All models that can be simulated.
    pub fn all() -> &'static [Chip] {
        static CHIPS: OnceLock<Vec<Chip>> = OnceLock::new();
        CHIPS.get_or_init(load)
    }

    /// The model with this key or NVML name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Chip> {
        let model = Model::find(name)?;
        Chip::all().iter().find(|c| c.model.key == model.key)
    }

    /// The lowest and the highest power limit of a board with this NVML name, W. The highest is the default.
    #[must_use]
    pub fn power_limits_w(&self, name: &str) -> (u32, u32) {
        let named = self.board.named.iter().find(|named| name.contains(&named.contains));
        let usual = (self.board.min_power_w, self.board.power_w);
        named.map_or(usual, |named| (named.min_power_w, named.power_w))
    }

    /// The profile with this device-level id.
    #[must_use]
    pub fn profile(&self, id: u32) -> Option<&GiProfile> {
        self.profiles.iter().find(|p| p.base.id.0 == id)
    }

    /// The profile with this enum.
    #[must_use]
    pub fn profile_by_enum(&self, value: u32) -> Option<&GiProfile> {
        self.profiles.iter().find(|p| p.base.enum_value == value)
    }

    /// True where a change of MIG mode waits for a reset.
    #[must_use]
    pub fn needs_reset(&self) -> bool {
        self.model.mig == Ok(geometry::MigReset::GpuReset)
    }
}

#[derive(Deserialize)]
struct Geometry {
    model: Vec<RawModel>,
}

#[derive(Deserialize)]
struct RawModel {
    key: String,
    #[serde(default)]
    pci_device_ids: Vec<String>,
    #[serde(default)]
    profiles: Vec<RawProfile>,
    #[serde(default)]
    compute_instances: Vec<RawCi>,
}

#[derive(Deserialize)]
struct RawProfile {
    name: String,
    ce: Option<u32>,
    dec: Option<u32>,
    enc: Option<u32>,
    jpeg: Option<u32>,
    ofa: Option<u32>,
    gfx: Option<bool>,
}

#[derive(Deserialize)]
struct RawCi {
    gi: String,
    enum_value: u32,
    slices: u32,
    sm: u32,
    max_instances: u32,
}

#[derive(Deserialize)]
struct Boards {
    board: Vec<Board>,
}

fn load() -> Vec<Chip> {
    // The files are part of the program and unit tests read them: an unreadable one is no models, not a panic.
    let read = |text| toml::from_str(text).unwrap_or(Geometry { model: Vec::new() }).model;
    // A model without MIG may be in the first file too, where its profiles are known and their places are not.
    let (mig, whole) = (read(GEOMETRY), read(WHOLE_GPUS));
    let boards: Boards =
        toml::from_str(include_str!("../../models/boards.toml")).unwrap_or(Boards { board: Vec::new() });
    boards
        .board
        .into_iter()
        .filter_map(|board| {
            let model = Model::all().iter().find(|m| m.key == board.key)?;
            let raws = if model.has_mig() { &mig } else { &whole };
            let raw = raws.iter().find(|m| m.key == board.key)?;
            let pci_device = raw.pci_device_ids.first().and_then(|id| u32::from_str_radix(id, 16).ok())?;
            let profiles = model.profiles.iter().map(|p| gi_profile(model, raw, p)).collect();
            Some(Chip { model, profiles, board, pci_device })
        })
        .collect()
}

/// Engines that no capture gives: one copy engine, decoder and JPEG decoder per compute slice, as on Hopper.
fn gi_profile(model: &Model, raw: &RawModel, base: &'static Profile) -> GiProfile {
    let row = raw.profiles.iter().find(|p| p.name == base.name);
    let slices = u32::from(base.compute_slices);
    let get = |f: fn(&RawProfile) -> Option<u32>, default: u32| row.and_then(f).unwrap_or(default);
    let engines = Engines {
        ce: get(|r| r.ce, slices),
        dec: get(|r| r.dec, slices),
        enc: get(|r| r.enc, 0),
        jpeg: get(|r| r.jpeg, slices),
        ofa: get(|r| r.ofa, u32::from(base.size == model.placement_units)),
    };
    let gfx = row.and_then(|r| r.gfx).unwrap_or(false);
    GiProfile { base, engines, gfx, cis: ci_profiles(raw, base) }
}

/// Compute instance profiles of one GPU instance profile: 1, 2, 3, 4 slices below its own, and its own whole.
///
/// Captures exist for A100, A30 and two rows of others; the rule gives exactly those, so it serves for the rest. A double-memory 1g
/// slice inside an H100's 2g (`rev1`, enum 7) is reported where the capture shows it.
fn ci_profiles(raw: &RawModel, base: &Profile) -> Vec<CiProfile> {
    let total = u32::from(base.compute_slices);
    let plain = base.name.split(['+', '-']).next().unwrap_or(&base.name);
    let mut out = Vec::new();
    for (id, slices) in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 7)] {
        if slices > total {
            continue;
        }
        let whole = slices == total;
        let row = raw.compute_instances.iter().find(|c| c.gi == plain && c.enum_value == id);
        let starts = ci_starts(slices, total);
        out.push(CiProfile {
            id,
            name: if whole { base.name.clone() } else { format!("{slices}c.{}", base.name) },
            slices,
            sm: row.map_or_else(|| if whole { base.sm } else { base.sm * slices / total }, |r| r.sm),
            max: row.map_or(u32::try_from(starts.len()).unwrap_or(1), |r| r.max_instances),
            starts,
        });
    }
    let beyond = |row: &&RawCi| row.gi == plain && out.iter().all(|o| o.id != row.enum_value);
    let extra: Vec<CiProfile> = raw
        .compute_instances
        .iter()
        .filter(beyond)
        .map(|row| CiProfile {
            id: row.enum_value,
            name: format!("{}c.{}", row.slices, base.name),
            slices: row.slices,
            sm: row.sm,
            max: row.max_instances,
            starts: ci_starts(row.slices, total),
        })
        .collect();
    out.extend(extra);
    out
}

/// Where a compute instance of `slices` may start in a GPU instance of `total`: aligned as GPU instances are.
fn ci_starts(slices: u32, total: u32) -> Vec<u32> {
    let align = match slices {
        1 => 1,
        2 => 2,
        _ => 4,
    };
    (0..total).step_by(align).filter(|start| start + slices <= total).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placeable_model_has_a_board() {
        assert_eq!(Chip::all().len(), Model::all().len());
    }

    #[test]
    fn the_rule_reproduces_the_captured_compute_instances() {
        let geometry: Geometry = toml::from_str(GEOMETRY).unwrap();
        let mut rows = 0;
        for raw in &geometry.model {
            let Some(chip) = Chip::find(&raw.key) else { continue };
            for row in &raw.compute_instances {
                let gi = chip.profiles.iter().find(|p| p.base.name == row.gi).unwrap();
                let ci = gi.cis.iter().find(|c| c.id == row.enum_value).unwrap();
                assert_eq!(
                    (ci.slices, ci.sm, ci.max),
                    (row.slices, row.sm, row.max_instances),
                    "{}",
                    ci.name
                );
                if row.enum_value != 7 {
                    assert_eq!(u32::try_from(ci.starts.len()).unwrap(), row.max_instances, "{}", ci.name);
                }
                rows += 1;
            }
        }
        assert_eq!(rows, 40);
    }

    #[test]
    fn engines_come_from_the_captures() {
        let a100 = Chip::find("a100-40gb").unwrap();
        let me = a100.profile(20).unwrap();
        assert_eq!(me.engines, Engines { ce: 1, dec: 1, enc: 0, jpeg: 1, ofa: 1 });
        assert_eq!(a100.profile_by_enum(9).unwrap().base.name, "1g.10gb");
    }
}
