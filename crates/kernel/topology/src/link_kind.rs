//! Kinds of links, and the classes that MAPA counts them in.

use std::fmt;

/// Kind of the connection of two GPUs; the PCIe levels are those of `nvidia-smi topo -m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkKind {
    /// NVLink. Through an NVSwitch, the lanes of one GPU.
    NvLink {
        /// From 1; 0 where only a bandwidth is known.
        generation: u8,
        /// Number of lanes that are up.
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
