//! The steps of docs/uninstall.md, with jobs running, and back again.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::os::unix::fs::MetadataExt as _;

use common::{LOOK, LOOK_AND_STAY, builder, instances, looked, profiles};
use error_chain::with_causes;
use lab::command::{Done, PATIENCE, run, wait_for};
use lab::{Cluster, Daemon, User};

/// Rewrites a file of Slurm's.
fn edit(cluster: &Cluster, name: &str, change: impl Fn(String) -> String) {
    let path = cluster.layout().etc(name);
    std::fs::write(&path, change(std::fs::read_to_string(&path).unwrap())).unwrap();
}

/// Restarts the daemons as a site does: slurmctld saves its state first.
fn restart(cluster: &mut Cluster) {
    cluster.run(User::Root, "scontrol", &["shutdown", "slurmctld"]).unwrap().ok().unwrap();
    wait_for("slurmctld to end", PATIENCE, || {
        cluster.reap();
        if cluster.process(&Daemon::Slurmctld).is_none() { Ok(()) } else { Err("it runs".to_owned()) }
    })
    .unwrap();
    for node in ["n1", "n2"] {
        let slurmd = Daemon::Slurmd(node.to_owned());
        cluster.stop(&slurmd).unwrap();
        cluster.start(&slurmd).unwrap();
    }
    cluster.start(&Daemon::Slurmctld).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
}

fn hand_over(cluster: &Cluster, node: &str) -> Done {
    let mut command = cluster.command_on(node, User::Root, "tessera").unwrap();
    run(command.args(["node", "hand-over"])).unwrap()
}

fn runs(cluster: &Cluster, job: lab::JobId) {
    assert_eq!(cluster.job(job).unwrap().state(), "RUNNING", "{}", cluster.log_tails());
}

