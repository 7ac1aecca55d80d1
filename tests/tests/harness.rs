//! The harness itself, on Slurm alone.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use lab::command::{PATIENCE, wait_for};
use lab::config::{Templates, foreign_paths};
use lab::{Cluster, Daemon, User};
use slurm_releases::Release;

/// Asks for GPUs as plain Slurm does, on the DGX-1V node.
fn gpus(cluster: &Cluster, count: u32) -> String {
    let gres = format!("--gres=gpu:{count}");
    let script = "echo $CUDA_VISIBLE_DEVICES";
    cluster.complete(User::Alice, &["-w", "n1", &gres], script).unwrap().trim().to_owned()
}

#[test]
fn stock_22_05_picks_the_sets_measured_before() {
    let mut cluster = common::builder().slurm(Release::V22_05).stock(true).start().unwrap();
    assert_eq!(gpus(&cluster, 2), "0,3");
    assert_eq!(gpus(&cluster, 3), "0,3,4");
    assert_eq!(gpus(&cluster, 4), "0,1,3,4");

    let jobs = cluster.layout().jobs();
    assert!(jobs.is_dir());
    let processes: Vec<_> = [Daemon::Munged, Daemon::Slurmctld, Daemon::Slurmd("n1".to_owned())]
        .iter()
        .map(|daemon| cluster.process(daemon).unwrap())
        .collect();
    cluster.down();
    assert!(processes.iter().all(|process| !process.is_alive()), "{processes:?}");
    assert!(!jobs.exists());
}

#[test]
fn stock_24_11_picks_the_worst_linked_pair() {
    let cluster = common::builder().slurm(Release::V24_11).stock(true).start().unwrap();
    assert_eq!(gpus(&cluster, 2), "0,5");
}

#[test]
fn a_killed_slurmd_comes_back() {
    let mut cluster = common::builder().stock(true).start().unwrap();
    let daemon = Daemon::Slurmd("n2".to_owned());
    cluster.kill9(&daemon).unwrap();
    assert!(cluster.process(&daemon).is_none());
    cluster.start(&daemon).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    let done = cluster.complete(User::Bob, &["-w", "n2"], "id -un").unwrap();
    assert_eq!(done.trim(), "tessera-bob");
}

#[test]
fn the_guardian_ends_a_cluster_whose_starter_is_gone() {
    let mut cluster = common::builder().stock(true).start().unwrap();
    let slurmctld = cluster.process(&Daemon::Slurmctld).unwrap();
    cluster.abandon();
    wait_for("slurmctld to be ended", PATIENCE, || {
        cluster.reap();
        if slurmctld.is_alive() { Err("alive".to_owned()) } else { Ok(()) }
    })
    .unwrap();
}

#[test]
fn only_places_differ_from_the_shipped_files() {
    let cluster = common::builder().stock(true).lay_out().unwrap();
    let shipped = Templates::shipped().unwrap();
    let written = std::fs::read_to_string(cluster.layout().etc("slurm.conf")).unwrap();
    assert_eq!(foreign_paths(&written, cluster.layout().dir()), Vec::<String>::new());
    let keys = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        lines.map(|line| line.split('=').next().unwrap().to_owned()).collect()
    };
    let mut wanted = keys(&shipped.slurm);
    wanted.retain(|key| key != "JobSubmitPlugins" && !key.starts_with("HealthCheck"));
    // Only the simulated driver needs a variable in every task.
    wanted.push("TaskProlog".to_owned());
    wanted.extend(keys(common::STALLS));
    assert_eq!(keys(&written), wanted);
}
