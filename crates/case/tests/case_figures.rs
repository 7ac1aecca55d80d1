//! The tables and figures of the CASE paper, ours beside the printed values.
//!
//! No run time of a job is public, so `case::mix` fits rates to Table 7's single-assignment rows, one host share to Fig. 6
//! and one demand to Fig. 7's single assignment. Both were chosen with Figs. 5 to 7 and Tables 3 and 4 in view, so agreement
//! with those shows that one model explains them together; it is no prediction. So were the rules of CG chosen with Table 3
//! in view. The tolerances are those that the fit is meant to reach.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod common;

use case::audit::audit;
use case::mix::{Darknet, Machine, darknet, darknet_mix};
use case::sim::{Setup, simulate};
use case::{Node, Order, policy};
use common::{MACHINES, MIXES, geometric_mean, jobs, mean, paper, rms_log_error, run, sa, within};

#[test]
fn table7_single_assignment() {
    let printed = paper().case.table7;
    for (machine, theirs) in [(Machine::P100, printed.sa_p100), (Machine::V100, printed.sa_v100)] {
        for (mix, theirs) in MIXES.iter().zip(theirs) {
            let ours = sa(machine, &jobs(mix, machine)).summary.throughput;
            within(ours, theirs, 0.03, &format!("{mix} {machine:?}"));
        }
    }
}

/// The row of Alg. 2 does not follow from the other tables: its W4 (0.45 jobs/s) is above what Fig. 6 gives Alg. 3 there
/// (2.3 x 0.189 = 0.43), although Alg. 3 is said to be 1.21 times as fast. Only the mean can be compared.
#[test]
fn table7_alg2() {
    let theirs = mean(&paper().case.table7.alg2_v100);
    let of = |mix: &&str| run(Machine::V100, &jobs(mix, Machine::V100), "alg2", 16).summary.throughput;
    let ours: Vec<f64> = MIXES.iter().map(of).collect();
    within(mean(&ours), theirs, 0.1, "mean of alg2 on V100");
}

#[test]
fn fig5_alg3_over_alg2() {
    let gain = |mix: &&str| {
        let jobs = jobs(mix, Machine::V100);
        let of = |name| run(Machine::V100, &jobs, name, 16).summary.throughput;
        of("alg3") / of("alg2")
    };
    let ours = mean(&MIXES.iter().map(gain).collect::<Vec<_>>());
    assert!((1.10..=1.35).contains(&ours), "{ours}, paper {}", paper().case.text.alg3_over_alg2_throughput);
}

#[test]
fn fig6_case_over_single_assignment() {
    let printed = paper().case.fig6;
    let theirs = [printed.p100_case, printed.v100_case];
    let of = |(machine, workers)| {
        MIXES.map(|mix| {
            let jobs = jobs(mix, machine);
            run(machine, &jobs, "alg3", workers).versus(&sa(machine, &jobs)).throughput
        })
    };
    let ours = MACHINES.map(of);
    let error = rms_log_error(ours.as_flattened(), theirs.as_flattened());
    assert!(error <= 0.16, "rms log error {error}");
    within(mean(&ours[0]), mean(&theirs[0]), 0.07, "mean on P100");
    within(mean(&ours[1]), mean(&theirs[1]), 0.07, "mean on V100");
}

/// The bars of CG count only the jobs that finished, over a number of workers that the artifact chose after the fact as
/// the largest without a crash. With our run times the same numbers of workers do crash some jobs, so a bar cannot be
/// compared; that CASE is faster on average on both machines can.
#[test]
fn fig6_case_is_faster_than_core_to_gpu() {
    for (machine, workers) in MACHINES {
        let per_gpu = 3 * machine.devices().len() / 2;
        let gain = |mix: &&str| {
            let jobs = jobs(mix, machine);
            run(machine, &jobs, "alg3", workers).summary.throughput
                / run(machine, &jobs, "cg", per_gpu).summary.throughput
        };
        let gains: Vec<f64> = MIXES.iter().map(gain).collect();
        assert!(geometric_mean(&gains) > 1.2, "{machine:?} {gains:?}");
    }
}

#[test]
fn table4_turnaround() {
    let printed = paper().case.table4;
    for ((machine, workers), theirs) in MACHINES.into_iter().zip([printed.p100, printed.v100]) {
        let of = |mix: &&str| {
            let jobs = jobs(mix, machine);
            run(machine, &jobs, "alg3", workers).versus(&sa(machine, &jobs)).turnaround
        };
        let ours: Vec<f64> = MIXES.iter().map(of).collect();
        within(mean(&ours), mean(&theirs), 0.2, &format!("mean on {machine:?}"));
    }
}