#[test]
fn the_steps_of_the_page_lose_no_job_and_leave_plain_slurm() {
    let mut cluster = builder().start().unwrap();
    let plugins = cluster.layout().at("plugins").display().to_string();
    let mig =
        cluster.sbatch(User::Alice, &["-w", "n1", "--gpu-isolation=mig:2g.10gb"], LOOK_AND_STAY).unwrap();
    let hers = instances(&looked(&cluster, mig));
    let whole = cluster.sbatch(User::Bob, &["-w", "n2", "--gres=gpu:1"], LOOK_AND_STAY).unwrap();
    looked(&cluster, whole);
    let held = ["-w", "n1", "--hold", "--gpu-isolation=mig:1g.5gb"];
    let waiting = cluster.sbatch(User::Bob, &held, "true").unwrap();
    cluster.wait_saved(whole).unwrap();
    let slurm_conf = std::fs::read_to_string(cluster.layout().etc("slurm.conf")).unwrap();
    let plugstack = std::fs::read_to_string(cluster.layout().etc("plugstack.conf")).unwrap();

    // 1. Nobody can ask for anything new.
    edit(&cluster, "plugstack.conf", |text| {
        text.replace("required spank_tessera.so", &format!("required {plugins}/spank_tessera.so options=off"))
    });
    let unknown = cluster.try_sbatch(User::Bob, &["--gpu-mem=5G"], "true").unwrap().refused().unwrap();
    assert!(unknown.contains("unrecognized option"), "{unknown}");
    // 2. What waits for a part of a GPU is in the list.
    let listed = ["-h", "-t", "PD", "-O", "jobid,username,tres-per-node"];
    let listed = cluster.run(User::Root, "squeue", &listed).unwrap().ok().unwrap();
    let of_waiting = listed.lines().find(|line| line.trim().starts_with(&waiting.to_string()));
    let shows = |line: &str| line.contains("gres:shard:") || line.contains("gres/shard:");
    assert!(of_waiting.is_some_and(shows), "{listed}");
    cluster.run(User::Root, "scancel", &[&waiting.to_string()]).unwrap().ok().unwrap();
    // 3. Slurm alone places jobs; what runs goes on.
    edit(&cluster, "slurm.conf", |text| {
        text.replace(&format!("PluginDir={plugins}:"), "PluginDir=").replace("JobSubmitPlugins=tessera\n", "")
    });
    restart(&mut cluster);
    runs(&cluster, mig);
    runs(&cluster, whole);
    let options = ["-w", "n2", "--gres=gpu:1"];
    let plain = cluster.complete(User::Alice, &options, "nvidia-smi -L").unwrap();
    assert_eq!(plain.lines().filter(|line| line.starts_with("GPU ")).count(), 1, "{plain}");
    // 4. A node with a job that has an instance is not left; the job still has it, and gives it back.
    let busy = hand_over(&cluster, "n1").refused().unwrap();
    assert!(busy.contains(&format!("jobs have instances or shares on n1: {mig}")), "{busy}");
    runs(&cluster, mig);
    cluster.run(User::Root, "scancel", &[&mig.to_string()]).unwrap().ok().unwrap();
    wait_for("n1 to be left to Slurm", PATIENCE, || {
        let done = hand_over(&cluster, "n1");
        if done.code == Some(0) { Ok(()) } else { Err(format!("{}{}", done.stdout, done.stderr)) }
    })
    .unwrap();
    hand_over(&cluster, "n2").ok().unwrap();
    let mut smi = cluster.command_on("n1", User::Root, "nvidia-smi").unwrap();
    let listed = run(smi.arg("-L")).unwrap().ok().unwrap();
    assert!(listed.contains("GPU 7: ") && instances(&listed).is_empty(), "{listed}");
    for (node, gpu) in [("n1", 0), ("n1", 7), ("n2", 3)] {
        let meta = std::fs::metadata(cluster.layout().node(node).join(format!("dev/nvidia{gpu}"))).unwrap();
        assert_eq!((meta.uid(), meta.mode() & 0o777), (0, 0o666), "{node} GPU {gpu}");
    }
    // 5. Nothing of Tessera is left.
    std::fs::write(cluster.layout().etc("plugstack.conf"), "").unwrap();
    edit(&cluster, "slurm.conf", |text| {
        let kept = text.lines().filter(|line| !line.starts_with("HealthCheck"));
        let kept: String = kept.map(|line| format!("{line}\n")).collect();
        kept.replace("GresTypes=gpu,shard", "GresTypes=gpu").replace(",shard:320", "")
    });
    let gres_conf = std::fs::read_to_string(cluster.layout().etc("gres.conf")).unwrap();
    edit(&cluster, "gres.conf", |text| {
        let kept = text.lines().filter(|line| !line.contains("Name=shard"));
        kept.map(|line| format!("{line}\n")).collect()
    });
    std::fs::rename(cluster.layout().at("plugins"), cluster.layout().at("plugins.gone")).unwrap();
    let file = cluster.layout().etc("tessera.toml");
    let site = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    for copy in ["state", "spool/n1", "spool/n2"] {
        std::fs::remove_file(cluster.layout().at(copy).join("tessera.toml.last-good")).unwrap();
    }
    for node in ["spool/n1", "spool/n2"] {
        let notes = ["tessera.accounting", "tessera.loaded"];
        notes.iter().for_each(|note| std::fs::remove_file(cluster.layout().at(node).join(note)).unwrap());
    }
    restart(&mut cluster);
    runs(&cluster, whole);
    let plain = cluster
        .complete(User::Alice, &["-w", "n1", "--gres=gpu:2"], "echo on=$CUDA_VISIBLE_DEVICES")
        .unwrap();
    let devices = common::variable(&plain, "on").unwrap_or_default();
    assert!(
        devices.split(',').all(|gpu| gpu.parse::<u8>().is_ok()) && devices.contains(','),
        "Slurm's own: {plain}"
    );
    cluster.run(User::Root, "scancel", &[&whole.to_string()]).unwrap().ok().unwrap();
    cluster.wait_idle().unwrap();
    let states = cluster.run(User::Root, "sinfo", &["-h", "-N", "-o", "%T"]).unwrap().ok().unwrap();
    assert!(states.lines().all(|state| state.trim() == "idle"), "{states}");

    // Back again.
    std::fs::rename(cluster.layout().at("plugins.gone"), cluster.layout().at("plugins")).unwrap();
    std::fs::write(&file, site).unwrap();
    std::fs::write(cluster.layout().etc("slurm.conf"), slurm_conf).unwrap();
    std::fs::write(cluster.layout().etc("gres.conf"), gres_conf).unwrap();
    std::fs::write(cluster.layout().etc("plugstack.conf"), plugstack).unwrap();
    restart(&mut cluster);
    let again = cluster.complete(User::Alice, &["-w", "n1", "--gpu-isolation=mig:2g.10gb"], LOOK).unwrap();
    assert_eq!(profiles(&again), ["2g.10gb"], "{again}");
    assert_eq!(hers.len(), 1);
    cluster.wait_idle().unwrap();
    wait_for("the nodes to be clean", PATIENCE, || cluster.assert_clean().map_err(|e| with_causes(&e)))
        .unwrap();
}

