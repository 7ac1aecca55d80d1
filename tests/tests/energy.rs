//! What jobs use of their GPUs' energy reaches Slurm's accounting.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::builder;
use lab::command::{PATIENCE, wait_for};
use lab::config::Templates;
use lab::{Builder, Cluster, JobId, User};

const SLURM: &str = "AcctGatherEnergyType=acct_gather_energy/tessera\n\
                     JobAcctGatherFrequency=task=1";

fn cluster() -> Builder {
    let mut templates = Templates::shipped().unwrap();
    templates.tessera.push_str("\n[power]\nenergy = true\n");
    templates.slurm = templates
        .slurm
        .replace("PrologFlags=Alloc", "PrologFlags=Alloc,Contain")
        .replace("JobAcctGatherType=jobacct_gather/none", "JobAcctGatherType=jobacct_gather/linux");
    builder().templates(templates).slurm_conf(SLURM)
}

/// Joules of a line of sacct or sstat, such as `1.23K`.
fn joules(text: &str) -> f64 {
    let (number, unit) = match text.trim().strip_suffix('K') {
        Some(number) => (number, 1000.0),
        None => (text.trim().trim_end_matches('M'), if text.trim().ends_with('M') { 1e6 } else { 1.0 }),
    };
    number.parse::<f64>().unwrap_or(0.0) * unit
}

/// What `sacct` says a job and its steps have used: the ends of their names, and joules.
fn accounted(cluster: &Cluster, job: JobId) -> Vec<(String, f64)> {
    let id = job.to_string();
    let args = ["-j", &id, "-n", "-P", "-o", "JobID,ConsumedEnergyRaw"];
    let said = cluster.run(User::Root, "sacct", &args).unwrap().ok().unwrap();
    let pair = |line: &str| {
        let (name, raw) = line.split_once('|')?;
        Some((name.strip_prefix(&id)?.to_owned(), joules(raw)))
    };
    said.lines().filter_map(pair).collect()
}

/// The energy counter of a GPU, J.
fn counter(cluster: &Cluster, node: &str, gpu: u32) -> f64 {
    let mut smi = cluster.command_on(node, User::Root, "tessera").unwrap();
    let said = lab::command::run(smi.args(["power", "status", "--json"])).unwrap().ok().unwrap();
    let all: serde_json::Value = serde_json::from_str(&said).unwrap();
    all["gpus"][gpu as usize]["counted_j"].as_f64().unwrap()
}

#[test]
fn sacct_shows_what_a_job_has_used_of_its_gpus() {
    let cluster = cluster().accounting().start().unwrap();
    let (before, options) = (counter(&cluster, "n1", 0), ["-w", "n1", "--gres=gpu:1"]);
    let job = cluster.sbatch(User::Alice, &options, "sleep 3\nsrun sleep 3\nsleep 2").unwrap();
    assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
    cluster.wait_idle().unwrap();
    let outside = counter(&cluster, "n1", 0) - before;
    let all = wait_for("sacct to have the job's energy", PATIENCE, || {
        let all = accounted(&cluster, job);
        if all.iter().any(|(name, used)| name.is_empty() && *used > 0.0) {
            Ok(all)
        } else {
            Err(format!("{all:?}"))
        }
    })
    .unwrap();
    let of = |end: &str| all.iter().find(|(name, _)| name == end).map(|(_, used)| *used).unwrap_or_default();
    eprintln!("outside {outside} J, sacct {all:?}");
    assert!(of("") > 0.0 && of("") <= outside + 1.0, "{outside} J outside: {all:?}");
    assert!((of("") - of(".extern")).abs() <= 1.0, "the job's own line is its extern step's: {all:?}");
    assert!(of(".0") > 0.0 && of(".0") < of(".batch"), "a step has its own part: {all:?}");
    assert!(of("") >= outside * 0.6, "most of it is the job's: {outside} J outside: {all:?}");
    // A job without GPUs uses none of it.
    let other = cluster.sbatch(User::Alice, &["-w", "n1"], "sleep 1").unwrap();
    cluster.wait_end(other).unwrap();
    cluster.wait_idle().unwrap();
    assert!(
        accounted(&cluster, other).iter().all(|(_, used)| *used == 0.0),
        "{:?}",
        accounted(&cluster, other)
    );
    cluster.assert_clean().unwrap();
}
