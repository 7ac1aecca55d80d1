//! Prints the figures as a table or as JSON.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::stats::Spread;
use crate::command::{TaskError, at};

/// A figure and its reference.
pub(super) struct Row {
    /// The benchmark's name.
    pub(super) bench: &'static str,
    /// Case that was measured.
    pub(super) case: String,
    /// The unit of all times and rates in the row.
    pub(super) unit: &'static str,
    pub(super) ours: Spread,
    pub(super) reference: Reference,
}

/// Reference of a figure.
pub(super) enum Reference {
    /// Measured in the same run.
    Measured(String, Spread),
    /// The most it may be.
    Target(f64),
}

impl Row {
    /// Ours as a multiple of the reference.
    fn ratio(&self) -> f64 {
        self.ours.median / self.reference().1
    }

    fn reference(&self) -> (&str, f64) {
        match &self.reference {
            Reference::Measured(name, spread) => (name, spread.median),
            Reference::Target(most) => ("target", *most),
        }
    }
}

/// Load averages and number of cores.
pub(super) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let averages: Vec<&str> = text.split_whitespace().take(3).collect();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{} on {cores} cores", averages.join(" "))
}

/// For people.
pub(super) fn text(rows: &[Row], load: &str) -> String {
    let mut out = format!("load: {load}; median (first to third quartile)\n\n");
    let spread = |s: &Spread| format!("{:.2} ({:.2} to {:.2})", s.median, s.low, s.high);
    let widest = |of: fn(&Row) -> usize, least: usize| rows.iter().map(of).max().unwrap_or(0).max(least) + 2;
    let (names, cases) = (widest(|row| row.bench.len(), 8), widest(|row| row.case.chars().count(), 64));
    // Written to a String: cannot fail.
    let _ = writeln!(
        out,
        "{:names$}{:cases$}{:>3}  {:34}{:48}{:>6}",
        "bench", "case", "n", "Tessera", "reference", "ratio"
    );
    for row in rows {
        let reference = match &row.reference {
            Reference::Measured(name, values) => format!("{} {} {name}", spread(values), row.unit),
            Reference::Target(most) => format!("at most {most} {}", row.unit),
        };
        let ours = format!("{} {}", spread(&row.ours), row.unit);
        let (case, count) = (&row.case, row.ours.count);
        let _ = writeln!(
            out,
            "{:names$}{case:cases$}{count:>3}  {ours:34}{reference:48}{:>6.2}",
            row.bench,
            row.ratio()
        );
    }
    out
}

/// For a page of the documentation.
pub(super) fn markdown(rows: &[Row]) -> String {
    let mut out = "| what | unit | stock | Tessera | ratio |\n|---|---|---|---|---|\n".to_owned();
    let spread =
        |s: &Spread| format!("{} ({} to {}), {}", digits(s.median), digits(s.low), digits(s.high), s.count);
    for row in rows {
        let reference = match &row.reference {
            Reference::Measured(_, values) => spread(values),
            Reference::Target(most) => format!("at most {most}"),
        };
        let (case, unit, ours) = (&row.case, row.unit, spread(&row.ours));
        // Written to a String: cannot fail.
        let _ = writeln!(out, "| {case} | {unit} | {reference} | {ours} | {} |", shown_ratio(row));
    }
    out
}

/// A dash for a reference too small for its clock.
fn shown_ratio(row: &Row) -> String {
    let ratio = row.ratio();
    if ratio.is_finite() { format!("{ratio:.2}") } else { "–".to_owned() }
}

/// Three significant digits.
fn digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 1.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

/// For programs.
pub(super) fn json(rows: &[Row], load: &str) -> String {
    let spread = |s: &Spread| json!({ "median": s.median, "low": s.low, "high": s.high, "count": s.count });
    let row = |row: &Row| -> Value {
        let (name, value) = row.reference();
        let reference = match &row.reference {
            Reference::Measured(_, values) => spread(values),
            Reference::Target(_) => json!({ "median": value }),
        };
        json!({
            "bench": row.bench, "case": row.case, "unit": row.unit, "tessera": spread(&row.ours),
            "reference": { "name": name, "values": reference }, "ratio": row.ratio(),
        })
    };
    let all: Vec<Value> = rows.iter().map(row).collect();
    format!("{:#}\n", json!({ "load": load, "rows": all }))
}

/// To stdout.
pub(super) fn print(text: &str) -> Result<(), TaskError> {
    at(Path::new("stdout"), std::io::stdout().write_all(text.as_bytes()))
}
