//! When Slurm's configuration and Tessera's disagree, or one of them is removed, jobs get what plain Slurm gives them and a
//! log line says why.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::time::Duration;

use common::{LOOK_AND_STAY, builder, looked, start_now, with};
use error_chain::with_causes;
use lab::command::{PATIENCE, run, wait_for};
use lab::config::Templates;
use lab::{Cluster, Daemon, JobId, User};
use slurm_releases::Release;

fn slurmctld_log(cluster: &Cluster) -> String {
    std::fs::read_to_string(cluster.layout().at("log/slurmctld.log")).unwrap()
}

/// A cluster whose n2 Slurm and Tessera know differently, what slurmctld says of it, and what a job has there.
fn left_to_slurm(templates: Templates, why: &str, doctors: &str) -> Cluster {
    let cluster = builder().templates(templates).start().unwrap();
    let log = slurmctld_log(&cluster);
    assert!(log.contains(&format!("1 node is left to Slurm alone, such as n2: {why}")), "{log}");
    // A job that asks for nothing of Tessera's starts there; one that does goes elsewhere, or waits.
    let saw = cluster.complete(User::Alice, &["-w", "n2", "--gres=gpu:1"], "echo started").unwrap();
    assert!(saw.contains("started"), "{saw}");
    let done =
        cluster.complete(User::Alice, &["--gpu-isolation=mig", "--gpu-mem=9G"], "echo on=$SLURMD_NODENAME");
    assert!(done.unwrap().contains("on=n1"));
    // `tessera explain` says before what sbatch does.
    let explained = |options: &[&str]| {
        let mut tessera = cluster.command(User::Alice, "tessera").unwrap();
        run(tessera.args(["explain", "--node", "n2"]).args(options)).unwrap()
    };
    // Before 24.11 scontrol does not show no_consume: what is left to say is that there is no layout.
    let says = |said: &str, begin: &str| {
        let silent = why.contains("no_consume") && said.contains(&format!("{begin}it publishes no layout"));
        silent || said.contains(&format!("{begin}{why}"))
    };
    let said = explained(&["--gres=gpu:1"]);
    let ours = "n2: Slurm alone decides: the node is left to it: ";
    assert!(said.code == Some(0) && says(&said.stdout, ours), "{}", said.stdout);
    let options = ["--gpu-isolation=mig", "--gpu-mem=9G"];
    let said = explained(&options);
    assert!(
        said.code == Some(1) && says(&said.stdout, "n2: never: the node is left to Slurm: "),
        "{}",
        said.stdout
    );
    let refused = cluster.try_sbatch(User::Alice, &[&options[..], &["-w", "n2"]].concat(), "true");
    refused.unwrap().refused().unwrap();
    let layouts = cluster.published_layouts().unwrap();
    assert!(layouts.iter().all(|(node, layout)| node != "n2" || !layout.contains("gpu0")), "{layouts:?}");
    let mut doctor = cluster.command_on("n1", User::Root, "tessera").unwrap();
    let said = run(doctor.arg("doctor")).unwrap();
    assert!(said.stdout.contains(doctors), "{}", said.stdout);
    cluster
}

