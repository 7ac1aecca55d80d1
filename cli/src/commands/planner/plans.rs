//! Each job's plan in its AdminComment: written and kept true.

mod withdraw;

use far::Micros;
use protocol::plan::PlannedPlace;
use protocol::time::utc;
use protocol::{AdminComment, CommentBody, Plan, RaisedLimit, Sharing};
use std::collections::{HashMap, HashSet};

use super::args::PlannerArgs;
use super::decide::Assignment;
use super::jobs::Pending;
use super::pairs::Paired;
use super::report::Report;
use super::time_limit;
use super::time_limit::SHORTEST;
use crate::slurm::{scontrol, squeue};

/// How many intervals a plan counts: the planner may miss two before jobs run as they asked.
const LIVES: u64 = 3;
/// How many seconds a job may start late, at least, before it counts as stuck.
const GRACE: u64 = 60;
/// A place counts as free if a job could begin there within this many µs: making and unmaking instances takes time.
const AT_ONCE: u64 = 5_000_000;

/// A plan as it is to be, whoever decided it.
pub(super) struct Wanted {
    size: String,
    place: PlannedPlace,
    sharing: Sharing,
    /// µs from now; `None`: nobody knows.
    begin: Option<Micros>,
    end: Option<Micros>,
    /// The time limit that it needs, minutes; `None`: the job's own.
    limit_min: Option<u32>,
}

impl From<&Assignment> for Wanted {
    fn from(of: &Assignment) -> Self {
        Self {
            size: of.size.clone(),
            place: of.place.clone(),
            sharing: Sharing::default(),
            begin: Some(of.begin),
            end: Some(of.end),
            limit_min: None,
        }
    }
}

impl From<&Paired> for Wanted {
    fn from(of: &Paired) -> Self {
        Self {
            size: of.size.clone(),
            place: of.place.clone(),
            sharing: of.sharing.clone(),
            begin: of.begin,
            end: None,
            limit_min: of.limit_s.map(time_limit::minutes),
        }
    }
}

impl Wanted {
    /// True if a plan differs in its times at most.
    fn is(&self, plan: &Plan) -> bool {
        plan.size == self.size && plan.place.as_ref() == Some(&self.place) && plan.sharing == self.sharing
    }

    fn at_once(&self) -> bool {
        self.begin.is_some_and(|begin| begin < AT_ONCE)
    }

    /// The AdminComment with the request behind it, and the raise of the time limit.
    fn comment(&self, asks: &str, limit: Option<RaisedLimit>, now: u64, until: u64) -> AdminComment {
        let at = |micros: u64| now + micros / 1_000_000;
        let plan = Plan {
            size: self.size.clone(),
            place: Some(self.place.clone()),
            sharing: self.sharing.clone(),
            begin: self.begin.map(at),
            end: self.end.map(at),
            until,
        };
        AdminComment { limit, says: CommentBody::Plan(plan), ..AdminComment::asking(asks) }
    }
}

/// Writes plans, and remembers what became of those that it wrote.
pub(super) struct Plans<'a> {
    args: &'a PlannerArgs,
    /// Jobs that did not start although their planned place was free, and when they are planned again, in seconds since
    /// the epoch.
    stuck: HashMap<u32, u64>,
    /// Jobs that looked like that in the last round.
    suspects: HashSet<u32>,
}

impl<'a> Plans<'a> {
    pub(super) fn new(args: &'a PlannerArgs) -> Self {
        Self { args, stuck: HashMap::new(), suspects: HashSet::new() }
    }

    /// Begins a round: forgets jobs that are gone, and lets jobs be planned again whose time has come.
    pub(super) fn forget(&mut self, jobs: &[squeue::QueuedJob], now: u64) {
        self.stuck.retain(|_, until| *until > now);
        self.suspects.retain(|id| jobs.iter().any(|j| j.id == *id));
    }

    /// True if a job has lately not started on its planned place.
    pub(super) fn is_stuck(&self, job: u32) -> bool {
        self.stuck.contains_key(&job)
    }

    /// Until when a plan that is written now counts, in seconds since the epoch.
    pub(super) fn until(&self, now: u64) -> u64 {
        now + (LIVES * self.args.interval.as_secs()).max(SHORTEST)
    }

