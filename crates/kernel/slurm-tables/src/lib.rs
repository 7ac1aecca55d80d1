//! Positions of the fields of Slurm's structures in each of its releases.
//!
//! Slurm's internal structures move between micro releases. `data/slurm.txt` says for each release which field lies where; the
//! plugins read it when they are loaded, for the release of the process that loads them. So one file serves every Slurm.
//!
//! A table can be wrong: it is held against the process before anything is read by it. [`table`] refuses one that cannot be
//! right, and the check of a record ([`Misfit`]) reads it in a way that cannot crash.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

#[expect(unsafe_code, reason = "fields of Slurm's structures")]
mod ffi;
mod kind;
mod own;
pub mod table;
mod version;

pub use ffi::check::{Misfit, Record};
pub use ffi::field::{Behind, Bitmap, Field, List, ListOf, RecordView, Text, Value, Wide};
pub use ffi::peek::{peek, peek_text};
pub use kind::Kind;
pub use own::{NoTable, OWN_TABLE, own_layout};
pub use table::{Layout, Tables};
pub use version::{BadVersion, Version};

/// The tables of all releases that Tessera knows, on x86-64.
pub const TABLES: &str = include_str!("../data/slurm.txt");
/// The rows that are different on AArch64, where a mutex of POSIX threads has 48 bytes instead of 40.
pub const AARCH64: &str = include_str!("../data/aarch64.txt");
