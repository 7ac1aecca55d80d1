//! What Tessera writes into a job's AdminComment.
//!
//! Slurm keeps the AdminComment with the job and shows it. Only root, SlurmUser and administrators of the accounting
//! database may change it. So slurmctld's plugins and a planner leave each other messages there:
//!
//! ```text
//! tessera: asks v1 iso=mig times=1g:60,2g:35                                  what a pending job asks
//! tessera: plan v1 size=2g.10gb place=n1:3@4 until=1790000600; asks v1 …      what a planner decided for it
//! tessera: waits until 2026-11-21T10:20:00Z for GPUs above 25 GB/s: …         a job that waits for better GPUs
//! tessera: cannot start: --gres=gpu:1 …                                       a job that a limit keeps from starting
//! tessera: waits for power: power budget n[1-8] has 60 of 12000 W free, …     a job that a power budget keeps waiting
//! tessera: waits for slices: no place is free for an instance 4g.20gb        a job that GPUs have no place for
//! tessera: waits for a node: node n2 does not load Tessera, …                 a job that no node takes which loads Tessera
//! tessera: requeued by n1: GPU 0: …                                           a job that could not have its place on n1
//! tessera: change refused: gres shard:20 …                                    why a user could not change a pending job
//! tessera: n1=mig:3/2g.10gb@4 job-profile=bert: why                           what a job got when it started
//! tessera: n1=mig:3/2g.10gb@4: why; node: 300 GB/s, 52 GB/s on n2                  and why it is on that node
//! ```
//!
//! Tessera never replaces a comment that somebody else wrote.

use std::fmt;

use crate::plan::Plan;
use crate::request::Request;
use crate::started::Started;
use crate::strict::WireError;
use crate::time::{parse_utc, utc};

/// Begins every AdminComment that Tessera writes.
const OURS: &str = "tessera: ";
/// Begins a plan, behind [`OURS`].
const PLAN: &str = "plan ";
/// Begins a wait, behind [`OURS`].
const WAITS: &str = "waits until ";
/// Begins what a job is told that a limit keeps from starting, behind [`OURS`].
const LIMITED: &str = "cannot start: ";
/// Begins why a power budget keeps its job waiting, behind [`OURS`].
const POWER: &str = "waits for power: ";
/// Begins what a job needs that no GPUs have a place for, behind [`OURS`].
const SLICES: &str = "waits for slices: ";
/// Begins why no node takes the job that could serve it, behind [`OURS`].
const NODES: &str = "waits for a node: ";
/// Begins why a node has requeued its job, behind [`OURS`].
const REQUEUED: &str = "requeued ";
/// Begins why a change was refused, behind [`OURS`].
const UNCHANGED: &str = "change refused: ";
/// Stands between what a comment says and the request at its end.
const ASKS: &str = "; asks ";

/// A job's AdminComment, in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminComment {
    /// The comment's statement about the job's start.
    pub says: CommentBody,
    /// The job's request as [`crate::wire::encode_request`] writes it, for planners and `tessera why`: no command of Slurm's
    /// shows the SPANK environment.
    pub asks: Option<String>,
}

/// Statement of an AdminComment about a job's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CommentBody {
    /// Nothing: the comment is empty, or holds only what the job asks.
    #[default]
    Nothing,
    /// A planner has chosen size and place.
    Plan(Plan),
    /// A plan that cannot be read: the text behind `tessera: `, and the reason.
    UnreadablePlan(String, WireError),
    /// The job waits for GPUs with more bandwidth.
    Waits(Waits),
    /// A limit of the site keeps the job from starting: why, for people.
    Limited(String),
    /// A power budget keeps the job waiting: which and why, for people.
    Power(String),
    /// The GPUs have no place for the job now: what it needs, for people.
    Slices(String),
    /// The nodes that could serve the job do not load Tessera, or have another file: which and what to do, for people.
    Nodes(String),
    /// The job could not have its place on a node and was requeued: by which node and why, for people.
    Requeued(String),
    /// A change of the pending job was refused: why, for people, where Slurm cannot tell its user.
    Unchanged(String),
    /// The job has started, at least once.
    Started(Started),
    /// The comment begins with `tessera: ` but has none of these forms: the text behind it.
    Unknown(String),
    /// The whole comment, which does not begin with `tessera: `: somebody else wrote it.
    Foreign(String),
}

/// A job that waits for better GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Latest end of the wait, seconds since 1970.
    pub until: u64,
    /// Description for people of what the job waits for: `for GPUs above 25 GB/s: 20.0 GB/s on n1 now`.
    pub what: String,
}

impl AdminComment {
    /// Reads an AdminComment. Every text is one: what cannot be read is [`CommentBody::Unknown`] or [`CommentBody::Foreign`].
    #[must_use]
    pub fn parse(comment: &str) -> Self {
        let alone = |says| Self { says, asks: None };
        if comment.is_empty() {
            return alone(CommentBody::Nothing);
        }
        let Some(text) = comment.strip_prefix(OURS) else {
            return alone(CommentBody::Foreign(comment.to_owned()));
        };
        if let Some(request) = text.strip_prefix("asks ") {
            return Self { says: CommentBody::Nothing, asks: Some(request.trim_end().to_owned()) };
        }
        match text.split_once(ASKS) {
            Some((says, request)) => {
                Self { says: CommentBody::parse(says), asks: Some(request.trim_end().to_owned()) }
            }
            None => alone(CommentBody::parse(text)),
        }
    }

