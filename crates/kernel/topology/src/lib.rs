//! The GPUs of a node, the links between them, and how a job's ranks talk to each other.
//!
//! Bandwidths are in one direction: GB/s (10^9 bytes per second) as `gbps`, MB/s (10^6) as `mb_s`. GPUs are numbered
//! from 0.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod bandwidth_model;
mod edge_list;
mod gpu_set;
mod graph;
mod link;
mod link_kind;
mod pattern;
mod rates;
mod selection;
mod systems;

pub use bandwidth_model::{BandwidthModel, Bounds, Coefficients, Scores, THETA};
pub use edge_list::{MAX_EDGES, MAX_RANK, parse_weight};
pub use gpu_set::{GpuSet, Quota};
pub use graph::HardwareGraph;
pub use link::{Link, PCIE_GBPS};
pub use link_kind::{LinkClass, LinkKind};
pub use pattern::{Pattern, PatternEdge};
pub use rates::{
    PcieSlot, newest_nvlink, newest_pcie, nvlink_generation, nvlink_lane_gbps, nvlink_of, nvml_version,
    pcie_gbps, pcie_of,
};
pub use selection::Selection;
pub use systems::{System, systems};
