//! `tessera plan submit`: every task of a plan as a Slurm job.
//!
//! Each job names its instance (`--gpu-isolation=mig:PROFILE --gpu-place=GPU@START -w NODE`) and follows those that have
//! its slices before it (`--dependency=afterany`). All or nothing: a refused job cancels those submitted before it.

use std::path::{Path, PathBuf};

use far::{Costs, Micros, Policy, Problem, Tree};
use geometry::counted;

use super::args::{CarryArgs, SubmitArgs};
use super::batch::{Batch, seconds};
use super::csv::read_costs;
use super::jobs::{self, PlannedJob};
use super::on::{self, On};
use super::planned::{plan, refuse, steps};
use super::record::{SubmittedPlan, SubmittedTask};
use super::sbatch_words::{note, typed, words, works};
use super::{reality, sbatch_options, tasks};
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome, status};
use crate::render::table;
use crate::slurm::sbatch;

/// The plan that is carried out.
struct CarriedOut {
    batch: Batch,
    policy: Policy,
    jobs: Vec<PlannedJob>,
    makespan: Micros,
    lower_bound: Micros,
    overhead: f64,
    n_gpus: usize,
}

pub(super) fn run(args: &SubmitArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let on = on::resolve(&args.on, globals)?;
    sbatch_options::check(&args.carry)?;
    let plan = planned(args, &on)?;
    let args = &args.carry;
    let works = works(&plan.batch, &plan.jobs, args)?;
    let (policy, now) = (plan.policy.to_string(), crate::clock::epoch_seconds());
    let mut record = SubmittedPlan::new(&plan.batch.id, &policy, seconds(plan.makespan), plan.overhead, now);
    if args.dry_run {
        let lines = plan.jobs.iter().zip(&works).enumerate().map(|(k, (job, work))| {
            let earlier = |a: usize| format!("JOB{}", a + 1);
            let note = note(&record, job, work, args);
            format!("JOB{}: {}\n", k + 1, typed(&words(job, work, args, note.as_deref(), &earlier)))
        });
        return Ok(Outcome::ok(heading(&plan) + &lines.collect::<String>()));
    }
    for (job, work) in plan.jobs.iter().zip(&works) {
        let ids: Vec<u32> = record.jobs.iter().map(|e| e.job).collect();
        let after: Vec<u32> = job.after.iter().map(|&a| ids[a]).collect();
        let note = note(&record, job, work, args);
        let words = words(job, work, args, note.as_deref(), &|a| ids[a].to_string());
        let kept = match sbatch::submit(&words, work.script(), &sbatch_options::ENVIRONMENT) {
            Ok(id) => {
                record.jobs.push(SubmittedTask::new(job, id, after));
                // After each: whoever is interrupted here knows what runs.
                record.write(&record_path(args, &record)).map_err(|e| e.what().to_owned())
            }
            Err(why) => Err(format!("job {}: {why}", job.name)),
        };
        if let Err(why) = kept {
            if !ids.is_empty() {
                // Its jobs are cancelled below. If no job was submitted, the file is an earlier plan's.
                let _ = std::fs::remove_file(record_path(args, &record));
            }
            let ids: Vec<u32> = record.jobs.iter().map(|e| e.job).collect();
            return Err(cancelled(&why, &ids));
        }
    }
    let path = record_path(args, &record);
    let submitted = heading(&plan) + &list(&record) + &said(&record, &path);
    if !args.wait {
        return Ok(Outcome::ok(submitted));
    }
    status(&submitted);
    reality::follow(&mut record)?;
    record.write(&path)?;
    Ok(Outcome { text: reality::text(&record), status: reality::status(&record) })
}

