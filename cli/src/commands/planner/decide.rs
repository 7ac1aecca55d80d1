//! Decides what each pending job is to get: pure, from jobs and GPUs to assignments.
//!
//! Jobs of equal standing (one user, account, partition, QOS) are one batch. Batches are planned in Slurm's order, by the
//! highest priority in each. A later batch gets what an earlier one is planned to have only afterwards, so no plan delays
//! a job of an earlier batch. A job that may run on several GPU models goes to the one with the least planned work so far.

use std::collections::HashSet;

use far::{
    MAX_TIME, Micros, Policy, Present, PresentError, PresentGpu, PresentInstance, PresentPlan, PresentRun,
};
use geometry::{GpuIndex, Model, Slice};
use protocol::Size;
use protocol::moldable::PlannedStart;
use protocol::plan::PlannedPlace;

use super::jobs::{Pending, Standing};
use super::time_limit;
use crate::runtimes::Learnt;

/// A GPU of the site that may be planned.
#[derive(Clone, Debug)]
pub(super) struct Gpu {
    pub(super) model: &'static Model,
    pub(super) now: PresentGpu,
    /// Partitions of its node.
    pub(super) partitions: Vec<String>,
}

/// A plan to give to a job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Assignment {
    pub(super) job: u32,
    pub(super) size: String,
    pub(super) place: PlannedPlace,
    /// µs from now.
    pub(super) begin: Micros,
    pub(super) end: Micros,
}

/// All assignments, in the order planned within each batch, and why the other jobs have none.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Decided {
    pub(super) batches: Vec<(Standing, Vec<Assignment>)>,
    pub(super) left: Vec<(u32, String)>,
}

/// A job with its times on the model it is planned for.
struct Sized<'a> {
    pending: &'a Pending,
    times: Vec<(u8, Micros)>,
}

/// Jobs that are planned in one round, those of the highest priority. Slurm starts none far behind them meanwhile, and
/// each costs slurmctld an update.
pub(super) const MOST_JOBS: usize = 1000;
/// Tasks of an array that are planned in one round. All have one AdminComment, which says where the next of them goes; the others are
/// planned so that no other job gets their places.
const MOST_TASKS: usize = 64;

pub(super) fn decide(pending: &[Pending], mut gpus: Vec<Gpu>, learnt: &Learnt, steps: u64) -> Decided {
    let mut decided = Decided::default();
    for (standing, jobs) in batches(pending, &mut decided.left) {
        let mut assignments = Vec::new();
        for (members, batch) in by_model(&standing, &jobs, &gpus, learnt, &mut decided.left) {
            // If one batch cannot be planned, the others still are.
            let (present, plan) = match planned(&members, &batch, &gpus, steps) {
                Ok(planned) => planned,
                Err(e) => {
                    decided
                        .left
                        .extend(batch.iter().map(|s| (s.pending.job.id, format!("cannot be planned: {e}"))));
                    continue;
                }
            };
            let none = |&task: &usize| {
                (batch[task].pending.job.id, "jobs without a known end have every place".to_owned())
            };
            decided.left.extend(plan.left_out.iter().map(none));
            assignments.extend(plan.runs.iter().map(|run| assigned(run, batch[run.task].pending, &present)));
            for (k, &g) in members.iter().enumerate() {
                let mine: Vec<&PresentRun> = plan.runs.iter().filter(|r| r.at.gpu == k).collect();
                gpus[g].now = after(gpus[g].model, &gpus[g].now, &mine);
            }
        }
        assignments.sort_by_key(|c| (c.begin, c.job));
        // Of an array the task that begins first.
        let mut planned = HashSet::new();
        assignments.retain(|c| planned.insert(c.job));
        decided.batches.push((standing, assignments));
    }
    let mut told: HashSet<u32> =
        decided.batches.iter().flat_map(|(_, assignments)| assignments).map(|c| c.job).collect();
    decided.left.retain(|(job, _)| told.insert(*job));
    decided
}

/// Plans one batch on the GPUs `members`, all of one model.
fn planned(
    members: &[usize],
    batch: &[Sized<'_>],
    gpus: &[Gpu],
    steps: u64,
) -> Result<(Present, PresentPlan), PresentError> {
    let now: Vec<PresentGpu> = members.iter().map(|&g| gpus[g].now.clone()).collect();
    let present = Present::new(gpus[members[0]].model, now)?;
    let tasks = batch.iter().map(|s| present.task(&s.times)).collect::<Result<Vec<_>, PresentError>>()?;
    let plan = present.plan(&tasks, &Policy::Tessera, steps)?;
    Ok((present, plan))
}

/// Jobs by standing, the batch with the highest priority first, jobs in Slurm's order.
fn batches<'a>(pending: &'a [Pending], left: &mut Vec<(u32, String)>) -> Vec<(Standing, Vec<&'a Pending>)> {
    let mut sorted: Vec<&'a Pending> = pending.iter().collect();
    sorted.sort_by_key(|p| (std::cmp::Reverse(p.job.priority), p.job.id));
    let tasks = |p: &'a Pending| std::iter::repeat_n(p, p.job.waiting().min(MOST_TASKS));
    let mut sorted: Vec<&Pending> = sorted.into_iter().flat_map(tasks).collect();
    let far_behind = sorted.split_off(sorted.len().min(MOST_JOBS));
    left.extend(far_behind.iter().map(|p| (p.job.id, format!("{MOST_JOBS} jobs are ahead of it"))));
    let mut batches: Vec<(Standing, Vec<&Pending>)> = Vec::new();
    for job in sorted {
        match batches.iter_mut().find(|(standing, _)| *standing == job.standing()) {
            Some((_, jobs)) => jobs.push(job),
            None => batches.push((job.standing(), vec![job])),
        }
    }
    batches
}

