//! Runs of the papers' mixes, and the values that the papers print.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;

use case::mix::{self, Machine};
use case::sim::{Job, Outcome, Setup, simulate};
use case::{Order, policy};
use serde::Deserialize;

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
    let setup = Setup { devices: machine.devices(), workers, order };
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

pub(crate) fn within(ours: f64, theirs: f64, tolerance: f64, what: &str) {
    assert!((ours / theirs - 1.0).abs() <= tolerance, "{what}: {ours:.3}, paper {theirs:.3}");
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub(crate) fn geometric_mean(values: &[f64]) -> f64 {
    mean(&values.iter().map(|v| v.ln()).collect::<Vec<_>>()).exp()
}

/// Root of the mean squared logarithm of ours over theirs.
pub(crate) fn rms_log_error(ours: &[f64], theirs: &[f64]) -> f64 {
    let squares: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| (a / b).ln().powi(2)).collect();
    mean(&squares).sqrt()
}

#[derive(Deserialize)]
pub(crate) struct Paper {
    pub(crate) case: Case,
    #[serde(rename = "case-mig")]
    pub(crate) case_mig: CaseMig,
}

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) table8: BTreeMap<String, f64>,
    pub(crate) table3: Table3,
    pub(crate) table4: Table4,
    pub(crate) table6: Table6,
    pub(crate) table7: Table7,
    pub(crate) fig6: Fig6,
    pub(crate) text: Text,
}

/// Per mix (1:1, 2:1, 3:1, 5:1) the percentages on P100 and V100.
#[derive(Deserialize)]
pub(crate) struct Table3 {
    pub(crate) workers_3_6: [[f64; 2]; 4],
    pub(crate) workers_4_8: [[f64; 2]; 4],
    pub(crate) workers_5_10: [[f64; 2]; 4],
    pub(crate) workers_6_12: [[f64; 2]; 4],
}

#[derive(Deserialize)]
pub(crate) struct Table4 {
    pub(crate) p100: [f64; 8],
    pub(crate) v100: [f64; 8],
}

#[derive(Deserialize)]
pub(crate) struct Table6 {
    pub(crate) alg2: [f64; 8],
    pub(crate) alg3: [f64; 8],
}

#[derive(Deserialize)]
pub(crate) struct Table7 {
    pub(crate) alg2_v100: [f64; 8],
    pub(crate) sa_p100: [f64; 8],
    pub(crate) sa_v100: [f64; 8],
}

#[derive(Deserialize)]
pub(crate) struct Fig6 {
    pub(crate) p100_cg: [f64; 8],
    pub(crate) p100_case: [f64; 8],
    pub(crate) v100_cg: [f64; 8],
    pub(crate) v100_case: [f64; 8],
}

#[derive(Deserialize)]
pub(crate) struct Text {
    pub(crate) darknet_over_schedgpu: BTreeMap<String, f64>,
    pub(crate) darknet_utilisation_percent: BTreeMap<String, f64>,
    pub(crate) darknet_128_over_sa: f64,
    pub(crate) alg3_over_alg2_throughput: f64,
    pub(crate) utilisation_w7_percent: Utilisation,
}

#[derive(Deserialize)]
pub(crate) struct Utilisation {
    pub(crate) sa: f64,
    pub(crate) case: f64,
}

#[derive(Deserialize)]
pub(crate) struct CaseMig {
    pub(crate) text: MigText,
}

#[derive(Deserialize)]
pub(crate) struct MigText {
    pub(crate) fig1: Gain,
    pub(crate) fig2: Gain,
    pub(crate) fig3: Gain,
    pub(crate) fig4_memory_utilisation_over_slurm: f64,
}

#[derive(Deserialize)]
pub(crate) struct Gain {
    pub(crate) throughput: f64,
    pub(crate) turnaround: f64,
}

/// Everything that the papers print.
pub(crate) fn paper() -> Paper {
    toml::from_str(include_str!("../data/paper-values.toml")).unwrap()
}
