//! Every string that one process of Tessera writes and another reads: requests, placements,
//! AdminComments, and what a job is told about its GPU set.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod admin_comment;
mod counters;
mod grant;
pub mod idle;
pub mod moldable;
pub mod node_word;
pub mod plan;
mod request;
pub mod set_summary;
mod set_wait;
pub mod sick;
mod sizes;
mod started;
mod strict;
pub mod time;
mod wait_turn;
pub mod wire;

pub use admin_comment::{AdminComment, CommentBody, Waits};
pub use counters::{AppCounters, MAX_COUNTERS};
pub use grant::{ComputeSpec, Grant, MigSpec, NodeGrant, PoolSeats, ShareOn, TaskDevices, TaskGrant};
pub use idle::{IdleJob, IdleWord};
pub use node_word::{Extra, NodeWord, Said, Standing};
pub use plan::{Alone, Plan, RaisedLimit, Sharing};
pub use request::{
    Bandwidth, Isolation, MAX_INSTANCES, MAX_SEATS, Request, RequestDefaults, UnknownIsolation,
    is_profile_name,
};
pub use set_wait::{MOST_SECONDS, SetWait};
pub use sick::SickGpu;
pub use sizes::Size;
pub use started::Started;
pub use wait_turn::Turn;
