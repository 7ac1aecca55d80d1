//! Where a GPU request goes: the pure core of Tessera.
//!
//! Takes a node's state and a request, returns a decision with its report. No I/O, no clock, no randomness, no
//! logging, no Slurm or NVML type: the shells around it (the Slurm plugins, the node side, the command line) carry
//! decisions out. Memory is MiB throughout; GPU indices are NVML's.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod admit;
pub mod apply;
pub mod ask;
pub mod audit;
pub mod decide;
pub mod decision;
pub mod edge_list;
mod explain;
pub mod far;
pub mod ids;
pub mod layout;
pub mod links;
pub mod mapa;
pub mod matched;
pub mod model;
pub mod moldable;
pub mod patience;
pub mod planned;
pub mod report;
pub mod request;
pub mod score;
pub mod size;
pub mod state;
pub mod wire;

pub use admit::{Admission, Never};
pub use apply::ApplyError;
pub use ask::{Ask, GpuSet, Kind, Policy, Quota, SetPolicy};
pub use audit::{Finding, audit, audit_node};
pub use decide::{Decision, decide, decide_with, fits};
pub use decision::{Grant, MigSpec};
pub use edge_list::EdgeListError;
pub use ids::{GpuIndex, JobId, Placement, ProfileId, Slice, Uid};
pub use layout::{Layout, parse_layout};
pub use model::{MigReset, Model, Profile};
pub use report::Report;
pub use request::{Bandwidth, Isolation, Pattern, Request};
pub use state::{Gpu, GpuState, Holder, Instance, LinkMatrix, MigPolicy, Node, Share};
