//! The plan for a pending moldable job, and its way to slurmctld.
//!
//! # Terminology
//! A job is *moldable* if its request says how long it runs on instances of several sizes, or names a job profile from
//! which a planner can learn that. Its *requested* size is the one that it runs on without a plan: the profile that it
//! names, else [`Request::least_work`].
//!
//! # The plan
//! The plan is the job's AdminComment. Only root, SlurmUser and administrators of the accounting database may set it.
//! Slurm shows it, saves it with the job, and lets it be changed and cleared:
//!
//! ```text
//! scontrol update JobId=17 AdminComment='tessera: plan v1 size=2g.10gb place=n1:3@4 begin=1790000000 end=1790000035 until=1790000600'
//! scontrol update JobId=17 AdminComment=
//! ```
//!
//! No command of Slurm's shows the SPANK environment. So `job_submit_tessera` writes what a pending job asks into its
//! comment at submission, `tessera: asks REQUEST`, where a planner sees it. It keeps that at the end of every plan, `…;
//! asks REQUEST`, and restores it when the comment is cleared.
//!
//! `size` is the name of a MIG profile or a compute instance, `4c.7g.40gb`; the optional `place` gives node, GPU and first
//! memory slice; the optional `begin` and `end` are what the planner predicts; `until` is when the plan lapses. Times are
//! seconds since 1970. Where a site pairs jobs, `cap=190 with=18 speed=81 low=74`, or `alone=unprofiled`, stand behind
//! the place: see [`Sharing`].
//!
//! - `job_submit_tessera` refuses a plan that it cannot read, or that is not for that job. In the same update it changes
//!   the job's shards to those of the planned size. Clearing the comment restores those of the requested size.
//! - If the planned size fits, the select plugin grants it, at the planned place if that is free. The job does not wait
//!   for its planned place: any other place on any node will do. Only a job that is planned beside others starts nowhere
//!   but on the GPU of its plan.
//! - A plan that has lapsed, or that the job's nodes cannot carry out, counts as none: the job runs on its requested
//!   size.
//! - When the job starts, [`Started`](crate::Started) replaces the plan, with the request behind it as well. A job that is requeued is
//!   without a plan again.
//! - A comment that is not ours is never overwritten: such a job cannot be planned, see [`crate::AdminComment::is_ours`].

mod sharing;

use std::fmt;

use geometry::Model;

use crate::moldable::PlannedStart;
use crate::request::{Isolation, Request, is_profile_name};
use crate::strict::{WireError, bad, is_word, number};
use crate::time::utc;

pub use sharing::{Alone, RaisedLimit, Sharing};

/// Longest plan that is read, in bytes.
const MAX_PLAN: usize = 500;
/// Latest instant that can be written, seconds since 1970: in the year 2286.
pub(crate) const MAX_INSTANT: u64 = 9_999_999_999;
/// The keys of a plan, in the order in which they stand there.
const KEYS: [&str; 10] = ["size", "place", "cap", "with", "speed", "low", "alone", "begin", "end", "until"];

/// A planner's decision for one pending job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Name of the MIG profile or compute instance to run on: `2g.10gb`, `4c.7g.40gb`.
    pub size: String,
    /// Planned place of the instance; `None`: anywhere.
    pub place: Option<PlannedPlace>,
    /// Partners on its GPU, and the cap.
    pub sharing: Sharing,
    /// Begin that the planner expects, seconds since 1970.
    pub begin: Option<u64>,
    /// End that the planner expects, seconds since 1970.
    pub end: Option<u64>,
    /// Time at which the plan lapses: from this second on it does not count; seconds since 1970.
    pub until: u64,
}

/// Place of an instance in a plan: `n1:3@4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedPlace {
    /// Name of the node, at most 64 characters.
    pub node: String,
    /// GPU and first slice on that node.
    pub start: PlannedStart,
}

