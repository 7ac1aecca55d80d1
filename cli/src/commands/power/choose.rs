//! `tessera lab power choose`.

use std::time::Instant;

use power_study::{Candidate, Choice, ChooseError, Model, Problem, Question, choose, features};
use serde_json::{Value, json};

use super::args::ChooseArgs;
use super::guard::Guard;
use super::{about, counters, text};
use crate::files;
use crate::outcome::{Failure, Outcome};

pub(super) fn run(args: &ChooseArgs) -> Result<Outcome, Failure> {
    let model = Model::from_json(&files::read_text(&args.model)?).map_err(|e| about(&args.model, &e))?;
    let features = features(&model, &counters(&args.counters)?, &args.apps);
    let features = features.map_err(|e| about(&args.counters, &e))?;
    let question = Question {
        apps: &args.apps,
        features: &features,
        problem: args.cap.map_or(Problem::Efficiency, Problem::Throughput),
        alpha: args.alpha,
        guard: args.guard == Guard::On,
    };
    let start = Instant::now();
    let choice = choose(&model, &question).map_err(|e| refused(args, &e))?;
    let elapsed_us = start.elapsed().as_secs_f64() * 1e6;
    let status = u8::from(choice.chosen.is_none());
    if args.json {
        return Ok(Outcome::json(&as_json(&model, &question, &choice, elapsed_us, args.all), status));
    }
    let candidates = if args.all { text::candidates(&choice) } else { String::new() };
    Ok(Outcome { text: text::choice(&question, &choice) + &candidates, status })
}

/// Names the model where it is the model that cannot tell.
fn refused(args: &ChooseArgs, error: &ChooseError) -> Failure {
    match error {
        ChooseError::Applications { .. } | ChooseError::Alpha(_) => Failure::of(error),
        _ => about(&args.model, error),
    }
}

fn as_json(model: &Model, question: &Question<'_>, choice: &Choice, elapsed_us: f64, all: bool) -> Value {
    let mut value = choice.chosen.as_ref().map_or_else(
        || json!({ "chosen": false, "reason": choice.reason(question) }),
        |c| {
            let mut value = candidate(c);
            value["chosen"] = json!(true);
            value["efficiency"] = json!(c.efficiency);
            value["measured"] = json!(c.measured);
            value
        },
    );
    value["problem"] = json!(question.problem.number());
    value["apps"] = json!(question.apps);
    value["alpha"] = json!(question.alpha);
    value["basis"] = json!(model.basis().name());
    value["elapsed_us"] = json!((elapsed_us * 10.0).round() / 10.0);
    if all {
        let of = |c: &Candidate| {
            let mut value = candidate(c);
            value["allowed"] = json!(c.allowed);
            value
        };
        value["candidates"] = choice.candidates.iter().map(of).collect();
    }
    value
}

/// Writes a candidate, chosen or not.
fn candidate(c: &Candidate) -> Value {
    json!({
        "state": c.state.to_string(), "cap_w": c.cap.watts(), "rperf": c.rperf, "low": c.low,
        "throughput": c.throughput, "fairness": c.fairness,
    })
}
