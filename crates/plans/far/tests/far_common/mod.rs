//! Reads the carried instances of `tests/data/far`.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

use std::collections::BTreeMap;
use std::path::Path;

use far::{Micros, Problem, Task};
use geometry::Model;
use serde::Deserialize;

/// One instance as the data file has it.
#[derive(Deserialize)]
pub struct Instance {
    pub id: String,
    pub gpu: String,
    pub t: Vec<Vec<f64>>,
}

/// One line of a reference file; which fields are there depends on the file.
#[derive(Deserialize, Clone, Default)]
#[serde(default)]
pub struct Reference {
    pub id: String,
    pub base: f64,
    pub p12_replay: f64,
    pub sw_replay: f64,
    pub opt0: f64,
    #[serde(rename = "optT")]
    pub opt_t: f64,
    #[serde(rename = "optT_exact")]
    pub opt_t_exact: bool,
    pub lb: f64,
    pub far_alg2_replay: f64,
}

pub fn micros(seconds: f64) -> Micros {
    (seconds * 1e6).round() as Micros
}

pub fn seconds(micros: Micros) -> f64 {
    micros as f64 / 1e6
}

pub fn read<T: for<'a> Deserialize<'a>>(name: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/far/tests/data/far").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

pub fn references(name: &str) -> BTreeMap<String, Reference> {
    read::<Reference>(name).into_iter().map(|r| (r.id.clone(), r)).collect()
}

/// The cell of an instance: its id without the running number.
pub fn cell(id: &str) -> &str {
    id.rsplit_once('-').unwrap().0
}

impl Instance {
    pub fn problem(&self) -> Problem {
        let key = if self.gpu == "A30" { "a30-24gb" } else { "a100-40gb" };
        let task = |t: &Vec<f64>| Task { times: t.iter().map(|&s| Some(micros(s))).collect() };
        Problem::new(Model::find(key).unwrap(), 1, self.t.iter().map(task).collect()).unwrap()
    }
}
