//! A GPU falls off the bus: its node takes no jobs with GPUs until the GPU is back, and requeues no job twice.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::PathBuf;

use common::{builder, start_now};
use lab::command::{PATIENCE, wait_for};
use lab::{Cluster, JobId, User};

const PLAIN: [&str; 3] = ["-w", "n1", "--gres=gpu:1"];

/// What the kernel's driver says of n1's GPU 0, and where it is while the GPU is away.
fn proc_entry(cluster: &Cluster) -> (PathBuf, PathBuf) {
    let node = cluster.layout().node("n1");
    let mut gpus: Vec<PathBuf> = std::fs::read_dir(node.join("proc/driver/nvidia/gpus"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    gpus.sort();
    (gpus[0].clone(), node.join("gpu-away"))
}

fn shown(cluster: &Cluster) -> String {
    let layouts = cluster.published_layouts().unwrap();
    layouts.into_iter().find(|(node, _)| node == "n1").map(|(_, line)| line).unwrap_or_default()
}

fn becomes_unfit(cluster: &Cluster, why: &str) {
    wait_for("n1 to say why it is unfit", PATIENCE, || {
        let line = shown(cluster);
        if line.starts_with("tessera unfit: ") && line.contains(why) { Ok(()) } else { Err(line) }
    })
    .unwrap();
}

fn is_fit_again(cluster: &Cluster) {
    cluster.health_check("n1").unwrap();
    wait_for("n1 to take jobs with GPUs", PATIENCE, || {
        let line = shown(cluster);
        if line.starts_with("tessera gpu0") { Ok(()) } else { Err(line) }
    })
    .unwrap();
}

/// A job that finds the node unfit: it is requeued once.
fn requeued(cluster: &Cluster, why: &str) -> JobId {
    let job = cluster.sbatch(User::Alice, &PLAIN, "echo ran").unwrap();
    becomes_unfit(cluster, why);
    cluster
        .wait_job(job, "to be requeued", |job| job.state() == "PENDING" && job.get("Restarts") == "1")
        .unwrap();
    job
}

/// Jobs with GPUs stay away from n1; all others go there.
fn sends_gpu_jobs_elsewhere(cluster: &Cluster) {
    let waits = cluster.sbatch(User::Bob, &PLAIN, "echo ran").unwrap();
    let free = cluster.complete(User::Bob, &["--gres=gpu:1"], "echo on=$SLURMD_NODENAME").unwrap();
    assert!(free.contains("on=n2"), "{free}");
    assert!(cluster.complete(User::Bob, &["-w", "n1"], "echo ran").unwrap().contains("ran"));
    let now = cluster.job(waits).unwrap();
    assert_eq!((now.state(), now.get("Restarts")), ("PENDING", "0"), "{now:?}");
    cluster.run(User::Root, "scancel", &[&waits.to_string()]).unwrap().ok().unwrap();
}

fn runs_now(cluster: &Cluster, job: JobId) {
    start_now(cluster, job);
    assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
    assert!(cluster.output(job).contains("ran"));
}

#[test]
fn a_node_without_one_of_its_gpus_takes_no_gpu_jobs_until_it_is_back() {
    let cluster = builder().start().unwrap();
    let (entry, away) = proc_entry(&cluster);
    let hide = ["add", "--gpu", "0", "--kind", "hidden"];
    cluster.complete(User::Alice, &PLAIN, "true").unwrap();

    // The driver was loaded without it.
    cluster.fault("n1", &hide).unwrap();
    std::fs::rename(&entry, &away).unwrap();
    let job = requeued(&cluster, "the driver shows no GPU with minor number 0");
    sends_gpu_jobs_elsewhere(&cluster);
    cluster.health_check("n1").unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    becomes_unfit(&cluster, "the driver shows no GPU with minor number 0");
    cluster.fault("n1", &["clear"]).unwrap();
    std::fs::rename(&away, &entry).unwrap();
    is_fit_again(&cluster);
    runs_now(&cluster, job);

    // NVML alone does not list it.
    cluster.fault("n1", &hide).unwrap();
    let job = requeued(&cluster, "tessera.toml describes 8 GPUs, the driver shows 7");
    sends_gpu_jobs_elsewhere(&cluster);
    cluster.fault("n1", &["clear"]).unwrap();
    is_fit_again(&cluster);
    runs_now(&cluster, job);

    // The health check finds it before any job comes.
    cluster.fault("n1", &hide).unwrap();
    std::fs::rename(&entry, &away).unwrap();
    cluster.health_check("n1").unwrap();
    becomes_unfit(&cluster, "the driver shows no GPU with minor number 0");
    let waits = cluster.sbatch(User::Bob, &PLAIN, "echo ran").unwrap();
    cluster.fault("n1", &["clear"]).unwrap();
    std::fs::rename(&away, &entry).unwrap();
    is_fit_again(&cluster);
    assert_eq!(cluster.wait_end(waits).unwrap().state(), "COMPLETED");
    assert_eq!(cluster.job(waits).unwrap().get("Restarts"), "0");
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}
