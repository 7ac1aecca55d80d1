//! The task broker and the library: what the benchmarks of `task-broker` measure.

use serde_json::Value;

use super::stats::Spread;
use super::table::{Reference, Row};
use crate::command::{TaskError, output};
use crate::test::cargo;

/// Most that a broker with 1,000 leases may take to answer after a kill.
const RECOVERY_MS: f64 = 50.0;
/// Most memory of broker and parent together.
const MEMORY_MIB: f64 = 8.0;

pub(super) fn measure() -> Result<Vec<Row>, TaskError> {
    eprintln!("bench: tasks");
    // The node's simulator, beside which the benchmarks lie.
    output(&mut cargo(&[
        "build",
        "--quiet",
        "--release",
        "-p",
        "nvml-sim",
        "-p",
        "cuda-sim",
        "-p",
        "cudart-sim",
    ]))?;
    let mut rows = of_broker(&run("served")?);
    rows.extend(of_library(&run("preloaded")?));
    Ok(rows)
}

fn run(bench: &str) -> Result<Value, TaskError> {
    let words = ["bench", "--quiet", "-p", "task-broker", "--bench", bench, "--", "--json"];
    let text = output(&mut cargo(&words))?;
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).map_err(|e| TaskError::Other(format!("{bench} printed {line}: {e}")))
}

/// Every number of a list of objects under `key`.
fn numbers(list: &Value, get: impl Fn(&Value) -> &Value) -> Option<Spread> {
    let all: Vec<f64> = list.as_array()?.iter().filter_map(|one| get(one).as_f64()).collect();
    Spread::of(&all)
}

fn row(case: String, unit: &'static str, ours: Spread, reference: Reference) -> Row {
    Row { bench: "tasks", case, unit, ours, reference }
}

fn of_broker(value: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    let empty = serde_json::Map::new();
    let clients = value["clients_us"].as_object().unwrap_or(&empty);
    let mut counts: Vec<u32> = clients.keys().filter_map(|count| count.parse().ok()).collect();
    counts.sort_unstable();
    for count in counts {
        let turns = &clients[&count.to_string()];
        for part in ["p50", "p99", "server"] {
            let ours = numbers(turns, |turn| &turn["begin_free"][part]);
            let floor = numbers(turns, |turn| &turn["echoes"][part]);
            if let Some((ours, floor)) = ours.zip(floor) {
                let reference = Reference::Measured("two bare round trips".to_owned(), floor);
                let part = if part == "server" { "processor time of the broker" } else { part };
                rows.push(row(format!("begin + free, {count} at a time, {part}"), "us", ours, reference));
            }
        }
    }
    let recoveries = numbers(&value["recovery_ms"], |one| one);
    let case = format!("killed with {} leases, until it answers", value["leases"]);
    rows.extend(recoveries.map(|ours| row(case, "ms", ours, Reference::Target(RECOVERY_MS))));
    let leases = &value["leases"];
    for (when, kib) in
        [("idle", &value["idle_kib"]), (&format!("with {leases} leases"), &value["with_leases_kib"])]
    {
        let each = [("broker", &kib["each"][0]), ("its parent", &kib["each"][1])];
        for (who, kib) in each.into_iter().chain([("both, each page counted once", &kib["together"])]) {
            let ours = kib.as_f64().and_then(|kib| Spread::of(&[kib / 1024.0]));
            let target = Reference::Target(MEMORY_MIB);
            rows.extend(ours.map(|ours| row(format!("memory {when}: {who}"), "MiB", ours, target)));
        }
    }
    if let Some(ours) = value["idle_percent"].as_f64().and_then(|percent| Spread::of(&[percent])) {
        rows.push(row("idle, with a job".to_owned(), "% CPU", ours, Reference::Target(0.1)));
    }
    rows
}

fn of_library(value: &Value) -> Vec<Row> {
    let one = |value: &Value| -> Option<Row> {
        let unit = if value["unit"] == "ns" { "ns" } else { "us" };
        let (ours, direct) = (numbers(&value["ours"], |n| n)?, numbers(&value["direct"], |n| n)?);
        let reference = Reference::Measured("without the library".to_owned(), direct);
        Some(row(value["what"].as_str()?.to_owned(), unit, ours, reference))
    };
    value.as_array().into_iter().flatten().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: &[Row]) -> Vec<(&str, f64)> {
        rows.iter().map(|row| (row.case.as_str(), row.ours.median)).collect()
    }

    #[test]
    fn what_the_broker_s_benchmark_prints_becomes_rows() {
        let turn = |n: f64| serde_json::json!({ "begin_free": { "p50": n, "p99": 2.0 * n, "server": n / 2.0 }, "echoes": { "p50": 1.0, "p99": 1.0, "server": 1.0 } });
        let value = serde_json::json!({
            "clients_us": { "16": [turn(9.0)], "1": [turn(3.0), turn(5.0), turn(4.0)] },
            "recovery_ms": [9.0, 10.0, 11.0], "leases": 1000, "idle_percent": 0.0,
            "idle_kib": { "each": [3072, 1024], "together": 3584 },
            "with_leases_kib": { "each": [4096, 1024], "together": 4608 },
        });
        assert_eq!(
            shown(&of_broker(&value)),
            [
                ("begin + free, 1 at a time, p50", 4.0),
                ("begin + free, 1 at a time, p99", 8.0),
                ("begin + free, 1 at a time, processor time of the broker", 2.0),
                ("begin + free, 16 at a time, p50", 9.0),
                ("begin + free, 16 at a time, p99", 18.0),
                ("begin + free, 16 at a time, processor time of the broker", 4.5),
                ("killed with 1000 leases, until it answers", 10.0),
                ("memory idle: broker", 3.0),
                ("memory idle: its parent", 1.0),
                ("memory idle: both, each page counted once", 3.5),
                ("memory with 1000 leases: broker", 4.0),
                ("memory with 1000 leases: its parent", 1.0),
                ("memory with 1000 leases: both, each page counted once", 4.5),
                ("idle, with a job", 0.0),
            ]
        );
    }

    #[test]
    fn what_the_library_s_benchmark_prints_becomes_rows() {
        let value = serde_json::json!([
            { "what": "a launch", "unit": "ns", "ours": [9.0, 8.0, 7.0], "direct": [4.0, 4.0, 4.0] },
        ]);
        let rows = of_library(&value);
        assert_eq!(shown(&rows), [("a launch", 8.0)]);
        assert!(matches!(&rows[0].reference, Reference::Measured(_, spread) if spread.median == 4.0));
    }
}
