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
//! - When the job starts, [`Started`] replaces the plan, with the request behind it as well. A job that is requeued is
//!   without a plan again.
//! - A comment that is not ours is never overwritten: such a job cannot be planned, [`is_ours`] tells.

use crate::moldable::{PlannedStart, is_job_profile_name};
use crate::wire::{WireError, bad, number};
use crate::{Isolation, Request, is_profile_name};
use geometry::{Model, Profile};

/// What every AdminComment of ours begins with.
pub const OURS: &str = "tessera: ";
/// What a plan begins with.
const PLAN: &str = "tessera: plan ";
/// Longest plan that is read, in bytes.
const MAX_PLAN: usize = 400;
/// Latest instant that can be written, seconds since 1970: in the year 2286.
const MAX_INSTANT: u64 = 9_999_999_999;

/// Whether a planner may replace this AdminComment: it is empty or was written by us.
#[must_use]
pub fn is_ours(comment: &str) -> bool {
    comment.is_empty() || comment.starts_with(OURS)
}

/// Between a plan and the request behind it.
const ASKS: &str = "; asks ";

/// The AdminComment that shows what a pending moldable job asks, as [`crate::wire::encode_request`] writes it.
#[must_use]
pub fn encode_asks(request: &str) -> String {
    format!("{OURS}asks {request}")
}

/// A plan that keeps the request behind it.
#[must_use]
pub fn encode_plan_asks(plan: &Plan, request: &str) -> String {
    with_asks(&encode_plan(plan), request)
}

/// A comment of ours that keeps the request behind it.
#[must_use]
pub fn with_asks(comment: &str, request: &str) -> String {
    format!("{comment}{ASKS}{request}")
}

/// What a pending job asks, as its AdminComment says it: alone, behind a plan, or, for a job that was requeued, behind
/// what it had when it started.
#[must_use]
pub fn asks(comment: &str) -> Option<&str> {
    let alone = comment.strip_prefix(OURS).and_then(|c| c.strip_prefix("asks "));
    let behind = || comment.strip_prefix(OURS).and_then(|c| c.split_once(ASKS)).map(|(_, asks)| asks);
    alone.or_else(behind).map(str::trim_end)
}

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

/// Writes a plan, as [`parse_plan`] reads it.
#[must_use]
pub fn encode_plan(plan: &Plan) -> String {
    let mut out = format!("{PLAN}v1 size={}", plan.size);
    let mut field = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            out.push_str(&format!(" {key}={value}"));
        }
    };
    field("place", plan.place.as_ref().map(|p| format!("{}:{}", p.node, p.start)));
    field("begin", plan.begin.map(|t| t.to_string()));
    field("end", plan.end.map(|t| t.to_string()));
    field("until", Some(plan.until.to_string()));
    out
}

/// Reads an AdminComment. `None`: it is no plan, and means that the job has none.
///
/// # Errors
///
/// It begins as a plan does, and this part of it is unknown, missing, repeated or out of range.
pub fn parse_plan(comment: &str) -> Result<Option<Plan>, WireError> {
    let comment = comment.split_once(ASKS).map_or(comment, |(plan, _)| plan);
    let Some(text) = comment.strip_prefix(PLAN) else {
        return if comment.trim_end() == PLAN.trim_end() { bad("an empty plan", comment) } else { Ok(None) };
    };
    if comment.len() > MAX_PLAN {
        return bad("too long a plan", text);
    }
    let mut fields = text.split(' ');
    if fields.next() != Some("v1") {
        return bad("not version 1", text);
    }
    let mut plan = Plan { size: String::new(), place: None, begin: None, end: None, until: 0 };
    // Keys stand in one order, so none can be there twice.
    let mut last = 0;
    for field in fields {
        let Some((key, value)) = field.split_once('=') else { return bad("not key=value", field) };
        let Some(rank) = ["size", "place", "begin", "end", "until"].iter().position(|k| *k == key) else {
            return bad("unknown key", field);
        };
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
    Ok(Some(plan))
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
            out.push_str(&format!("; end expected {}", instant(end)));
        }
        out
    }
}

/// The plan for a job, as its request and its AdminComment say it at this instant, with the request that it makes of
/// the job's. `None`: it has no plan that counts.
#[must_use]
pub fn plan_of(request: &Request, comment: &str, now: u64) -> Option<(Plan, Request)> {
    let plan = parse_plan(comment).ok().flatten().filter(|p| p.counts_at(now))?;
    let applied = plan.apply(request).ok()?;
    Some((plan, applied))
}

/// What the AdminComment of a job that has started says: `tessera: n1=mig:3/2g.10gb@4 job-profile=bert
/// planned=1790000000-1790000035: why`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// What it got, as [`crate::wire::encode_placement`] writes nodes and grants.
    pub got: String,
    /// The job profile whose times it adds to.
    pub job_profile: Option<String>,
    /// Begin and end that its plan predicted, seconds since 1970.
    pub planned: Option<(u64, u64)>,
    /// Why it got that, for people.
    pub why: String,
}