#[test]
fn up_to_step_4_there_is_a_way_back_with_jobs_running() {
    let mut cluster = builder().start().unwrap();
    let plugins = cluster.layout().at("plugins").display().to_string();
    let options = ["-w", "n1", "--gpu-isolation=mig:2g.10gb"];
    let job = cluster.sbatch(User::Alice, &options, LOOK_AND_STAY).unwrap();
    let hers = instances(&looked(&cluster, job));
    cluster.wait_saved(job).unwrap();
    let before = cluster.published_layouts().unwrap();
    let slurm_conf = std::fs::read_to_string(cluster.layout().etc("slurm.conf")).unwrap();
    let plugstack = std::fs::read_to_string(cluster.layout().etc("plugstack.conf")).unwrap();
    edit(&cluster, "plugstack.conf", |text| {
        text.replace("required spank_tessera.so", &format!("required {plugins}/spank_tessera.so options=off"))
    });
    edit(&cluster, "slurm.conf", |text| {
        text.replace(&format!("PluginDir={plugins}:"), "PluginDir=").replace("JobSubmitPlugins=tessera\n", "")
    });
    restart(&mut cluster);
    runs(&cluster, job);

    std::fs::write(cluster.layout().etc("slurm.conf"), slurm_conf).unwrap();
    std::fs::write(cluster.layout().etc("plugstack.conf"), plugstack).unwrap();
    restart(&mut cluster);
    runs(&cluster, job);
    assert_eq!(cluster.published_layouts().unwrap(), before);
    let other = cluster.complete(User::Bob, &options, LOOK).unwrap();
    assert_ne!(instances(&other), hers, "{other}");
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    cluster.wait_idle().unwrap();
    wait_for("the nodes to be clean", PATIENCE, || cluster.assert_clean().map_err(|e| with_causes(&e)))
        .unwrap();
}

/// Takes Tessera out of the cluster's files, as a site has them before it.
fn make_bare(cluster: &Cluster) -> Vec<(std::path::PathBuf, String)> {
    let plugins = cluster.layout().at("plugins").display().to_string();
    edit(cluster, "slurm.conf", |text| {
        let ours = ["JobSubmitPlugins=", "HealthCheck", "PlugStackConfig=", "PrologFlags=", "GresTypes="];
        let kept = text.lines().filter(|line| !ours.iter().any(|key| line.starts_with(key)));
        let kept: Vec<&str> = kept.collect();
        kept.join("\n").replace(&format!("{plugins}:"), "").replace(",shard:320", "") + "\nGresTypes=gpu"
    });
    edit(cluster, "gres.conf", |text| {
        text.lines().filter(|line| !line.contains("Name=shard")).map(|line| format!("{line}\n")).collect()
    });
    edit(cluster, "tessera.toml", |text| text.split("[[nodes]]").next().unwrap().to_owned());
    std::fs::remove_file(cluster.layout().etc("tessera-health")).unwrap();
    std::fs::remove_file(cluster.layout().etc("plugstack.conf")).unwrap();
    let names = ["slurm.conf", "gres.conf", "tessera.toml"];
    let files = names.map(|name| cluster.layout().etc(name));
    files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(&path).unwrap())).collect()
}

