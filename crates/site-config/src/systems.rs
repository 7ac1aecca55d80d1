//! Interconnects that have a name: `data/systems.toml`.

use std::sync::{Arc, OnceLock};

use placement::LinkMatrix;
use placement::mapa::{HardwareGraph, Link, LinkKind};
use serde::Deserialize;

/// A known interconnect.
#[derive(Debug, Deserialize)]
pub struct System {
    /// As `interconnect` names it: `dgx-v`.
    pub name: String,
    /// Its number of GPUs; 0 fits any number.
    pub size: usize,
    /// Bandwidth between GPUs that are not linked directly, GB/s.
    other_gbps: f64,
    /// GPUs per CPU socket; 0: half of them.
    #[serde(default)]
    socket: usize,
    /// What a GPU sends to all others together where that is less than its links add up to, GB/s.
    #[serde(default)]
    sends_gbps: Option<f64>,
    /// GPU, GPU, GB/s, MAPA's kind of link.
    links: Vec<(usize, usize, f64, String)>,
}

impl System {
    /// The system with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static System> {
        systems().iter().find(|s| s.name.eq_ignore_ascii_case(name))
    }

    /// The hardware graph of `n` GPUs; `None` if the system has another number of them.
    #[must_use]
    pub fn graph(&self, n: usize) -> Option<HardwareGraph> {
        if self.size != 0 && self.size != n {
            return None;
        }
        let link = |a: usize, b: usize| {
            let found = self.links.iter().find(|l| (l.0, l.1) == (a, b) || (l.0, l.1) == (b, a));
            found.map_or_else(
                || Link::of_bandwidth(self.other_gbps),
                |(_, _, gbps, kind)| {
                    // MAPA's kind counts, whatever the bandwidth: it has double links of 25 GB/s.
                    let lanes = if kind == "S" { 1 } else { 2 };
                    Link::new(LinkKind::NvLink { generation: 0, lanes }, *gbps)
                },
            )
        };
        let socket = if self.socket == 0 { n.div_ceil(2) } else { self.socket };
        Some(HardwareGraph::new(n, self.sends_gbps, socket, &link))
    }

    /// The links of `n` GPUs; `None` if the system has another number of them.
    #[must_use]
    pub fn matrix(&self, n: usize) -> Option<LinkMatrix> {
        self.graph(n).map(|graph| LinkMatrix::of_graph(Arc::new(graph)))
    }
}

/// Every known interconnect.
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
    use placement::GpuIndex;

    /// Ordered pairs of GPUs by bandwidth: (10, 20 or 25, 50).
    fn counts(name: &str) -> (usize, usize, usize) {
        let system = System::find(name).unwrap();
        let matrix = system.matrix(system.size).unwrap();
        let n = u16::try_from(system.size).unwrap();
        let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
        let all: Vec<f64> = pairs.map(|(a, b)| matrix.bw_gbps(GpuIndex(a), GpuIndex(b))).collect();
        let among = |low: f64, high: f64| all.iter().filter(|w| (low..=high).contains(*w)).count();
        (among(10.0, 10.0), among(20.0, 25.0), among(50.0, 50.0))
    }

    #[test]
    fn the_graphs_have_the_links_that_were_counted() {
        assert_eq!(counts("dgx-v"), (12, 8, 8));
        assert_eq!(counts("dgx-p"), (12, 16, 0));
        assert_eq!(counts("summit"), (9, 0, 6));
        assert_eq!(counts("torus-2d"), (89, 17, 14));
        // Four links of 25 GB/s that MAPA counts as double.
        assert_eq!(counts("cubemesh-16"), (90, 21, 9));
    }

    #[test]
    fn every_system_has_a_matrix() {
        assert_eq!(systems().len(), 11);
        assert!(systems().iter().all(|s| s.matrix(if s.size == 0 { 3 } else { s.size }).is_some()));
        assert!(System::find("dgx-v").unwrap().matrix(4).is_none());
    }
}
