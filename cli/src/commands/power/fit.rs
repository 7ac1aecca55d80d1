//! `tessera lab power fit`.

use std::path::Path;

use power::Basis;
use power_study::{Errors, FitError, Model, fit, fit_best, runs};

use super::args::FitArgs;
use super::{about, counters, text};
use crate::outcome::{Failure, Outcome};
use crate::{files, options};

pub(super) fn run(args: &FitArgs) -> Result<Outcome, Failure> {
    let gpu = options::mig_model(&args.gpu)?;
    let counters = counters(&args.counters)?;
    let runs = runs::parse_on(gpu, &args.runs.display().to_string(), &files::read_text(&args.runs)?);
    let runs = runs.map_err(|e| Failure::of(&e))?;
    let model = match args.basis {
        None | Some(Basis::Tessera) => fit_best(gpu, &counters, &runs),
        Some(basis) => fit(gpu, &counters, &runs, basis),
    };
    let model = model.map_err(|e| refused(args, &e))?.measured_under(args.driver.clone());
    let json = model.to_json();
    if let Some(out) = &args.out {
        files::write_text(out, &format!("{json:#}\n"))?;
    }
    if args.json {
        return Ok(Outcome::json(&json, 0));
    }
    Ok(Outcome::ok(summary(&model, args.out.as_deref())))
}

/// The file that has to change.
fn refused(args: &FitArgs, error: &FitError) -> Failure {
    match error {
        FitError::Profile(_) | FitError::NoCounters { .. } | FitError::OtherBasis { .. } => {
            about(&args.counters, error)
        }
        FitError::TooFewRuns { .. } => {
            about(&args.runs, error).hint("every part and combination needs runs at every cap of the file")
        }
        _ => about(&args.runs, error),
    }
}

/// The model's errors in words; `out` is the file that it was written to.
pub(super) fn summary(model: &Model, out: Option<&Path>) -> String {
    let watts: Vec<String> = model.caps().iter().map(|cap| cap.watts().to_string()).collect();
    let errors = text::errors(model.errors());
    let held_out = model.held_out().map_or_else(|| "unknown: too few applications".to_owned(), text::errors);
    let compared = |(basis, held_out): &(Basis, Option<Errors>)| match held_out {
        Some(errors) if *basis != model.basis() => {
            format!("{basis:<14}{}, held out\n", text::errors(*errors))
        }
        _ => String::new(),
    };
    let others: String = model.compared().iter().map(compared).collect();
    let refused = model.refused().map_or_else(String::new, |why| format!("refused       {why}\n"));
    let out = out.map_or_else(String::new, |out| format!("written to    {}\n", out.display()));
    format!(
        "model         {}, basis {}, counters from {}\ncaps          {} W\nerrors        {errors}\n\
         held out      {held_out}\n{others}{refused}{out}",
        model.gpu(),
        model.basis(),
        model.inputs().source,
        watts.join(", "),
    )
}
