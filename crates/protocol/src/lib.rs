//! Every string that one process of Tessera writes and another reads: options, requests, placements, layout lines,
//! AdminComments, and what a job is told of its GPU set.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod admin_comment;
mod grant;
pub mod gres_list;
pub mod layout;
pub mod matched;
pub mod meaning;
pub mod moldable;
pub mod options;
pub mod plan;
mod request;
mod sizes;
mod started;
pub mod time;
mod wait;
pub mod wire;

pub use admin_comment::{AdminComment, Says, Waits};
pub use grant::{Grant, MigSpec, ShareOn};
pub use layout::{Layout, parse_layout};
pub use plan::Plan;
pub use request::{Bandwidth, Isolation, Request, UnknownIsolation, is_profile_name};
pub use sizes::Size;
pub use started::{OnlyInstance, Started};
pub use wait::{MOST_SECONDS, SetWait, Turn};
