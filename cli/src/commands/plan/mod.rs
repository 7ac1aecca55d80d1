//! `tessera plan`: a batch of moldable tasks on GPUs that repartition.

mod args;
mod compare;
mod csv;
mod find;
mod jobs;
mod json;
mod note;
mod on;
mod options;
mod reality;
mod record;
mod submit;
mod svg;
mod tasks;
mod text;

use std::path::Path;
use std::time::{Duration, Instant};

use placement::Model;
use placement::far::{self, Answer, Costs, Micros, Policy, PolicyError, Problem, STEPS_PER_MS};

pub(crate) use args::PlanArgs;
use tasks::{Batch, Context};

use crate::files::{read_text, write_picture};
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::render::colour::Paint;

/// A batch's plan, replayed.
struct Planned<'a> {
    batch: &'a Batch,
    policy: Policy,
    answer: Answer,
    /// As the replay says, µs.
    makespan: Micros,
    took: Duration,
}

pub(crate) fn run(args: &PlanArgs, globals: &Globals) -> Result<Outcome, Failure> {
    if let Some(what) = &args.submit.reality {
        return reality::run(what, args.json);
    }
    if let Some(on) = on::resolve(&args.submit.on, globals)? {
        return submit::run(args, &on);
    }
    let batches = read(args, None)?;
    let gpus = args.gpu.as_ref().map_or(1, |g| g.1);
    let mut problems = Vec::new();
    for batch in &batches {
        let mut problem = Problem::new(batch.model, gpus, batch.tasks.clone())
            .map_err(|e| Failure::new(format!("{}: {}: {e}", shown(args), batch.id)))?;
        if let Some(path) = &args.times {
            read_costs(path, batch.model, &problem.tree.sizes, &mut problem.costs)?;
        }
        problems.push(problem);
    }
    if args.compare {
        return compare::run(&batches, &problems, steps(args.budget)).map(Outcome::ok);
    }
    let mut plans = Vec::new();
    for (batch, problem) in batches.iter().zip(&problems) {
        plans.push(plan(batch, problem, &args.policy, steps(args.budget)).map_err(|e| refuse(batch, &e))?);
    }
    if args.json {
        return Ok(Outcome::ok(plans.iter().map(json::line).collect::<String>()));
    }
    if let Some(path) = &args.svg {
        let [one] = &plans[..] else {
            return Err(Failure::new(format!("--svg draws one batch, the file has {}", plans.len())));
        };
        return write_picture(path, svg::picture(one));
    }
    Ok(Outcome::ok(text::pictures(&plans, Paint::new(args.color))))
}

fn shown(args: &PlanArgs) -> String {
    args.tasks.as_deref().map(Path::display).map(|p| p.to_string()).unwrap_or_default()
}

fn steps(budget: Duration) -> u64 {
    u64::try_from(budget.as_millis()).unwrap_or(u64::MAX).saturating_mul(STEPS_PER_MS)
}

fn refuse(batch: &Batch, error: &PolicyError) -> Failure {
    Failure::new(format!("{}: {error}", batch.id))
}

/// Plans and replays. A plan that does not replay is a bug of ours, and no plan.
fn plan<'a>(
    batch: &'a Batch,
    problem: &Problem,
    policy: &Policy,
    steps: u64,
) -> Result<Planned<'a>, PolicyError> {
    let begin = Instant::now();
    let answer = far::plan(problem, policy, steps)?;
    let took = begin.elapsed();
    let makespan = match far::replay(&answer.problem, &answer.schedule) {
        Ok(replay) => replay.makespan,
        Err(violation) => panic!("batch {}, policy {policy}: {violation}", batch.id),
    };
    Ok(Planned { batch, policy: policy.clone(), answer, makespan, took })
}

fn read(args: &PlanArgs, on: Option<&'static Model>) -> Result<Vec<Batch>, Failure> {
    let model = match &args.gpu {
        None => on,
        Some((name, _)) => Some(Model::find(name).ok_or_else(|| {
            Failure::new(format!("--gpu: no GPU model {name:?}")).hint("`tessera profiles` lists the models")
        })?),
    };
    let text = read_text(args.tasks.as_deref().unwrap_or(Path::new("-")))?;
    let file = shown(args);
    let context = Context { file: &file, model };
    let batches = tasks::read(&context, &text)?;
    if batches.is_empty() {
        return Err(context.error(1, "no task"));
    }
    Ok(batches)
}

fn read_costs(path: &Path, model: &'static Model, sizes: &[u8], costs: &mut Costs) -> Result<(), Failure> {
    let file = path.display().to_string();
    csv::costs(&Context { file: &file, model: Some(model) }, &read_text(path)?, sizes, costs)
}

/// Microseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "plans are far shorter than 2^53 microseconds")]
fn seconds(micros: Micros) -> f64 {
    micros as f64 / 1e6
}

/// Whether an instance was there from the beginning.
fn given(problem: &Problem) -> impl Iterator<Item = (usize, usize)> + '_ {
    problem.gpus.iter().enumerate().flat_map(|(g, now)| now.held.iter().map(move |h| (g, h.node)))
}

impl Planned<'_> {
    fn name(&self, task: usize) -> String {
        self.batch.name(task)
    }

    /// How far the plan can be from the best, as a share of the bound.
    fn gap(&self) -> f64 {
        seconds(self.makespan) / seconds(self.answer.lower_bound.max(1)) - 1.0
    }
}
