//! `[[limits]]` bind every way to a GPU, at submission, at a change, and when a job could start.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use lab::command::{PATIENCE, wait_for};
use lab::config::Templates;
use lab::{Cluster, User};
use protocol::CommentBody;

/// In partition gpu only parts of GPUs; everything goes in partition open.
fn cluster() -> Cluster {
    let mut templates = Templates::shipped().unwrap();
    let gpu = templates.slurm.lines().find(|line| line.starts_with("PartitionName=gpu")).unwrap().to_owned();
    let open = gpu.replace("PartitionName=gpu", "PartitionName=open").replace("Default=YES", "Default=NO");
    templates.slurm = templates.slurm.replace(&gpu, &format!("{gpu}\n{open}"));
    templates
        .tessera
        .push_str("\n[[limits]]\npartition = \"gpu\"\nisolation = [\"mig\", \"mps\"]\nmax_mem = \"20G\"\n");
    common::builder().templates(templates).start().unwrap()
}

#[test]
fn no_option_and_no_change_walks_round_a_limit() {
    let cluster = cluster();
    for options in [
        &["--gres=gpu:1"][..],
        &["--gpus=1"],
        &["--gpus-per-node=1"],
        &["--ntasks=1", "--gpus-per-task=1"],
        &["--exclusive"],
        &["--gpu-isolation=none", "--gres=gpu:1"],
        &["--gres=shard:30"],
        &["--ntasks=2", "--ntasks-per-gpu=1"],
        &["--gpu-isolation=whole"],
        &["--gpu-mem=30G"],
    ] {
        let done = cluster.try_sbatch(User::Alice, options, "true").unwrap();
        let said = done.refused().unwrap();
        assert!(said.contains("partition gpu"), "{options:?}: {said}");
    }
    for options in
        [&["--gres=shard:10"][..], &["--gpu-mem=10G"], &["--gpu-isolation=mig"], &["--gres=gpu:0"], &[]]
    {
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
    // Whoever runs the cluster may; the job then waits until the limit allows it, and says so.
    update(User::Root, job, "Partition=gpu").ok().unwrap();
    for job in [job, shares] {
        cluster.run(User::Root, "scontrol", &["release", &job.to_string()]).unwrap().ok().unwrap();
    }
    assert_eq!(cluster.wait_end(shares).unwrap().state(), "COMPLETED");
    wait_for("the job to say why it waits", PATIENCE, || match common::admin_comment(&cluster, job).says {
        CommentBody::Limited(why) if why.starts_with("--gres=gpu:1 asks for whole GPUs") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .unwrap();
    assert_eq!(cluster.job(job).unwrap().state(), "PENDING");
    let file = cluster.layout().etc("tessera.toml");
    let limited = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, limited.split("[[limits]]").next().unwrap()).unwrap();
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
    assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}

#[test]
fn shards_counted_per_task_are_neither_whole_gpus_nor_fewer_than_promised() {
    let cluster = cluster();
    for partition in ["gpu", "open"] {
        let job = cluster.sbatch(User::Alice, &["--hold", "-p", partition, "-N1", "-n1"], "true").unwrap();
        for list in ["TresPerTask=gres:shard:10", "TresPerTask=gres/shard:10", "TresPerJob=gres:shard:10"] {
            let done =
                cluster.run(User::Alice, "scontrol", &["update", &format!("JobId={job}"), list]).unwrap();
            done.refused().unwrap();
        }
        cluster.run(User::Alice, "scontrol", &["release", &job.to_string()]).unwrap().ok().unwrap();
        assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
        let job = cluster.job(job).unwrap();
        assert!(!job.get("Licenses").contains("slice"), "it has GPUs");
    }
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}
