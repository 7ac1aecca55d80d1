//! Interconnects with a name, such as `dgx-v`: `data/systems.toml`, each row with its source.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::graph::HardwareGraph;
use crate::link::Link;
use crate::link_kind::LinkKind;
use crate::rates::{PcieSlot, nvlink_lane_gbps};

/// An interconnect with a name.
#[derive(Debug, Deserialize)]
pub struct System {
    /// The name as the key `interconnect` takes it: `dgx-v`.
    pub name: String,
    /// Number of GPUs; 0 if the description fits any number.
    pub size: usize,
    /// GPUs per CPU socket; 0: half of them.
    #[serde(default)]
    socket: usize,
    /// GPUs per PCIe switch; 0: none.
    #[serde(default)]
    pcie_switch: usize,
    /// NVLink generation; 0 without NVLink.
    #[serde(default)]
    nvlink: u8,
    /// NVLink lanes between every two GPUs.
    #[serde(default)]
    all_lanes: u8,
    /// NVLink lanes of each GPU to NVSwitches.
    #[serde(default)]
    switch_lanes: u8,
    /// Rate of all pairs without NVLink, GB/s.
    pcie_gbps: Option<f64>,
    /// PCIe generation, 0 if `pcie_gbps` gives the rate.
    #[serde(default)]
    pcie: u8,
    #[serde(default)]
    links: Vec<Pair>,
}

/// Two GPUs, the NVLink lanes between them, and GB/s if it differs from the lanes' rate.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
enum Pair {
    Lanes(usize, usize, u8),
    Rate(usize, usize, u8, f64),
}

impl Pair {
    fn parts(self) -> (usize, usize, u8, Option<f64>) {
        match self {
            Self::Lanes(a, b, lanes) => (a, b, lanes, None),
            Self::Rate(a, b, lanes, gbps) => (a, b, lanes, Some(gbps)),
        }
    }
}

impl System {
    /// The system with this name, upper and lower case alike.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static System> {
        systems().iter().find(|s| s.name.eq_ignore_ascii_case(name))
    }

    /// Tells whether a node of `n` GPUs can have this interconnect.
    #[must_use]
    pub fn fits(&self, n: usize) -> bool {
        self.size == 0 || self.size == n
    }

    /// The hardware graph of `n` GPUs; `None` if the system has another number of GPUs.
    #[must_use]
    pub fn graph(&self, n: usize) -> Option<HardwareGraph> {
        let sends = nvlink_lane_gbps(self.nvlink).map(|lane| lane * f64::from(self.switch_lanes));
        let sends = sends.filter(|_| self.switch_lanes > 0);
        self.fits(n).then(|| HardwareGraph::new(n, sends, self.socket(n), &|a, b| self.link(a, b, n)))
    }

    /// The NVLink generation of its GPUs; `None` without NVLink.
    #[must_use]
    pub fn generation(&self) -> Option<u8> {
        (self.nvlink > 0).then_some(self.nvlink)
    }

    /// NVLink lanes directly between two GPUs, not through an NVSwitch.
    #[must_use]
    pub fn lanes(&self, a: usize, b: usize) -> u8 {
        self.pair(a, b).map_or(if a == b { 0 } else { self.all_lanes }, |(_, _, lanes, _)| lanes)
    }

    /// NVLink lanes of each GPU to NVSwitches; 0 without a switch.
    #[must_use]
    pub fn switch_lanes(&self) -> u8 {
        self.switch_lanes
    }

    /// GPUs per CPU socket on a node of `n`.
    #[must_use]
    pub fn socket(&self, n: usize) -> usize {
        if self.socket == 0 { n.div_ceil(2) } else { self.socket }
    }

    /// The slots of its GPUs; `None` if the description gives a rate instead of a generation.
    #[must_use]
    pub fn pcie(&self) -> Option<PcieSlot> {
        (self.pcie > 0).then(|| PcieSlot::x16(self.pcie))
    }

    /// The PCIe level between GPUs `a` and `b` of a node of `n`.
    #[must_use]
    pub fn level(&self, a: usize, b: usize, n: usize) -> LinkKind {
        let (socket, switch) = (self.socket(n).max(1), self.pcie_switch);
        match () {
            // Only PCIe is known.
            () if self.socket == 0 => LinkKind::Phb,
            () if switch > 0 && a / switch == b / switch => LinkKind::Pix,
            () if a / socket == b / socket => LinkKind::Node,
            () => LinkKind::Sys,
        }
    }

    fn pair(&self, a: usize, b: usize) -> Option<(usize, usize, u8, Option<f64>)> {
        self.links.iter().map(|l| l.parts()).find(|l| (l.0, l.1) == (a, b) || (l.0, l.1) == (b, a))
    }

    fn link(&self, a: usize, b: usize, n: usize) -> Link {
        if let Some(link) = Link::nvlink(self.nvlink, self.lanes(a, b).max(self.switch_lanes)) {
            let given = self.pair(a, b).and_then(|p| p.3);
            return given.map_or(link, |gbps| Link::new(link.kind, gbps));
        }
        let level = self.level(a, b, n);
        let rate = self.pcie().and_then(|slot| Link::pcie(level, slot));
        match self.pcie_gbps {
            Some(gbps) => Link::new(level, gbps),
            None => rate.unwrap_or_else(|| Link::new(level, 0.0)),
        }
    }
}

