//! `tessera plan`: a batch of moldable tasks on GPUs that repartition.

mod args;
mod batch;
mod compare;
mod csv;
mod find;
mod jobs;
mod json;
mod note;
mod on;
mod place;
mod planned;
mod reality;
mod record;
mod sbatch_options;
mod submit;
mod svg;
mod tasks;
mod text;

use placement::far::Problem;

pub(crate) use args::PlanArgs;
use planned::{plan, refuse, steps};

use crate::files::write_picture;
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::render::colour::Paint;

pub(crate) fn run(args: &PlanArgs, globals: &Globals) -> Result<Outcome, Failure> {
    if let Some(what) = &args.submit.reality {
        return reality::run(what, args.json);
    }
    if let Some(on) = on::resolve(&args.submit.on, globals)? {
        return submit::run(args, &on);
    }
    let batches = tasks::of_file(args.tasks(), args.model()?)?;
    let gpus = args.gpu.as_ref().map_or(1, |g| g.1);
    let mut problems = Vec::new();
    for batch in &batches {
        let mut problem = Problem::new(batch.model, gpus, batch.far_tasks(0))
            .map_err(|e| Failure::new(format!("{}: {}: {e}", args.tasks().display(), batch.id)))?;
        if let Some(path) = &args.times {
            csv::read_costs(path, batch.model, &problem.tree.sizes, &mut problem.costs)?;
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