/// Writes it.
#[must_use]
pub fn encode_started(started: &Started) -> String {
    let mut out = format!("{OURS}{}", started.got);
    if let Some(name) = &started.job_profile {
        out.push_str(&format!(" job-profile={name}"));
    }
    if let Some((begin, end)) = started.planned {
        out.push_str(&format!(" planned={begin}-{end}"));
    }
    out.push_str(&format!(": {}", started.why));
    out
}

/// Reads it; `None`: it is something else, a plan for example.
#[must_use]
pub fn parse_started(comment: &str) -> Option<Started> {
    let comment = comment.split_once(ASKS).map_or(comment, |(started, _)| started);
    let text = comment.strip_prefix(OURS).filter(|_| !comment.starts_with(PLAN))?;
    let (head, why) = text.split_once(": ").unwrap_or((text, ""));
    let mut fields = head.split(' ');
    let got = fields.next().filter(|g| g.contains('='))?.to_owned();
    let mut started = Started { got, job_profile: None, planned: None, why: why.to_owned() };
    for field in fields {
        match field.split_once('=')? {
            ("job-profile", name) if is_job_profile_name(name) => started.job_profile = Some(name.to_owned()),
            ("planned", span) => {
                let (begin, end) = span.split_once('-')?;
                let instant = |text| number(text, 0, MAX_INSTANT).ok();
                started.planned = Some((instant(begin)?, instant(end)?));
            }
            _ => return None,
        }
    }
    Some(started)
}

/// A size that a moldable job may have on a GPU model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The profile to create.
    pub profile: &'static Profile,
    /// How long the job says it runs on it, milliseconds; `None` where only its job profile can tell.
    pub millis: Option<u64>,
}

impl Request {
    /// Whether the job's size is a planner's to choose.
    #[must_use]
    pub fn is_moldable(&self) -> bool {
        !self.times.is_empty() || self.job_profile.is_some()
    }

    /// The sizes that a planner may choose from on this model, ascending: of each number of compute slices the plain
    /// profile with the fewest units, as in the tree that FAR plans on; sizes the job has not listed, and those with too
    /// little memory or too few multiprocessors for it, are left out. Empty for a job that is not moldable.
    #[must_use]
    pub fn sizes_on(&self, model: &'static Model) -> Vec<Size> {
        let mut plain: Vec<&Profile> = model.profiles.iter().filter(|p| !p.is_variant()).collect();
        plain.sort_by_key(|p| (p.compute_slices, p.size));
        plain.dedup_by_key(|p| p.compute_slices);
        plain.retain(|p| self.is_moldable() && self.lists(p.compute_slices) && self.is_served_by(model, p));
        let time = |p: &Profile| self.times.iter().find(|t| t.slices == p.compute_slices).map(|t| t.millis);
        plain.into_iter().map(|profile| Size { profile, millis: time(profile) }).collect()
    }

    /// The size that a job with times and no profile of its choice has on this model unless it is planned: that with
    /// the least work, run time times compute slices, of [`Request::sizes_on`]; of two alike the smaller. `None`: it has
    /// no times, or none of its sizes will do here.
    #[must_use]
    pub fn least_work(&self, model: &'static Model) -> Option<&'static Profile> {
        let work = |s: &Size| Some((s.millis? * u64::from(s.profile.compute_slices), s.profile));
        let sizes = self.sizes_on(model);
        sizes.iter().filter_map(work).min_by_key(|(work, _)| *work).map(|(_, profile)| profile)
    }

    /// Memory per instance that the times do not speak for, MiB: whoever says how long a job runs on a size says that
    /// it fits there.
    fn is_served_by(&self, model: &Model, profile: &Profile) -> bool {
        let sm_need = (self.threads.map_or(0, u32::from) * model.mig_sm()).div_ceil(100);
        profile.memory_mib >= self.mem_mib.unwrap_or(0) && profile.sm >= sm_need
    }

    /// Whether the job may be given this number of compute slices.
    fn lists(&self, slices: u8) -> bool {
        self.times.is_empty() || self.times.iter().any(|t| t.slices == slices)
    }

    /// The sizes that it lists: `1g, 2g, 7g`.
    #[must_use]
    pub fn listed(&self) -> String {
        let sizes: Vec<String> = self.times.iter().map(|t| format!("{}g", t.slices)).collect();
        sizes.join(", ")
    }
}

/// An instant in UTC, `2026-11-21T06:45:00Z`, from seconds since 1970.
#[must_use]
pub fn instant(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days of the Gregorian calendar in years that begin in March, so that the leap day is the last: 400 years have
    // 146097 days, and five months from March have 153.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months + 2) / 5 + 1;
    let month = if months < 10 { months + 3 } else { months - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests;
