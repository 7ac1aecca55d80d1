//! GPUs that cannot be partitioned: whole sets by their links, and shares. Those that no table knows, once described.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK, LOOK_AND_STAY, looked, variable};
use error_chain::with_causes;
use lab::command::{PATIENCE, run, wait_for};
use lab::config::Templates;
use lab::nodes::DGX_1V;
use lab::{Cluster, User};
use serde_json::Value;

/// A node for inference, beside a DGX-1V.
const FOR_INFERENCE: &str = "\
[[nodes]]
names = \"n2\"
gpu = \"t4-16gb\"
count = 2
";

/// How many jobs of a shape `tessera free` shows.
fn could_start(cluster: &Cluster, shape: &str) -> usize {
    let mut free = cluster.command(User::Alice, "tessera").unwrap();
    let shown: Value =
        serde_json::from_str(&run(free.args(["free", "--json"])).unwrap().ok().unwrap()).unwrap();
    let row = shown["shapes"].as_array().unwrap().iter().find(|row| row["shape"] == shape);
    row.and_then(|row| row["now"].as_u64()?.try_into().ok()).unwrap_or_else(|| panic!("{shown}"))
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
    assert!(refused.stderr.contains("has no MIG; use --gpu-isolation=mps or whole"), "{}", refused.stderr);
}

#[test]
fn a_dgx1v_and_a_t4_serve_whole_gpus_and_shares() {
    let templates = Templates::for_nodes(&format!("{DGX_1V}{FOR_INFERENCE}")).unwrap();
    let mut cluster = common::builder().templates(templates).start().unwrap();
    common::on(&mut cluster, |cluster| serves_whole_gpus_and_shares(cluster));
}

/// What `discover` prints for a board with 45 GB that calls itself NVIDIA X1.
const TO_COMPLETE: &str = "\
[[models]]
key = \"x1-45gb\"
names = [\"NVIDIA X1\"]
memory_mib = 46068
# sms =        the number of multiprocessors, as deviceQuery prints it
";

const OF_X1: &str = "[[nodes]]\nnames = \"n2\"\ngpu = \"x1-45gb\"\ncount = 4\n";

#[test]
fn a_gpu_that_no_table_knows_is_left_to_slurm_until_its_block_is_complete() {
    let mut templates = Templates::shipped().unwrap();
    let begin = templates.tessera.find("[[nodes]]\nnames = \"n2\"").unwrap();
    templates.tessera.replace_range(begin.., &format!("{TO_COMPLETE}\n{OF_X1}interconnect = \"pcie\"\n"));
    templates.slurm = templates.slurm.replace("gpu:h100:4,shard:320", "gpu:x1:4,shard:180");
    templates.gres = templates
        .gres
        .replace("Type=h100", "Type=x1")
        .replace("n2 Name=shard Count=320", "n2 Name=shard Count=180");
    let cluster = common::builder().templates(templates).start().unwrap();

    let mut discover = cluster.command_on("n2", User::Root, "tessera").unwrap();
    let found = run(discover.args(["discover", "--format", "all"])).unwrap();
    assert_eq!(found.code, Some(1), "{}", found.stderr);
    for part in [TO_COMPLETE, OF_X1, "Gres=gpu:x1:4,shard:180 "] {
        assert!(found.stdout.contains(part), "{part}\n{}", found.stdout);
    }

    let saw = cluster.complete(User::Alice, &["-w", "n2", "--gres=gpu:1"], LOOK).unwrap();
    assert_eq!(variable(&saw, "CUDA_VISIBLE_DEVICES").as_deref(), Some("0"), "{saw}");
    let share = ["--gpu-isolation=mps", "--gpu-mem=3G", "-w", "n2"];
    let refused = cluster.try_sbatch(User::Alice, &share, LOOK).unwrap().refused().unwrap();
    assert!(refused.contains("[[models]] has no sms"), "{refused}");

    let path = cluster.layout().etc("tessera.toml");
    let complete = std::fs::read_to_string(&path).unwrap().replace("# sms =  ", "sms = 142 #");
    std::fs::write(&path, complete).unwrap();
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
    wait_for("the layout of n2", PATIENCE, || {
        let layouts = cluster.published_layouts().map_err(|e| with_causes(&e))?;
        let of_n2 = layouts.iter().any(|(node, line)| node == "n2" && line.starts_with("tessera gpu0"));
        if of_n2 { Ok(()) } else { Err(format!("{layouts:?}")) }
    })
    .unwrap();
    let saw = cluster.complete(User::Alice, &share, LOOK).unwrap();
    assert_eq!(variable(&saw, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT").as_deref(), Some("0=2862M"), "{saw}");
    let saw =
        cluster.complete(User::Alice, &["--gpu-isolation=whole", "--gpus-per-node=2", "-w", "n2"], LOOK);
    assert_eq!(saw.unwrap().matches("NVIDIA X1 (UUID").count(), 2);
    // n1 has run no job that lets the node close its devices.
    cluster.complete(User::Alice, &["--gpu-isolation=mig", "-w", "n1"], LOOK).unwrap();
    cluster.wait_idle().unwrap();
    wait_for("the nodes to be clean", PATIENCE, || cluster.assert_clean().map_err(|e| with_causes(&e)))
        .unwrap();
}
