//! A round: Slurm's present state, decided and carried out.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use far::STEPS_PER_MS;
use site_config::SiteConfig;

use super::args::PlannerArgs;
use super::decide::{self, Decided};
use super::jobs::{self, Pending};
use super::plans::Plans;
use super::reorder::NiceOrder;
use super::report::Report;
use super::sharing::{self, Shared};
use super::site::{self, Found};
use crate::clock;
use crate::outcome::Failure;
use crate::power_models::PowerModels;
use crate::runtimes::{Learnt, ends};
use crate::slurm::squeue::QueuedJob;
use crate::slurm::{sacct, sinfo, squeue};

/// How often learnt times are asked for again.
const LEARN_AGAIN: Duration = Duration::from_secs(600);

/// A cluster's planner.
pub(super) struct Planner<'a> {
    pub(super) args: &'a PlannerArgs,
    config: SiteConfig,
    models: PowerModels,
    plans: Plans<'a>,
    order: NiceOrder,
    learnt: Learnt,
    learnt_at: Option<Instant>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        args: &'a PlannerArgs,
        config: SiteConfig,
        models: PowerModels,
        order: NiceOrder,
    ) -> Self {
        let (plans, learnt) = (Plans::new(args), Learnt::nothing(config.learn_from));
        Self { args, config, models, plans, order, learnt, learnt_at: None }
    }

    pub(super) fn round(&mut self) -> Result<Report, Failure> {
        let now = clock::epoch_seconds();
        let jobs = squeue::jobs(None)?;
        self.plans.forget(&jobs, now);
        let mut report = Report::default();
        self.plans.without_limited(&jobs, now, &mut report);
        let free = |p: &Pending| !self.plans.is_stuck(p.job.id);
        let pending: Vec<Pending> = jobs.iter().filter_map(jobs::pending).filter(free).collect();
        // One that runs may be requeued, and then still has its Nice.
        let known: HashMap<u32, i64> = jobs.iter().filter(|j| !j.ended()).map(|j| (j.id, j.nice)).collect();
        self.order.keep(|id| known.get(&id).copied());
        if pending.is_empty() {
            self.plans.give_limits_back(&jobs, &mut report);
            self.order.give_back(&Decided::default(), &jobs, &mut report);
            return Ok(report);
        }
        self.learn(&pending, &jobs, &mut report);
        let found = site::gpus(&self.config, &ends::ends(&jobs, &self.learnt, now), &mut report.lines)?;
        // Jobs that share GPUs name each other, and an array's tasks have one plan.
        let alone: Vec<Pending> = pending.iter().filter(|p| p.job.array.is_none()).cloned().collect();
        let shared = self.shared(&found, &alone, &jobs)?;
        let until = self.plans.until(now);
        for plan in &shared.plans {
            let Some(p) = pending.iter().find(|p| p.job.id == plan.job) else { continue };
            self.plans.set(plan.into(), p, now, until, &mut report);
        }
        let unplaced = |p: &&Pending| {
            shared.among.contains(&p.job.id) && shared.plans.iter().all(|plan| plan.job != p.job.id)
        };
        self.plans.without_place(pending.iter().filter(unplaced).map(|p| &p.job), &mut report);
        let gpus: Vec<_> = found.into_iter().filter(|f| !shared.has(f)).map(|f| f.gpu).collect();
        let pending: Vec<Pending> =
            pending.into_iter().filter(|p| !shared.among.contains(&p.job.id)).collect();
        let steps =
            u64::try_from(self.args.budget.as_millis()).unwrap_or(u64::MAX).saturating_mul(STEPS_PER_MS);
        let decided = decide::decide(&pending, gpus, &self.learnt, steps);
        self.carry_out(&decided, &pending, &jobs, now, &mut report);
        self.plans.give_limits_back(&jobs, &mut report);
        self.order.give_back(&decided, &jobs, &mut report);
        Ok(report)
    }

    /// Plans for jobs that share GPUs.
    fn shared(
        &self,
        found: &[Found<'_>],
        pending: &[Pending],
        jobs: &[QueuedJob],
    ) -> Result<Shared, Failure> {
        if !sharing::pairs_anywhere(&self.config) {
            return Ok(Shared::default());
        }
        let longest = if self.config.power.stretch_limits { sinfo::longest_times()? } else { HashMap::new() };
        Ok(sharing::shared(&self.config, &self.models, found, pending, jobs, &self.learnt, &longest))
    }

    /// Asks sacct for times, if a job needs them and not all too often.
    fn learn(&mut self, pending: &[Pending], jobs: &[QueuedJob], report: &mut Report) {
        let needed =
            pending.iter().any(|p| p.request.times.is_empty()) || jobs.iter().any(ends::needs_learnt);
        if !needed || self.learnt_at.is_some_and(|at| at.elapsed() < LEARN_AGAIN) {
            return;
        }
        self.learnt_at = Some(Instant::now());
        match sacct::completed(self.args.since) {
            Ok(past) => self.learnt = Learnt::of(past, self.config.learn_from),
            Err(e) => report.lines.push(format!("no times of job profiles: {}\n", e.what())),
        }
    }

    fn carry_out(
        &mut self,
        decided: &Decided,
        pending: &[Pending],
        jobs: &[QueuedJob],
        now: u64,
        report: &mut Report,
    ) {
        let until = self.plans.until(now);
        for (standing, assignments) in &decided.batches {
            for assignment in assignments {
                let Some(p) = pending.iter().find(|p| p.job.id == assignment.job) else { continue };
                self.plans.set(assignment.into(), p, now, until, report);
            }
            if self.order.is_by_nice() {
                let mine: HashSet<u32> =
                    pending.iter().filter(|p| p.standing() == *standing).map(|p| p.job.id).collect();
                self.order.set(assignments, &mine, jobs, report);
            }
        }
        for (job, why) in &decided.left {
            if self.args.once {
                report.lines.push(format!("job {job}: not planned: {why}\n"));
            }
        }
    }
}
