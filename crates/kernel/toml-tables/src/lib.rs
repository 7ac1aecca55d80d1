//! Reads the tables of a TOML file, with every error at its line and column.
//!
//! [`tables`] refuses what nests too deep, [`TableReader`] reads typed values and finds keys that nobody reads, and
//! [`Errors`] collects what is wrong: all of it, in the order of the file.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod depth;
mod error;
mod reader;

pub use depth::tables;
pub use error::{ConfigError, Errors, nearest, suggest};
pub use reader::{At, TableReader, Value, pick};