#[test]
fn explain_knows_partitions_that_give_whole_nodes() {
    let mut templates = Templates::shipped().unwrap();
    let alone =
        "\nPartitionName=alone Nodes=ALL Default=NO MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE\n";
    templates.slurm.push_str(alone);
    let cluster = builder().templates(templates).start().unwrap();
    let explained = |options: &[&str]| {
        let mut tessera = cluster.command(User::Alice, "tessera").unwrap();
        run(tessera.args(["explain", "--partition", "alone"]).args(options)).unwrap()
    };
    // The plugin's words reach the user from 24.11 on.
    for options in [&["--gpu-isolation=mig:2g.10gb"][..], &["--gpu-isolation=mps", "--gpu-mem=4G"]] {
        cluster
            .try_sbatch(User::Alice, &[&["-p", "alone"], options].concat(), "true")
            .unwrap()
            .refused()
            .unwrap();
        let said = explained(options);
        assert!(said.code == Some(1) && said.stderr.contains("a partition of whole nodes"), "{said:?}");
    }
    let whole = ["--gpu-isolation=whole"];
    let said = explained(&whole);
    assert!(
        said.code == Some(0) && said.stdout.contains("n1: now: the whole node with its 8 GPUs"),
        "{said:?}"
    );
    // A job without GPUs keeps the node from those that want all of it.
    let in_the_way = cluster.sbatch(User::Bob, &["-w", "n1"], "exec sleep 600").unwrap();
    cluster.wait_running(in_the_way).unwrap();
    let said = explained(&["--node", "n1", "--gpu-isolation=whole"]);
    assert!(
        said.code == Some(1) && said.stdout.contains(&format!("n1: has room when job {in_the_way} ")),
        "{said:?}"
    );
    let waits =
        cluster.sbatch(User::Alice, &[&["-p", "alone", "-w", "n1"], &whole[..]].concat(), "true").unwrap();
    cluster.wait_job(waits, "held by the other job", |job| job.reason() == "Resources").unwrap();
    let mut why = cluster.command(User::Alice, "tessera").unwrap();
    let said = run(why.args(["why", &waits.to_string()])).unwrap();
    assert!(said.stdout.contains(&format!("n1: has room when job {in_the_way} ")), "{said:?}");
    cluster.run(User::Root, "scancel", &[&in_the_way.to_string()]).unwrap().ok().unwrap();
    assert_eq!(cluster.wait_end(waits).unwrap().state(), "COMPLETED");
}

#[test]
fn a_node_with_other_gpus_than_described_is_left_to_slurm() {
    let mut templates = Templates::shipped().unwrap();
    // A GPU that gres.conf leaves out: the others' places there are not NVML's numbers.
    templates.slurm = templates.slurm.replace("gpu:h100:4,shard:320", "gpu:h100:3,shard:240");
    templates.gres =
        templates.gres.replace("Type=h100 File=/dev/nvidia[0-3]", "Type=h100 File=/dev/nvidia[1-3]");
    templates.gres =
        templates.gres.replace("NodeName=n2 Name=shard Count=320", "NodeName=n2 Name=shard Count=240");
    // What tessera.toml says of shares there, Slurm does not know.
    let nodes = templates.tessera.rfind("[[nodes]]").unwrap();
    templates.tessera.insert_str(nodes + "[[nodes]]\n".len(), "gpu_use = { \"0-3\" = \"whole\" }\n");
    let cluster = left_to_slurm(
        templates,
        "3 GPUs in slurm.conf, 4 in tessera.toml",
        "n2: slurm.conf has gpu:3 in its Gres=, tessera.toml comes to gpu:4",
    );
    let saw = cluster.complete(User::Alice, &["-w", "n2", "--gres=shard:5"], "echo shares").unwrap();
    assert!(saw.contains("shares"), "{saw}");
}

#[test]
fn gpus_that_jobs_do_not_consume_are_left_to_slurm() {
    let mut templates = Templates::shipped().unwrap();
    templates.slurm = templates.slurm.replace("Gres=gpu:h100:4", "Gres=gpu:h100:no_consume:4");
    left_to_slurm(
        templates,
        "its GPUs are no_consume in slurm.conf",
        "n2: no layout published: is Tessera's select plugin loaded, or did it leave the node to Slurm",
    );
}

