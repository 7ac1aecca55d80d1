//! Results of the runs: JSON for scripts, a table for people.

use case_study::Node;
use serde_json::{Value, json};

use super::Compared;
use crate::render::table;

/// The measures of one policy, unrounded.
pub(super) fn json(of: &Compared, base: &Compared, node: &Node, seed: u64) -> Value {
    let (s, versus) = (&of.run.summary, of.run.versus(&base.run));
    let mut value = json!({
        "policy": of.policy, "node": node.name, "workers": of.workers, "seed": seed, "jobs": s.jobs,
        "crashed": s.crashed, "makespan": s.makespan, "throughput": s.throughput,
        "turnaround_mean": s.turnaround_mean, "wait_mean": s.wait_mean, "wait_max": s.wait_max,
        "mem_util": s.mem_util, "warp_util": s.warp_util, "slowdown_mean": s.slowdown_mean,
    });
    value[format!("throughput_vs_{}", base.policy)] = json!(versus.throughput);
    value[format!("turnaround_vs_{}", base.policy)] = json!(versus.turnaround);
    value
}

/// A row per policy.
pub(super) fn text(runs: &[Compared], base: &Compared) -> String {
    let vs = |what: &str| format!("{what}/{}", base.policy.to_uppercase());
    let mut head = ["POLICY", "WORKERS", "JOBS", "CRASHED", "MAKESPAN", "JOBS/S"].map(str::to_owned).to_vec();
    head.extend([vs("JOBS/S"), "TURNAROUND".to_owned(), vs("TURNAROUND")]);
    head.extend(["WAIT", "LONGEST", "MEMORY", "WARPS", "SLOWDOWN"].map(str::to_owned));
    let rows: Vec<Vec<String>> = [head].into_iter().chain(runs.iter().map(|of| row(of, base))).collect();
    format!("times in seconds\n\n{}", table::render(&rows, &(1..14).collect::<Vec<_>>()))
}

fn row(of: &Compared, base: &Compared) -> Vec<String> {
    let (s, versus) = (&of.run.summary, of.run.versus(&base.run));
    let percent = |share: f64| format!("{:.1}%", 100.0 * share);
    let seconds = |t: f64| format!("{t:.1}");
    let times = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}x"));
    vec![
        of.policy.clone(),
        of.workers.to_string(),
        s.jobs.to_string(),
        s.crashed.to_string(),
        seconds(s.makespan),
        format!("{:.3}", s.throughput),
        times(versus.throughput),
        seconds(s.turnaround_mean),
        times(versus.turnaround),
        seconds(s.wait_mean),
        seconds(s.wait_max),
        percent(s.mem_util),
        percent(s.warp_util),
        percent(s.slowdown_mean),
    ]
}
