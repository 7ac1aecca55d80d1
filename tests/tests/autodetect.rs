//! A gres.conf with `AutoDetect` keeps it: slurmd finds whole GPUs, also while jobs have instances of them.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{AT_ONCE, LOOK_AND_STAY, builder, looked, release};
use lab::command::{PATIENCE, run, wait_for};
use lab::config::Templates;
use lab::{Cluster, Daemon, User};

/// Gives the ways in which n1 and n2 find their GPUs.
fn ways() -> [&'static str; 2] {
    match release().series {
        "22.05" => ["nvml", "nvml"],
        "24.11" => ["nvml", "nvidia"],
        _ => ["full", "nvidia"],
    }
}

fn started() -> Cluster {
    let mut templates = Templates::shipped().unwrap();
    let lines =
        |(node, way)| format!("NodeName={node} AutoDetect={way}\nNodeName={node} Name=shard Count=320\n");
    templates.gres = ["n1", "n2"].into_iter().zip(ways()).map(lines).collect();
    builder().autodetect().slurm_conf(AT_ONCE).templates(templates).start().unwrap()
}

fn restart(cluster: &mut Cluster, node: &str) {
    let slurmd = Daemon::Slurmd(node.to_owned());
    cluster.stop(&slurmd).unwrap();
    cluster.start(&slurmd).unwrap();
}

/// Gives what slurmctld shows of a node.
fn shown(cluster: &Cluster, node: &str) -> String {
    cluster.run(User::Root, "scontrol", &["show", "node", node]).unwrap().ok().unwrap()
}

fn log(cluster: &Cluster, node: &str) -> String {
    std::fs::read_to_string(cluster.layout().log(&format!("slurmd-{node}"))).unwrap()
}

#[test]
fn slurmd_finds_whole_gpus_while_they_are_cut() {
    let mut cluster = started();
    let stay = |node: &str, profile: &str| {
        let isolation = format!("--gpu-isolation=mig:{profile}");
        let job = cluster.sbatch(User::Alice, &["-w", node, &isolation], LOOK_AND_STAY).unwrap();
        let saw = looked(&cluster, job);
        assert!(saw.contains(&format!("MIG {profile}")), "{saw}");
        job
    };
    let jobs = [stay("n1", "2g.10gb"), stay("n2", "2g.20gb")];
    // An instance that no job has any more, and MIG mode without one.
    cluster.complete(User::Alice, &["-w", "n1", "--gpu-isolation=mig:3g.20gb"], "true").unwrap();
    let mut smi = cluster.command_on("n1", User::Root, "nvidia-smi").unwrap();
    run(smi.args(["-i", "7", "-mig", "1"])).unwrap().ok().unwrap();

    let before = ["n1", "n2"].map(|node| log(&cluster, node).len());
    ["n1", "n2"].into_iter().for_each(|node| restart(&mut cluster, node));
    cluster.wait_ready(PATIENCE).unwrap();
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    cluster.wait_spoken(PATIENCE).unwrap();
    for (node, gres) in [("n1", "Gres=gpu:a100:8"), ("n2", "Gres=gpu:h100:4")] {
        let shown = shown(&cluster, node);
        assert!(shown.contains(gres) && !shown.contains("DRAIN") && !shown.contains("Reason="), "{shown}");
    }
    let logs =
        [("n1", before[0]), ("n2", before[1])].map(|(node, old)| log(&cluster, node)[old..].to_owned());
    for (log, way) in logs.iter().zip(ways()) {
        let hides = log.contains("slurmd sees whole GPUs");
        let goes_on =
            log.contains("no GPUs are found by NVML: no gpu_nvml.so other than this plugin in PluginDir=");
        assert_eq!((hides, goes_on), (way == "nvml", way == "full"), "{way}: {log}");
        assert!(!log.contains("MIG mode is enabled") && !log.contains("being ignored"), "{way}: {log}");
    }

    // Jobs kept what they had, and the next ones get instances and whole GPUs.
    for job in jobs {
        assert_eq!(cluster.job(job).unwrap().state(), "RUNNING");
        cluster.run(User::Alice, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    }
    for node in ["n1", "n2"] {
        let saw = cluster.complete(User::Bob, &["-w", node, "--gpu-isolation=mig"], "nvidia-smi -L").unwrap();
        assert!(saw.contains("MIG 1g."), "{saw}");
        let saw =
            cluster.complete(User::Bob, &["-w", node, "--gpu-isolation=whole"], "nvidia-smi -L").unwrap();
        assert!(saw.contains("GPU 0: ") && !saw.contains("MIG"), "{saw}");
    }
    let mut doctor = cluster.command_on("n1", User::Root, "tessera").unwrap();
    let said = run(doctor.arg("doctor")).unwrap();
    assert!(!said.stdout.contains("AutoDetect"), "{}", said.stdout);
    without_the_plugin(cluster);
}

/// Shows what the plugin is for: Slurm's own counts instances, and no GPU that is in MIG mode without any.
fn without_the_plugin(mut cluster: Cluster) {
    if ways()[0] != "nvml" {
        return;
    }
    std::fs::remove_file(cluster.layout().at("plugins/gpu_nvml.so")).unwrap();
    let mut doctor = cluster.command_on("n1", User::Root, "tessera").unwrap();
    let said = run(doctor.arg("doctor")).unwrap();
    assert!(said.stdout.contains("n1: gres.conf has AutoDetect, but PluginDir"), "{}", said.stdout);
    let slurmd = Daemon::Slurmd("n1".to_owned());
    cluster.stop(&slurmd).unwrap();
    cluster.start(&slurmd).unwrap();
    wait_for("n1 to be drained or without slurmd", PATIENCE, || {
        cluster.reap();
        let ended = cluster.process(&slurmd).is_none();
        let shown = shown(&cluster, "n1");
        if ended || shown.contains("gres/gpu count reported lower") { Ok(()) } else { Err(shown) }
    })
    .unwrap();
}
