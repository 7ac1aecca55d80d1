//! What Tessera writes into a job's AdminComment.
//!
//! Slurm keeps the AdminComment with the job, shows it, and lets only root, SlurmUser and administrators of the
//! accounting database change it. So it is where slurmctld's plugins and a planner leave each other word:
//!
//! ```text
//! tessera: asks v1 iso=mig times=1g:60,2g:35                                  what a pending moldable job asks
//! tessera: plan v1 size=2g.10gb place=n1:3@4 until=1790000600; asks v1 …      what a planner decided for it
//! tessera: waits until 2026-11-21T10:20:00Z for GPUs above 25 GB/s: …         a job that waits for better GPUs
//! tessera: n1=mig:3/2g.10gb@4 job-profile=bert: why                           what a job got when it started
//! ```
//!
//! A comment that somebody else wrote is never replaced.

use std::fmt;

use crate::plan::Plan;
use crate::request::Request;
use crate::started::Started;
use crate::time::{parse_utc, utc};
use crate::wire::WireError;

/// What every AdminComment of ours begins with.
const OURS: &str = "tessera: ";
/// What a plan begins with, behind [`OURS`].
const PLAN: &str = "plan ";
/// What a wait begins with, behind [`OURS`].
const WAITS: &str = "waits until ";
/// Between what a comment says and the request behind it.
const ASKS: &str = "; asks ";

/// A job's AdminComment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminComment {
    /// What it says of the job's start.
    pub says: Says,
    /// What the job asks, as [`crate::wire::encode_request`] writes it: no command of Slurm's shows planners the SPANK
    /// environment.
    pub asks: Option<String>,
}

/// What an AdminComment says of a job's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Says {
    /// Nothing: the comment is empty, or only holds what the job asks.
    #[default]
    Nothing,
    /// A planner has decided.
    Plan(Plan),
    /// The text behind `tessera: ` begins as a plan does and cannot be read as one.
    UnreadablePlan(String, WireError),
    /// The job waits for better GPUs.
    Waits(Waits),
    /// The job has started, at least once.
    Started(Started),
    /// Ours, and none of these forms: the text behind `tessera: `.
    Unknown(String),
    /// Somebody else's words.
    Foreign(String),
}

/// A job that waits for better GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// At most until then, seconds since 1970.
    pub until: u64,
    /// What for, for people: `for GPUs above 25 GB/s: 20.0 GB/s on n1 now`.
    pub what: String,
}

impl AdminComment {
    /// Reads an AdminComment. Every text is one: what cannot be read is [`Says::Unknown`] or [`Says::Foreign`].
    #[must_use]
    pub fn parse(comment: &str) -> Self {
        let alone = |says| Self { says, asks: None };
        if comment.is_empty() {
            return alone(Says::Nothing);
        }
        let Some(text) = comment.strip_prefix(OURS) else {
            return alone(Says::Foreign(comment.to_owned()));
        };
        if let Some(request) = text.strip_prefix("asks ") {
            return Self { says: Says::Nothing, asks: Some(request.trim_end().to_owned()) };
        }
        match text.split_once(ASKS) {
            Some((says, request)) => {
                Self { says: Says::parse(says), asks: Some(request.trim_end().to_owned()) }
            }
            None => alone(Says::parse(text)),
        }
    }

    /// The comment of a job that asks this and of whose start nothing is known.
    #[must_use]
    pub fn asking(request: &str) -> Self {
        Self { says: Says::Nothing, asks: Some(request.to_owned()) }
    }

    /// Whether Tessera may replace it: it is empty, or Tessera wrote it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        !matches!(self.says, Says::Foreign(_))
    }

    /// The plan, lapsed or not.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        if let Says::Plan(plan) = &self.says { Some(plan) } else { None }
    }

    /// Until when the job waits for better GPUs, seconds since 1970.
    #[must_use]
    pub fn waits_until(&self) -> Option<u64> {
        if let Says::Waits(waits) = &self.says { Some(waits.until) } else { None }
    }

    /// What the job got when it started.
    #[must_use]
    pub fn started(&self) -> Option<&Started> {
        if let Says::Started(started) = &self.says { Some(started) } else { None }
    }

    /// The plan for a job with this request at `now`, seconds since 1970, and the request that the plan makes of the
    /// job's. `None`: the job has no plan, or one that has lapsed or is not for this request.
    #[must_use]
    pub fn plan_for(&self, request: &Request, now: u64) -> Option<(&Plan, Request)> {
        let plan = self.plan().filter(|p| p.counts_at(now))?;
        Some((plan, plan.apply(request).ok()?))
    }
}

impl From<Says> for AdminComment {
    fn from(says: Says) -> Self {
        Self { says, asks: None }
    }
}

impl Says {
    /// Reads what stands behind [`OURS`], without the request behind it.
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
        if let Some(waits) = wait() {
            return Self::Waits(waits);
        }
        Started::parse(text).map_or_else(|| Self::Unknown(text.to_owned()), Self::Started)
    }
}

/// Bytes of an instant as [`utc`] writes it.
const UTC_LEN: usize = 20;

impl fmt::Display for AdminComment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.says, &self.asks) {
            (Says::Nothing, None) => return Ok(()),
            (Says::Nothing, Some(request)) => return write!(f, "{OURS}asks {request}"),
            (Says::Foreign(text), _) => return f.write_str(text),
            (Says::Plan(plan), _) => write!(f, "{OURS}{plan}")?,
            (Says::Waits(Waits { until, what }), _) => write!(f, "{OURS}{WAITS}{} {what}", utc(*until))?,
            (Says::Started(started), _) => write!(f, "{OURS}{started}")?,
            (Says::UnreadablePlan(text, _) | Says::Unknown(text), _) => write!(f, "{OURS}{text}")?,
        }
        self.asks.as_ref().map_or(Ok(()), |request| write!(f, "{ASKS}{request}"))
    }
}

#[cfg(test)]
mod tests;
