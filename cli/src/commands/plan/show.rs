//! `tessera plan show`: the plan of each batch, as a chart, JSON or a picture.

use super::args::ShowArgs;
use super::batch::Batch;
use super::planned::{plan, problems, refuse, steps};
use super::{json, svg, tasks, text};
use crate::files::write_out;
use crate::outcome::{Failure, Outcome};
use crate::render::colour::Paint;
use crate::render::terminal;

pub(super) fn run(args: &ShowArgs) -> Result<Outcome, Failure> {
    let batches: Vec<Batch> = tasks::of_file(&args.tasks, args.gpu.model()?)?;
    let problems = problems(&batches, &args.tasks, args.gpu.count(), args.search.times.as_deref())?;
    let (policy, steps) = (&args.policy.policy, steps(args.search.budget));
    let mut plans = Vec::new();
    for (batch, problem) in batches.iter().zip(&problems) {
        plans.push(plan(batch, problem, policy, steps).map_err(|e| refuse(batch, &e))?);
    }
    if args.output.json {
        return Ok(Outcome::ok(plans.iter().map(json::line).collect::<String>()));
    }
    if let Some(path) = &args.output.svg {
        let [one] = &plans[..] else {
            return Err(Failure::new(format!("--svg draws one batch, the file has {}", plans.len())));
        };
        return write_out(path, svg::picture(one));
    }
    Ok(Outcome::ok(text::pictures(&plans, Paint::new(args.output.color), terminal::width())))
}