    /// The comment of a job with this request that neither has a plan nor has started.
    #[must_use]
    pub fn asking(request: &str) -> Self {
        Self { says: CommentBody::Nothing, asks: Some(request.to_owned()) }
    }

    /// Tells whether Tessera may replace the comment, because it is empty or Tessera wrote it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        !matches!(self.says, CommentBody::Foreign(_))
    }

    /// The plan, lapsed or not.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        if let CommentBody::Plan(plan) = &self.says { Some(plan) } else { None }
    }

    /// End of the job's wait for better GPUs, seconds since 1970; `None` if it does not wait.
    #[must_use]
    pub fn waits_until(&self) -> Option<u64> {
        if let CommentBody::Waits(waits) = &self.says { Some(waits.until) } else { None }
    }

    /// Grants of the job at its start; `None` if it has not started.
    #[must_use]
    pub fn started(&self) -> Option<&Started> {
        if let CommentBody::Started(started) = &self.says { Some(started) } else { None }
    }

    /// The plan that a job with this request has at `now`, seconds since 1970, and the request with the planned size.
    /// `None`: there is no plan, or it has lapsed, or it is not for this request.
    #[must_use]
    pub fn plan_for(&self, request: &Request, now: u64) -> Option<(&Plan, Request)> {
        let plan = self.plan().filter(|p| p.counts_at(now))?;
        Some((plan, plan.apply(request).ok()?))
    }
}

impl From<CommentBody> for AdminComment {
    fn from(says: CommentBody) -> Self {
        Self { says, asks: None }
    }
}

impl CommentBody {
    /// Reads the text behind [`OURS`], without the request at its end.
    fn parse(text: &str) -> Self {
        if let Some(plan) = text.strip_prefix(PLAN) {
            return match Plan::parse(plan) {
                Ok(plan) => Self::Plan(plan),
                Err(why) => Self::UnreadablePlan(text.to_owned(), why),
            };
        }
        if text.trim_end() == PLAN.trim_end() {
            return Self::UnreadablePlan(text.to_owned(), WireError::new("an empty plan", "tessera: plan"));
        }
        let wait = || {
            let text = text.strip_prefix(WAITS)?;
            let (until, what) = text.split_at_checked(UTC_LEN)?;
            Some(Waits { until: parse_utc(until)?, what: what.trim_start().to_owned() })
        };
        if let Some(why) = text.strip_prefix(LIMITED) {
            return Self::Limited(why.to_owned());
        }
        if let Some(why) = text.strip_prefix(POWER) {
            return Self::Power(why.to_owned());
        }
        if let Some(why) = text.strip_prefix(SLICES) {
            return Self::Slices(why.to_owned());
        }
        if let Some(why) = text.strip_prefix(NODES) {
            return Self::Nodes(why.to_owned());
        }
        if let Some(why) = text.strip_prefix(REQUEUED) {
            return Self::Requeued(why.to_owned());
        }
        if let Some(why) = text.strip_prefix(UNCHANGED) {
            return Self::Unchanged(why.to_owned());
        }
        if let Some(waits) = wait() {
            return Self::Waits(waits);
        }
        Started::parse(text).map_or_else(|| Self::Unknown(text.to_owned()), Self::Started)
    }
}

/// Length of an instant as [`utc`] writes it, bytes.
const UTC_LEN: usize = 20;

impl fmt::Display for AdminComment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.says, &self.asks) {
            (CommentBody::Nothing, None) => return Ok(()),
            (CommentBody::Nothing, Some(request)) => return write!(f, "{OURS}asks {request}"),
            (CommentBody::Foreign(text), _) => return f.write_str(text),
            (CommentBody::Plan(plan), _) => write!(f, "{OURS}{plan}")?,
            (CommentBody::Waits(Waits { until, what }), _) => {
                write!(f, "{OURS}{WAITS}{} {what}", utc(*until))?
            }
            (CommentBody::Limited(why), _) => write!(f, "{OURS}{LIMITED}{why}")?,
            (CommentBody::Power(why), _) => write!(f, "{OURS}{POWER}{why}")?,
            (CommentBody::Slices(why), _) => write!(f, "{OURS}{SLICES}{why}")?,
            (CommentBody::Nodes(why), _) => write!(f, "{OURS}{NODES}{why}")?,
            (CommentBody::Requeued(why), _) => write!(f, "{OURS}{REQUEUED}{why}")?,
            (CommentBody::Unchanged(why), _) => write!(f, "{OURS}{UNCHANGED}{why}")?,
            (CommentBody::Started(started), _) => write!(f, "{OURS}{started}")?,
            (CommentBody::UnreadablePlan(text, _) | CommentBody::Unknown(text), _) => {
                write!(f, "{OURS}{text}")?
            }
        }
        self.asks.as_ref().map_or(Ok(()), |request| write!(f, "{ASKS}{request}"))
    }
}

#[cfg(test)]
mod tests;
