//! CASE's mixes W1 to W8 as real jobs on four V100: single assignment under Slurm alone, and GPU tasks, each of which may go to any of
//! the four GPUs; beside what `tessera lab simulate case` predicts for the same jobs on the GPUs of that node.

use std::thread;

use lab::config::Templates;
use lab::{Cluster, HarnessError, Slurm};
use slurm_releases::Release;

use super::Bench;
use super::batch::{Batch, Ran, Submission, as_on_a_node, compile, play, predict, row, simulate};
use super::table::{self, Row};
use crate::cluster::guardian;
use crate::command::{TaskError, at};
use crate::setup::Purpose;

/// The node. The papers' sixteen workers are its sixteen cores.
const NODE: &str = "[[nodes]]\nnames = \"g1\"\ngpu = \"v100-16gb\"\ncount = 4\n";
/// Names the node for the simulator.
const SIMULATED: [&str; 2] = ["--gpu", "v100-16gb,4"];
/// The mixes of each of two pairs of clusters that run side by side. Both take as long.
const MIXES: [[&str; 4]; 2] = [["W1", "W4", "W5", "W8"], ["W2", "W3", "W6", "W7"]];
/// Reference, in tables.
const SINGLE: &str = "single assignment";

/// Starts Slurm alone, or with Tessera.
fn cluster(bench: &Bench, slurm: &Slurm, stock: bool) -> Result<Cluster, TaskError> {
    let builder = Cluster::builder().slurm(slurm.clone()).templates(templates()?);
    let builder = builder.slurm_conf("MinJobAge=86400").guardian(guardian()?);
    let builder = if stock { builder.stock(true).simulated() } else { builder };
    let cluster = if bench.debug { builder } else { builder.release() }.start()?;
    compile(&cluster, !stock)?;
    Ok(cluster)
}

fn templates() -> Result<Templates, HarnessError> {
    let mut templates = Templates::for_nodes(NODE)?;
    templates.slurm = templates.slurm.replace("CPUs=64", "CPUs=16");
    templates.tessera = templates.tessera.replace("\n[mps]\n", "\n[tasks]\ngpus_per_job = 4\n\n[mps]\n");
    Ok(templates)
}

/// Runs all mixes.
pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>, TaskError> {
    let slurm = bench.which.set_up(Purpose::Tests)?;
    thread::scope(|scope| {
        let slurm = &slurm;
        let lanes = MIXES.map(|mixes| scope.spawn(move || lane(bench, slurm, &mixes)));
        let mut rows = Vec::new();
        for lane in lanes {
            rows.extend(lane.join().map_err(|_| TaskError::Other("a batch's thread panicked".to_owned()))??);
        }
        rows.sort_by(|one, other| one.case.cmp(&other.case));
        Ok(rows)
    })
}

/// Runs mixes one after another on two clusters of their own.
fn lane(bench: &Bench, slurm: &Slurm, mixes: &[&str]) -> Result<Vec<Row>, TaskError> {
    let (stock, ours) = (cluster(bench, slurm, true)?, cluster(bench, slurm, false)?);
    let mut rows = Vec::new();
    for mix in mixes {
        let new = of_mix(&stock, &ours, slurm.release, mix)?;
        // A run takes long: nothing is lost if a later one fails.
        eprint!("{}", table::text(&new, &table::load()));
        rows.extend(new);
    }
    Ok(rows)
}

/// Runs a mix on both clusters side by side: its jobs mostly sleep.
fn of_mix(stock: &Cluster, ours: &Cluster, release: Release, mix: &str) -> Result<Vec<Row>, TaskError> {
    let named = format!("rodinia:{mix}");
    let args = [&SIMULATED[..], &["--mix", &named]].concat();
    let jobs = simulate(ours, &[&args[..], &["--print-jobs"]].concat())?;
    let file = ours.layout().jobs().join("jobs.jsonl");
    at(&file, std::fs::write(&file, as_on_a_node(&jobs)))?;
    let file = file.display().to_string();
    let said = predict(ours, &[&SIMULATED[..], &["--jobs", &file]].concat(), "sa,tessera", "sa")?;
    let (base, own) = thread::scope(|scope| {
        let base = scope.spawn(|| batch(stock, "--gres=gpu:1", &jobs));
        let own = batch(ours, "--gpu-isolation=gpu-tasks:probes", &jobs);
        (base.join(), own)
    });
    let base = base.map_err(|_| TaskError::Other("a batch's thread panicked".to_owned()))??;
    let case = |way: &str| format!("{release}, {mix}, {way}");
    let makespan = format!("{}: makespan", case(SINGLE));
    let mut rows: Vec<Row> =
        row("case", makespan, "s", base.makespan(), said.makespans[0]).into_iter().collect();
    let batch = Batch { bench: "case", case: case("GPU tasks"), over: SINGLE };
    rows.extend(batch.rows(&own?, &base, &said));
    Ok(rows)
}

fn batch(cluster: &Cluster, option: &'static str, jobs: &str) -> Result<Ran, TaskError> {
    let options = |_| vec!["-t10", option];
    play(cluster, &Submission { partitions: &["gpu"], options: &options, prelude: "" }, jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_has_a_core_for_each_worker_and_a_pool_of_all_gpus() {
        let templates = templates().unwrap();
        assert!(templates.slurm.contains(" CPUs=16 "), "{}", templates.slurm);
        assert!(templates.tessera.contains("\n[tasks]\ngpus_per_job = 4\n"), "{}", templates.tessera);
    }
}
