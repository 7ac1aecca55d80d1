//! `RestrictedCoresPerGPU` (Slurm 24.11): cores that only jobs with a certain GPU may use.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK, LOOK_AND_STAY, looked, profiles};
use lab::config::Templates;
use lab::{Cluster, User};
use slurm_releases::Release;

/// The GPUs and the cores of a running job.
fn has(cluster: &Cluster, options: &[&str]) -> (Vec<u32>, String) {
    let job = cluster.sbatch(User::Alice, &[options, &["-w", "n1"]].concat(), LOOK_AND_STAY).unwrap();
    looked(cluster, job);
    let shown = cluster.run(User::Root, "scontrol", &["-d", "-o", "show", "job", &job.to_string()]).unwrap();
    let cores = shown.stdout.split("CPU_IDs=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("");
    (cluster.gpus_of(job).unwrap(), cores.to_owned())
}

#[test]
fn a_gpu_comes_with_its_cores_24_11() {
    let mut templates = Templates::shipped().unwrap();
    templates.slurm = templates.slurm.replace(
        "CPUs=64 RealMemory=64000 Gres=gpu:a100",
        "CPUs=64 RestrictedCoresPerGPU=2 RealMemory=64000 Gres=gpu:a100",
    );
    assert!(templates.slurm.contains("RestrictedCores"));
    let start = |stock| {
        let builder = common::builder().slurm(Release::V24_11).stock(stock);
        builder.templates(templates.clone()).start().unwrap()
    };
    let jobs: [&[&str]; 3] = [&["--gres=gpu:2"], &["--gres=gpu:1"], &["--gres=gpu:1", "-c4"]];
    let stock = start(true);
    let slurms: Vec<_> = jobs.iter().map(|options| has(&stock, options)).collect();
    drop(stock);
    let cluster = start(false);
    let ours: Vec<_> = jobs.iter().map(|options| has(&cluster, options)).collect();
    eprintln!("stock {slurms:?}\nours {ours:?}");
    assert_eq!(ours, slurms, "Slurm's own choice stands: another GPU would come without its cores");
    let saw = cluster.complete(User::Bob, &["--gpu-isolation=mig:1g.5gb", "-w", "n1"], LOOK).unwrap();
    assert_eq!(profiles(&saw), ["1g.5gb"], "{saw}");
    let saw = cluster.complete(User::Bob, &["--gpu-isolation=whole", "-w", "n1"], LOOK).unwrap();
    assert!(saw.contains("looked"), "{saw}");
    cluster.run(User::Root, "scancel", &["-u", User::Alice.name()]).unwrap();
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}