/// Single cells hang on which jobs meet, so only the mean over all cells is compared: the paper calls the pattern erratic
/// itself. Nobody keeps memory back for CG, hence GPUs of 16 GB.
#[test]
fn table3_crashes() {
    let printed = paper().case.table3;
    let rows = [printed.workers_3_6, printed.workers_4_8, printed.workers_5_10, printed.workers_6_12];
    let mut errors = Vec::new();
    for (row, theirs) in rows.iter().enumerate() {
        for (machine, column, least) in [(Machine::P100, 0, 3), (Machine::V100, 1, 6)] {
            let node = if column == 0 { "p100-16gb,2" } else { "v100-16gb,4" };
            let devices = Node::parse(node).unwrap().devices_under("cg");
            let workers = least + row * least / 3;
            for (i, theirs) in theirs.iter().enumerate() {
                let percent = [MIXES[i], MIXES[i + 4]].map(|mix| {
                    let setup = Setup { devices: devices.clone(), workers, order: Order::Arrival };
                    let run = simulate(&setup, &jobs(mix, machine), policy::by_name("cg").unwrap()).unwrap();
                    100.0 * run.summary.crashed as f64 / run.summary.jobs as f64
                });
                errors.push((mean(&percent) - theirs[column]).abs());
            }
        }
    }
    assert!(mean(&errors) <= 12.0, "mean error {} points", mean(&errors));
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

#[test]
fn fig7_utilisation() {
    let theirs = paper().case.text.utilisation_w7_percent;
    let jobs = jobs("W7", Machine::V100);
    for (run, theirs) in
        [(sa(Machine::V100, &jobs), theirs.sa), (run(Machine::V100, &jobs, "alg3", 16), theirs.case)]
    {
        let ours = 100.0 * run.summary.busy_util;
        assert!((ours - theirs).abs() <= 5.0, "{ours} %, paper {theirs} %");
    }
}

/// The paper measures kernels (1.8 and 2.5 %), the simulator whole tasks with their copies, and one demand stands for all
/// programs. The percentages cannot be compared; their order can: Alg. 2 shares SMs with nobody and slows tasks less.
#[test]
fn table6_slowdown() {
    let printed = paper().case.table6;
    let of = |name| {
        let slowdown =
            |mix: &&str| run(Machine::V100, &jobs(mix, Machine::V100), name, 16).summary.slowdown_mean;
        mean(&MIXES.iter().map(slowdown).collect::<Vec<_>>())
    };
    assert!(mean(&printed.alg2) < mean(&printed.alg3));
    assert!(of("alg2") < of("alg3"));
    assert!(of("alg2") < 0.018, "{}", of("alg2"));
}

/// Demand and seconds of a kind are solved from these two numbers: the test holds the simulator to the solution.
#[test]
fn fig8_and_table8_darknet() {
    let printed = paper().case;
    for kind in Darknet::ALL {
        let jobs = darknet(kind, 8);
        let schedgpu = run(Machine::V100, &jobs, "schedgpu", 16);
        let case = run(Machine::V100, &jobs, "alg3", 16);
        let (rate, gain) = (printed.table8[kind.name()], printed.text.darknet_over_schedgpu[kind.name()]);
        within(schedgpu.summary.throughput, rate, 0.01, kind.name());
        within(case.versus(&schedgpu).throughput, gain, 0.01, kind.name());
    }
}

/// 16 workers, as for Rodinia on this machine; the paper names no number.
#[test]
fn darknet_128_jobs_over_single_assignment() {
    let gain = |seed| {
        let jobs = darknet_mix(128, seed);
        run(Machine::V100, &jobs, "alg3", 16).versus(&sa(Machine::V100, &jobs)).throughput
    };
    let gains: Vec<f64> = (0..10).map(gain).collect();
    within(mean(&gains), paper().case.text.darknet_128_over_sa, 0.15, "128 Darknet jobs");
}

/// The paper does not say which of the four workloads Fig. 9 shows. `SchedGPU` keeps one of four GPUs busy in those that
/// gain; CASE's 80 % lies between the two networks that need the GPU most.
#[test]
fn fig9_darknet_utilisation() {
    let printed = paper().case.text.darknet_utilisation_percent;
    let percent = |kind, policy| 100.0 * run(Machine::V100, &darknet(kind, 8), policy, 16).summary.busy_util;
    for kind in [Darknet::Train, Darknet::Generate] {
        let ours = percent(kind, "schedgpu");
        assert!((ours - printed["schedgpu"]).abs() <= 5.0, "{}: {ours} %", kind.name());
    }
    let case = [percent(Darknet::Train, "alg3"), percent(Darknet::Generate, "alg3")];
    assert!(case[0] < printed["case"] && printed["case"] < case[1], "{case:?}");
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
            throughput.push(versus.throughput);
            turnaround.push(versus.turnaround);
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
