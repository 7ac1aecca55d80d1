//! Bandwidth of links between GPUs, by generation, lanes and way: `data/links.toml`, each row with its source.
//!
//! GB/s (10^9 bytes per second) in one direction.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::link_kind::LinkKind;

/// The slot that a GPU is in: what its PCIe link can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PcieSlot {
    /// PCIe generation, from 1.
    pub generation: u8,
    /// Lanes, 1 to 16.
    pub lanes: u8,
}

impl PcieSlot {
    /// All 16 lanes of a generation.
    #[must_use]
    pub fn x16(generation: u8) -> Self {
        Self { generation, lanes: 16 }
    }
}

#[derive(Default, Deserialize)]
struct Rates {
    nvlink: Vec<NvLink>,
    pcie: Pcie,
    level: Vec<Level>,
    arch: Vec<Arch>,
}

#[derive(Deserialize)]
struct Arch {
    name: String,
    nvlink: u8,
    pcie: u8,
}

#[derive(Deserialize)]
struct NvLink {
    generation: u8,
    lane_gbps: f64,
    nvml: Vec<u32>,
}

#[derive(Default, Deserialize)]
struct Pcie {
    x16_gbps: Vec<f64>,
}

#[derive(Deserialize)]
struct Level {
    name: String,
    share: f64,
}

fn rates() -> &'static Rates {
    static RATES: OnceLock<Rates> = OnceLock::new();
    // Part of the program, read by a unit test: an unreadable file is no rates, not a panic.
    RATES.get_or_init(|| toml::from_str(include_str!("../data/links.toml")).unwrap_or_default())
}

/// Rate of one NVLink lane of this generation, GB/s; `None` for a generation without known rates.
#[must_use]
pub fn nvlink_lane_gbps(generation: u8) -> Option<f64> {
    rates().nvlink.iter().find(|r| r.generation == generation).map(|r| r.lane_gbps)
}

/// The NVLink generation for NVML's version number; `None` for an unknown number.
#[must_use]
pub fn nvlink_generation(nvml_version: u32) -> Option<u8> {
    rates().nvlink.iter().find(|r| r.nvml.contains(&nvml_version)).map(|r| r.generation)
}

/// NVML's version number of an NVLink generation, the first if there are several; `None` for an unknown generation.
#[must_use]
pub fn nvml_version(generation: u8) -> Option<u32> {
    rates().nvlink.iter().find(|r| r.generation == generation)?.nvml.first().copied()
}

/// The newest NVLink generation with known rates; 5 today.
#[must_use]
pub fn newest_nvlink() -> u8 {
    rates().nvlink.iter().map(|r| r.generation).max().unwrap_or(0)
}

/// The newest PCIe generation with known rates; 6 today.
#[must_use]
pub fn newest_pcie() -> u8 {
    u8::try_from(rates().pcie.x16_gbps.len()).unwrap_or(u8::MAX)
}

/// The NVLink generation of an architecture (`hopper`); `None` if it has no NVLink or is unknown.
#[must_use]
pub fn nvlink_of(arch: &str) -> Option<u8> {
    rates().arch.iter().find(|a| a.name == arch).map(|a| a.nvlink).filter(|g| *g > 0)
}

/// The PCIe generation of an architecture (`hopper`); `None` if it is unknown.
#[must_use]
pub fn pcie_of(arch: &str) -> Option<u8> {
    rates().arch.iter().find(|a| a.name == arch).map(|a| a.pcie)
}

/// Rate at which two GPUs in such slots exchange over PCIe, GB/s. `None` if `level` is NVLink or no such slot exists.
#[must_use]
pub fn pcie_gbps(level: LinkKind, slot: PcieSlot) -> Option<f64> {
    let name = level.to_string();
    let share = rates().level.iter().find(|l| l.name == name)?.share;
    let x16 = rates().pcie.x16_gbps.get(usize::from(slot.generation).checked_sub(1)?)?;
    (1..=16).contains(&slot.lanes).then(|| share * x16 * f64::from(slot.lanes) / 16.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;

    #[test]
    fn the_longer_the_way_the_less_it_carries() {
        let levels = [LinkKind::Pix, LinkKind::Pxb, LinkKind::Phb, LinkKind::Node, LinkKind::Sys];
        for (generation, expect) in [(3, [12.0, 11.5, 10.0, 9.0, 6.0]), (4, [24.0, 23.0, 20.0, 18.0, 12.0])] {
            let rates = levels.map(|l| Link::pcie(l, PcieSlot::x16(generation)).unwrap().gbps());
            assert_eq!(rates, expect);
            assert!(rates.windows(2).all(|w| w[0] > w[1]));
        }
        assert_eq!(pcie_gbps(LinkKind::Pix, PcieSlot { generation: 4, lanes: 8 }), Some(12.0));
        assert_eq!(pcie_gbps(LinkKind::NvLink { generation: 3, lanes: 1 }, PcieSlot::x16(4)), None);
        for (generation, lanes) in [(0, 16), (7, 16), (4, 0), (4, 17)] {
            assert_eq!(pcie_gbps(LinkKind::Pix, PcieSlot { generation, lanes }), None);
        }
    }

    #[test]
    fn generations_by_nvmls_numbers() {
        assert_eq!(
            (1..=8).map(nvlink_generation).collect::<Vec<_>>(),
            [1, 2, 2, 3, 3, 4, 5, 0].map(|g| (g > 0).then_some(g))
        );
        assert_eq!(nvlink_generation(0), None);
        assert_eq!((1..=5).map(nvml_version).collect::<Vec<_>>(), [1, 2, 4, 6, 7].map(Some));
        assert_eq!((newest_nvlink(), newest_pcie()), (5, 6));
    }

    #[test]
    fn every_models_architecture_is_known() {
        for model in geometry::Model::all() {
            assert!(pcie_of(&model.arch).is_some(), "{}", model.arch);
        }
        assert_eq!((nvlink_of("hopper"), nvlink_of("blackwell-gb202")), (Some(4), None));
    }
}
