//! A node whose gres.conf says AutoDetect keeps that line: slurmd finds whole GPUs while jobs have instances.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK_AND_STAY, builder, looked};
use lab::command::PATIENCE;
use lab::{Daemon, User};
use slurm_releases::Release;

/// Changes a line of a file that begins like this.
fn edit(path: &std::path::Path, change: impl Fn(&str) -> String) {
    let text = std::fs::read_to_string(path).unwrap();
    let text: String = text.lines().map(|line| change(line) + "\n").collect();
    std::fs::write(path, text).unwrap();
}

/// No new jobs run here: Slurm names its GPUs by `/dev/nvidia0` and so on, and a simulated node has its files elsewhere. Debian 12 has Slurm's own gpu_nvml.so in a package of its own, which the set-up unpacks.
#[test]
fn whole_gpus_are_found_while_jobs_have_instances_22_05() {
    let mut cluster = builder().slurm(Release::MACHINE).start().unwrap();
    let mig = ["-w", "n2", "--gpu-isolation=mig:2g.20gb"];
    let job = cluster.sbatch(User::Alice, &mig, LOOK_AND_STAY).unwrap();
    looked(&cluster, job);
    // 22.05 asks for the library by its name without a version.
    let library = |name: &str| cluster.layout().at("lib").join(name);
    std::os::unix::fs::symlink(library("libnvidia-ml.so.1"), library("libnvidia-ml.so")).unwrap();
    let real = lab::paths::real_parts().join("usr/lib/x86_64-linux-gnu/slurm-wlm");
    edit(&cluster.layout().etc("slurm.conf"), |line| match line.starts_with("PluginDir=") {
        true => format!("{line}:{}", real.display()),
        false => line.to_owned(),
    });
    edit(&cluster.layout().etc("gres.conf"), |line| match line.starts_with("NodeName=n2 Name=gpu") {
        true => "NodeName=n2 AutoDetect=nvml".to_owned(),
        false => line.to_owned(),
    });
    for daemon in [Daemon::Slurmctld, Daemon::Slurmd("n2".to_owned())] {
        cluster.stop(&daemon).unwrap();
        cluster.start(&daemon).unwrap();
    }
    cluster.wait_ready(PATIENCE).unwrap();
    let log = std::fs::read_to_string(cluster.layout().at("log/slurmd-n2.log")).unwrap();
    let shown = cluster.run(User::Root, "scontrol", &["show", "node", "n2"]).unwrap().ok().unwrap();
    assert!(shown.contains("gpu:h100:4") && !shown.contains("DRAIN"), "{shown}\n{log}");
    assert!(log.contains("4 GPU system device(s) detected") && !log.contains("nvidia-cap"), "{log}");
    assert!(cluster.output(job).contains("MIG 2g.20gb"));
}
