//! Behaviour of the simulated node, in safe Rust: no C type appears below this module.
//!
//! [`session::Session`] is what a process holds between `nvmlInit` and `nvmlShutdown`; everything it answers comes from one
//! [`state::State`], read through [`store::Store`].

pub mod activity;
pub mod chip;
pub mod code;
pub mod cuda;
pub mod fault;
mod files;
pub mod gpm;
pub mod handle;
pub mod ids;
mod interconnect;
pub mod load;
pub mod meter;
pub mod mig;
pub mod node;
pub mod node_file;
pub mod ops;
pub mod process;
pub mod session;
pub mod state;
pub mod store;
pub mod timing;
pub mod topology;
pub mod traffic;
pub mod tree;
pub mod usage;
pub mod worker;
