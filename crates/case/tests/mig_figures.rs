//! The figures of the CASE-MIG paper, ours beside the printed values.
//!
//! Its program and its run times are not public and its Figs. 1 to 3 are known by their means only. One number is fitted, the
//! training jobs' time to the throughput of Fig. 1; each mix is drawn with ten seeds.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod common;

use case::audit::audit;
use case::mix::{Ratio, System, mig};
use case::sim::{Job, Outcome, Setup, simulate};
use case::{Order, policy};
use common::{mean, paper, within};

const A30: [System; 3] = [System::A, System::B, System::C];

/// Slurm has a worker per instance, the others the paper's numbers.
fn run(system: System, jobs: &[Job], name: &str) -> Outcome {
    let devices = system.devices();
    let workers = if name == "slurm" { devices.len() } else { system.workers() };
    let setup = Setup { devices, workers, order: Order::Arrival };
    simulate(&setup, jobs, policy::by_name(name).unwrap()).unwrap()
}

/// Means over systems, ratios and seeds of throughput, turnaround and memory utilisation over Slurm's.
fn over_slurm(name: &str, systems: &[System], ratios: &[Ratio], small: bool) -> [f64; 3] {
    let mut all = [const { Vec::new() }; 3];
    for system in systems {
        for ratio in ratios {
            for seed in 0..10 {
                let jobs = mig(*system, *ratio, small, seed);
                let (ours, slurm) = (run(*system, &jobs, name), run(*system, &jobs, "slurm"));
                let versus = ours.versus(&slurm);
                let memory = ours.summary.mem_util / slurm.summary.mem_util;
                let values = [versus.throughput, versus.turnaround, memory];
                all.iter_mut().zip(values).for_each(|(all, value)| all.push(value));
            }
        }
    }
    all.map(|values| mean(&values))
}

#[test]
fn fig1_a30() {
    let [throughput, turnaround, _] = over_slurm("case-mig", &A30, &Ratio::MIXED, false);
    let printed = paper().case_mig.text.fig1;
    within(throughput, printed.throughput, 0.03, "throughput, fitted");
    within(turnaround, printed.turnaround, 0.15, "turnaround");
}

#[test]
fn fig2_a30_with_small_jobs() {
    let [throughput, turnaround, _] = over_slurm("case-mig", &A30, &Ratio::MIXED, true);
    let printed = paper().case_mig.text.fig2;
    within(throughput, printed.throughput, 0.15, "throughput");
    within(turnaround, printed.turnaround, 0.15, "turnaround");
}

/// The turnaround, 2.31, is not reached (ours: about 1.25). It needs a Slurm that starts no job before one that waits for
/// another size: then ours is 2.5, but a batch of isolated jobs alone gains as much, and the paper says and observes that
/// Slurm and CASE are then identical. The tests hold us to that instead, and to a gain that grows with the shared jobs.
#[test]
fn fig3_a100() {
    let [throughput, turnaround, _] = over_slurm("case-mig", &[System::D], &Ratio::MIXED, false);
    let printed = paper().case_mig.text.fig3;
    within(throughput, printed.throughput, 0.15, "throughput");
    assert!(turnaround > 1.15 && turnaround < printed.turnaround, "{turnaround}");
    let [_, few, _] = over_slurm("case-mig", &[System::D], &[Ratio(4, 1)], false);
    let [_, many, _] = over_slurm("case-mig", &[System::D], &[Ratio(1, 4)], false);
    assert!(few < many, "{few} {many}");
}

/// The ratio of memory utilisation, 2.93, does not follow from the definition used here. A task holds the same memory under
/// both; the integral differs only by how much longer it holds it, so the ratio is about throughput times slowdown, 1.45
/// times 1.02 by the paper's own numbers. The paper samples memory while jobs remain and does not say what counts.
#[test]
fn fig4_memory_utilisation() {
    let [throughput, _, memory] = over_slurm("case-mig", &A30, &Ratio::MIXED, false);
    assert!(memory >= throughput, "{memory} {throughput}");
    assert!(memory < paper().case_mig.text.fig4_memory_utilisation_over_slurm);
}

#[test]
fn isolated_jobs_alone_gain_nothing() {
    for system in [System::A, System::B, System::C, System::D] {
        let [throughput, turnaround, _] = over_slurm("case-mig", &[system], &[Ratio(1, 0)], false);
        assert!((throughput - 1.0).abs() < 1e-6 && (turnaround - 1.0).abs() < 1e-6, "{system:?}");
    }
}

#[test]
fn every_run_is_legal_and_nothing_crashes() {
    for system in [System::A, System::D] {
        for ratio in [Ratio(1, 0), Ratio(2, 1), Ratio(1, 4), Ratio(0, 1)] {
            let jobs = mig(system, ratio, true, 1);
            for name in ["case-mig", "tessera", "alg3", "alg2", "slurm"] {
                let run = run(system, &jobs, name);
                assert_eq!(audit(&run.events), [], "{name} {system:?} {ratio:?}");
                assert_eq!(run.summary.crashed, 0, "{name} {system:?} {ratio:?}");
            }
        }
    }
}

#[test]
fn batches_have_the_papers_shape() {
    for (system, jobs, workers) in
        [(System::A, 32, 16), (System::B, 64, 32), (System::C, 128, 64), (System::D, 32, 28)]
    {
        let batch = mig(system, Ratio(2, 1), false, 3);
        assert_eq!((batch.len(), system.workers()), (jobs, workers));
        let largest = system.devices().iter().map(|d| d.mem).max().unwrap();
        assert!(batch.iter().all(|job| job.mem < largest));
        assert_eq!(batch.iter().filter(|job| job.isolated).count(), (jobs * 2).div_ceil(3));
    }
}
