//! The days for people, and as JSON.

use std::cmp::Reverse;
use std::fmt::Write as _;

use decision_counts::decisions::Reason;
use decision_pages::words;
use geometry::counted;
use node_state::slices::slices_for_gpu;
use protocol::time::utc;
use replay::Instances;
use serde_json::{Map, Value, json};

use super::days::{Day, Days};
use super::placed::Past;
use super::refused::Refused;
use crate::clock::span;
use crate::render::table;

/// Percent of all slices that were held, idle and free.
fn shares(day: &Day, past: &Past) -> [u64; 3] {
    let slices: u64 =
        past.nodes.iter().flat_map(|n| &n.gpus).map(|gpu| slices_for_gpu(Some(gpu.model))).sum();
    let all = (slices * (day.to - day.from)).max(1);
    let [held, idle] = [day.what.held, day.what.idle].map(|n| n * 100 / all);
    [held, idle, 100 - (held + idle).min(100)]
}

pub(super) fn text(days: &Days, past: &Past, refused: &Refused, nodes: &str) -> String {
    let mut out = format!("{nodes}; days begin at midnight UTC\n\n");
    let mut heads = vec!["", "started", "mean wait", "never started"];
    heads.extend(refused.since().map(|_| "refused"));
    heads.extend(["made", "used again", "destroyed", "in jobs", "idle", "free"]);
    let columns: Vec<usize> = (1..heads.len()).collect();
    let mut rows = vec![heads.into_iter().map(str::to_owned).collect()];
    for day in &days.all {
        let wait = day.mean_wait_s.map_or_else(|| "-".to_owned(), span);
        let Instances { created, destroyed, reused } = day.what.instances;
        let counts = [created, reused, destroyed].map(|n| n.to_string());
        let mut row = vec![date(day.from), day.what.started.to_string(), wait, day.never_started.to_string()];
        let sum = |all: Vec<(Reason, u32)>| all.iter().map(|(_, n)| u64::from(*n)).sum::<u64>().to_string();
        row.extend(refused.since().map(|_| refused.on(day).map_or_else(|| "-".to_owned(), sum)));
        row.extend(counts.into_iter().chain(shares(day, past).map(|n| format!("{n} %"))));
        rows.push(row);
    }
    out.push_str(&table::render(&rows, &columns));
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
    out + &why_refused(days, refused)
}

/// Refused submissions by reason, and since when they are counted; or why nobody knows.
fn why_refused(days: &Days, refused: &Refused) -> String {
    let since = match refused {
        Refused::Unknown(why) => return format!("Not shown: {why}.\n"),
        Refused::Counted { by_day, .. } => by_day.since(),
    };
    let mut all: Vec<(Reason, u64)> = Vec::new();
    for (why, n) in days.all.iter().filter_map(|day| refused.on(day)).flatten() {
        match all.iter_mut().find(|(known, _)| *known == why) {
            Some((_, sum)) => *sum += u64::from(n),
            None => all.push((why, n.into())),
        }
    }
    all.retain(|(_, n)| *n > 0);
    all.sort_by_key(|(_, n)| Reverse(*n));
    let words: Vec<String> = all.iter().map(|(why, n)| format!("{n} {}", in_words(*why))).collect();
    let mut out = String::new();
    if !words.is_empty() {
        let _ = writeln!(out, "Refused submissions: {}.", words.join(", "));
    }
    if days.all.first().is_some_and(|day| day.from < since) {
        let _ = writeln!(
            out,
            "Refused submissions are counted from {} UTC on: the counts start again when slurmctld's machine reboots.",
            utc(since).trim_end_matches('Z').replace('T', " ")
        );
    }
    out
}

/// Why a submission was refused.
fn in_words(why: Reason) -> &'static str {
    match why {
        Reason::Options => "for contradicting options",
        Reason::Limit => "for a limit of the site",
        Reason::Impossible => "that no node could ever serve",
        Reason::Config => "because tessera.toml was bad",
        Reason::Licenses => "that named the license slice",
        other => words::reason(other),
    }
}

fn jobs(count: usize) -> String {
    counted(count, "job")
}

/// The day of an instant.
fn date(seconds: u64) -> String {
    utc(seconds).chars().take_while(|c| *c != 'T').collect()
}

/// Writes the days as JSON; `refused` is `null` for a day without a count.
pub(super) fn json(days: &Days, past: &Past, refused: &Refused) -> Value {
    let day = |day: &Day| {
        let Instances { created, destroyed, reused } = day.what.instances;
        let [held, idle, free] = shares(day, past);
        let by_reason = |all: Vec<(Reason, u32)>| {
            all.into_iter()
                .map(|(why, n)| (words::reason(why).to_owned(), Value::from(n)))
                .collect::<Map<_, _>>()
        };
        json!({
            "from": day.from, "to": day.to, "started": day.what.started, "mean_wait_s": day.mean_wait_s,
            "never_started": day.never_started, "created": created, "reused": reused, "destroyed": destroyed,
            "in_jobs_percent": held, "idle_percent": idle, "free_percent": free, "refused": refused.on(day).map(by_reason),
        })
    };
    json!({
        "days": days.all.iter().map(day).collect::<Vec<_>>(), "unnamed": past.unnamed, "misfits": days.misfits,
        "refused_since": refused.since(),
    })
}