#[test]
fn a_placement_does_not_outlive_the_configuration_it_was_made_under() {
    let mut cluster = builder().start().unwrap();
    let options = ["-w", "n1", "--requeue", "--gpu-isolation=mig:2g.10gb"];
    let job = cluster.sbatch(User::Alice, &options, LOOK_AND_STAY).unwrap();
    looked(&cluster, job);
    cluster.wait_saved(job).unwrap();
    assert!(cluster.saved_jobs_hold("TESSERA_PLACEMENT=").unwrap());
    std::fs::remove_file(cluster.layout().etc("tessera.toml")).unwrap();
    cluster.kill9(&Daemon::Slurmctld).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    cluster.run(User::Root, "scontrol", &["requeue", &job.to_string()]).unwrap().ok().unwrap();
    // slurmd refuses credentials of the second in which the job was requeued.
    std::thread::sleep(Duration::from_secs(2));
    // Slurm holds a requeued job for two minutes unless it is told otherwise.
    wait_for("the job to run again", PATIENCE, || {
        let _ = cluster.run(User::Root, "scontrol", &["update", &format!("JobId={job}"), "StartTime=now"]);
        let now = cluster.job(job).map_err(|error| with_causes(&error))?;
        // It runs for a moment only: its node, which is in no file, has it requeued again.
        let restarts: u32 = now.get("Restarts").parse().unwrap_or(0);
        let has_run = restarts > 1 || restarts == 1 && now.state() == "RUNNING";
        if has_run { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .unwrap();
    cluster.wait_saved(job).unwrap();
    assert!(!cluster.saved_jobs_hold("TESSERA_PLACEMENT=").unwrap());
}

#[test]
fn a_node_that_a_running_job_gives_up_is_free_at_once() {
    with(|cluster| {
        let options = ["-N2", "-n2", "--gpu-isolation=mig", "--gpu-mem=9G"];
        let job = cluster.sbatch(User::Alice, &options, LOOK_AND_STAY).unwrap();
        looked(cluster, job);
        let holds = |cluster: &Cluster| {
            let layouts = cluster.published_layouts().unwrap();
            let mark = format!("job{job}");
            layouts.into_iter().filter(|(_, l)| l.contains(&mark)).map(|(n, _)| n).collect::<Vec<_>>()
        };
        assert_eq!(holds(cluster), ["n1", "n2"]);
        cluster
            .run(User::Root, "scontrol", &["update", &format!("JobId={job}"), "NumNodes=1"])
            .unwrap()
            .ok()
            .unwrap();
        wait_for("the other node to be free", PATIENCE, || {
            let nodes = holds(cluster);
            if nodes == ["n1"] { Ok(()) } else { Err(format!("{nodes:?}")) }
        })
        .unwrap();
        // What it kept is still its own, and the other node's whole GPUs can be had.
        let gpus = ["-w", "n2", "--gpu-isolation=whole", "--gpus-per-node=4"];
        let saw = cluster.complete(User::Bob, &gpus, "nvidia-smi -L").unwrap();
        assert_eq!(saw.lines().filter(|l| l.starts_with("GPU ")).count(), 4, "{saw}");
        assert_eq!(cluster.job(job).unwrap().state(), "RUNNING");
        assert_eq!(holds(cluster), ["n1"]);
    });
}

/// The published line of n1.
fn shown(cluster: &Cluster) -> String {
    let layouts = cluster.published_layouts().unwrap();
    layouts.into_iter().find(|(node, _)| node == "n1").map(|(_, line)| line).unwrap_or_default()
}

#[test]
fn no_job_starts_on_less_than_it_was_promised() {
    let mut cluster = builder().start().unwrap();
    let path = cluster.layout().etc("tessera.toml");
    let right = std::fs::read_to_string(&path).unwrap();
    let wrong = right.replacen("a100-40gb", "a100-80gb", 1);
    std::fs::write(&path, &wrong).unwrap();
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
    let plain = ["-w", "n1"];
    // A job that is not to run twice has not run once.
    let requeue = if common::release() == Release::V22_05 { "--no-requeue" } else { "--requeue" };
    let options = ["-w", "n1", "--gpu-isolation=mig:2g.20gb", requeue];
    let job = cluster.sbatch(User::Alice, &options, "echo started").unwrap();
    wait_for("the job to wait and the node to say why", PATIENCE, || {
        let line = shown(&cluster);
        let now = cluster.job(job).map_err(|error| with_causes(&error))?;
        let told = line.starts_with("tessera unfit: GPU 0 is NVIDIA A100-SXM4-40GB with 40");
        let runs_once = now.get("Requeue") == "0";
        // The health check, or from 23.11 on a slurmd that is started anew, may find the difference before the job does.
        let never = now.get("Restarts") == "0";
        let again = now.get("Restarts") == "1" && runs_once == (cluster.release() == Release::V22_05);
        if told && now.state() == "PENDING" && (never || again) {
            Ok(())
        } else {
            Err(format!("{line} {now:?}"))
        }
    })
    .unwrap();
    assert_eq!(cluster.output(job), "", "it never began");
    // It takes no job with GPUs, whatever kind, and every other job.
    let kinds: [&[&str]; 4] = [
        &options,
        &["-w", "n1", "--gres=gpu:1"],
        &["-w", "n1", "--exclusive", "--gres=gpu:1"],
        &["-w", "n1", "--exclusive"],
    ];
    let waits: Vec<_> =
        kinds.iter().map(|options| cluster.sbatch(User::Bob, options, "echo started").unwrap()).collect();
    assert!(cluster.complete(User::Bob, &plain, "echo ran").unwrap().contains("ran"));
    for id in &waits {
        assert_eq!(cluster.job(*id).unwrap().state(), "PENDING");
        cluster.run(User::Root, "scancel", &[&id.to_string()]).unwrap().ok().unwrap();
    }
    let mut doctor = cluster.command_on("n1", User::Root, "tessera").unwrap();
    let said = run(doctor.arg("doctor")).unwrap();
    assert!(
        said.stdout.contains("n1: takes no jobs with GPUs: GPU 0 is NVIDIA A100-SXM4-40GB"),
        "{}",
        said.stdout
    );

    // slurmd's start finds the same before any job does, on all GPUs.
    let n1 = Daemon::Slurmd("n1".to_owned());
    cluster.run(User::Root, "scontrol", &["update", "NodeName=n1", "Extra="]).unwrap().ok().unwrap();
    cluster.kill9(&n1).unwrap();
    cluster.start(&n1).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    wait_for("slurmd's start to say so", PATIENCE, || {
        let line = shown(&cluster);
        if line.starts_with("tessera unfit: ") && line.contains("GPU 7 is") { Ok(()) } else { Err(line) }
    })
    .unwrap();

    std::fs::write(&path, &right).unwrap();
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
    recovers(&cluster);
    let saw =
        cluster.complete(User::Bob, &["-w", "n1", "--gpu-isolation=mig:2g.10gb"], "nvidia-smi -L").unwrap();
    assert!(saw.contains("2g.10gb"), "{saw}");
}

/// Lets n1's health check look, and waits until the node takes jobs with GPUs again.
fn recovers(cluster: &Cluster) {
    cluster.health_check("n1").unwrap();
    wait_for("the node to take jobs again", PATIENCE, || {
        let line = shown(cluster);
        if line.starts_with("tessera gpu0") { Ok(()) } else { Err(line) }
    })
    .unwrap();
}

/// A job cannot start on n1 for this reason: it waits, and so does every job with GPUs; no other job does.
fn takes_no_gpu_jobs(cluster: &Cluster, why: &str) -> JobId {
    let job = cluster.sbatch(User::Bob, &["-w", "n1", "--gpu-isolation=mig:1g.5gb"], "echo started").unwrap();
    wait_for("the job to wait and the node to say why", PATIENCE, || {
        let (line, now) = (shown(cluster), cluster.job(job).map_err(|e| with_causes(&e))?);
        let told = line.starts_with("tessera unfit: ") && line.contains(why);
        let waits = now.state() == "PENDING" && now.get("Restarts") == "1";
        if told && waits { Ok(()) } else { Err(format!("{line} {now:?}")) }
    })
    .unwrap();
    assert!(!cluster.output(job).contains("started"), "{}", cluster.output(job));
    let with_gpu = cluster.sbatch(User::Bob, &["-w", "n1", "--gres=gpu:1"], "echo started").unwrap();
    assert!(cluster.complete(User::Bob, &["-w", "n1"], "echo ran").unwrap().contains("ran"));
    assert_eq!(cluster.job(with_gpu).unwrap().state(), "PENDING");
    cluster.run(User::Root, "scancel", &[&with_gpu.to_string()]).unwrap().ok().unwrap();
    job
}

/// A node whose state directory cannot be used is not drained, and holds no job.
#[test]
fn a_state_directory_that_cannot_be_used_drains_no_node() {
    const NOBODY: u32 = 65534;
    let cluster = builder().small_state(512).start().unwrap();
    let state = cluster.layout().at("nodes/n1/state");
    let runs =
        |user| cluster.sbatch(user, &["-w", "n1", "--gpu-isolation=mig:1g.5gb"], LOOK_AND_STAY).unwrap();
    let goes_on = |job| assert_eq!(cluster.job(job).unwrap().state(), "RUNNING");
    let starts = |job: JobId| {
        start_now(&cluster, job);
        assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
        let states = cluster.run(User::Root, "sinfo", &["-h", "-N", "-o", "%N %T"]).unwrap().ok().unwrap();
        assert!(!states.contains("drain"), "{states}");
    };
    let [first, second] = [User::Alice, User::Bob].map(runs);
    looked(&cluster, first);
    looked(&cluster, second);

    let filler = state.join("filler");
    let mut full = std::fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut full, &[0; 4096]).is_ok() {}
    let job = takes_no_gpu_jobs(&cluster, "/state/jobs: cannot write to it: No space left on device");
    goes_on(first);
    drop(full);
    std::fs::remove_file(&filler).unwrap();
    recovers(&cluster);
    starts(job);

    std::fs::rename(state.join("jobs"), state.join("elsewhere")).unwrap();
    std::fs::write(state.join("jobs"), "").unwrap();
    let job = takes_no_gpu_jobs(&cluster, "/state/jobs: cannot open it as a directory");
    goes_on(first);
    std::fs::remove_file(state.join("jobs")).unwrap();
    std::fs::rename(state.join("elsewhere"), state.join("jobs")).unwrap();
    recovers(&cluster);
    starts(job);

    std::os::unix::fs::chown(&state, Some(NOBODY), None).unwrap();
    let job = takes_no_gpu_jobs(&cluster, "/state: belongs to uid 65534");
    goes_on(second);
    // An epilog does not drain the node either.
    cluster.run(User::Alice, "scancel", &[&first.to_string()]).unwrap().ok().unwrap();
    cluster.wait_end(first).unwrap();
    assert!(state.join(format!("jobs/{first}.json")).exists());
    std::os::unix::fs::chown(&state, Some(0), None).unwrap();
    recovers(&cluster);
    starts(job);
    wait_for("what the job had to be given back", PATIENCE, || {
        let left = state.join(format!("jobs/{first}.json")).exists();
        if left { Err("not yet".to_owned()) } else { Ok(()) }
    })
    .unwrap();
    let log = std::fs::read_to_string(cluster.layout().log("slurmd-n1")).unwrap();
    assert_eq!(log.matches("n1 takes no more jobs with GPUs").count(), 3, "once each: {log}");
    cluster.run(User::Bob, "scancel", &[&second.to_string()]).unwrap().ok().unwrap();
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}

#[test]
fn a_node_with_gres_mps_is_left_to_slurm() {
    let mut templates = Templates::shipped().unwrap();
    templates.slurm = templates
        .slurm
        .replace("GresTypes=gpu,shard", "GresTypes=gpu,shard,mps")
        .replace("Gres=gpu:h100:4,shard:320", "Gres=gpu:h100:4,shard:320,mps:400");
    templates.gres.push_str("NodeName=n2 Name=mps Count=400\n");
    left_to_slurm(templates, "it has gres/mps in slurm.conf", "n2: has gres/mps in its Gres=");
}
