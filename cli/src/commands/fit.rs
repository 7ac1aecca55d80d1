//! `tessera fit`: coefficients of the bandwidth model from a site's own measurements.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use mapa::{Query, choose};
use nalgebra::{DMatrix, DVector};
use topology::{BandwidthModel, Bounds, Coefficients, GpuSet, HardwareGraph, Pattern, Selection};

use crate::files::read_text;
use crate::globals::Globals;
use crate::options;
use crate::options::links::TopologyArgs;
use crate::outcome::{Failure, Outcome};

/// Fit a model to measurements
#[derive(Subcommand)]
pub(crate) enum FitCommand {
    Bandwidth(FitArgs),
}

/// Fit the bandwidth model to measured all-reduce rates
///
/// A line of SAMPLES has the GPUs, separated by spaces, a comma, and GB/s as nccl-tests reports busbw: "0 1 2 3,52.1".
/// Fits by least squares with coefficients of at least 0. Prints the errors of the current and of the fitted model, then
/// the fitted model, which `--predict FILE` reads. If the fitted model predicts samples that it was not fitted to no better
/// than the current one, it is not printed, and the exit status is 1.
#[derive(Args)]
pub(crate) struct FitArgs {
    /// The file of measurements
    #[arg(value_name = "SAMPLES")]
    samples: PathBuf,
    #[command(flatten)]
    topology: TopologyArgs,
    /// The pattern that was measured
    #[arg(long, value_name = "PATTERN", default_value = "ring", value_parser = crate::options::pattern)]
    pattern: Pattern,
    /// The model to beat
    #[arg(long = "predict", alias = "model", value_name = "MODEL", default_value = "bottleneck")]
    model: String,
}

struct Sample {
    bounds: Bounds,
    gbps: f64,
}

pub(crate) fn run(command: &FitCommand, globals: &Globals) -> Result<Outcome, Failure> {
    let FitCommand::Bandwidth(args) = command;
    let graph = args.topology.one(globals, 8)?;
    let BandwidthModel::Bottleneck(current) = options::model(&args.model)? else {
        return Err(Failure::new("mapa2021 has fixed coefficients").hint("fit replaces those of bottleneck"));
    };
    let samples = read(args, &graph, &args.pattern)?;
    if samples.len() < 4 {
        return Err(Failure::new(format!("{} usable samples: too few to fit", samples.len()))
            .hint("measure 4 sets or more"));
    }
    let fitted = least_squares(&samples.iter().collect::<Vec<_>>()).ok_or_else(|| {
        Failure::new("the samples do not determine the coefficients")
            .hint("measure sets with different links")
    })?;
    let held_out = cross_validated(&samples);
    let (before, after) = (rmse(&samples, current), rmse(&samples, fitted));
    let mut text = format!(
        "# {}. Root mean square error, GB/s: current {before:.3}, fitted {after:.3}, fitted on samples held out {}\n",
        geometry::counted(samples.len(), "sample"),
        held_out.map_or_else(|| "unknown".to_owned(), |e| format!("{e:.3}")),
    );
    if held_out.is_none_or(|e| e >= before) {
        let _ = writeln!(text, "# refused: no better than the current model");
        return Ok(Outcome { text, status: 1 });
    }
    let _ = writeln!(text, "slowest = {}\nsends = {}", fitted.slowest, fitted.sends);
    Ok(Outcome::ok(text))
}

fn read(args: &FitArgs, graph: &HardwareGraph, pattern: &Pattern) -> Result<Vec<Sample>, Failure> {
    let file = args.samples.display();
    let text = read_text(&args.samples)?;
    let mut samples = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let bad = |what: &str| Failure::new(format!("{file}:{}: {what}", at + 1)).hint("0 1 2 3,52.1");
        let (gpus, gbps) = line.split_once(',').ok_or_else(|| bad("no comma"))?;
        let set = options::gpu_list(&gpus.split_whitespace().collect::<Vec<_>>().join(","))
            .ok()
            .filter(|s| s.len() > 1 && s.bits() & !graph.all().bits() == 0)
            .ok_or_else(|| bad("not two GPUs or more of this node"))?;
        let gbps = gbps.trim().parse::<f64>().ok().filter(|v| v.is_finite() && *v > 0.0);
        let gbps = gbps.ok_or_else(|| bad("not a bandwidth"))?;
        let bounds = bounds(graph, set, pattern).ok_or_else(|| bad("the pattern has no edges here"))?;
        samples.push(Sample { bounds, gbps });
    }
    Ok(samples)
}

fn bounds(graph: &HardwareGraph, free: GpuSet, pattern: &Pattern) -> Option<Bounds> {
    let (policy, model) = (Selection::Preserve, BandwidthModel::default());
    let query =
        Query { graph, free, next: GpuSet::EMPTY, n: free.len(), pattern, sensitive: true, policy, model };
    choose(&query).ok()?.scores.bounds
}

fn row(sample: &Sample) -> [f64; 2] {
    [sample.bounds.slowest_mb_s / 1000.0, f64::from(sample.bounds.sends_mb_s) / 1000.0]
}

/// Least squares with no coefficient below 0: the best of the solutions with both and with either alone.
fn least_squares(samples: &[&Sample]) -> Option<Coefficients> {
    let target = DVector::from_iterator(samples.len(), samples.iter().map(|s| s.gbps));
    let solve = |columns: &[usize]| {
        let design = DMatrix::from_fn(samples.len(), columns.len(), |r, c| row(samples[r])[columns[c]]);
        let solution = design.svd(true, true).solve(&target, 1e-9).ok()?;
        let mut both = [0.0; 2];
        columns.iter().zip(solution.iter()).for_each(|(c, v)| both[*c] = *v);
        Coefficients::new(both[0], both[1])
    };
    let error =
        |c: &Coefficients| samples.iter().map(|s| (c.predict(s.bounds) - s.gbps).powi(2)).sum::<f64>();
    let solutions = [&[0, 1][..], &[0], &[1]].into_iter().filter_map(solve);
    solutions.min_by(|a, b| error(a).total_cmp(&error(b)))
}

#[expect(clippy::cast_precision_loss, reason = "a count of measurements")]
fn rmse(samples: &[Sample], c: Coefficients) -> f64 {
    let square: f64 = samples.iter().map(|s| (c.predict(s.bounds) - s.gbps).powi(2)).sum();
    (square / samples.len() as f64).sqrt()
}

/// Error of each sample under the fit to all others.
#[expect(clippy::cast_precision_loss, reason = "a count of measurements")]
fn cross_validated(samples: &[Sample]) -> Option<f64> {
    let mut square = 0.0;
    for (at, sample) in samples.iter().enumerate() {
        let others: Vec<&Sample> =
            samples.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, s)| s).collect();
        square += (least_squares(&others)?.predict(sample.bounds) - sample.gbps).powi(2);
    }
    Some((square / samples.len() as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_coefficients_that_made_the_samples() {
        let of = |slowest: f64, sends: u32| {
            let bounds = Bounds { slowest_mb_s: slowest, sends_mb_s: sends };
            Sample { bounds, gbps: Coefficients { slowest: 0.7, sends: 0.4 }.predict(bounds) }
        };
        let samples = [of(50e3, 50_000), of(25e3, 75_000), of(25e3, 100_000), of(10e3, 10_000)];
        let found = least_squares(&samples.iter().collect::<Vec<_>>()).unwrap();
        assert!((found.slowest - 0.7).abs() < 1e-9 && (found.sends - 0.4).abs() < 1e-9);
    }
}
