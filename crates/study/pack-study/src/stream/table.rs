//! Rows of the tables in `docs/figures/pack-streams.md`.

use super::summary::StreamSummary;

/// A column: its head, its value of one run, its decimals, and whether a table of its own has a row for each mix.
#[derive(Clone, Copy)]
pub struct Measure {
    /// Head, with the unit.
    pub name: &'static str,
    of: fn(&StreamSummary) -> Option<f64>,
    decimals: usize,
    /// A table has a row for each mix; otherwise it has means over mixes.
    pub by_mix: bool,
}

const ACCEPTED: Measure =
    Measure { name: "accepted, %", of: |run| share(run.accepted, run.submitted), decimals: 2, by_mix: true };
const NODES: Measure = Measure {
    name: "whole nodes accepted, %",
    of: |run| share(run.whole_node_accepted, run.whole_node_submitted),
    decimals: 1,
    by_mix: false,
};
const GPU_TIME: Measure = Measure {
    name: "GPU time accepted, %",
    of: |run| run.gpu_time_accepted.map(|part| 100.0 * part),
    decimals: 2,
    by_mix: false,
};
const WAIT: Measure =
    Measure { name: "wait, mean, min", of: |run| minutes(run.wait_mean), decimals: 1, by_mix: true };
const P90: Measure =
    Measure { name: "wait, 90 % of jobs, min", of: |run| minutes(run.wait_p90), decimals: 1, by_mix: false };
const NODE_WAIT: Measure = Measure {
    name: "until a whole node starts, min",
    of: |run| minutes(run.whole_node_wait_mean),
    decimals: 1,
    by_mix: false,
};
const OPENED: Measure =
    Measure { name: "GPUs in use", of: |run| Some(run.opened_mean), decimals: 1, by_mix: false };
const CREATED: Measure = Measure {
    name: "instances created",
    of: |run| Some(as_f64(run.instances.created)),
    decimals: 0,
    by_mix: false,
};
const REUSED: Measure = Measure {
    name: "idle instance taken if there is one, %",
    of: |run| share(run.reused, run.reusable),
    decimals: 1,
    by_mix: false,
};
const GBPS: Measure =
    Measure { name: "sensitive sets, GB/s", of: |run| run.bandwidth_mean, decimals: 1, by_mix: false };
const MOVED: Measure =
    Measure { name: "jobs moved", of: |run| Some(as_f64(run.moved as u64)), decimals: 0, by_mix: false };

/// Lists the columns.
#[must_use]
pub fn measures(queue: bool) -> &'static [Measure] {
    if queue {
        &[WAIT, P90, NODE_WAIT, OPENED, CREATED, REUSED, GBPS]
    } else {
        &[ACCEPTED, GPU_TIME, NODES, OPENED, CREATED, REUSED, GBPS, MOVED]
    }
}

/// Returns the mean of some runs; `-` if none has the value.
#[must_use]
pub fn cell(measure: &Measure, runs: &[StreamSummary]) -> String {
    let of_runs = runs.iter().filter_map(measure.of);
    let (sum, n) = of_runs.fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    if n > 0.0 { format!("{:.*}", measure.decimals, sum / n) } else { "-".to_owned() }
}

/// Returns the mean of `runs` less `others`, run by run, and its standard error; `-` with fewer than two runs.
#[must_use]
pub fn difference(measure: &Measure, runs: &[StreamSummary], others: &[StreamSummary]) -> String {
    let pair = |(run, other)| Some((measure.of)(run)? - (measure.of)(other)?);
    let all: Vec<f64> = runs.iter().zip(others).filter_map(pair).collect();
    if all.len() < 2 {
        return "-".to_owned();
    }
    let n = as_f64(all.len() as u64);
    let mean = all.iter().sum::<f64>() / n;
    let squares: f64 = all.iter().map(|one| (one - mean).powi(2)).sum();
    format!("{mean:+.2} ± {:.2}", (squares / (n - 1.0) / n).sqrt())
}

/// Returns the head of a table with all columns, and the line below it.
#[must_use]
pub fn title(queue: bool) -> String {
    let names: Vec<&str> = measures(queue).iter().map(|measure| measure.name).collect();
    format!(
        "| site | mix | load | rule | {} |\n|---|---|---|---|{}",
        names.join(" | "),
        "---|".repeat(names.len())
    )
}

/// Returns the cells of several runs' means, behind the rule's name.
#[must_use]
pub fn row(runs: &[StreamSummary], queue: bool) -> String {
    let cells: Vec<String> = measures(queue).iter().map(|measure| cell(measure, runs)).collect();
    format!("| {} |", cells.join(" | "))
}

#[expect(clippy::unnecessary_wraps, reason = "the form of a measure")]
fn minutes(seconds: f64) -> Option<f64> {
    Some(seconds / 60.0)
}

/// Per cent; `None` of nothing.
fn share(part: usize, of: usize) -> Option<f64> {
    (of > 0).then(|| 100.0 * as_f64(part as u64) / as_f64(of as u64))
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
fn as_f64(n: u64) -> f64 {
    n as f64
}
