//! Prints, for each machine, the share of the host and the demand of a task with which CASE slows tasks as the artefact measured it and gains
//! as much throughput over single assignment as Fig. 6 has on average: `cargo run --release -p case-study --example machine_fits`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for the laboratory")]

use case_study::mix::{Machine, rodinia};
use case_study::policy::{Alg3, Sa};
use case_study::sim::{Job, Phase, Setup, simulate};
use task_sched::{Order, Pool};

/// The mean of the kernels' and the copies' mean slowdown, percent, and the mean of CASE's bars in Fig. 6.
const TARGETS: [(Machine, &str, usize, f64, f64); 2] = [
    (Machine::P100, "p100", 10, (13.852 + 32.775) / 2.0, 2.144),
    (Machine::V100, "v100", 16, (5.118 + 9.478) / 2.0, 1.986),
];

/// Scales the shares of these jobs.
fn with(jobs: &[Job], host: f64, demand: f64) -> Vec<Job> {
    let one = |job: &Job| {
        let [Phase::Host(before), Phase::Gpu { seconds, need, .. }] = job.phases[..] else {
            panic!("two phases")
        };
        let life = before + seconds;
        let gpu = Phase::Gpu { seconds: life * (1.0 - host), need, demand };
        Job { phases: vec![Phase::Host(life * host), gpu], ..job.clone() }
    };
    jobs.iter().map(one).collect()
}

fn main() {
    for (machine, name, workers, slowdown, throughput) in TARGETS {
        let devices = machine.devices();
        let mixes: Vec<Vec<Job>> = (1..=8).map(|i| rodinia(&format!("W{i}"), machine)).collect();
        let mut best = (f64::MAX, 0.0, 0.0, 0.0, 0.0);
        for host in (0..80_u32).map(|h| f64::from(h) / 100.0) {
            for demand in (1..100_u32).map(|d| f64::from(d) / 100.0) {
                let (mut slowed, mut gained) = (0.0, 0.0);
                for mix in &mixes {
                    let jobs = with(mix, host, demand);
                    let setup = |workers| Setup { pool: Pool::new(&devices), workers, order: Order::Arrival };
                    let sa = simulate(&setup(devices.len()), &jobs, Box::<Sa>::default()).unwrap();
                    let case = simulate(&setup(workers), &jobs, Box::<Alg3>::default()).unwrap();
                    slowed += 100.0 * case.summary.slowdown_mean / 8.0;
                    gained += case.versus(&sa).throughput.unwrap() / 8.0;
                }
                let error =
                    ((slowed - slowdown) / slowdown).powi(2) + (4.0 * (gained / throughput).ln()).powi(2);
                if error < best.0 {
                    best = (error, host, demand, slowed, gained);
                }
            }
        }
        let (_, host, demand, slowed, gained) = best;
        println!(
            "{name}: host {host}, demand {demand}: slowdown {slowed:.2} % of {slowdown:.2}, throughput {gained:.3} of {throughput}"
        );
    }
}
