//! A replay for people, as JSON, and line by line.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use geometry::counted;
use protocol::time::utc;
use serde_json::{Value, json};

use super::ask::LeftOut;
use super::figures::{self, Figures, KINDS};
use super::{Past, Played};
use crate::clock::span;
use crate::render::table;

/// `; left out: 2 never started, 1 not over yet`; nothing where none are.
pub(super) fn left_out(all: &BTreeMap<LeftOut, usize>) -> String {
    let each: Vec<String> = all.iter().map(|(why, count)| format!("{count} {why}")).collect();
    if each.is_empty() { String::new() } else { format!("; left out: {}", each.join(", ")) }
}

/// `by_host`: CPUs and memory limited what started.
pub(super) fn text(past: &Past, rules: &[Played], nodes: &str, by_host: bool) -> String {
    let (from, to) = figures::span(past);
    let count = past.jobs.len();
    let jobs = counted(count, "job");
    let mut out =
        format!("{jobs} of {} to {}, on {nodes}{}\n\n", utc(from), utc(to), left_out(&past.left_out));
    let all: Vec<(&str, Figures)> =
        rules.iter().map(|played| (played.rules, figures::of(past, played))).collect();
    let heads =
        ["", "started", "refused", "at once", "mean wait", "median", "9 in 10", "longest", "GPUs in jobs"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for (name, f) in &all {
        let held = f.in_jobs_percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent} %"));
        let waits = [f.mean_s, f.median_s, f.most_s, f.longest_s].map(span);
        let counts = [f.started, f.refused, f.at_once].map(|n| n.to_string());
        rows.push([vec![(*name).to_owned()], counts.to_vec(), waits.to_vec(), vec![held]].concat());
    }
    out.push_str(&table::render(&rows, &[1, 2, 3, 4, 5, 6, 7, 8]));
    let mut rows =
        vec![[&["mean wait of jobs for"], &KINDS[..]].concat().into_iter().map(str::to_owned).collect()];
    for (name, f) in &all {
        let each = f.by_kind_s.map(|wait| wait.map_or_else(|| "-".to_owned(), span));
        rows.push([vec![(*name).to_owned()], each.to_vec()].concat());
    }
    let _ = write!(out, "\n{}", table::render(&rows, &[1, 2, 3]));
    if let Some((_, f)) = all.last() {
        let i = f.instances;
        let (made, again, gone) = (i.created, i.reused, i.destroyed);
        let _ = writeln!(
            out,
            "\nTessera makes {}, uses idle ones again {}, and destroys {gone}.",
            counted(made, "instance"),
            counted(again, "time")
        );
    }
    let counts = if by_host { "only GPUs, CPUs and memory are counted" } else { "only GPUs are counted" };
    let _ = writeln!(
        out,
        "Waits are of the jobs that started. Every job runs as long as it did, and {counts}: see --help."
    );
    out
}

pub(super) fn json(past: &Past, rules: &[Played]) -> Value {
    let (from, to) = figures::span(past);
    let one = |played: &Played| {
        let f = figures::of(past, played);
        let kinds: serde_json::Map<String, Value> = ["part", "one_gpu", "several_gpus"]
            .map(str::to_owned)
            .into_iter()
            .zip(f.by_kind_s.map(|s| json!(s)))
            .collect();
        json!({
            "rules": played.rules, "started": f.started, "refused": f.refused, "at_once": f.at_once,
            "mean_wait_s": f.mean_s, "median_wait_s": f.median_s, "p90_wait_s": f.most_s, "longest_wait_s": f.longest_s,
            "mean_wait_by_kind_s": kinds, "in_jobs_percent": f.in_jobs_percent, "instances_created": f.instances.created,
            "instances_destroyed": f.instances.destroyed, "instances_reused": f.instances.reused,
        })
    };
    let left: serde_json::Map<String, Value> =
        past.left_out.iter().map(|(why, count)| (why.to_string(), json!(count))).collect();
    json!({
        "jobs": past.jobs.len(), "left_out": left, "from": from, "to": to,
        "rules": rules.iter().map(one).collect::<Vec<_>>(),
    })
}

pub(super) fn csv(past: &Past, rules: &[Played]) -> String {
    let mut out = "rules,job,eligible,start,end,slices\n".to_owned();
    for played in rules {
        for (job, ran) in past.jobs.iter().zip(&played.ran) {
            let _ = write!(out, "{:?},{},{},", played.rules, job.id, job.eligible);
            let _ = match ran {
                Some(ran) if played.slices == 0 => writeln!(out, "{},{},", ran.start, ran.start + job.ran_s),
                Some(ran) => writeln!(out, "{},{},{}", ran.start, ran.start + job.ran_s, ran.slices),
                None => writeln!(out, ",,"),
            };
        }
    }
    out
}