    /// Writes the plan unless the job has it already and it lasts long enough.
    pub(super) fn set(&mut self, wanted: Wanted, p: &Pending, now: u64, until: u64, report: &mut Report) {
        report.judged.insert(p.job.id);
        let comment_before = AdminComment::parse(&p.job.comment);
        let old = comment_before.plan();
        let (raise, new_limit) = time_limit::to_have(&p.job, wanted.limit_min);
        let has_limit = raise == comment_before.limit && new_limit.is_none();
        let grace = (2 * self.args.interval.as_secs()).max(GRACE);
        let late = |plan: &Plan| plan.begin.is_some_and(|begin| begin + grace < now);
        if wanted.at_once() && old.is_some_and(|plan| wanted.is(plan) && late(plan)) {
            // Seen twice: the place may have come free just now.
            if self.args.once || !self.suspects.insert(p.job.id) {
                let at = format!("{} at {}:{}", wanted.size, wanted.place.node, wanted.place.start);
                let why = format!("did not start on {at}, although it is free");
                self.take_back(&p.job, &why, now, report);
                return;
            }
        } else {
            self.suspects.remove(&p.job.id);
        }
        let fresh = now + self.args.interval.as_secs() * (LIVES - 1);
        // What is predicted is kept true, but not where the job may begin at any moment: see `late`.
        let holds = |plan: &Plan| {
            let begin = wanted.begin.map(|micros| now + micros / 1_000_000);
            let far_off = plan
                .begin
                .zip(begin)
                .is_some_and(|(was, is)| was.abs_diff(is) > self.args.interval.as_secs());
            let any_moment = wanted.at_once() && plan.begin.is_some_and(|was| was <= now);
            !far_off || any_moment
        };
        let lasts = |plan: &Plan| plan.until > fresh.min(until - SHORTEST / 2) && plan.until <= until;
        if has_limit && old.is_some_and(|plan| wanted.is(plan) && holds(plan) && lasts(plan)) {
            return;
        }
        let mut fields = vec![format!("AdminComment={}", wanted.comment(&p.asks, raise, now, until))];
        fields.extend(new_limit.map(|minutes| format!("TimeLimit={minutes}")));
        if !self.args.dry_run
            && let Err(why) = change(&p.job, &fields)
        {
            report.failed = true;
            report.lines.push(format!("job {}: slurmctld refuses the plan: {why}\n", p.job.number()));
            return;
        }
        if new_limit.is_none() && old.is_some_and(|plan| wanted.is(plan)) {
            return;
        }
        report.lines.push(told(&wanted, p, old, new_limit, now));
    }
}

/// Sets fields of a job, of an array of those tasks that wait.
fn change(job: &squeue::QueuedJob, fields: &[String]) -> Result<(), String> {
    let name = job.to_change().ok_or("squeue does not list all of its tasks")?;
    scontrol::update(&name, fields)
}

/// Describes a new plan for the log.
fn told(wanted: &Wanted, p: &Pending, old: Option<&Plan>, new_limit: Option<u32>, now: u64) -> String {
    let before = old.map_or("no plan before".to_owned(), |plan| format!("{} before", plan.size));
    let at = |micros: u64| utc(now + micros / 1_000_000);
    let when = match (wanted.begin, wanted.end) {
        (Some(begin), Some(end)) => format!(", {} to {}", at(begin), at(end)),
        (Some(begin), None) => format!(", from {}", at(begin)),
        _ => String::new(),
    };
    let app = p.request.job_profile.as_deref().unwrap_or_default();
    let shares = wanted.sharing.in_words(app);
    let limit = new_limit.map(|minutes| format!("; time limit {minutes} min")).unwrap_or_default();
    format!(
        "job {} of {}: {} at {}:{}{shares}{when}{limit} ({before}; of {})\n",
        p.job.number(),
        p.job.user,
        wanted.size,
        wanted.place.node,
        wanted.place.start,
        sizes(p),
    )
}

/// The sizes that the job may have, for people.
fn sizes(p: &Pending) -> String {
    match &p.request.job_profile {
        Some(name) if p.request.times.is_empty() => format!("job profile {name}"),
        _ => p.request.listed(),
    }
}
