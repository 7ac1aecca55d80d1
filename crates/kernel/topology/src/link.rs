//! The link between two GPUs: its kind and its bandwidth.

use crate::link_kind::{LinkClass, LinkKind};
use crate::rates::{PcieSlot, nvlink_lane_gbps, pcie_gbps};

/// GB/s in one direction assumed for two GPUs that PCIe connects, if no rate is known: MAPA's program counts this for
/// PCIe 3 x16.
pub const PCIE_GBPS: f64 = 10.0;

/// The best connection between two GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// NVLink with its lanes, or the way over PCIe.
    pub kind: LinkKind,
    /// Bandwidth in one direction, MB/s (10^6 bytes per second), at most [`Link::MOST_MB_S`]. Whole numbers, so that
    /// sums do not depend on their order.
    pub mb_s: u32,
}

impl Link {
    /// 1 TB/s. All links of a node add up in a `u32`, and sums over ring+tree's 23 edges on 16 GPUs fit the widest number
    /// that the searches count in.
    pub const MOST_MB_S: u32 = 1_000_000;

    /// A link of this bandwidth, GB/s. Negative numbers and NaN count as 0, more than 1 TB/s as 1 TB/s.
    #[must_use]
    pub fn new(kind: LinkKind, gbps: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
        let mb_s = (gbps * 1000.0).round().clamp(0.0, f64::from(Self::MOST_MB_S)) as u32;
        Self { kind, mb_s }
    }

    /// NVLink of a known generation and number of lanes.
    ///
    /// `lanes` counts only those that are up, so a degraded link is a slower edge. `None` for 0 lanes and for a generation
    /// that is not in `data/links.toml`.
    #[must_use]
    pub fn nvlink(generation: u8, lanes: u8) -> Option<Self> {
        let lane = nvlink_lane_gbps(generation)?;
        (lanes > 0).then(|| Self::new(LinkKind::NvLink { generation, lanes }, lane * f64::from(lanes)))
    }

    /// The way over PCIe between two GPUs in such slots, at a PCIe level. `None` if `level` is NVLink or no such slot exists.
    #[must_use]
    pub fn pcie(level: LinkKind, slot: PcieSlot) -> Option<Self> {
        pcie_gbps(level, slot).map(|gbps| Self::new(level, gbps))
    }

    /// A link whose kind is told from its bandwidth: from 37.5 GB/s on NVLink of two lanes or more, from 17.5 on NVLink of
    /// one lane, below that PCIe.
    ///
    /// The bounds lie between the rates of MAPA's classes (50; 25 and 20; 10 and 12).
    #[must_use]
    pub fn of_bandwidth(gbps: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
        let lanes = (gbps / 25.0).round().clamp(1.0, 255.0) as u8;
        let kind = if gbps >= 17.5 { LinkKind::NvLink { generation: 0, lanes } } else { LinkKind::Phb };
        Self::new(kind, gbps)
    }

    /// The class that Equation 2 counts it in.
    #[must_use]
    #[inline]
    pub fn class(self) -> LinkClass {
        match self.kind {
            LinkKind::NvLink { lanes: 0 | 1, .. } => LinkClass::Single,
            LinkKind::NvLink { .. } => LinkClass::Double,
            _ => LinkClass::Pcie,
        }
    }

    /// Bandwidth in one direction, GB/s.
    #[must_use]
    #[inline]
    pub fn gbps(self) -> f64 {
        f64::from(self.mb_s) / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvlink_bandwidth_follows_generation_and_lanes() {
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
