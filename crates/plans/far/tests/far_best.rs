//! Makespans of the default policy against the reference and against known optima, on the carried instances.
//!
//! The budgets are in steps, so the outcome is the same on every machine: the default one for small batches, a quarter of
//! it for the others.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    reason = "tests"
)]

mod far_common;

use std::collections::BTreeMap;

use far::{Plan, STEPS_PER_MS, best, replay};
use far_common::{Instance, Reference, cell, read, references, seconds};

const DEFAULT: u64 = 50 * STEPS_PER_MS;
const QUARTER: u64 = DEFAULT / 4;

/// Plans and replays; the claims of the plan about itself are checked here.
fn plan(instance: &Instance, budget: u64) -> (Plan, f64) {
    let problem = instance.problem();
    let plan = best(&problem, budget);
    let replayed = replay(&problem, &plan.schedule).unwrap();
    assert_eq!(replayed.earliest, plan.schedule, "{}: waits for nothing", instance.id);
    assert!(plan.lower_bound <= replayed.makespan, "{}", instance.id);
    assert_eq!(plan.proven_optimal, plan.lower_bound == replayed.makespan, "{}", instance.id);
    assert!(plan.steps <= budget, "{}", instance.id);
    let makespan = seconds(replayed.makespan);
    (plan, makespan)
}

/// Means per cell must be below the reference's; no instance may be above it.
fn against_reference(set: &str, part: &str) {
    let reference = references(&format!("reference-{set}.jsonl"));
    let mut cells: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let instances: Vec<Instance> = read(&format!("instances-{set}.jsonl"));
    for instance in instances.iter().filter(|i| i.id.contains(part)) {
        let (_, makespan) = plan(instance, QUARTER);
        let theirs = reference[&instance.id].sw_replay;
        assert!(makespan <= theirs + 1e-9, "{}: {makespan} > {theirs}", instance.id);
        let sums = cells.entry(cell(&instance.id).to_owned()).or_default();
        sums.0 += makespan / reference[&instance.id].base;
        sums.1 += theirs / reference[&instance.id].base;
    }
    assert!(!cells.is_empty());
    for (name, (ours, theirs)) in cells {
        assert!(ours < theirs, "{set} {name}: {ours} >= {theirs}");
    }
}

#[test]
fn better_than_the_reference_without_memory_bound_tasks() {
    against_reference("psup0", "A100");
}

#[test]
fn better_than_the_reference_with_narrow_times() {
    against_reference("psup05", "Narrow");
}

#[test]
fn better_than_the_reference_with_wide_times() {
    against_reference("psup05", "Wide");
}

#[test]
fn near_the_optimum_of_small_batches() {
    let optimum = references("optimum.jsonl");
    let mut cells: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let (mut count, mut proven, mut reached) = (0, 0, 0);
    for instance in read::<Instance>("instances-optimum.jsonl").iter().filter(|i| i.t.len() <= 10) {
        let known: &Reference = &optimum[&instance.id];
        let (plan, makespan) = plan(instance, DEFAULT);
        // What the other search found is a schedule too, exact or not: no bound may lie above it.
        assert!(seconds(plan.lower_bound) <= known.opt_t + 1e-9, "{}: bound above a schedule", instance.id);
        let sums = cells.entry(cell(&instance.id).to_owned()).or_default();
        sums.0 += makespan / known.opt_t - 1.0;
        sums.1 += 1.0;
        count += 1;
        proven += usize::from(plan.proven_optimal);
        reached += usize::from(makespan <= known.opt_t + 1e-9);
    }
    for (name, (gap, n)) in &cells {
        assert!(gap / n < 0.02, "{name}: mean gap {:.4}", gap / n);
    }
    let gap = cells.values().map(|c| c.0).sum::<f64>() / f64::from(count);
    println!("{count} instances: mean gap {gap:.5}, {reached} as good as known, {proven} proven optimal");
    assert!(gap < 0.002 && reached == count as usize && proven == count as usize);
}
