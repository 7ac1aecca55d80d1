//! `[[limits]]` bind every way to a GPU.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use lab::config::Templates;
use lab::{Cluster, User};
use slurm_releases::Release;

/// In partition gpu only parts of GPUs; everything goes in partition open.
fn cluster(release: Release) -> Cluster {
    let mut templates = Templates::shipped().unwrap();
    let gpu = templates.slurm.lines().find(|line| line.starts_with("PartitionName=gpu")).unwrap().to_owned();
    let open = gpu.replace("PartitionName=gpu", "PartitionName=open").replace("Default=YES", "Default=NO");
    templates.slurm = templates.slurm.replace(&gpu, &format!("{gpu}\n{open}"));
    templates
        .tessera
        .push_str("\n[[limits]]\npartition = \"gpu\"\nisolation = [\"mig\", \"mps\"]\nmax_mem = \"20G\"\n");
    common::builder().templates(templates).slurm(release).start().unwrap()
}

#[test]
fn no_option_and_no_change_walks_round_a_limit() {
    Release::ALL.into_iter().for_each(nothing_walks_round_it);
}

fn nothing_walks_round_it(release: Release) {
    let cluster = cluster(release);
    for options in [
        &["--gres=gpu:1"][..],
        &["--gpus=1"],
        &["--gpus-per-node=1"],
        &["--ntasks=1", "--gpus-per-task=1"],
        &["--exclusive"],
        &["--gpu-isolation=none", "--gres=gpu:1"],
        &["--gres=shard:30"],
        &["--gpu-isolation=whole"],
        &["--gpu-mem=30G"],
    ] {
        let done = cluster.try_sbatch(User::Alice, options, "true").unwrap();
        let said = done.refused().unwrap();
        assert!(said.contains("partition gpu"), "{options:?}: {said}");
    }
    for options in [&["--gres=shard:10"][..], &["--gpu-mem=10G"], &["--gpu-isolation=mig"], &[]] {
        cluster.complete(User::Alice, options, "true").unwrap();
    }

    let job = cluster.sbatch(User::Alice, &["--hold", "-p", "open", "--gres=gpu:1"], "true").unwrap();
    let shares = cluster.sbatch(User::Alice, &["--hold", "-p", "open", "--gres=shard:10"], "true").unwrap();
    let update = |user, job: lab::JobId, what: &str| {
        cluster.run(user, "scontrol", &["update", &format!("JobId={job}"), what]).unwrap()
    };
    update(User::Alice, job, "Partition=gpu").refused().unwrap();
    assert_eq!(cluster.job(job).unwrap().get("Partition"), "open");
    update(User::Alice, shares, "Partition=gpu").ok().unwrap();
    assert_eq!(cluster.job(shares).unwrap().get("Partition"), "gpu");
    // Whoever runs the cluster may.
    update(User::Root, job, "Partition=gpu").ok().unwrap();
    for job in [job, shares] {
        cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    }
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}