#[test]
fn setup_switches_tessera_on_and_off_again() {
    let mut cluster = builder().start().unwrap();
    let before = make_bare(&cluster);
    let unstamped = cluster.layout().at("lib/tessera/unstamped");
    std::fs::create_dir_all(&unstamped).unwrap();
    for (from, name) in lab::artefacts::plugins(lab::artefacts::Profile::Debug) {
        std::fs::copy(from, unstamped.join(name)).unwrap();
    }
    let setup = |cluster: &Cluster, node: &str, options: &[&str]| {
        let mut command = cluster.command_on(node, User::Root, "tessera").unwrap();
        run(command.arg("setup").args(options)).unwrap()
    };
    let shown = setup(&cluster, "n1", &[]);
    assert_eq!(shown.code, Some(1), "{}{}", shown.stdout, shown.stderr);
    assert!(before.iter().all(|(path, text)| std::fs::read_to_string(path).unwrap() == *text));
    for node in ["n1", "n2"] {
        let done = setup(&cluster, node, &["--apply"]);
        assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    }
    let again = setup(&cluster, "n1", &[]).ok().unwrap();
    assert!(again.contains("Slurm's files have all that Tessera needs"), "{again}");

    // Prologs know the simulator by this line alone.
    let plugstack = cluster.layout().etc("plugstack.conf");
    let written = std::fs::read_to_string(&plugstack).unwrap();
    let simulator = format!(
        "spank_tessera.so env=NVML_SIM_STATE={} env=LD_LIBRARY_PATH={}",
        cluster.layout().sim_state("%n").display(),
        cluster.layout().at("lib").display()
    );
    std::fs::write(&plugstack, written.replace("spank_tessera.so", &simulator)).unwrap();
    restart(&mut cluster);
    let output = cluster.complete(User::Alice, &["-w", "n1", "--gpu-mem=10G"], LOOK).unwrap();
    assert_eq!(profiles(&output), ["1g.10gb"], "{output}");
    cluster.wait_idle().unwrap();
    for node in ["n1", "n2"] {
        hand_over(&cluster, node).ok().unwrap();
    }

    // A line that a person has changed stays, and with it the plugins that it names.
    let kept = setup(&cluster, "n1", &["--remove", "--apply"]);
    assert_eq!(kept.code, Some(1), "{}{}", kept.stdout, kept.stderr);
    let place = format!("{}:2 still names Tessera", plugstack.display());
    assert!(kept.stdout.contains(&place), "{}", kept.stdout);
    assert!(cluster.layout().at("lib/tessera/spank_tessera.so").exists());
    // What that removal has taken back, a second `--apply` brings again.
    std::fs::write(&plugstack, &written).unwrap();
    for node in ["n1", "n2"] {
        setup(&cluster, node, &["--apply"]).ok().unwrap();
    }
    // While jobs run, no file has all taken back, and nothing more can be asked for.
    setup(&cluster, "n1", &["--remove", "--keep-jobs", "--apply"]).ok().unwrap();
    let unknown = cluster.try_sbatch(User::Bob, &["--gpu-mem=5G"], "true").unwrap().refused().unwrap();
    assert!(unknown.contains("unrecognized option"), "{unknown}");
    let slurm_conf = std::fs::read_to_string(cluster.layout().etc("slurm.conf")).unwrap();
    assert!(
        slurm_conf.contains("\nGresTypes=gpu,shard") && !slurm_conf.contains("JobSubmitPlugins"),
        "{slurm_conf}"
    );
    setup(&cluster, "n1", &["--remove", "--apply"]).ok().unwrap();
    for (path, text) in &before {
        assert_eq!(std::fs::read_to_string(path).unwrap(), *text, "{}", path.display());
    }
    assert!(!plugstack.exists() && !cluster.layout().etc("tessera-health").exists());
    assert!(!cluster.layout().at("lib/tessera/spank_tessera.so").exists());
    restart(&mut cluster);
    let plain = cluster
        .complete(User::Alice, &["-w", "n1", "--gres=gpu:1"], "echo on=$CUDA_VISIBLE_DEVICES")
        .unwrap();
    assert_eq!(common::variable(&plain, "on").as_deref(), Some("0"), "{plain}");
}
