//! Preemption ends the fewest and least important jobs that make room.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use lab::{Cluster, JobId, User};

/// Jobs of `gpu` make way for those of `urgent`.
const PARTITIONS: &str = "PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\n\
    PartitionName=urgent Nodes=n2 PriorityTier=2 PreemptMode=OFF\n";

const STAY: &str = "exec sleep 600";

/// Starts jobs on n2 in this order, and waits until all run. Their prologs run side by side.
fn fill(cluster: &Cluster, jobs: &[(&str, usize)]) -> Vec<JobId> {
    let mut started = Vec::new();
    for (isolation, n) in jobs {
        for _ in 0..*n {
            let isolation = format!("--gpu-isolation={isolation}");
            let options = ["-p", "gpu", "-w", "n2", "--mem=10", &isolation];
            started.push(cluster.sbatch(User::Bob, &options, STAY).unwrap());
        }
    }
    for job in &started {
        cluster.wait_running(*job).unwrap();
    }
    started
}

/// The jobs that went for an urgent one with these options; then everything ends.
fn victims(cluster: &Cluster, low: &[JobId], options: &[&str]) -> Vec<JobId> {
    let options = [&["-p", "urgent", "-w", "n2", "--mem=10"], options].concat();
    let job = cluster.sbatch(User::Alice, &options, STAY).unwrap();
    cluster.wait_running(job).unwrap();
    let gone = low.iter().copied().filter(|id| cluster.job(*id).unwrap().state() != "RUNNING").collect();
    for user in [User::Alice, User::Bob] {
        cluster.run(User::Root, "scancel", &["-u", user.name()]).unwrap();
    }
    cluster.wait_idle().unwrap();
    gone
}

#[test]
fn the_fewest_jobs_that_make_room_go() {
    let cluster = common::builder().slurm_conf(PARTITIONS).start().unwrap();
    // Slurm takes the oldest first, of jobs of one partition. Three of these make room together, the youngest alone.
    let low = fill(&cluster, &[("mig:2g.20gb", 9), ("mig:7g.80gb", 1)]);
    let gone = victims(&cluster, &low, &["--gpu-isolation=mig:7g.80gb"]);
    eprintln!("{} victims for a 7g.80gb, 1 is least", gone.len());
    assert_eq!(gone, [low[9]]);

    // Two GPUs with three jobs each, two with two each, which are the younger ones.
    for options in [&["--gpu-isolation=whole", "--gpus-per-node=2"][..], &["--gres=gpu:2"]] {
        let low = fill(&cluster, &[("mig:2g.20gb", 6), ("mig:3g.40gb", 4)]);
        let gone = victims(&cluster, &low, options);
        eprintln!("{} victims for two whole GPUs, 4 are least", gone.len());
        assert_eq!(gone, low[6..]);
    }

    // Of equals, the least important goes.
    let low = fill(&cluster, &[("mig:7g.80gb", 4)]);
    let gone = victims(&cluster, &low, &["--gpu-isolation=mig:3g.40gb"]);
    assert_eq!(gone, low[..1]);
    whichever_component_has_the_gpus_the_job_goes(&cluster);
    assert_eq!(cluster.leftovers().unwrap(), [""; 0]);
}

/// Slurm lists a heterogeneous job by its first component.
fn whichever_component_has_the_gpus_the_job_goes(cluster: &Cluster) {
    let instances = &["--gpu-isolation=mig:7g.80gb", "--gpu-instances=4"][..];
    let whole = &["--gpu-isolation=whole", "--gpus-per-node=4"][..];
    for (has, wants) in [(instances, "--gpu-isolation=mig:7g.80gb"), (whole, "--gres=gpu:1")] {
        let first = ["-p", "gpu", "-w", "n1", "--mem=10"];
        let options = [&first[..], &[":", "-p", "gpu", "-w", "n2", "--mem=10"], has].concat();
        let low = cluster.sbatch(User::Bob, &options, STAY).unwrap();
        cluster.wait_running(low).unwrap();
        assert_eq!(victims(cluster, &[low], &[wants]), [low]);
    }
}
