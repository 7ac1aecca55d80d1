//! A month of a made-up site through `tessera simulate replay`: waits under Tessera beside those under stock Slurm.

mod month;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use lab::paths::target_dir;
use serde_json::Value;

use super::stats::Spread;
use super::table::{Reference, Row};
use crate::command::{TaskError, at, output};
use crate::test::cargo;

/// Months, each of another seed.
const MONTHS: u64 = 3;
/// Most that a replay of a month may take, s.
const MOST_S: f64 = 120.0;

/// How busy whole GPUs for all jobs would keep the site, percent.
const LOADS: [u32; 3] = [90, 100, 110];

/// A figure of one set of rules: what it is, its unit, its name in the command's JSON, and how many of that make a unit.
struct Figure(&'static str, &'static str, &'static str, f64);

const MEAN: Figure = Figure("mean wait", "min", "mean_wait_s", 60.0);
const NINE: Figure = Figure("nine in ten wait at most", "min", "p90_wait_s", 60.0);
const STARTED: Figure = Figure("jobs started", "jobs", "started", 1.0);
const WHOLE: &str = "stock, whole GPUs";
const FIXED: &str = "stock, fixed instances";

pub(super) fn measure(seed: u64) -> Result<Vec<Row>, TaskError> {
    eprintln!("bench: replay");
    output(&mut cargo(&["build", "--release", "-p", "tessera-cli"]))?;
    let dir = target_dir().join("replay");
    at(&dir, fs::create_dir_all(&dir))?;
    for (name, text) in [("tessera.toml", month::site()), ("fixed.toml", month::fixed_site())] {
        at(&dir, fs::write(dir.join(name), text))?;
    }
    let (mut times, mut rows) = (Vec::new(), Vec::new());
    for load in LOADS {
        let mut answers = Vec::new();
        for seed in seed..seed + MONTHS {
            at(&dir, fs::write(dir.join("month"), month::table(seed, f64::from(load) / 100.0)))?;
            let begin = Instant::now();
            answers.push(replay(&dir)?);
            times.push(begin.elapsed().as_secs_f64());
        }
        let all = [(MEAN, WHOLE), (MEAN, FIXED), (NINE, WHOLE), (STARTED, FIXED)];
        rows.extend(all.iter().filter_map(|(figure, rules)| row(load, figure, rules, &answers)));
    }
    if let Some(ours) = Spread::of(&times) {
        let case = format!("replay of {} jobs on {} nodes, three times", month::JOBS, month::NODES);
        rows.push(Row { bench: "replay", case, unit: "s", ours, reference: Reference::Target(MOST_S) });
    }
    Ok(rows)
}

/// A figure under Tessera beside that under other rules.
fn row(load: u32, figure: &Figure, rules: &str, answers: &[Value]) -> Option<Row> {
    let Figure(what, unit, key, of_unit) = figure;
    let values = |rules: &str| {
        let each = answers.iter().filter_map(|answer| Some(value(answer, rules, key)? / of_unit));
        Spread::of(&each.collect::<Vec<f64>>())
    };
    let reference = Reference::Measured(rules.to_owned(), values(rules)?);
    Some(Row {
        bench: "replay",
        case: format!("{what} at {load} %"),
        unit,
        ours: values("Tessera")?,
        reference,
    })
}

fn replay(dir: &Path) -> Result<Value, TaskError> {
    let mut command = Command::new(target_dir().join("release/tessera"));
    command.current_dir(dir).env("TESSERA_CONF", "tessera.toml").env_remove("SLURM_CONF");
    let text =
        output(command.args(["simulate", "replay", "--sacct", "month", "--stock", "fixed.toml", "--json"]))?;
    serde_json::from_str(&text).map_err(|e| TaskError::Other(format!("tessera simulate replay: {e}")))
}

fn value(answer: &Value, rules: &str, key: &str) -> Option<f64> {
    answer["rules"].as_array()?.iter().find(|one| one["rules"] == rules)?[key].as_f64()
}