impl fmt::Display for Plan {
    /// `plan v1 size=2g.10gb place=n1:3@4 begin=1790000000 end=1790000035 until=1790000600`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plan v1 size={}", self.size)?;
        if let Some(place) = &self.place {
            write!(f, " place={}:{}", place.node, place.start)?;
        }
        for (key, value) in self.sharing.fields() {
            write!(f, " {key}={value}")?;
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
    /// Reads the text behind `plan ` in an AdminComment.
    ///
    /// # Errors
    ///
    /// A part is unknown, missing, repeated, out of order or out of range; the error shows it.
    pub(crate) fn parse(text: &str) -> Result<Self, WireError> {
        if text.len() > MAX_PLAN {
            return bad("too long a plan", text);
        }
        let mut fields = text.split(' ');
        if fields.next() != Some("v1") {
            return bad("not version 1", text);
        }
        let mut plan = Self {
            size: String::new(),
            place: None,
            sharing: Sharing::default(),
            begin: None,
            end: None,
            until: 0,
        };
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
                _ if Sharing::KEYS.contains(&key) => plan.sharing.read(key, value)?,
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
    let place = text.rsplit_once(':').filter(|(node, _)| is_word(node, 64));
    match place.and_then(|(node, start)| Some((node.to_owned(), PlannedStart::parse(start)?))) {
        Some((node, start)) => Ok(PlannedPlace { node, start }),
        None => bad("not NODE:GPU@START", text),
    }
}

/// Why a job cannot have a plan, for whoever wrote the plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotForJob {
    /// The plan cannot be read.
    #[error("a plan that cannot be read: {0}")]
    Unreadable(#[from] WireError),
    /// A planner may not choose the job's size.
    #[error("the job is not moldable: it has neither --gpu-times nor --gpu-app")]
    NotMoldable,
    /// No GPU model has a profile of this name with what the job asks for.
    #[error("no GPU has a profile {0} with the memory and multiprocessors that the job asks for")]
    NoSuchSize(String),
    /// The job lists sizes, and the planned one is not among them.
    #[error("{size} is not among the sizes of the job, {listed}")]
    NotListed {
        /// The planned profile.
        size: String,
        /// The sizes that the job lists.
        listed: String,
    },
}

impl Plan {
    /// The job's request with the planned size. The planned place is not in it: see [`Plan::start_on`]. Does not check
    /// whether the plan still counts: see [`Plan::counts_at`].
    ///
    /// # Errors
    ///
    /// The job that asks this cannot have the plan.
    pub fn apply(&self, request: &Request) -> Result<Request, NotForJob> {
        if !request.is_moldable() {
            return Err(NotForJob::NotMoldable);
        }
        let slices = self.slices_for(request).ok_or_else(|| NotForJob::NoSuchSize(self.size.clone()))?;
        if !request.lists(slices) {
            let listed = request.listed();
            return Err(NotForJob::NotListed { size: self.size.clone(), listed });
        }
        let isolation = Isolation::Mig(Some(self.size.clone()));
        let cap_w = self.sharing.cap_w.or(request.cap_w);
        Ok(Request { isolation, place: None, cap_w, ..request.clone() })
    }

    /// Compute slices of the planned size on the first model that serves the request with it.
    fn slices_for(&self, request: &Request) -> Option<u8> {
        Model::all().iter().find_map(|model| {
            if let Some((within, part)) = model.compute_profile(&self.size) {
                // All that keeps jobs in one GPU instance from each other's memory is what they state.
                let stated = request.mem_mib.is_some_and(|need| need <= within.memory_mib);
                return (stated && !within.is_variant()).then_some(part.slices);
            }
            let profile = model.profile(&self.size).filter(|p| !p.is_variant())?;
            request.is_served_by(model, profile).then_some(profile.compute_slices)
        })
    }

    /// Tells whether the job may start on its planned GPU only: others are to run on the same GPU.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        !self.sharing.with.is_empty() && self.place.is_some()
    }

    /// Tells whether the plan counts at this instant, seconds since 1970.
    #[must_use]
    pub fn counts_at(&self, now: u64) -> bool {
        now < self.until
    }

    /// Gives the job's planned place on this node; `None` if the plan names no place or another node.
    #[must_use]
    pub fn start_on(&self, node: &str) -> Option<PlannedStart> {
        self.place.as_ref().filter(|p| p.node == node).map(|p| p.start)
    }

    /// The plan in words for the user: `2g.10gb chosen by the planner out of 1g, 2g, 3g; end expected
    /// 2026-11-21T06:45:00Z`.
    #[must_use]
    pub fn in_words(&self, request: &Request) -> String {
        let mut out = format!("{} chosen by the planner", self.size);
        if !request.times.is_empty() {
            out.push_str(&format!(" out of {}", request.listed()));
        }
        out.push_str(&self.sharing.in_words(request.job_profile.as_deref().unwrap_or("its application")));
        if let Some(end) = self.end {
            out.push_str(&format!("; end expected {}", utc(end)));
        }
        out
    }
}

#[cfg(test)]
mod tests;
