//! Makespans of policy `far`, and of FAR with wider choices, against the reference run on the carried instances.
//!
//! `reference-*.jsonl` has, per instance, the makespan of the authors' program for phases 1 and 2
//! (artecs-group/FAR_MIG_scheduler de675ee) with the paper's Algorithm 2 on top (`sw_replay`), replayed exactly.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "tests"
)]

mod far_common;

use std::collections::BTreeMap;

use far::{Micros, far, far_wide, replay};
use far_common::{Instance, cell, read, references, seconds};

/// Sums over one cell (GPU, type, range, number of tasks).
#[derive(Default)]
struct Cell {
    count: f64,
    ours: f64,
    reference: f64,
}

/// `sum`: of all makespans, µs. Work on the planner's speed must not change a plan.
fn check(set: &str, sum: Micros) {
    let reference = references(&format!("reference-{set}.jsonl"));
    let mut cells: BTreeMap<String, Cell> = BTreeMap::new();
    let mut total = 0;
    // The paper's choices alone: over the wider ones, and over the reference.
    let mut strict = (0.0, 0.0);
    for instance in read::<Instance>(&format!("instances-{set}.jsonl")) {
        let problem = instance.problem();
        let schedule = far_wide(&problem).schedule;
        let replayed = replay(&problem, &schedule).unwrap();
        assert_eq!(replayed.earliest, schedule, "{}: waits for nothing", instance.id);
        total += replayed.makespan;
        let paper = replay(&problem, &far(&problem).schedule).unwrap().makespan;
        assert!(paper >= replayed.makespan, "{}: more choices make no plan longer", instance.id);
        strict.0 += paper as f64 / replayed.makespan as f64;
        strict.1 += seconds(paper) / reference[&instance.id].sw_replay;
        let c = cells.entry(cell(&instance.id).to_owned()).or_default();
        let base = reference[&instance.id].base;
        c.count += 1.0;
        c.ours += seconds(replayed.makespan) / base;
        c.reference += reference[&instance.id].sw_replay / base;
    }
    assert_eq!(total, sum, "{set}: some plan has changed");
    let means = [strict.0, strict.1].map(|sum| sum / reference.len() as f64);
    println!("{set}: far over far_wide {:.4}, over the reference {:.4}", means[0], means[1]);
    assert!(means[0] < 1.02 && (means[1] - 1.0).abs() < 0.02, "{means:?}");
    assert_eq!(cells.values().map(|c| c.count as usize).sum::<usize>(), reference.len());
    for (name, c) in cells {
        assert!(c.ours <= c.reference, "{set} {name}: {} > {}", c.ours / c.count, c.reference / c.count);
    }
}

#[test]
fn no_cell_is_worse_than_the_reference_without_memory_bound_tasks() {
    check("psup0", 51_318_094_900);
}

#[test]
fn no_cell_is_worse_than_the_reference_with_half_the_tasks_memory_bound() {
    check("psup05", 131_603_129_000);
}
