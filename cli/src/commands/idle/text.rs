//! Jobs with idle GPUs, for people and programs.

use geometry::size::{display_gb, gigabytes_as_mib};
use serde_json::{Value, json};

use crate::clock::span;
use crate::idle_jobs::{IdleHeld, tenths};
use crate::render::{hosts, table};

/// A job is told of a smaller request if it held less than this part of its memory, percent.
const USED_LITTLE: u64 = 67;

/// A line for each job, and the sum.
pub(super) fn of(held: &[&IdleHeld], silent: &[String], now: u64, least_s: u64) -> String {
    let mut text = String::new();
    if held.is_empty() {
        text.push_str(&format!("no job has had an idle GPU for {}\n", span(least_s)));
    } else {
        let head = [
            "JOB",
            "USER",
            "PARTITION",
            "NODES",
            "GPUS",
            "IDLE FOR",
            "SLICES",
            "SLICE HOURS",
            "MEMORY",
            "ENOUGH",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(held.iter().map(|held| row(held, now)));
        text.push_str(&table::render(&rows, &[0, 6, 7, 8]));
        let slices: u64 = held.iter().map(|held| held.slices_c).sum();
        let hours: u64 = held.iter().map(|held| held.hours_c(now)).sum();
        let jobs = geometry::counted(held.len(), "job");
        text.push_str(&format!("{jobs}: {} slices, {} slice hours\n", tenths(slices), tenths(hours)));
    }
    if !silent.is_empty() {
        text.push_str(&format!(
            "not known of {}: `tessera node idle` has reported nothing there for an hour\n",
            hosts::brief(silent)
        ));
    }
    text
}

fn row(held: &IdleHeld, now: u64) -> Vec<String> {
    vec![
        held.job.number(),
        held.job.user.clone(),
        held.job.partition.clone(),
        hosts::brief(&held.nodes),
        held.part(),
        span(held.idle_s(now)),
        tenths(held.slices_c),
        tenths(held.hours_c(now)),
        display_gb(held.most_mib),
        enough(held).unwrap_or_else(|| "-".to_owned()),
    ]
}

/// A smaller request that would have been enough, as far as its use so far tells.
pub(super) fn enough(held: &IdleHeld) -> Option<String> {
    if held.idle < held.of {
        let used = held.of - held.idle;
        return Some(format!("{used} of its {}", held.of));
    }
    if held.most_mib == 0 {
        return Some("no GPU: it has used none".to_owned());
    }
    let wanted = held.most_mib + held.most_mib / 4;
    let gb = (1..=10_000).find(|gb| gigabytes_as_mib(*gb) >= wanted)?;
    let holds = held.holds_mib?;
    (held.most_mib * 100 < holds * USED_LITTLE && gigabytes_as_mib(gb) < holds)
        .then(|| format!("--gpu-mem={gb}G"))
}

/// `{"at", "jobs": [{"job", "user", …}], "silent": [nodes that have told nothing]}`, times in seconds.
pub(super) fn json(held: &[&IdleHeld], silent: &[String], now: u64) -> Value {
    let one = |held: &&IdleHeld| {
        json!({
            "job": held.job.number(), "user": held.job.user, "partition": held.job.partition,
            "account": held.job.account, "nodes": held.nodes, "idle_devices": held.idle, "devices": held.of,
            "wholly_idle": held.wholly, "since": held.since, "idle_s": held.idle_s(now),
            "slices": cents(held.slices_c), "slice_hours": cents(held.hours_c(now)),
            "most_mib": held.most_mib, "enough": enough(held),
        })
    };
    json!({ "at": now, "jobs": held.iter().map(one).collect::<Vec<_>>(), "silent": silent })
}

#[expect(clippy::cast_precision_loss, reason = "slices of a cluster")]
fn cents(hundredths: u64) -> f64 {
    hundredths as f64 / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_what_and_what_would_have_been_enough() {
        let seen = crate::idle_jobs::IdleSeen::of(&crate::idle_jobs::tests::seen()).unwrap();
        let held: Vec<&IdleHeld> = seen.held.iter().collect();
        insta::assert_snapshot!(of(&held, &seen.silent, 10_000, 600), @r"
        JOB  USER   PARTITION  NODES  GPUS                IDLE FOR  SLICES  SLICE HOURS  MEMORY  ENOUGH
         11  alice  gpu        n1     1 of 1              2 h          3.0          6.0  3.3 GB  --gpu-mem=5G
         13  bob    gpu        n2     1 of 2, job in use  60 min       3.5          3.5    0 MB  1 of its 2
        2 jobs: 6.5 slices, 9.5 slice hours
        not known of n4: `tessera node idle` has reported nothing there for an hour
        ");
        let none = of(&[], &seen.silent, 10_000, 7200);
        assert!(none.starts_with("no job has had an idle GPU for 2 h\nnot known of n4"), "{none}");
        let value = json(&held, &seen.silent, 10_000);
        assert_eq!(value["silent"][0].as_str(), Some("n4"));
        let first = &value["jobs"][0];
        assert_eq!((first["job"].as_str(), first["slice_hours"].as_f64()), (Some("11"), Some(6.0)));
        assert_eq!(
            (first["enough"].as_str(), first["wholly_idle"].as_bool()),
            (Some("--gpu-mem=5G"), Some(true))
        );
        assert_eq!((value["at"].as_u64(), value["jobs"][1]["devices"].as_u64()), (Some(10_000), Some(2)));
    }

    #[test]
    fn a_smaller_request_is_named_if_it_is_smaller() {
        let held =
            |most_mib, holds_mib| IdleHeld { idle: 1, of: 1, most_mib, holds_mib, ..IdleHeld::default() };
        assert_eq!(enough(&held(3_174, Some(40_960))).as_deref(), Some("--gpu-mem=5G"));
        assert_eq!(enough(&held(30_000, Some(40_960))), None);
        assert_eq!(enough(&held(3_174, None)), None);
        assert_eq!(enough(&held(0, None)).as_deref(), Some("no GPU: it has used none"));
        assert_eq!(enough(&IdleHeld { of: 8, ..held(9, None) }).as_deref(), Some("7 of its 8"));
    }
}
