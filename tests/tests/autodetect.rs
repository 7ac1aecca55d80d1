//! A gres.conf with `AutoDetect` keeps it: slurmd finds whole GPUs, also while jobs have instances of them.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK_AND_STAY, builder, looked, release};
use lab::command::{PATIENCE, run, wait_for};
use lab::config::Templates;
use lab::{Cluster, Daemon, User};
use protocol::Standing;

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
    builder().autodetect().templates(templates).start().unwrap()
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

/// Gives the lines about GPUs of a slurmd that looks for those of n1 now, with this `tessera.toml`.
fn found_by_slurmd(cluster: &Cluster, tessera_toml: &str) -> Vec<String> {
    let layout = cluster.layout();
    let dir = layout.at("other");
    std::fs::create_dir_all(&dir).unwrap();
    for name in ["slurm.conf", "gres.conf", "cgroup.conf"] {
        std::fs::copy(layout.etc(name), dir.join(name)).unwrap();
    }
    std::fs::write(dir.join("tessera.toml"), tessera_toml).unwrap();
    let mut slurmd = cluster.slurmd("n1", &["-G"]);
    slurmd.env("SLURM_CONF", dir.join("slurm.conf")).env_remove("TESSERA_CONF");
    let done = run(&mut slurmd).unwrap();
    let lines = done.stdout.lines().chain(done.stderr.lines());
    lines.filter(|line| line.contains("Name=gpu") || line.contains("fatal")).map(str::to_owned).collect()
}

/// GPUs that Tessera does not manage keep the administrator's own instances. n1 has two, and no GPU in MIG mode without any. Slurm takes
/// as many GPUs and instances as slurm.conf says, so not always both.
fn unmanaged_gpus_show_their_instances(cluster: &Cluster) {
    let set = |name: &str, uses: &str| {
        format!("[[nodes]]\nnames = \"{name}\"\ngpu = \"a100-40gb\"\ncount = 8\n{uses}")
    };
    let all_to_slurm = "gpu_use = { \"0-7\" = \"slurm\" }\n";
    for (file, shows) in [(set("n1", ""), false), (set("n1", all_to_slurm), true), (set("n9", ""), true)] {
        let found = found_by_slurmd(cluster, &file);
        let instances = found.iter().filter(|line| line.contains("/dev/nvidia-caps/")).count();
        let right = if shows { instances > 0 } else { instances == 0 && found.len() == 8 };
        assert!(right, "{file}{found:#?}");
    }
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
        let goes_on = log.contains("gpu plugin: no gpu_nvml.so other than this plugin in PluginDir=");
        let right = match way {
            "nvml" => hides && !goes_on,
            // Debian packages no gpu_nvml.so for a Slurm that has this: it goes on to `nvidia`.
            "full" => hides != goes_on,
            _ => !hides && !goes_on,
        };
        assert!(right, "{way}: {log}");
        assert!(!log.contains("MIG mode is enabled") && !log.contains("being ignored"), "{way}: {log}");
    }

    let mut smi = cluster.command_on("n1", User::Root, "nvidia-smi").unwrap();
    run(smi.args(["-i", "7", "-mig", "0"])).unwrap().ok().unwrap();
    if ways()[0] == "nvml" {
        unmanaged_gpus_show_their_instances(&cluster);
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

/// A slurmd that has found its GPUs with Slurm's own plugin would lose those that are cut later: no job with a request of Tessera's starts
/// there.
fn without_the_plugin(mut cluster: Cluster) {
    if ways()[0] != "nvml" {
        return;
    }
    std::fs::remove_file(cluster.layout().at("plugins/gpu_nvml.so")).unwrap();
    let doctor = |cluster: &Cluster| {
        let mut doctor = cluster.command_on("n1", User::Root, "tessera").unwrap();
        run(doctor.arg("doctor")).unwrap().stdout
    };
    let said = doctor(&cluster);
    assert!(said.contains("n1: gres.conf has AutoDetect, but PluginDir"), "{said}");
    restart(&mut cluster, "n1");
    let detects = || {
        let all = cluster.standings().map_err(|e| format!("{e:?}"))?;
        if all.contains(&("n1".to_owned(), Standing::Detects)) { Ok(()) } else { Err(format!("{all:?}")) }
    };
    wait_for("n1 to say that it takes instances for GPUs", PATIENCE, detects).unwrap();
    let said = doctor(&cluster);
    assert!(said.contains("the slurmd of node n1 takes MIG instances for GPUs"), "{said}");
}
