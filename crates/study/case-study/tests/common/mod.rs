//! Runs of the papers' mixes, and the values that the papers print.
#![allow(dead_code, reason = "each test uses a part")]

use case_study::mix::{self, Machine};
use case_study::policy;
use case_study::sim::{Job, Outcome, Setup, simulate};
use task_sched::{Order, Pool};

/// The mixes of CASE Table 2.
pub(crate) const MIXES: [&str; 8] = ["W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"];

/// Both machines of CASE with the workers that Fig. 6 gives to CASE.
pub(crate) const MACHINES: [(Machine, usize); 2] = [(Machine::P100, 10), (Machine::V100, 16)];

/// Runs jobs on a machine.
pub(crate) fn run(machine: Machine, jobs: &[Job], name: &str, workers: usize) -> Outcome {
    run_in(machine, jobs, name, workers, Order::Arrival)
}

/// Runs jobs on a machine with a queue of some order.
pub(crate) fn run_in(machine: Machine, jobs: &[Job], name: &str, workers: usize, order: Order) -> Outcome {
    let setup = Setup { pool: Pool::new(&machine.devices()), workers, order };
    simulate(&setup, jobs, policy::by_name(name).unwrap()).unwrap()
}

/// Single assignment: a worker per GPU.
pub(crate) fn sa(machine: Machine, jobs: &[Job]) -> Outcome {
    run(machine, jobs, "sa", machine.devices().len())
}

/// A mix of Table 2.
pub(crate) fn jobs(name: &str, machine: Machine) -> Vec<Job> {
    mix::rodinia(name, machine)
}

pub(crate) fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|v| v.ln()).sum::<f64>() / values.len() as f64).exp()
}
