//! CASE-MIG's batches on its systems.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use case_study::audit::audit;
use case_study::mix::{Ratio, System, mig};
use case_study::policy;
use case_study::sim::{Job, Outcome, Setup, simulate};
use case_study::{Node, RunEvent};
use task_sched::{Bytes, Order, Pool};

/// Slurm has a worker per instance, the others the paper's numbers.
fn run(system: System, jobs: &[Job], name: &str) -> Outcome {
    let devices = system.devices();
    let workers = if name == "slurm" { devices.len() } else { system.workers() };
    let setup = Setup { pool: Pool::new(&devices), workers, order: Order::Arrival };
    simulate(&setup, jobs, policy::by_name(name).unwrap()).unwrap()
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

/// Section 3.3: on the A100, 2 of 5 isolated jobs and 7 of 15 others have 5 to 10 GB.
#[test]
fn the_a100_has_the_printed_part_of_large_jobs() {
    let large = |ratio| {
        let jobs: Vec<Job> = (0..100).flat_map(|seed| mig(System::D, ratio, false, seed)).collect();
        jobs.iter().filter(|job| job.mem >= Bytes(5_000_000_000)).count() as f64 / jobs.len() as f64
    };
    assert!((large(Ratio(1, 0)) - 2.0 / 5.0).abs() < 0.03, "{}", large(Ratio(1, 0)));
    assert!((large(Ratio(0, 1)) - 7.0 / 15.0).abs() < 0.03, "{}", large(Ratio(0, 1)));
}

/// The layout follows the jobs: on the same GPU, every batch with shared or isolated jobs gains over the paper's layout.
#[test]
fn layouts_made_on_demand_gain_over_the_papers() {
    let node = Node::parse("a100-40gb,1").unwrap();
    let mut gains = Vec::new();
    for ratio in Ratio::ALL {
        for seed in 1..=10 {
            let jobs = mig(System::D, ratio, false, seed);
            let setup =
                Setup { pool: node.pool("tessera"), workers: node.workers("tessera"), order: Order::Arrival };
            let ours = simulate(&setup, &jobs, policy::by_name("tessera").unwrap()).unwrap();
            assert_eq!(audit(&ours.events), [], "{ratio} {seed}");
            assert_eq!(ours.summary.crashed, 0);
            assert!(ours.events.iter().any(|event| matches!(event, RunEvent::Layout { .. })));
            gains.push(ours.versus(&run(System::D, &jobs, "case-mig")).throughput.unwrap());
        }
        let of_ratio = &gains[gains.len() - 10..];
        let mean = of_ratio.iter().sum::<f64>() / 10.0;
        assert!(mean >= 1.10, "{ratio}: {mean} {of_ratio:?}");
    }
}
