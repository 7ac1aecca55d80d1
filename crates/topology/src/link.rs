//! Links between two GPUs, and what each kind carries.

use std::fmt;

use crate::{PcieSlot, nvlink_lane_gbps, pcie_gbps};

/// GB/s in one direction between two GPUs of which only PCIe is known: what MAPA's program counts for PCIe 3 x16.
pub const PCIE_GBPS: f64 = 10.0;

/// How two GPUs are connected; the PCIe levels are those of `nvidia-smi topo -m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkKind {
    /// NVLink. Through an NVSwitch, the lanes of one GPU.
    NvLink {
        /// From 1; 0 where only a bandwidth is known.
        generation: u8,
        /// Lanes that are up.
        lanes: u8,
    },
    /// At most one PCIe switch between them.
    Pix,
    /// Several PCIe switches.
    Pxb,
    /// A host bridge.
    Phb,
    /// Host bridges of one NUMA node.
    Node,
    /// The link between NUMA nodes.
    Sys,
}

/// The three classes that MAPA's Equation 2 counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkClass {
    /// x: two NVLink lanes or more.
    Double,
    /// y: one NVLink lane.
    Single,
    /// z: no NVLink.
    Pcie,
}

/// The best connection between two GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// How.
    pub kind: LinkKind,
    /// MB/s in one direction, at most [`Link::MOST_MB_S`]: whole numbers, so that sums have no order.
    pub mb_s: u32,
}

impl Link {
    /// 1 TB/s. What 23 edges lack of it, ring+tree's on 16 GPUs, fits the widest number that the searches count in, and all
    /// links of a node add up in a `u32`.
    pub const MOST_MB_S: u32 = 1_000_000;

    /// A link of this bandwidth, GB/s; what is negative or no number counts as 0.
    #[must_use]
    pub fn new(kind: LinkKind, gbps: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
        let mb_s = (gbps * 1000.0).round().clamp(0.0, f64::from(Self::MOST_MB_S)) as u32;
        Self { kind, mb_s }
    }

    /// NVLink of a known generation and number of lanes.
    ///
    /// Lanes that are down are not counted, so a degraded link is a slower edge. `None` for no lane and for a
    /// generation that is not in `data/links.toml`.
    #[must_use]
    pub fn nvlink(generation: u8, lanes: u8) -> Option<Self> {
        let lane = nvlink_lane_gbps(generation)?;
        (lanes > 0).then(|| Self::new(LinkKind::NvLink { generation, lanes }, lane * f64::from(lanes)))
    }

    /// A way over PCIe between two GPUs in such slots. `None` for an NVLink and for a slot that does not exist.
    #[must_use]
    pub fn pcie(level: LinkKind, slot: PcieSlot) -> Option<Self> {
        pcie_gbps(level, slot).map(|gbps| Self::new(level, gbps))
    }

    /// A link of which only the bandwidth is known: from 37.5 GB/s two lanes or more, from 17.5 one, PCIe below.
    ///
    /// The bounds lie between MAPA's classes (50; 25 and 20; 10 and 12).
    #[must_use]
    pub fn of_bandwidth(gbps: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
        let lanes = (gbps / 25.0).round().clamp(1.0, 255.0) as u8;
        let kind = if gbps >= 17.5 { LinkKind::NvLink { generation: 0, lanes } } else { LinkKind::Phb };
        Self::new(kind, gbps)
    }

    /// What Equation 2 counts it as.
    #[must_use]
    pub fn class(self) -> LinkClass {
        match self.kind {
            LinkKind::NvLink { lanes: 0 | 1, .. } => LinkClass::Single,
            LinkKind::NvLink { .. } => LinkClass::Double,
            _ => LinkClass::Pcie,
        }
    }

    /// GB/s in one direction.
    #[must_use]
    pub fn gbps(self) -> f64 {
        f64::from(self.mb_s) / 1000.0
    }
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NvLink { lanes, .. } => write!(f, "NV{lanes}"),
            Self::Pix => f.write_str("PIX"),
            Self::Pxb => f.write_str("PXB"),
            Self::Phb => f.write_str("PHB"),
            Self::Node => f.write_str("NODE"),
            Self::Sys => f.write_str("SYS"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_and_generations() {
        let gbps = |generation, lanes| Link::nvlink(generation, lanes).map(Link::gbps);
        assert_eq!(gbps(1, 1), Some(20.0));
        assert_eq!(gbps(2, 2), Some(50.0));
        assert_eq!(gbps(3, 12), Some(300.0));
        assert_eq!(gbps(4, 18), Some(450.0));
        assert_eq!(gbps(5, 18), Some(900.0));
        assert_eq!((gbps(0, 1), gbps(6, 1), gbps(2, 0)), (None, None, None));
    }

    #[test]
    fn a_bandwidth_alone_has_the_papers_class() {
        let class = |gbps| Link::of_bandwidth(gbps).class();
        assert_eq!([50.0, 300.0].map(class), [LinkClass::Double; 2]);
        assert_eq!([25.0, 20.0].map(class), [LinkClass::Single; 2]);
        assert_eq!([10.0, 12.0, 0.0].map(class), [LinkClass::Pcie; 3]);
    }
}
