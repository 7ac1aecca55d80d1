//! GPUs that cannot be partitioned: whole sets by their links, and shares.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK, LOOK_AND_STAY, looked, variable};
use lab::command::run;
use lab::config::Templates;
use lab::nodes::DGX_1V;
use lab::{Cluster, User};

/// A node for inference, beside a DGX-1V.
const FOR_INFERENCE: &str = "\
[[nodes]]
names = \"n2\"
gpu = \"t4-16gb\"
count = 2
";

/// How many jobs of a shape `tessera free` shows.
fn could_start(cluster: &Cluster, shape: &str) -> usize {
    let shown = run(cluster.command(User::Alice, "tessera").unwrap().arg("free")).unwrap().ok().unwrap();
    let line = shown.lines().find_map(|line| line.strip_prefix(shape)).unwrap_or_else(|| panic!("{shown}"));
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn serves_whole_gpus_and_shares(cluster: &Cluster) {
    for (count, set) in [("2", "0,3"), ("3", "0,2,3"), ("4", "0,1,2,3")] {
        let job =
            cluster.sbatch(User::Alice, &[&format!("--gpus={count}"), "-w", "n1"], LOOK_AND_STAY).unwrap();
        let saw = looked(cluster, job);
        let gpus: Vec<String> = cluster.gpus_of(job).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(gpus.join(","), set);
        // n1 has 8 GPUs, and n2 has 2.
        assert_eq!(could_start(cluster, "1 GPU"), 10 - gpus.len());
        assert_eq!(saw.lines().filter(|l| l.contains("V100-SXM2-16GB")).count(), gpus.len(), "{saw}");
        cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
        cluster.wait_idle().unwrap();
    }

    // What needs no isolation shares a T4, and `auto` knows that there is no instance to be had.
    for options in [&["--gpu-isolation=mps", "--gpu-mem=3G"], &["--gpu-isolation=auto", "--gpu-mem=3G"]] {
        let saw = cluster.complete(User::Bob, &[options as &[&str], &["-w", "n2"]].concat(), LOOK).unwrap();
        assert_eq!(variable(&saw, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT").as_deref(), Some("0=2862M"), "{saw}");
    }

    let script = ["--gpu-isolation=mig:1g.5gb", "--wrap", "true"];
    let refused = cluster.run(User::Alice, "sbatch", &script).unwrap();
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("has no MIG; ask --gpu-isolation=mps or whole"), "{}", refused.stderr);
}

#[test]
fn a_dgx1v_and_a_t4_serve_whole_gpus_and_shares() {
    let templates = Templates::for_nodes(&format!("{DGX_1V}{FOR_INFERENCE}")).unwrap();
    let mut cluster = common::builder().templates(templates).start().unwrap();
    common::on(&mut cluster, |cluster| serves_whole_gpus_and_shares(cluster));
}
