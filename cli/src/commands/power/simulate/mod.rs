//! `tessera lab power simulate`: the paper's evaluation on a GPU that is simulated by physics.

mod compare;
mod figures;
mod guard;
mod svg;
mod text;
mod world;

use std::fs;
use std::path::PathBuf;

use clap::Args;
use power::Basis;
use power_study::{Errors, Model};
use serde_json::{Value, json};

use super::guard::Guard;
use crate::files::write_text;
use crate::outcome::{Failure, Outcome};
use figures::{FIGURES, Row, Rule};
use world::World;

/// Run the paper's evaluation on a simulated A100
///
/// Measures 24 applications alone and 18 workloads of two on a GPU that exists only as arithmetic (clock, voltage, power of
/// each unit, contention for memory), fits the model to these runs, and judges its choices by the same physics. Prints
/// the figures of Arima et al. beside the values that the paper prints. The same seed gives the same result.
///
/// Without --figure, prints what the paper prints as numbers, and how often choices break the promised alpha with and
/// without the guard, for applications that the fit has never seen too.
///
/// A row of --json and --csv has the worst and the best value that keep every application above alpha, and what the model
/// chose. In figures 4, 5, 6 and 8 nothing is chosen: worst and best are the measured value, and proposal is the prediction.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera lab power simulate
  tessera lab power simulate --figure 9 --svg figure9.svg
  tessera lab power simulate --figure 13 --basis tessera --guard on")]
