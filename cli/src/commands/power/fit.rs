//! `tessera power fit`.

use std::fs;

use power::{FitError, Model, fit, runs};

use super::args::FitArgs;
use super::{about, counters, text};
use crate::outcome::{Failure, Outcome};
use crate::{files, options};

pub(super) fn run(args: &FitArgs) -> Result<Outcome, Failure> {
    let gpu = options::mig_model(&args.gpu)?;
    let counters = counters(&args.counters)?;
    let runs = runs::parse(&args.runs.display().to_string(), &files::read_text(&args.runs)?);
    let runs = runs.map_err(|e| Failure::of(&e))?;
    let model = fit(gpu, &counters, &runs, args.basis).map_err(|e| refused(args, &e))?;
    let json = model.to_json();
    if let Some(out) = &args.out {
        let written = fs::write(out, format!("{json:#}\n"));
        written.map_err(|e| Failure::new(format!("cannot write {}: {e}", out.display())))?;
    }
    if args.json {
        return Ok(Outcome::json(&json, 0));
    }
    Ok(Outcome::ok(summary(args, &model)))
}

/// The file that has to change.
fn refused(args: &FitArgs, error: &FitError) -> Failure {
    match error {
        FitError::Profile(_) | FitError::NoCounters { .. } | FitError::SeveralSources(_) => {
            about(&args.counters, error)
        }
        FitError::TooFewRuns { .. } => {
            about(&args.runs, error).hint("every part and combination needs runs at every cap of the file")
        }
        _ => about(&args.runs, error),
    }
}

fn summary(args: &FitArgs, model: &Model) -> String {
    let watts: Vec<String> = model.caps().iter().map(|cap| cap.watts().to_string()).collect();
    let errors = text::errors(model.errors());
    let held_out = model.held_out().map_or_else(|| "unknown: too few applications".to_owned(), text::errors);
    let out = args.out.as_ref().map_or_else(String::new, |out| format!("written to    {}\n", out.display()));
    format!(
        "model         {}, basis {}, counters from {}\ncaps          {} W\nerrors        {errors}\n\
         held out      {held_out}\n{out}",
        model.gpu(),
        model.basis(),
        model.source(),
        watts.join(", "),
    )
}
