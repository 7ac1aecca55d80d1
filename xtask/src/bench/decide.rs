//! Measures a decision of the engine, by `cargo bench -p placement --bench decide`.

use std::path::{Path, PathBuf};

use lab::paths::target_dir;
use serde_json::Value;

use super::stats::Spread;
use super::table::{Reference, Row};
use crate::command::{TaskError, at, output};
use crate::test::cargo;

/// Cases shown: those the target is for.
const CASES: &str = "8xA100 half full";
/// Most that a decision on a half-full node may take.
const TARGET_US: f64 = 20.0;

pub(super) fn measure() -> Result<Vec<Row>, TaskError> {
    eprintln!("bench: decide");
    output(&mut cargo(&["bench", "-p", "placement", "--bench", "decide", "--", CASES]))?;
    let mut rows = Vec::new();
    for dir in cases(&target_dir().join("criterion"))? {
        let case =
            title(&dir).unwrap_or_else(|| dir.file_name().unwrap_or_default().to_string_lossy().into_owned());
        if let Some(ours) = times_us(&dir)?.as_deref().and_then(Spread::of) {
            rows.push(Row {
                bench: "decide",
                case,
                unit: "us",
                ours,
                reference: Reference::Target(TARGET_US),
            });
        }
    }
    Ok(rows)
}

fn cases(criterion: &Path) -> Result<Vec<PathBuf>, TaskError> {
    let entries = at(criterion, std::fs::read_dir(criterion))?;
    let ours =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(CASES));
    let mut dirs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(ours).collect();
    dirs.sort();
    Ok(dirs)
}

/// The case as the benchmark calls it; the directory's name lacks what file names cannot have.
fn title(dir: &Path) -> Option<String> {
    let text = std::fs::read_to_string(dir.join("new").join("benchmark.json")).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    value["title"].as_str().map(str::to_owned)
}

/// Time per decision of each sample, in microseconds.
fn times_us(dir: &Path) -> Result<Option<Vec<f64>>, TaskError> {
    let path = dir.join("new").join("sample.json");
    let text = at(&path, std::fs::read_to_string(&path))?;
    let sample: Value = serde_json::from_str(&text).unwrap_or_default();
    let numbers = |key: &str| -> Option<Vec<f64>> {
        sample[key].as_array().map(|all| all.iter().filter_map(Value::as_f64).collect())
    };
    let (Some(times), Some(counts)) = (numbers("times"), numbers("iters")) else { return Ok(None) };
    Ok(Some(times.iter().zip(&counts).map(|(ns, count)| ns / count / 1e3).collect()))
}
