//! CUDA programs in jobs, on the simulated driver: each sees what its job was given, and its memory ends where the job's does.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::process::Command;

use common::with;
use lab::command::{PATIENCE, run, wait_for};
use lab::{Cluster, JobId, User, paths};

/// Puts cuda-sim's test client where jobs find it: it does what its arguments say, and prints each result.
fn install_client(cluster: &Cluster) {
    let crate_dir = paths::workspace().join("crates/sim/cuda-sim");
    let program = cluster.layout().at("bin").join("cuda-client");
    let mut cc = Command::new("cc");
    cc.arg("-I").arg(crate_dir.join("include")).arg(crate_dir.join("tests/client.c")).arg("-pthread");
    cc.arg(cluster.layout().at("lib").join("libcuda.so.1")).arg("-o").arg(program);
    run(&mut cc).unwrap().ok().unwrap();
}

/// Waits until the job has printed `word`, and returns its output.
fn printed(cluster: &Cluster, job: JobId, word: &str) -> String {
    wait_for(&format!("job {job} to print {word}"), PATIENCE, || {
        let text = cluster.output(job);
        if text.contains(word) { Ok(text) } else { Err(text) }
    })
    .unwrap()
}

/// Memory in use on a node's GPUs, as the driver's tool shows it to root, MiB.
fn used(cluster: &Cluster, node: &str) -> Vec<u64> {
    let mut smi = cluster.command_on(node, User::Root, "nvidia-smi").unwrap();
    let done = run(smi.args(["--query-gpu=memory.used", "--format=csv,noheader,nounits"])).unwrap();
    done.ok().unwrap().lines().map(|line| line.trim().parse().unwrap()).collect()
}

#[test]
fn programs_get_what_their_jobs_have() {
    with(|cluster| {
        install_client(cluster);
        let idle = used(cluster, "n1");
        let mig =
            "sleep 600 | cuda-client init count device 0 context 0 alloc 3000000000 alloc 3000000000 wait";
        let options = ["--gpu-isolation=mig:1g.5gb", "-w", "n1"];
        let job = cluster.sbatch(User::Alice, &options, mig).unwrap();
        let text = printed(cluster, job, "waiting");
        assert!(text.contains("count: 0 1\n") && text.contains("MIG 1g.5gb\n"), "{text}");
        assert!(text.contains("alloc: 0\nalloc: 2\n"), "{text}");
        let held: u64 = used(cluster, "n1").iter().sum::<u64>() - idle.iter().sum::<u64>();
        // 3 GB in granules, and the context: 64 MiB and 3 MiB for each of 14 SMs.
        assert_eq!(held, 2862 + 106);
        cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap();
        cluster.wait_end(job).unwrap();
        wait_for("the memory to be free", PATIENCE, || {
            let now = used(cluster, "n1");
            if now == idle { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .unwrap();
    });
}

#[test]
fn a_share_ends_at_its_limit() {
    with(|cluster| {
        install_client(cluster);
        let script = "cuda-client init context 0 info alloc 2000000000 alloc 2000000000";
        let options = ["--gpu-isolation=mps", "--gpu-mem=3G", "-w", "n1"];
        let text = cluster.complete(User::Bob, &options, script).unwrap();
        assert!(text.contains("alloc: 0\nalloc: 2\n"), "{text}");
        let info = text.lines().find_map(|line| line.strip_prefix("info: 0 ")).unwrap();
        // 3 GB in MiB, rounded up, less the context of a client with 8 SMs. The total is the device's: a GPU, or an idle instance.
        assert!(["2804 40192", "2804 4864"].contains(&info), "the program sees what it can have: {info}");
    });
}

/// Device nodes decide, not variables.
#[test]
fn a_program_reaches_no_device_beyond_its_jobs() {
    with(|cluster| {
        install_client(cluster);
        let script = "env -u CUDA_VISIBLE_DEVICES cuda-client init count";
        let options = ["--gpu-isolation=whole", "--gpus-per-node=1", "-w", "n1"];
        let text = cluster.complete(User::Alice, &options, script).unwrap();
        assert!(text.contains("init: 0\ncount: 0 1\n"), "{text}");
        let text = cluster.complete(User::Alice, &["-w", "n1"], script).unwrap();
        assert!(text.contains("init: 100\ncount: 3 -1\n"), "{text}");
    });
}
