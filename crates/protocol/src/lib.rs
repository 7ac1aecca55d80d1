//! Every string that one process of Tessera writes and another reads: options, requests, placements, layout lines,
//! AdminComments, and what a job is told of its GPU set.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod grant;
pub mod layout;
pub mod matched;
pub mod moldable;
pub mod options;
pub mod patience;
pub mod planned;
mod request;
pub mod wire;

pub use grant::{Grant, MigSpec, ShareOn};
pub use layout::{Layout, parse_layout};
pub use request::{Bandwidth, Isolation, Request, UnknownIsolation, is_profile_name};
