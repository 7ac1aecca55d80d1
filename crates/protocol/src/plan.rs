//! What a planner decides for a pending moldable job, and how that reaches slurmctld.
//!
//! # Terminology
//! A job is *moldable* if its request says how long it runs on instances of several sizes, or names a job profile from
//! which a planner can learn that. Its *requested* size is what it runs on when nobody plans it: the profile it names,
//! else [`Request::least_work`].
//!
//! # The plan
//! The plan is the job's AdminComment, which only root, SlurmUser and administrators of the accounting database may
//! set, which Slurm shows, saves with the job and lets be changed and cleared:
//!
//! ```text
//! scontrol update JobId=17 AdminComment='tessera: plan v1 size=2g.10gb place=n1:3@4 begin=1790000000 end=1790000035 until=1790000600'
//! scontrol update JobId=17 AdminComment=
//! ```
//!
//! A planner sees what a pending job asks by `job_submit_tessera`'s comment at submission, `tessera: asks REQUEST`: no
//! command of Slurm's shows the SPANK environment. `job_submit_tessera` keeps it at the end of every plan, `…; asks
//! REQUEST`, and puts it there again when the comment is cleared.
//!
//! `size` is the name of a MIG profile; `place` (may be left out) node, GPU and first memory slice; `begin` and `end`
//! (may be left out) what the planner predicts; `until` when the plan lapses. Times are seconds since 1970.
//!
//! - `job_submit_tessera` refuses a plan that cannot be read, or is not for that job, and changes the job's shards with
//!   it, in the same update: nothing else has to be updated. Clearing the comment gives the requested size's back.
//! - Where that size fits, the select plugin grants it, at the planned place if it is free. A place that is not free
//!   does not make the job wait: any other will do, on any node.
//! - A plan that has lapsed, or that the job's nodes cannot carry out, counts as none: the requested size runs.
//! - When the job starts, [`Started`](crate::Started) replaces the plan, with the request behind it as well. A job that is requeued is
//!   without a plan again.
//! - A comment that is not ours is never overwritten: such a job cannot be planned, see [`crate::AdminComment::is_ours`].

use std::fmt;

use geometry::Model;

use crate::moldable::PlannedStart;
use crate::request::{Isolation, Request, is_profile_name};
use crate::time::utc;
use crate::wire::{WireError, bad, number};

/// Longest plan that is read, in bytes.
const MAX_PLAN: usize = 400;
/// Latest instant that can be written, seconds since 1970: in the year 2286.
pub(crate) const MAX_INSTANT: u64 = 9_999_999_999;
/// The keys of a plan, in the order in which they stand there.
const KEYS: [&str; 5] = ["size", "place", "begin", "end", "until"];

/// A planner's decision for one pending job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The MIG profile to run on: `2g.10gb`.
    pub size: String,
    /// Where.
    pub place: Option<PlannedPlace>,
    /// When the planner expects it to begin, seconds since 1970.
    pub begin: Option<u64>,
    /// When the planner expects it to end, seconds since 1970.
    pub end: Option<u64>,
    /// The first second in which the plan counts no more, seconds since 1970.
    pub until: u64,
}

/// Where a plan wants an instance: `n1:3@4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedPlace {
    /// The node's name.
    pub node: String,
    /// Where on it.
    pub start: PlannedStart,
}

impl fmt::Display for Plan {
    /// `plan v1 size=2g.10gb place=n1:3@4 begin=1790000000 end=1790000035 until=1790000600`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plan v1 size={}", self.size)?;
        if let Some(place) = &self.place {
            write!(f, " place={}:{}", place.node, place.start)?;
        }
        for (key, instant) in [("begin", self.begin), ("end", self.end), ("until", Some(self.until))] {
            if let Some(instant) = instant {
                write!(f, " {key}={instant}")?;
            }
        }
        Ok(())
    }
}

