//! Each job's plan in its AdminComment: written, kept true, and taken back.

use protocol::time::utc;
use protocol::{AdminComment, Plan, Says};
use std::collections::{HashMap, HashSet};

use super::args::PlannerArgs;
use super::decide::Assignment;
use super::jobs::{self, Pending};
use super::report::Report;
use crate::slurm::{scontrol, squeue};

/// How many intervals a plan counts: the planner may miss two before jobs run as they asked.
const LIVES: u64 = 3;
/// How many seconds a plan counts at least; `--once` has no next interval.
const SHORTEST: u64 = 600;
/// How many seconds a job may start late, at least, before it counts as stuck.
const GRACE: u64 = 60;
/// A place counts as free if a job could begin there within this many µs: making and unmaking instances takes time.
const AT_ONCE: u64 = 5_000_000;

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

    /// Forgets jobs that are gone, and lets jobs be planned again whose time has come.
    pub(super) fn forget(&mut self, jobs: &[squeue::Job], now: u64) {
        self.stuck.retain(|_, until| *until > now);
        self.suspects.retain(|id| jobs.iter().any(|j| j.id == *id));
    }

    /// Whether a job has lately not started on its planned place.
    pub(super) fn is_stuck(&self, job: u32) -> bool {
        self.stuck.contains_key(&job)
    }

    /// Until when a plan that is written now counts, in seconds since the epoch.
    pub(super) fn until(&self, now: u64) -> u64 {
        now + (LIVES * self.args.interval.as_secs()).max(SHORTEST)
    }

    /// Writes the plan unless the job has it already and it lasts long enough.
    pub(super) fn set(
        &mut self,
        assignment: &Assignment,
        p: &Pending,
        now: u64,
        until: u64,
        report: &mut Report,
    ) {
        let comment_before = AdminComment::parse(&p.job.comment);
        let old = comment_before.plan();
        let same =
            |plan: &Plan| plan.size == assignment.size && plan.place.as_ref() == Some(&assignment.place);
        let grace = (2 * self.args.interval.as_secs()).max(GRACE);
        let late = |plan: &Plan| plan.begin.is_some_and(|begin| begin + grace < now);
        if assignment.begin < AT_ONCE && old.is_some_and(|plan| same(plan) && late(plan)) {
            // Seen twice: the place may have come free just now.
            if self.args.once || !self.suspects.insert(p.job.id) {
                self.take_back(assignment, p, now, report);
                return;
            }
        } else {
            self.suspects.remove(&p.job.id);
        }
        let fresh = now + self.args.interval.as_secs() * (LIVES - 1);
        let begin = now + assignment.begin / 1_000_000;
        // What is predicted is kept true, but not where the job may begin at any moment: see `late`.
        let holds = |plan: &Plan| {
            let far_off = plan.begin.is_some_and(|was| was.abs_diff(begin) > self.args.interval.as_secs());
            let any_moment = assignment.begin < AT_ONCE && plan.begin.is_some_and(|was| was <= now);
            !far_off || any_moment
        };
        let lasts = |plan: &Plan| plan.until > fresh.min(until - SHORTEST / 2);
        if old.is_some_and(|plan| same(plan) && holds(plan) && lasts(plan)) {
            return;
        }
        let comment = comment(assignment, &p.asks, now, until);
        if !self.args.dry_run
            && let Err(why) = scontrol::update(p.job.id, &format!("AdminComment={comment}"))
        {
            report.failed = true;
            report.lines.push(format!("job {}: slurmctld refuses the plan: {why}\n", p.job.id));
            return;
        }
        if old.is_some_and(same) {
            return;
        }
        let before = old.map_or("no plan before".to_owned(), |plan| format!("{} before", plan.size));
        let at = |micros: u64| utc(now + micros / 1_000_000);
        report.lines.push(format!(
            "job {} of {}: {} at {}:{}, {} to {} ({before}; of {})\n",
            p.job.id,
            p.job.user,
            assignment.size,
            assignment.place.node,
            assignment.place.start,
            at(assignment.begin),
            at(assignment.end),
            sizes(p),
        ));
    }

    /// Withdraws a plan whose place is free although the job does not start. The node lacks cores, memory or something
    /// else, and without a plan the job may start elsewhere.
    fn take_back(&mut self, assignment: &Assignment, p: &Pending, now: u64, report: &mut Report) {
        let at = format!("{} at {}:{}", assignment.size, assignment.place.node, assignment.place.start);
        self.unplan(p.job.id, &p.asks, &format!("did not start on {at}, although it is free"), now, report);
    }

    /// Withdraws a plan that would run into a limit: the requested size may be within a limit on shards that the planned
    /// one exceeds.
    pub(super) fn without_limited(&mut self, jobs: &[squeue::Job], now: u64, report: &mut Report) {
        for job in jobs.iter().filter(|job| jobs::is_limited(job)) {
            let comment = AdminComment::parse(&job.comment);
            if let Some(asks) = comment.asks.as_deref().filter(|_| comment.plan().is_some()) {
                self.unplan(job.id, asks, &format!("a limit holds it ({})", job.reason), now, report);
            }
        }
    }

    fn unplan(&mut self, job: u32, asks: &str, why: &str, now: u64, report: &mut Report) {
        self.stuck.insert(job, now + SHORTEST);
        let field = format!("AdminComment={}", AdminComment::asking(asks));
        let done = if self.args.dry_run { Ok(()) } else { scontrol::update(job, &field) };
        report.lines.push(match done {
            Ok(()) => format!("job {job}: {why}: its plan is withdrawn\n"),
            Err(refused) => {
                report.failed = true;
                format!("job {job}: slurmctld refuses to withdraw its plan: {refused}\n")
            }
        });
    }
}

/// The sizes that the job may have, for people.
fn sizes(p: &Pending) -> String {
    match &p.request.job_profile {
        Some(name) if p.request.times.is_empty() => format!("job profile {name}"),
        _ => p.request.listed(),
    }
}

/// The AdminComment for an assignment, with the request behind it.
fn comment(assignment: &Assignment, asks: &str, now: u64, until: u64) -> AdminComment {
    let at = |micros: u64| Some(now + micros / 1_000_000);
    let plan = Plan {
        size: assignment.size.clone(),
        place: Some(assignment.place.clone()),
        begin: at(assignment.begin),
        end: at(assignment.end),
        until,
    };
    AdminComment { says: Says::Plan(plan), asks: Some(asks.to_owned()) }
}
