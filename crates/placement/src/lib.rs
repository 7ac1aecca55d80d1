//! Where a GPU request goes: the pure core of Tessera.
//!
//! Takes a node's state and a request, returns a decision with its report. No I/O, no clock, no randomness, no
//! logging, no Slurm or NVML type: the shells around it (the Slurm plugins, the node side, the command line) carry
//! decisions out. Memory is MiB throughout; GPU indices are NVML's.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod admit;
pub mod decide;
pub mod present;

pub use admit::{Admission, Never, admits_ever};
pub use decide::{decide, decide_with, fits};

// Old paths, until every import names the crate that holds a thing.
pub use ::audit::{self, Finding, audit, audit_node};
pub use ::far;
pub use geometry::{GpuIndex, JobId, MigReset, Model, Placement, Profile, ProfileId, Slice, Uid, size};
pub use node_state::{
    ApplyError, Ask, Decision, Gpu, GpuState, Holder, Instance, Kind, MigPolicy, Node, Policy, Report,
    SetPolicy, Share, layout_of, report, score,
};
pub use protocol::{
    Bandwidth, Grant, Isolation, Layout, MigSpec, Request, layout, matched, moldable, parse_layout, patience,
    planned,
};
pub use topology::{EdgeListError, GpuSet, LinkMatrix, Pattern, Quota};
/// Old path.
pub mod ids {
    pub use geometry::{GpuIndex, JobId, Placement, ProfileId, Slice, Uid};
}
/// Old path.
pub mod model {
    pub use geometry::{GEOMETRY, MigReset, Model, Profile};
}
/// Old path.
pub mod state {
    pub use node_state::{Gpu, GpuState, Holder, Instance, MigPolicy, Node, Share};
    pub use topology::LinkMatrix;
}
/// Old path.
pub mod ask {
    pub use node_state::{Ask, Kind, Policy, SetPolicy};
    pub use topology::{GpuSet, Quota};
}
/// Old path.
pub mod request {
    pub use protocol::{Bandwidth, Isolation, Request, UnknownIsolation, is_profile_name};
    pub use topology::{Pattern, PatternEdge};
}
/// Old path.
pub mod decision {
    pub use protocol::{Grant, MigSpec, ShareOn};
}
/// Old path.
pub mod wire {
    pub use protocol::wire::*;
    pub use topology::{MAX_EDGES, MAX_RANK, parse_weight};
}
/// Old path.
pub mod links {
    pub use topology::*;
}
/// Old path.
pub mod mapa {
    pub use ::mapa::*;
    pub use topology::{Edge, HardwareGraph, Link, LinkClass, LinkKind, PCIE_GBPS, PatternError, Selection};
}
/// Old path.
pub mod edge_list {
    pub use topology::EdgeListError;
}
