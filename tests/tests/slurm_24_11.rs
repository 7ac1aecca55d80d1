//! One job of each kind on Slurm 24.11, and the GPUs that stock Slurm 24.11 gives, compared with ours.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::processes::outlive_slurmd;
use common::{LOOK, LOOK_AND_STAY, looked, overrides, parts_of_whole_gpus, profiles, variable};
use lab::{Cluster, User};
use slurm_releases::Release;

fn pair(cluster: &Cluster) -> Vec<u32> {
    let job =
        cluster.sbatch(User::Alice, &["--gres=gpu:2", "-w", "n1"], "echo looked; exec sleep 600").unwrap();
    looked(cluster, job);
    let gpus = cluster.gpus_of(job).unwrap();
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    cluster.wait_idle().unwrap();
    gpus
}

#[test]
fn one_job_of_each_kind_and_a_linked_pair() {
    let stock = common::builder().slurm(Release::V24_11).stock(true).start().unwrap();
    let stock_pair = pair(&stock);
    drop(stock);

    let mut cluster = common::builder().slurm(Release::V24_11).start().unwrap();
    let our_pair = pair(&cluster);
    eprintln!("--gres=gpu:2 on DGX-1V links: stock 24.11.5 gives {stock_pair:?}, with Tessera {our_pair:?}");
    assert_eq!(cluster.links_within("n1", &stock_pair).unwrap(), 0, "{stock_pair:?}");
    assert_eq!(cluster.links_within("n1", &our_pair).unwrap(), 2, "{our_pair:?}");

    let saw = cluster.complete(User::Alice, &["--gpu-isolation=mig:2g.10gb", "-w", "n1"], LOOK).unwrap();
    assert_eq!(profiles(&saw), ["2g.10gb"], "{saw}");
    let saw =
        cluster.complete(User::Bob, &["--gpu-isolation=mps", "--gpu-mem=3G", "-w", "n1"], LOOK).unwrap();
    assert!(variable(&saw, "CUDA_MPS_PIPE_DIRECTORY").is_some(), "{saw}");
    let options = ["--gpu-isolation=whole", "--gpus-per-node=3", "-w", "n1"];
    let job = cluster.sbatch(User::Alice, &options, LOOK_AND_STAY).unwrap();
    looked(&cluster, job);
    let gpus = cluster.gpus_of(job).unwrap();
    assert_eq!(cluster.links_within("n1", &gpus).unwrap(), 5, "{gpus:?}");
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    cluster.wait_idle().unwrap();

    overrides(&cluster);
    parts_of_whole_gpus(&cluster);
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
    outlive_slurmd(&mut cluster);
}
