//! `tessera plan --submit`: every task of a plan as a Slurm job.
//!
//! Each job names its instance (`--gpu-isolation=mig:PROFILE --gpu-place=GPU@START -w NODE`) and follows those that have
//! its slices before it (`--dependency=afterany`). All or nothing: a refused job cancels those submitted before it.

use std::path::{Path, PathBuf};

use placement::far::{Costs, Micros, Policy, Problem, Tree};

use super::args::{PlanArgs, SubmitArgs};
use super::batch::{Batch, seconds};
use super::csv::read_costs;
use super::jobs::{self, PlannedJob};
use super::on::On;
use super::planned::{plan, refuse, steps};
use super::record::{Entry, Record};
use super::{note, reality, sbatch_options, tasks};
use crate::files::read_text;
use crate::outcome::{Failure, Outcome, status};
use crate::render::table;
use crate::slurm::sbatch;

/// What a task runs.
enum Work {
    /// A shell command.
    Wrap(String),
    /// A batch script's text.
    Script(String),
}

impl Work {
    fn script(&self) -> Option<&str> {
        if let Self::Script(text) = self { Some(text) } else { None }
    }
}

/// The plan that is carried out.
struct Plan {
    batch: Batch,
    policy: Policy,
    jobs: Vec<PlannedJob>,
    makespan: Micros,
    lower_bound: Micros,
    overhead: f64,
    n_gpus: usize,
}

