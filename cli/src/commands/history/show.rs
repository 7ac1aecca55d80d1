//! The days for people, and as JSON.

use std::fmt::Write as _;

use node_state::slices::of_gpu;
use protocol::time::utc;
use replay::Instances;
use serde_json::{Value, json};

use super::days::{Day, Days};
use super::placed::Past;
use crate::clock::span;
use crate::render::table;

/// Percent of all slices that were held, idle and free.
fn shares(day: &Day, past: &Past) -> [u64; 3] {
    let slices: u64 = past.nodes.iter().flat_map(|n| &n.gpus).map(|gpu| of_gpu(Some(gpu.model))).sum();
    let all = (slices * (day.to - day.from)).max(1);
    let [held, idle] = [day.what.held, day.what.idle].map(|n| n * 100 / all);
    [held, idle, 100 - (held + idle).min(100)]
}

pub(super) fn text(days: &Days, past: &Past, nodes: &str) -> String {
    let mut out = format!("{nodes}; days begin at midnight UTC\n\n");
    let heads = [
        "",
        "started",
        "mean wait",
        "never started",
        "made",
        "used again",
        "destroyed",
        "held",
        "idle",
        "free",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for day in &days.all {
        let wait = day.mean_wait_s.map_or_else(|| "-".to_owned(), span);
        let Instances { created, destroyed, reused } = day.what.instances;
        let counts = [created, reused, destroyed].map(|n| n.to_string());
        let first = [date(day.from), day.what.started.to_string(), wait, day.never_started.to_string()];
        rows.push([&first[..], &counts, &shares(day, past).map(|n| format!("{n} %"))].concat());
    }
    out.push_str(&table::render(&rows, &[1, 2, 3, 4, 5, 6, 7, 8, 9]));
    out.push('\n');
    if past.unnamed > 0 {
        let _ = writeln!(
            out,
            "Not counted: {} with GPUs. The accounting does not say which GPUs.",
            jobs(past.unnamed)
        );
    }
    if days.misfits > 0 {
        let _ = writeln!(
            out,
            "Only the start of {} is counted. The accounting says that others had the same GPUs then: have the nodes \
             changed since?",
            jobs(days.misfits)
        );
    }
    out.push_str("Refused submissions are not in Slurm's accounting: see --help.\n");
    out
}

fn jobs(count: usize) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}

/// The day of an instant.
fn date(seconds: u64) -> String {
    utc(seconds).chars().take_while(|c| *c != 'T').collect()
}

/// The same for programs; `refused` is `null` because nobody knows it.
pub(super) fn json(days: &Days, past: &Past) -> Value {
    let day = |day: &Day| {
        let Instances { created, destroyed, reused } = day.what.instances;
        let [held, idle, free] = shares(day, past);
        json!({
            "from": day.from, "to": day.to, "started": day.what.started, "mean_wait_s": day.mean_wait_s,
            "never_started": day.never_started, "created": created, "reused": reused, "destroyed": destroyed,
            "held_percent": held, "idle_percent": idle, "free_percent": free, "refused": null,
        })
    };
    json!({
        "days": days.all.iter().map(day).collect::<Vec<_>>(), "unnamed": past.unnamed, "misfits": days.misfits,
    })
}
