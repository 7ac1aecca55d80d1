//! Texts that Tessera writes into a job's AdminComment.
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
//! tessera: learnt insensitive                                                 what the traffic of such jobs says of a job
//! tessera: limit 10>36; plan v1 …                                             a time limit that a planner has raised, minutes
//! tessera: n1=mig:3/2g.10gb@4: why; idle: job 12 has GPUs and …; asks v1 …  a warning that it does not use its GPUs
//! ```
//!
//! Tessera never replaces a comment that somebody else wrote.

use std::fmt;

use crate::plan::{Plan, RaisedLimit};
use crate::request::{Bandwidth, Request};
use crate::started::Started;
use crate::strict::WireError;
use crate::time::{parse_utc, utc};

/// Begins every AdminComment that Tessera writes.
const OURS: &str = "tessera: ";
/// Begins a plan, behind [`OURS`].
const PLAN: &str = "plan ";
/// Begins a wait, behind [`OURS`].
const WAITS: &str = "waits until ";
// These begin texts for people, behind [`OURS`].
const LIMITED: &str = "cannot start: ";
const POWER: &str = "waits for power: ";
const SLICES: &str = "waits for slices: ";
const NODES: &str = "waits for a node: ";
const REQUEUED: &str = "requeued ";
const UNCHANGED: &str = "change refused: ";
/// Begins the note about a job with idle GPUs, behind [`OURS`] or behind what a comment says and [`BETWEEN`].
const IDLE: &str = "idle: ";
/// Begins what was learnt of such jobs, behind [`OURS`] or [`BETWEEN`].
const LEARNT: &str = "learnt ";
/// Begins the request at the end of a comment, behind [`OURS`] or [`BETWEEN`].
const ASKS: &str = "asks ";
/// Stands between the parts of a comment.
const BETWEEN: &str = "; ";

/// A job's AdminComment, in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminComment {
    /// The raise of the job's time limit. Stands first, where no text that a user has a part in can look like it, and stays when the
    /// job starts: a requeued job still has the raised limit.
    pub limit: Option<RaisedLimit>,
    /// The comment's statement about the job's start.
    pub says: CommentBody,
    /// A note about a job that does not use its GPUs, for people: that it will end, or that it was ended or requeued for that.
    /// It stays until the job starts again.
    pub idle: Option<String>,
    /// Dependence of such jobs on bandwidth, as their traffic says it. The job's own label counts more.
    pub learnt: Option<Bandwidth>,
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
        if comment.is_empty() {
            return Self::default();
        }
        let Some(text) = comment.strip_prefix(OURS) else {
            return Self::from(CommentBody::Foreign(comment.to_owned()));
        };
        let (first, rest) =
            text.split_once(BETWEEN).map_or((text, None), |(first, rest)| (first, Some(rest)));
        let limit = RaisedLimit::parse(first);
        let text = if limit.is_some() { rest } else { Some(text) };
        let (text, asks) = text.map_or((None, None), |text| split_at(text, ASKS));
        let (text, learnt) = text.map_or((None, None), |text| split_at(text, LEARNT));
        let (text, idle) = text.map_or((None, None), |text| split_at(text, IDLE));
        Self {
            limit,
            says: text.map_or(CommentBody::Nothing, CommentBody::parse),
            idle: idle.map(str::to_owned),
            learnt: learnt.and_then(|word| Bandwidth::parse(word.trim_end())),
            asks: asks.map(|request| request.trim_end().to_owned()),
        }
    }

    /// The comment of a job with this request that neither has a plan nor has started.
    #[must_use]
    pub fn asking(request: &str) -> Self {
        Self { asks: Some(request.to_owned()), ..Self::default() }
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
        Self { says, ..Self::default() }
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
        type Form = fn(String) -> CommentBody;
        let for_people: [(&str, Form); 6] = [
            (LIMITED, Self::Limited),
            (POWER, Self::Power),
            (SLICES, Self::Slices),
            (NODES, Self::Nodes),
            (REQUEUED, Self::Requeued),
            (UNCHANGED, Self::Unchanged),
        ];
        let said = for_people.iter().find_map(|(key, form)| Some(form(text.strip_prefix(key)?.to_owned())));
        if let Some(said) = said {
            return said;
        }
        if let Some((until, what)) = text.strip_prefix(WAITS).and_then(|text| text.split_at_checked(UTC_LEN))
            && let Some(until) = parse_utc(until)
        {
            return Self::Waits(Waits { until, what: what.trim_start().to_owned() });
        }
        Started::parse(text).map_or_else(|| Self::Unknown(text.to_owned()), Self::Started)
    }
}

/// Length of an instant as [`utc`] writes it, bytes.
const UTC_LEN: usize = 20;

/// Splits a comment before the part that begins with `key`. `None` stands for a side that is missing.
fn split_at<'a>(text: &'a str, key: &str) -> (Option<&'a str>, Option<&'a str>) {
    if let Some(part) = text.strip_prefix(key) {
        return (None, Some(part));
    }
    let begins = |(at, _): &(usize, &str)| text[at + BETWEEN.len()..].starts_with(key);
    match text.match_indices(BETWEEN).find(begins) {
        Some((at, _)) => (Some(&text[..at]), Some(&text[at + BETWEEN.len() + key.len()..])),
        None => (Some(text), None),
    }
}

impl fmt::Display for AdminComment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let CommentBody::Foreign(text) = &self.says {
            return f.write_str(text);
        }
        let mut before = OURS;
        if let Some(limit) = self.limit {
            write!(f, "{before}{limit}")?;
            before = BETWEEN;
        }
        if self.says != CommentBody::Nothing {
            write!(f, "{before}{}", self.says)?;
            before = BETWEEN;
        }
        if let Some(note) = &self.idle {
            write!(f, "{before}{IDLE}{note}")?;
            before = BETWEEN;
        }
        if let Some(learnt) = self.learnt {
            write!(f, "{before}{LEARNT}{}", learnt.word())?;
            before = BETWEEN;
        }
        self.asks.as_ref().map_or(Ok(()), |request| write!(f, "{before}{ASKS}{request}"))
    }
}

impl fmt::Display for CommentBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Plan(plan) => write!(f, "{plan}"),
            Self::Waits(Waits { until, what }) => write!(f, "{WAITS}{} {what}", utc(*until)),
            Self::Limited(why) => write!(f, "{LIMITED}{why}"),
            Self::Power(why) => write!(f, "{POWER}{why}"),
            Self::Slices(why) => write!(f, "{SLICES}{why}"),
            Self::Nodes(why) => write!(f, "{NODES}{why}"),
            Self::Requeued(why) => write!(f, "{REQUEUED}{why}"),
            Self::Unchanged(why) => write!(f, "{UNCHANGED}{why}"),
            Self::Started(started) => write!(f, "{started}"),
            Self::UnreadablePlan(text, _) | Self::Unknown(text) | Self::Foreign(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests;