impl Plan {
    /// Reads what stands behind `plan ` in an AdminComment.
    ///
    /// # Errors
    ///
    /// This part of it is unknown, missing, repeated or out of range.
    pub(crate) fn parse(text: &str) -> Result<Self, WireError> {
        if text.len() > MAX_PLAN {
            return bad("too long a plan", text);
        }
        let mut fields = text.split(' ');
        if fields.next() != Some("v1") {
            return bad("not version 1", text);
        }
        let mut plan = Self { size: String::new(), place: None, begin: None, end: None, until: 0 };
        // Keys stand in one order, so none can be there twice.
        let mut last = 0;
        for field in fields {
            let Some((key, value)) = field.split_once('=') else { return bad("not key=value", field) };
            let Some(rank) = KEYS.iter().position(|k| *k == key) else { return bad("unknown key", field) };
            if rank < last {
                return bad("a key repeated or out of order", field);
            }
            last = rank + 1;
            match key {
                "size" if is_profile_name(value) => plan.size = value.to_owned(),
                "size" => return bad("not a profile's name", value),
                "place" => plan.place = Some(parse_place(value)?),
                "begin" => plan.begin = Some(number(value, 0, MAX_INSTANT)?),
                "end" => plan.end = Some(number(value, 0, MAX_INSTANT)?),
                _ => plan.until = number(value, 1, MAX_INSTANT)?,
            }
        }
        if plan.size.is_empty() {
            return bad("no size", text);
        }
        if plan.until == 0 {
            return bad("no until", text);
        }
        Ok(plan)
    }
}

fn parse_place(text: &str) -> Result<PlannedPlace, WireError> {
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    let place =
        text.rsplit_once(':').filter(|(node, _)| (1..=64).contains(&node.len()) && node.bytes().all(plain));
    match place.and_then(|(node, start)| Some((node.to_owned(), PlannedStart::parse(start)?))) {
        Some((node, start)) => Ok(PlannedPlace { node, start }),
        None => bad("not NODE:GPU@START", text),
    }
}

/// Why a plan cannot be for a job, in words for whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotForJob {
    /// It cannot be read.
    #[error("a plan that cannot be read: {0}")]
    Unreadable(#[from] WireError),
    /// The job's size is not for others to choose.
    #[error("the job is not moldable: it has neither --gpu-times nor --gpu-profile")]
    NotMoldable,
    /// No model has the profile with what the job asks for.
    #[error("no GPU has a profile {0} with the memory and multiprocessors that the job asks for")]
    NoSuchSize(String),
    /// The job did not list it.
    #[error("{size} is not among the sizes of the job, {listed}")]
    NotListed {
        /// The planned one.
        size: String,
        /// The job's.
        listed: String,
    },
}

impl Plan {
    /// The request as this plan wants it; the place is not part of it: see [`Plan::start_on`]. Whether the plan still
    /// counts is not asked here.
    ///
    /// # Errors
    ///
    /// The plan is not one for this request.
    pub fn apply(&self, request: &Request) -> Result<Request, NotForJob> {
        if !request.is_moldable() {
            return Err(NotForJob::NotMoldable);
        }
        let mut of_that_name =
            Model::all().iter().filter_map(|m| Some((m, m.profile(&self.size).filter(|p| !p.is_variant())?)));
        let Some((_, profile)) = of_that_name.find(|(m, p)| request.is_served_by(m, p)) else {
            return Err(NotForJob::NoSuchSize(self.size.clone()));
        };
        if !request.lists(profile.compute_slices) {
            let listed = request.listed();
            return Err(NotForJob::NotListed { size: self.size.clone(), listed });
        }
        let isolation = Isolation::Mig(Some(self.size.clone()));
        Ok(Request { isolation, place: None, ..request.clone() })
    }

    /// Whether the plan counts at this instant, seconds since 1970.
    #[must_use]
    pub fn counts_at(&self, now: u64) -> bool {
        now < self.until
    }

    /// Where on this node the plan wants the job.
    #[must_use]
    pub fn start_on(&self, node: &str) -> Option<PlannedStart> {
        self.place.as_ref().filter(|p| p.node == node).map(|p| p.start)
    }

    /// The choice in words for the user: `2g.10gb chosen by the planner out of 1g, 2g, 3g; end expected
    /// 2026-11-21T06:45:00Z`.
    #[must_use]
    pub fn in_words(&self, request: &Request) -> String {
        let mut out = format!("{} chosen by the planner", self.size);
        if !request.times.is_empty() {
            out.push_str(&format!(" out of {}", request.listed()));
        }
        if let Some(end) = self.end {
            out.push_str(&format!("; end expected {}", utc(end)));
        }
        out
    }
}

#[cfg(test)]
mod tests;