/// Plans the file's batch over what the GPUs hold now. Policies other than the default and `far` only know empty GPUs:
/// idle instances are then in the way until a task's job replaces them.
fn planned(args: &SubmitArgs, on: &On) -> Result<CarriedOut, Failure> {
    let mut batches = tasks::of_file(&args.tasks, Some(on.model()))?;
    let (Some(batch), true) = (batches.pop(), batches.is_empty()) else {
        return Err(Failure::new("only one batch can be submitted, and the file has several"));
    };
    if batch.tasks.is_empty() {
        return Err(Failure::new(format!("{}: no job to submit", batch.id)));
    }
    let overhead = Micros::try_from(args.carry.overhead.as_micros()).unwrap_or(Micros::MAX);
    let tasks = batch.far_tasks(overhead);
    let costs = costs(args, on)?;
    let wrong = |e: &dyn std::fmt::Display| Failure::new(format!("{}: {e}", batch.id));
    let (runs, makespan, lower_bound) = if matches!(args.policy.policy, Policy::Tessera | Policy::Far) {
        let present = on.present.clone().with_costs(costs);
        let plan =
            present.plan(&tasks, &args.policy.policy, steps(args.search.budget)).map_err(|e| wrong(&e))?;
        if let Some(&task) = plan.left_out.first() {
            let hint = "jobs without a time limit have the GPUs: name others, or wait";
            return Err(wrong(&format!("job {} fits nowhere", batch.name(task))).hint(hint));
        }
        (plan.runs, plan.makespan, plan.lower_bound)
    } else {
        if !on.is_idle() {
            return Err(wrong(&format!("policy {} plans on empty GPUs only", args.policy.policy))
                .hint("jobs have GPUs of --on: name others, or wait"));
        }
        let mut problem = Problem::new(on.model(), on.holdings.len(), tasks).map_err(|e| wrong(&e))?;
        problem.costs = costs;
        let found = plan(&batch, &problem, &args.policy.policy, 0).map_err(|e| refuse(&batch, &e))?;
        (jobs::of_empty(&found), found.makespan, found.answer.lower_bound)
    };
    let jobs = jobs::of(&batch, runs, on);
    let (policy, overhead, n_gpus) =
        (args.policy.policy.clone(), args.carry.overhead.as_secs_f64(), on.holdings.len());
    Ok(CarriedOut { batch, policy, jobs, makespan, lower_bound, overhead, n_gpus })
}

fn costs(args: &SubmitArgs, on: &On) -> Result<Costs, Failure> {
    let tree = Tree::of(on.model()).map_err(|e| Failure::new(format!("{}: {e}", on.model().key)))?;
    let mut costs = Costs::table_1(on.model(), &tree);
    if let Some(path) = &args.search.times {
        read_costs(path, on.model(), &tree.sizes, &mut costs)?;
    }
    Ok(costs)
}

fn heading(plan: &CarriedOut) -> String {
    let (tasks, gpus, key) = (counted(plan.jobs.len(), "job"), plan.n_gpus, &plan.batch.model.key);
    let gap = 100.0 * (seconds(plan.makespan) / seconds(plan.lower_bound.max(1)) - 1.0);
    format!(
        "{}: {tasks} on {gpus} x {key}, policy {}\n{:.3} s with {} s per job for Slurm; at most {gap:.2} % longer than the best\n\n",
        plan.batch.id,
        plan.policy,
        seconds(plan.makespan),
        plan.overhead,
    )
}

fn list(record: &SubmittedPlan) -> String {
    let mut rows = vec![["name", "job", "instance", "after", "begin", "end"].map(str::to_owned).to_vec()];
    for entry in &record.jobs {
        let after: Vec<String> = entry.after.iter().map(u32::to_string).collect();
        rows.push(vec![
            entry.task.clone(),
            entry.job.to_string(),
            entry.place.to_string(),
            after.join(","),
            format!("{:.3}", entry.begin),
            format!("{:.3}", entry.end),
        ]);
    }
    table::render(&rows, &[1, 4, 5])
}

fn said(record: &SubmittedPlan, path: &Path) -> String {
    let path = path.display();
    format!(
        "\nsubmitted {}; `tessera plan reality {path}` compares them with the plan\n",
        counted(record.jobs.len(), "job")
    )
}

fn record_path(args: &CarryArgs, record: &SubmittedPlan) -> PathBuf {
    let first = record.jobs.first().map_or(0, |e| e.job);
    args.record.clone().unwrap_or_else(|| PathBuf::from(format!("tessera-plan-{first}.json")))
}

/// Takes back what was submitted before the job that was refused.
fn cancelled(why: &str, ids: &[u32]) -> Failure {
    let failure = Failure::new(why.to_owned());
    if ids.is_empty() {
        return failure.hint("nothing was submitted");
    }
    let words: Vec<String> = ids.iter().map(u32::to_string).collect();
    let list = words.join(" ");
    if sbatch::cancel(&words) {
        return failure.hint(format!("the jobs submitted before it were cancelled: {list}"));
    }
    failure.hint(format!("the jobs submitted before it could NOT be cancelled: scancel {list}"))
}
