//! The tables and figures of both papers, ours beside the printed values, and what ours has to be besides.
//!
//! No run time of a job is public: `case_study::mix` says what is fitted to which figure. The goals are those of `case_study::figures`.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod common;

use case_study::audit::audit;
use case_study::figures::{self, Figure, FigureError};
use common::{MACHINES, MIXES, geometric_mean, jobs, run, sa};
use task_sched::Order;

/// Goals that no assumption of ours reaches; each has its reason in the figure.
const MISSED: [(&str, &str); 7] = [
    ("fig7", "points from the paper, CASE"),
    ("fig9", "points from the paper, CASE"),
    ("fig9", "points from the paper, SchedGPU"),
    ("table3", "error on P100 over a constant's"),
    ("table6", "Algorithm 3, points from the paper"),
    ("mig:fig3", "mean turnaround over the paper's"),
    ("mig:fig4", "mean over the paper's"),
];

#[test]
fn every_goal_is_reached_or_has_its_reason() {
    for name in figures::names() {
        let figure = figures::figure(name, 1).unwrap();
        for goal in &figure.goals {
            let is_missed = MISSED.contains(&(name, goal.what));
            assert_eq!(goal.is_reached(), !is_missed, "{name}: {goal:?}");
            assert_eq!(goal.why.is_some(), is_missed, "{name}: {goal:?}");
        }
    }
}

/// The goals of random mixes do not hang on the seed.
#[test]
fn other_seeds_reach_the_same_goals() {
    for name in ["fig8", "mig:fig1", "mig:fig2", "mig:fig3"] {
        let goals = |seed| figures::figure(name, seed).unwrap().goals;
        for (one, other) in goals(1).iter().zip(&goals(1000)) {
            assert_eq!(one.is_reached(), other.is_reached(), "{name}: {one:?} {other:?}");
        }
    }
}

#[test]
fn a_figure_depends_on_the_seed_alone() {
    for name in ["fig8", "mig:fig2"] {
        assert_eq!(figures::figure(name, 7), figures::figure(name, 7));
        assert_ne!(figures::figure(name, 7), figures::figure(name, 8));
    }
    assert_eq!(figures::figure("fig4", 1), Err(FigureError::Unknown("fig4".to_owned())));
}

fn values(figure: &Figure, has: &str) -> Vec<f64> {
    figure.rows.iter().filter(|row| row.label.contains(has)).map(|row| row.ours).collect()
}

/// Packing gains more, the more jobs share.
#[test]
fn mig_gains_grow_with_the_jobs_that_share() {
    let figure = figures::figure("mig:fig3", 1).unwrap();
    let of = |ratio: &str| values(&figure, ratio);
    for (few, many) in [("1:0", "4:1"), ("4:1", "1:4"), ("1:4", "0:1")] {
        assert!(of(few).iter().zip(of(many)).all(|(few, many)| *few < many), "{few} {many}");
    }
}

/// CG runs with the artefact's workers on V100, and with as many as do not crash on P100.
#[test]
fn case_is_faster_than_core_to_gpu() {
    let figure = figures::figure("fig6", 1).unwrap();
    for machine in ["p100", "v100"] {
        let case = geometric_mean(&values(&figure, &format!("case {machine}")));
        assert!(case > 1.2 * geometric_mean(&values(&figure, &format!("cg {machine}"))), "{machine}");
    }
}

#[test]
fn nothing_crashes_under_memory_safe_policies() {
    for (machine, workers) in MACHINES {
        for mix in MIXES {
            let jobs = jobs(mix, machine);
            for name in ["alg2", "alg3", "tessera", "schedgpu", "case-mig", "slurm"] {
                for order in [Order::Arrival, Order::Largest] {
                    let run = common::run_in(machine, &jobs, name, workers, order);
                    assert_eq!(run.summary.crashed, 0, "{mix} {machine:?} {name}");
                    assert_eq!(audit(&run.events), [], "{mix} {machine:?} {name}");
                }
            }
            assert_eq!(audit(&sa(machine, &jobs).events), [], "{mix} {machine:?} sa");
            assert_eq!(audit(&run(machine, &jobs, "cg", workers).events), [], "{mix} {machine:?} cg");
        }
    }
}

/// Ours against the paper's best.
#[test]
fn tessera_is_no_worse_than_alg3() {
    for (machine, workers) in MACHINES {
        let (mut throughput, mut turnaround) = (Vec::new(), Vec::new());
        for mix in MIXES {
            let jobs = jobs(mix, machine);
            let (ours, theirs) =
                (run(machine, &jobs, "tessera", workers), run(machine, &jobs, "alg3", workers));
            let versus = ours.versus(&theirs);
            throughput.push(versus.throughput.unwrap());
            turnaround.push(versus.turnaround.unwrap());
            assert!(
                ours.summary.wait_max <= theirs.summary.wait_max + 1e-6,
                "{mix} {machine:?}: {} s, alg3 {} s",
                ours.summary.wait_max,
                theirs.summary.wait_max
            );
        }
        assert!(geometric_mean(&throughput) >= 0.99, "{machine:?} {throughput:?}");
        assert!(geometric_mean(&turnaround) >= 0.99, "{machine:?} {turnaround:?}");
    }
}