/// The batch split by GPU model: which GPUs, and the jobs that are planned on them.
fn by_model<'a>(
    standing: &Standing,
    jobs: &[&'a Pending],
    gpus: &[Gpu],
    learnt: &Learnt,
    left: &mut Vec<(u32, String)>,
) -> Vec<(Vec<usize>, Vec<Sized<'a>>)> {
    let mut groups: Vec<(Vec<usize>, Vec<Sized<'a>>, f64)> = Vec::new();
    // A job may name several partitions; it is planned for the nodes that are in one of them.
    let open = |gpu: &Gpu| standing.partition.split(',').any(|p| gpu.partitions.iter().any(|q| q == p));
    for (g, gpu) in gpus.iter().enumerate().filter(|(_, gpu)| open(gpu)) {
        match groups.iter_mut().find(|(members, ..)| gpus[members[0]].model.key == gpu.model.key) {
            Some((members, ..)) => members.push(g),
            None => groups.push((vec![g], Vec::new(), 0.0)),
        }
    }
    for &pending in jobs {
        if !pending.job.wanted_nodes.is_empty() {
            // Its own assignment of node is not what a batch over all nodes is planned for.
            left.push((pending.job.id, "it names its nodes".to_owned()));
            continue;
        }
        let fits = |(k, (members, _, load)): (usize, &(Vec<usize>, Vec<Sized<'a>>, f64))| {
            let times = times(pending, gpus[members[0]].model, learnt);
            (!times.is_empty()).then(|| (k, load + share(&times, members.len()), times))
        };
        let best = groups.iter().enumerate().filter_map(fits).min_by(|a, b| a.1.total_cmp(&b.1));
        match best {
            Some((k, load, times)) => {
                groups[k].1.push(Sized { pending, times });
                groups[k].2 = load;
            }
            None => left.push((pending.job.id, why_not(pending, learnt))),
        }
    }
    groups
        .into_iter()
        .map(|(members, jobs, _)| (members, jobs))
        .filter(|(_, jobs)| !jobs.is_empty())
        .collect()
}

fn why_not(pending: &Pending, learnt: &Learnt) -> String {
    match &pending.request.job_profile {
        Some(name) if pending.request.times.is_empty() && !learnt.knows(&pending.job, name) => {
            format!("no past job of profile {name} is known yet")
        }
        _ if pending.job.limit.is_some() => {
            "no GPU of its partition offers one of its sizes within its time limit".to_owned()
        }
        _ => "no GPU of its partition offers one of its sizes".to_owned(),
    }
}

/// Compute slices and µs of each size that a job may have on a model: the time it gives, else the learnt one. Sizes on
/// which the job would reach its time limit are left out.
fn times(pending: &Pending, model: &'static Model, learnt: &Learnt) -> Vec<(u8, Micros)> {
    let most =
        time_limit::own(&pending.job).map_or(MAX_TIME, |limit| limit.saturating_mul(1_000_000).min(MAX_TIME));
    let time = |size: &Size| {
        let slices = size.profile.compute_slices;
        let own = size.millis.map(|ms| ms * 1000);
        let profile = pending.request.job_profile.as_deref();
        let time =
            own.or_else(|| profile.and_then(|name| learnt.median(&pending.job, name, model, slices)))?;
        (time <= most).then_some((slices, time))
    };
    pending.request.sizes_on(model).iter().filter_map(time).collect()
}

/// A job's work on its cheapest size, divided among `gpus` GPUs.
#[expect(clippy::cast_precision_loss, reason = "only compared")]
fn share(times: &[(u8, Micros)], gpus: usize) -> f64 {
    let work = times.iter().map(|(slices, time)| f64::from(*slices) * *time as f64);
    work.fold(f64::INFINITY, f64::min) / gpus.max(1) as f64
}

fn assigned(run: &PresentRun, pending: &Pending, present: &Present) -> Assignment {
    let at = &present.gpus()[run.at.gpu];
    Assignment {
        job: pending.job.id,
        size: run.at.profile.to_owned(),
        place: PlannedPlace {
            node: at.node.clone(),
            start: PlannedStart { gpu: GpuIndex(at.index.0), start: Slice(run.at.start) },
        },
        begin: run.begin,
        end: run.end,
    }
}

/// The GPU as the next batch finds it: each unit is taken until the last planned run on it ends.
fn after(model: &'static Model, now: &PresentGpu, runs: &[&PresentRun]) -> PresentGpu {
    let mask = |profile: &str, start: u8| model.profile(profile).map_or(0, |p| p.at(Slice(start)).mask());
    let mut runs = runs.to_vec();
    runs.sort_by_key(|r| std::cmp::Reverse(r.end));
    let mut next = PresentGpu { instances: Vec::new(), ..now.clone() };
    let mut taken = 0;
    let planned = runs.iter().map(|r| (r.at.profile.to_owned(), r.at.start, Some(r.end)));
    let kept = now.instances.iter().map(|i| (i.profile.clone(), i.start, i.until));
    for (profile, start, until) in planned.chain(kept) {
        let units = mask(&profile, start);
        if taken & units == 0 {
            taken |= units;
            next.instances.push(PresentInstance { profile, start, until });
        }
    }
    next
}

#[cfg(test)]
mod tests;