pub(super) fn run(args: &PlanArgs, on: &On) -> Result<Outcome, Failure> {
    sbatch_options::check(&args.submit)?;
    let plan = planned(args, on)?;
    let args = &args.submit;
    let works = works(&plan, args)?;
    let (policy, now) = (plan.policy.to_string(), crate::clock::epoch_seconds());
    let mut record = Record::new(&plan.batch.id, &policy, seconds(plan.makespan), plan.overhead, now);
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
                record.jobs.push(Entry::new(job, id, after));
                // After each: whoever is interrupted here knows what runs.
                record.write(&record_path(args, &record)).map_err(|e| e.what().to_owned())
            }
            Err(why) => Err(format!("task {}: {why}", job.name)),
        };
        if let Err(why) = kept {
            if !ids.is_empty() {
                // Of jobs that are not to be. Before the first, the file is still an earlier plan's.
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
fn planned(args: &PlanArgs, on: &On) -> Result<Plan, Failure> {
    let mut batches = tasks::of_file(args.tasks(), Some(on.model()))?;
    let (Some(batch), true) = (batches.pop(), batches.is_empty()) else {
        return Err(Failure::new("--submit runs one batch, the file has several"));
    };
    if batch.tasks.is_empty() {
        return Err(Failure::new(format!("{}: no task to submit", batch.id)));
    }
    let overhead = Micros::try_from(args.submit.overhead.as_micros()).unwrap_or(Micros::MAX);
    let tasks = batch.far_tasks(overhead);
    let costs = costs(args, on)?;
    let wrong = |e: &dyn std::fmt::Display| Failure::new(format!("{}: {e}", batch.id));
    let (runs, makespan, lower_bound) = if matches!(args.policy, Policy::Tessera | Policy::Far) {
        let present = on.present.clone().with_costs(costs);
        let plan = present.plan(&tasks, &args.policy, steps(args.budget)).map_err(|e| wrong(&e))?;
        if let Some(&task) = plan.left_out.first() {
            let hint = "jobs without a time limit have the GPUs: name others, or wait";
            return Err(wrong(&format!("task {} fits nowhere", batch.name(task))).hint(hint));
        }
        (plan.runs, plan.makespan, plan.lower_bound)
    } else {
        if !on.is_idle() {
            return Err(wrong(&format!("policy {} plans on empty GPUs only", args.policy))
                .hint("jobs are on the GPUs of --on: name others, or wait"));
        }
        let mut problem = Problem::new(on.model(), on.holdings.len(), tasks).map_err(|e| wrong(&e))?;
        problem.costs = costs;
        let found = plan(&batch, &problem, &args.policy, 0).map_err(|e| refuse(&batch, &e))?;
        (jobs::of_empty(&found), found.makespan, found.answer.lower_bound)
    };
    let jobs = jobs::of(&batch, runs, on);
    let (policy, overhead, n_gpus) =
        (args.policy.clone(), args.submit.overhead.as_secs_f64(), on.holdings.len());
    Ok(Plan { batch, policy, jobs, makespan, lower_bound, overhead, n_gpus })
}

fn costs(args: &PlanArgs, on: &On) -> Result<Costs, Failure> {
    let tree = Tree::of(on.model()).map_err(|e| Failure::new(format!("{}: {e}", on.model().key)))?;
    let mut costs = Costs::table_1(on.model(), &tree);
    if let Some(path) = &args.times {
        read_costs(path, on.model(), &tree.sizes, &mut costs)?;
    }
    Ok(costs)
}

fn heading(plan: &Plan) -> String {
    let (tasks, gpus, key) = (plan.jobs.len(), plan.n_gpus, &plan.batch.model.key);
    let gap = 100.0 * (seconds(plan.makespan) / seconds(plan.lower_bound.max(1)) - 1.0);
    format!(
        "{}: {tasks} tasks on {gpus} x {key}, policy {}\n{:.3} s with {} s per task for Slurm; at most {gap:.2} % could be won\n\n",
        plan.batch.id,
        plan.policy,
        seconds(plan.makespan),
        plan.overhead,
    )
}

fn list(record: &Record) -> String {
    let mut rows = vec![["task", "job", "instance", "after", "begin", "end"].map(str::to_owned).to_vec()];
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

fn said(record: &Record, path: &Path) -> String {
    let path = path.display();
    format!(
        "\nsubmitted {} jobs; `tessera plan --reality {path}` compares them with the plan\n",
        record.jobs.len()
    )
}

fn record_path(args: &SubmitArgs, record: &Record) -> PathBuf {
    let first = record.jobs.first().map_or(0, |e| e.job);
    args.record.clone().unwrap_or_else(|| PathBuf::from(format!("tessera-plan-{first}.json")))
}

/// What each job runs, in the order of the jobs.
fn works(plan: &Plan, args: &SubmitArgs) -> Result<Vec<Work>, Failure> {
    let script = args.script.as_deref().map(read_text).transpose()?;
    sbatch_options::check_script(script.as_deref().unwrap_or_default())?;
    let uses_name = script.iter().chain(&args.sbatch).any(|t| t.contains(TASK));
    let one = |job: &PlannedJob| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        // The name goes into a script: it must not say anything there.
        if uses_name && !(job.name.chars().all(plain) && job.name.starts_with(|c: char| c != '-')) {
            let what = format!("task {:?}: not a name that {TASK} can be replaced by", job.name);
            return Err(Failure::new(what).hint("letters, digits, dots, underscores and hyphens"));
        }
        match (&plan.batch.tasks[job.task].command, &script) {
            (Some(command), None) => Ok(Work::Wrap(command.clone())),
            (None, Some(script)) => Ok(Work::Script(script.replace(TASK, &job.name))),
            (Some(_), Some(_)) => {
                Err(Failure::new(format!("task {}: has a command, and --script is given", job.name)))
            }
            (None, None) => Err(Failure::new(format!("task {}: no command", job.name))
                .hint("give the tasks file a last column command, or --script FILE")),
        }
    };
    plan.jobs.iter().map(one).collect()
}

/// Stands for the task's name in a script and in options.
const TASK: &str = "{task}";

/// The job's Comment, unless the user gives it another.
fn note(record: &Record, job: &PlannedJob, work: &Work, args: &SubmitArgs) -> Option<String> {
    let script = work.script().unwrap_or_default();
    let text = || note::text(record, &Entry::new(job, 0, Vec::new()));
    (!sbatch_options::has_comment(args, script)).then(text)
}

/// The arguments of sbatch; `id` gives an earlier job's number.
fn words(
    job: &PlannedJob,
    work: &Work,
    args: &SubmitArgs,
    note: Option<&str>,
    id: &dyn Fn(usize) -> String,
) -> Vec<String> {
    let mut words = vec![
        "--parsable".to_owned(),
        format!("--job-name={}", job.name),
        format!("--nodelist={}", job.place.node),
        format!("--gpu-isolation=mig:{}", job.place.profile),
        format!("--gpu-place={}@{}", job.place.gpu, job.place.start),
    ];
    words.extend(note.map(|note| format!("--comment={note}")));
    let running = job.after_running.iter().map(ToString::to_string);
    let after: Vec<String> = running.chain(job.after.iter().map(|&a| id(a))).collect();
    if !after.is_empty() {
        words.push(format!("--dependency=afterany:{}", after.join(":")));
    }
    if let Some(factor) = args.time_limit {
        words.push(format!("--time={}", minutes(seconds(job.end - job.begin) * factor)));
    }
    words.extend(args.sbatch.iter().map(|o| o.replace(TASK, &job.name)));
    if let Work::Wrap(command) = work {
        words.push(format!("--wrap={command}"));
    }
    words
}

/// Whole minutes, at least one, that hold so many seconds.
fn minutes(seconds: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
    let whole = (seconds / 60.0).ceil() as u64;
    whole.max(1)
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
        return failure.hint(format!("the jobs submitted were cancelled: {list}"));
    }
    failure.hint(format!("the jobs submitted could NOT be cancelled: scancel {list}"))
}

/// The command as a person would type it.
fn typed(words: &[String]) -> String {
    let quoted = |word: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:@.,/+%".contains(c);
        if word.chars().all(plain) { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    std::iter::once("sbatch".to_owned()).chain(words.iter().map(quoted)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn limits_are_whole_minutes() {
        assert_eq!([0.0, 59.0, 60.0, 61.0, 1e30].map(super::minutes), [1, 1, 1, 2, u64::MAX]);
    }
}