/// Every interconnect with a name, in the order of the file.
#[must_use]
pub fn systems() -> &'static [System] {
    #[derive(Deserialize)]
    struct File {
        system: Vec<System>,
    }
    static SYSTEMS: OnceLock<Vec<System>> = OnceLock::new();
    SYSTEMS.get_or_init(|| {
        // Part of the program, read by a unit test: an unreadable file is no systems, not a panic.
        let file = toml::from_str(include_str!("../data/systems.toml"));
        file.map(|f: File| f.system).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use geometry::GpuIndex;

    /// Pairs of GPUs by bandwidth: (10, 20 or 25, 50).
    fn counts(name: &str) -> (usize, usize, usize) {
        let system = System::find(name).unwrap();
        let graph = system.graph(system.size).unwrap();
        let n = u16::try_from(system.size).unwrap();
        let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
        let all: Vec<f64> =
            pairs.map(|(a, b)| graph.link(GpuIndex(a), GpuIndex(b)).unwrap().gbps()).collect();
        let among = |low: f64, high: f64| all.iter().filter(|w| (low..=high).contains(*w)).count();
        (among(10.0, 10.0), among(20.0, 25.0), among(50.0, 50.0))
    }

    fn link(name: &str, a: u16, b: u16) -> String {
        let system = System::find(name).unwrap();
        let link = system.graph(system.size).unwrap().link(GpuIndex(a), GpuIndex(b)).unwrap();
        format!("{} {}", link.kind, link.gbps())
    }

    #[test]
    fn the_graphs_have_the_links_that_were_counted() {
        assert_eq!(counts("dgx-v"), (12, 8, 8));
        assert_eq!(counts("dgx-p"), (12, 16, 0));
        assert_eq!(counts("summit"), (9, 0, 6));
        assert_eq!(counts("torus-2d"), (89, 17, 14));
        // Four links of 25 GB/s that MAPA counts as double.
        assert_eq!(counts("cubemesh-16"), (90, 21, 9));
        assert_eq!(counts("cubemesh-16-intended"), (88, 17, 15));
    }

    #[test]
    fn named_systems_have_their_published_links() {
        assert_eq!(["dgx-v", "dgx-p"].map(|s| link(s, 0, 3)), ["NV2 50", "NV1 20"]);
        assert_eq!(["dgx-v", "torus-2d"].map(|s| link(s, 0, 6)), ["SYS 10", "SYS 10"]);
        assert_eq!(link("torus-2d", 0, 2), "NODE 10");
        assert_eq!(link("cubemesh-16", 0, 11), "NV2 25");
        assert_eq!(["dgx-a100", "dgx-h100"].map(|s| link(s, 2, 7)), ["NV12 300", "NV18 450"]);
        assert_eq!(link("hgx-a100-4", 0, 3), "NV4 100");
        assert_eq!([1, 2, 4].map(|b| link("pcie-8", 0, b)), ["PIX 24", "NODE 18", "SYS 12"]);
        assert_eq!([1, 2, 4].map(|b| link("pcie-8-bridged", 0, b)), ["NV12 300", "NODE 18", "SYS 12"]);
    }

    #[test]
    fn every_system_has_links() {
        assert_eq!(systems().len(), 12);
        let rated = |s: &System| {
            let n = if s.size == 0 { 3 } else { s.size };
            s.graph(n).is_some_and(|graph| {
                (1..u16::try_from(n).unwrap()).all(|b| graph.link(GpuIndex(0), GpuIndex(b)).unwrap().mb_s > 0)
            })
        };
        assert!(systems().iter().all(rated));
        assert!(System::find("dgx-v").unwrap().graph(4).is_none());
    }
}