pub(crate) struct SimulateArgs {
    /// Only this figure of the paper: 4, 5, 6 or 8 to 13
    #[arg(long, value_name = "N")]
    figure: Option<u8>,
    /// Seed of the measurement errors
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Standard deviation of a measurement, as a part of it
    #[arg(long, value_name = "X", default_value_t = 0.01)]
    noise: f64,
    /// The functions of the counters: arima2022, tessera or dcgm
    #[arg(long, value_name = "BASIS", default_value = "arima2022")]
    basis: Basis,
    /// Whether alpha holds for cautious predictions
    #[arg(long, value_name = "WHETHER", default_value = "off")]
    guard: Guard,
    /// Write the rows to this file, CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw the figure to this file, SVG
    #[arg(long, value_name = "FILE", requires = "figure")]
    svg: Option<PathBuf>,
    /// Write what was measured to counters.csv and runs.csv in this directory, as `tessera lab power fit` takes them
    #[arg(long, value_name = "DIR")]
    calibration: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Counters and runs of the simulated A100.
#[cfg(test)]
pub(crate) fn calibrated() -> (power::CounterTable, Vec<power_study::Run>) {
    let world = World::new(1, 0.01).unwrap();
    (world.counters, world.runs)
}

/// Calibrates also by runs of three applications on parts of the GPU, and of each alone on these parts.
#[cfg(test)]
pub(crate) fn calibrated_for_three() -> (power::CounterTable, Vec<power_study::Run>) {
    let mut world = World::new(1, 0.01).unwrap();
    let names: Vec<&str> = physics::apps().iter().map(|app| app.name).collect();
    let mut wanted: Vec<(&str, Vec<&str>)> = Vec::new();
    for part in ["2c", "1c", "2g", "1g"] {
        wanted.extend(names.iter().map(|app| (part, vec![*app])));
    }
    for state in ["3c+2c+2c", "4c+2c+1c", "3g+2g+2g", "4g+2g+1g"] {
        let three = |at: usize| [0, 8, 16].map(|more| names[(at + more) % names.len()]).to_vec();
        wanted.extend((0..names.len()).map(|at| (state, three(at))));
    }
    for (cap, (state, apps)) in
        world::CAPS.into_iter().flat_map(|cap| wanted.iter().map(move |wanted| (cap, wanted)))
    {
        let truth = world.truth(state, cap, apps).unwrap();
        let apps = apps.iter().map(|app| (*app).to_owned()).collect();
        world.runs.push(power_study::Run { state: truth.state, cap: truth.cap, apps, rperf: truth.rperf });
    }
    (world.counters, world.runs)
}

/// The largest error of a measurement that leaves every one above 0.
const MOST_NOISE: f64 = 0.15;

/// Makes the table of `tessera lab papers`, with the defaults of this command.
pub(crate) fn paper_table() -> Result<paper_rows::PaperTable, Failure> {
    let world = World::new(1, 0.01)?;
    let rule = Rule { model: figures::fitted(&world, Basis::Arima2022)?, guard: false };
    let rows = FIGURES.iter().map(|figure| figures::rows(&world, &rule, *figure));
    let rows: Vec<Row> = rows.collect::<Result<Vec<_>, _>>()?.concat();
    Ok(compare::paper_table(&compare::with_paper(&world, &rule, &rows)))
}

pub(super) fn run(args: &SimulateArgs) -> Result<Outcome, Failure> {
    if !(0.0..=MOST_NOISE).contains(&args.noise) {
        let what = format!("--noise {}: not a part of a measurement", args.noise);
        return Err(Failure::new(what).hint(format!("0 to {MOST_NOISE}")));
    }
    let wanted: Vec<u8> = args.figure.map_or_else(|| FIGURES.to_vec(), |figure| vec![figure]);
    if let Some(unknown) = wanted.iter().find(|figure| !FIGURES.contains(figure)) {
        return Err(
            Failure::new(format!("--figure {unknown}: nothing to simulate")).hint("4, 5, 6 or 8 to 13")
        );
    }
    let world = World::new(args.seed, args.noise)?;
    if let Some(dir) = &args.calibration {
        fs::create_dir_all(dir).map_err(|e| Failure::new(format!("cannot make {}: {e}", dir.display())))?;
        write_text(&dir.join("counters.csv"), &world.counters_csv())?;
        write_text(&dir.join("runs.csv"), &world.runs_csv())?;
    }
    let rule = Rule { model: figures::fitted(&world, args.basis)?, guard: args.guard == Guard::On };
    let mut rows: Vec<Row> = Vec::new();
    for figure in wanted {
        rows.extend(figures::rows(&world, &rule, figure)?);
    }
    if let Some(path) = &args.csv {
        write_text(path, &text::csv(&rows))?;
    }
    if let (Some(path), Some(figure)) = (&args.svg, args.figure) {
        write_text(path, &svg::of(figure, &rows))?;
    }
    if args.figure.is_some() {
        return Ok(match args.json {
            true => Outcome::json(&as_json(args, &rule, &rows), 0),
            false => Outcome::ok(text::rows(&rows)),
        });
    }
    let compared = compare::with_paper(&world, &rule, &rows);
    let bases = [Basis::Arima2022, Basis::Tessera, Basis::Dcgm].map(|basis| figures::fitted(&world, basis));
    let bases = bases.into_iter().collect::<Result<Vec<_>, _>>()?;
    let kept = guard::all(&world, &bases[0])?;
    if args.json {
        let mut value = as_json(args, &rule, &rows);
        value["compared"] = json!(compared);
        value["guarantee"] = json!(kept);
        value["bases"] = bases.iter().map(of_basis).collect();
        return Ok(Outcome::json(&value, 0));
    }
    Ok(Outcome::ok(text::summary(&rule, &bases, &compared, &kept)))
}

fn as_json(args: &SimulateArgs, rule: &Rule, rows: &[Row]) -> Value {
    let mut value = of_basis(&rule.model);
    value["seed"] = json!(args.seed);
    value["noise"] = json!(args.noise);
    value["guard"] = json!(rule.guard);
    value["rows"] = json!(rows);
    value
}

/// How wrong a basis is.
fn of_basis(model: &Model) -> Value {
    let errors = |e: Errors| json!({ "throughput": e.throughput, "fairness": e.fairness });
    json!({
        "basis": model.basis().name(), "errors": errors(model.errors()), "held_out": model.held_out().map(errors),
    })
}
