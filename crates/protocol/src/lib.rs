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

/// Old paths.
pub mod patience {
    use crate::AdminComment;
    pub use crate::wait::{MOST_SECONDS, SetWait, Turn};
    /// Old path.
    #[must_use]
    pub fn waits_until(comment: &str) -> Option<u64> {
        AdminComment::parse(comment).waits_until()
    }
}
/// Old paths.
pub mod planned {
    pub use crate::plan::{NotForJob, Plan, PlannedPlace};
    pub use crate::time::utc as instant;
    use crate::wire::WireError;
    use crate::{AdminComment, Request, Says};
    pub use crate::{Size, Started};
    /// Old path.
    #[must_use]
    pub fn is_ours(comment: &str) -> bool {
        AdminComment::parse(comment).is_ours()
    }
    /// Old path.
    #[must_use]
    pub fn encode_asks(request: &str) -> String {
        AdminComment::asking(request).to_string()
    }
    /// Old path.
    #[must_use]
    pub fn encode_plan_asks(plan: &Plan, request: &str) -> String {
        AdminComment { says: Says::Plan(plan.clone()), asks: Some(request.to_owned()) }.to_string()
    }
    /// Old path.
    #[must_use]
    pub fn encode_plan(plan: &Plan) -> String {
        AdminComment::from(Says::Plan(plan.clone())).to_string()
    }
    /// Old path.
    #[must_use]
    pub fn with_asks(comment: &str, request: &str) -> String {
        AdminComment { asks: Some(request.to_owned()), ..AdminComment::parse(comment) }.to_string()
    }
    /// Old path.
    #[must_use]
    pub fn asks(comment: &str) -> Option<&str> {
        let (asks, comment) = (AdminComment::parse(comment).asks?, comment.trim_end());
        comment.get(comment.len() - asks.len()..)
    }
    /// Old path.
    pub fn parse_plan(comment: &str) -> Result<Option<Plan>, WireError> {
        match AdminComment::parse(comment).says {
            Says::Plan(plan) => Ok(Some(plan)),
            Says::UnreadablePlan(_, why) => Err(why),
            _ => Ok(None),
        }
    }
    /// Old path.
    #[must_use]
    pub fn plan_of(request: &Request, comment: &str, now: u64) -> Option<(Plan, Request)> {
        AdminComment::parse(comment).plan_for(request, now).map(|(p, r)| (p.clone(), r))
    }
    /// Old path.
    #[must_use]
    pub fn encode_started(started: &Started) -> String {
        AdminComment::from(Says::Started(started.clone())).to_string()
    }
    /// Old path.
    #[must_use]
    pub fn parse_started(comment: &str) -> Option<Started> {
        AdminComment::parse(comment).started().cloned()
    }
}
