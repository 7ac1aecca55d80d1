//! A mistake in `tessera.toml` costs no node, no partition and no job: the last good version stays in force.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;

use common::{LOOK, LOOK_AND_STAY, builder, instances, looked, profiles, start_now};
use error_chain::with_causes;
use lab::command::{PATIENCE, run, wait_for};
use lab::config::Templates;
use lab::{Cluster, Daemon, Job, JobId, User};
use protocol::CommentBody;
use slurm_releases::Release;

const MIG: [&str; 3] = ["--gpu-isolation=mig:1g.5gb", "-w", "n1"];

fn broken(text: &str) -> String {
    text.replacen("mig = \"dynamic\"", "mig = \"sometimes\"", 1)
}

/// Breaks the cluster's file; the answer is its good text.
fn break_file(cluster: &Cluster) -> String {
    let path = cluster.layout().etc("tessera.toml");
    let good = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, broken(&good)).unwrap();
    good
}

/// Puts a good text back and waits until slurmctld works with it.
fn repair(cluster: &Cluster, good: &str) {
    std::fs::write(cluster.layout().etc("tessera.toml"), good).unwrap();
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
    wait_for("every layout to be that of the file", PATIENCE, || {
        let layouts = cluster.published_layouts().map_err(|e| with_causes(&e))?;
        let whole = layouts.iter().all(|(_, line)| line.starts_with("tessera gpu0"));
        if whole && layouts.len() == 2 { Ok(()) } else { Err(format!("{layouts:?}")) }
    })
    .unwrap();
}

fn log(cluster: &Cluster, daemon: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(cluster.layout().log(daemon)).unwrap()).into_owned()
}

/// How often a daemon's log names the mistake, with its line and column.
fn said(cluster: &Cluster, daemon: &str) -> usize {
    let names = |line: &&str| {
        let place = line.split_once("tessera.toml:").map(|(_, place)| place);
        // The job submit plugin adds a line if slurmctld's start takes it from one second into the next.
        let named = line.contains("sometimes") && !line.contains("job submit plugin");
        named && place.is_some_and(|p| p.starts_with(|c: char| c.is_ascii_digit()))
    };
    log(cluster, daemon).lines().filter(names).count()
}

fn no_node_is_drained(cluster: &Cluster) {
    let states = cluster.run(User::Root, "sinfo", &["-h", "-N", "-o", "%N %T"]).unwrap().ok().unwrap();
    assert!(!states.contains("drain") && !states.contains("down"), "{states}\n{}", cluster.log_tails());
}

fn doctor(cluster: &Cluster) -> lab::command::Done {
    run(cluster.command_on("n1", User::Root, "tessera").unwrap().arg("doctor")).unwrap()
}

/// Asks as a user, on a node and elsewhere: the answer comes from the copy of the last good version.
fn users_have_answers(cluster: &Cluster, job: JobId) {
    let job = job.to_string();
    for ask in [&["free"][..], &["why", &job], &["explain", "--gpu-mem=4G"], &["layout"]] {
        let on_node = run(cluster.command_on("n1", User::Alice, "tessera").unwrap().args(ask)).unwrap();
        let elsewhere = cluster.run(User::Alice, "tessera", ask).unwrap();
        for done in [on_node, elsewhere] {
            assert_eq!(done.code, Some(0), "{ask:?}: {done:?}");
            assert!(
                done.stderr.contains("sometimes") && done.stderr.contains("last good version"),
                "{done:?}"
            );
        }
    }
}

fn restart_slurmctld(cluster: &mut Cluster) {
    cluster.kill9(&Daemon::Slurmctld).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    // A slurmd that has just read its files again may have spoken to the slurmctld that was killed: it speaks once more.
    wait_for("the nodes to say that they load Tessera", PATIENCE, || {
        let asked =
            cluster.run(User::Alice, "tessera", &["explain", "--gpu-mem=4G"]).map_err(|e| with_causes(&e))?;
        if asked.code == Some(0) { Ok(()) } else { Err(asked.stdout) }
    })
    .unwrap();
}

/// Waits until both layouts say that the last good version holds.
fn marked(cluster: &Cluster) {
    wait_for("the layouts to be marked", PATIENCE, || {
        let layouts = cluster.published_layouts().map_err(|e| with_causes(&e))?;
        let marked = layouts.iter().filter(|(_, line)| line.starts_with("tessera config=last-good gpu0"));
        if marked.count() == 2 { Ok(()) } else { Err(format!("{layouts:?}")) }
    })
    .unwrap();
}

#[test]
fn the_last_good_version_stays_in_force() {
    let mut cluster = builder().start().unwrap();
    let held = cluster.sbatch(User::Alice, &MIG, LOOK_AND_STAY).unwrap();
    let hers = instances(&looked(&cluster, held));
    cluster.wait_saved(held).unwrap();
    for (copy, owner) in [("state", "slurm"), ("spool/n1", "root")] {
        let copy = cluster.layout().at(copy).join("tessera.toml.last-good");
        let uid = run(Command::new("id").args(["-u", owner])).unwrap().ok().unwrap();
        let meta = std::fs::metadata(&copy).unwrap_or_else(|e| panic!("{}: {e}", copy.display()));
        assert_eq!((meta.uid().to_string(), meta.mode() & 0o7777), (uid.trim().to_owned(), 0o644));
    }
    assert_eq!(doctor(&cluster).code, Some(0), "{}", doctor(&cluster).stdout);

    let good = break_file(&cluster);
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
    marked(&cluster);
    restart_slurmctld(&mut cluster);
    marked(&cluster);
    let layouts = cluster.published_layouts().unwrap();
    assert!(layouts.iter().any(|(_, line)| line.contains(&format!("job{held}"))), "{layouts:?}");
    users_have_answers(&cluster, held);
    for _ in 0..2 {
        let other = cluster.complete(User::Bob, &MIG, LOOK).unwrap();
        assert_eq!(profiles(&other), ["1g.5gb"], "{other}");
        assert_ne!(instances(&other), hers, "{other}");
    }
    let plain = cluster.complete(User::Bob, &["-w", "n1", "--gres=gpu:1"], "nvidia-smi -L").unwrap();
    assert_eq!(plain.lines().filter(|l| l.starts_with("GPU ")).count(), 1, "{plain}");
    let refused = cluster.try_sbatch(User::Bob, &["--gpu-isolation=mig:4g.24gb"], LOOK).unwrap();
    assert!(refused.refused().unwrap().contains("4g.24gb"), "the site's rules hold");
    no_node_is_drained(&cluster);
    // slurmctld at its reconfiguration and at its start.
    assert_eq!((said(&cluster, "slurmctld"), said(&cluster, "slurmd-n1")), (2, 1), "{}", cluster.log_tails());
    let found = doctor(&cluster);
    assert_eq!(found.code, Some(1), "{}", found.stdout);
    for want in
        ["sometimes", "this machine works with the last good version", "slurmctld works with the last good"]
    {
        assert!(found.stdout.contains(want), "{want}: {}", found.stdout);
    }

    repair(&cluster, &good);
    let other = cluster.complete(User::Bob, &MIG, LOOK).unwrap();
    assert_ne!(instances(&other), hers, "{other}");
    assert!(log(&cluster, "slurmd-n1").contains("tessera.toml is good again"), "{}", cluster.log_tails());
    assert_eq!(doctor(&cluster).code, Some(0), "{}", doctor(&cluster).stdout);
    cluster.run(User::Root, "scancel", &[&held.to_string()]).unwrap().ok().unwrap();
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}

#[test]
fn without_a_good_version_only_jobs_of_ours_are_refused() {
    let mut templates = Templates::shipped().unwrap();
    let good = templates.tessera.clone();
    templates.tessera = broken(&good);
    let cluster = builder().templates(templates).start().unwrap();
    let plain = cluster.complete(User::Alice, &["-w", "n1"], "echo ran").unwrap();
    assert!(plain.contains("ran"));
    let gpu = cluster
        .complete(User::Alice, &["-w", "n1", "--gres=gpu:1"], "echo on=$CUDA_VISIBLE_DEVICES")
        .unwrap();
    assert!(gpu.contains("on=0"), "{gpu}");
    let refused = cluster.try_sbatch(User::Alice, &MIG, LOOK).unwrap().refused().unwrap();
    assert!(refused.contains("tessera.toml:") && refused.contains("sometimes"), "{refused}");
    let layouts = cluster.published_layouts().unwrap();
    assert!(layouts.iter().all(|(_, line)| line == "tessera config=bad"), "{layouts:?}");
    assert_eq!(said(&cluster, "slurmctld"), 1, "{}", cluster.log_tails());
    no_node_is_drained(&cluster);

    let path = cluster.layout().etc("tessera.toml");
    let placed = std::fs::read_to_string(&path).unwrap().replacen("sometimes", "dynamic", 1);
    repair(&cluster, &placed);
    // The first job of each node finds a new file, and lets the command close the device nodes of all GPUs.
    assert_eq!(profiles(&cluster.complete(User::Alice, &MIG, LOOK).unwrap()), ["1g.5gb"]);
    cluster.complete(User::Alice, &["-w", "n2", "--gpu-isolation=mig"], LOOK).unwrap();
    cluster.wait_idle().unwrap();
    wait_for("the nodes to be clean", PATIENCE, || cluster.assert_clean().map_err(|e| with_causes(&e)))
        .unwrap();
}

/// Lets n1 read another file than slurmctld does, a bad one, and forget what it knew.
fn only_the_node_is_lost(cluster: &Cluster) {
    let etc = |name: &str| cluster.layout().etc(name);
    let text = std::fs::read_to_string(etc("tessera.toml")).unwrap();
    std::fs::write(etc("node.toml"), broken(&text)).unwrap();
    let plugstack = std::fs::read_to_string(etc("plugstack.conf")).unwrap();
    std::fs::write(etc("plugstack.conf"), plugstack.replace("/tessera.toml", "/node.toml")).unwrap();
    std::fs::remove_file(cluster.layout().at("spool/n1/tessera.toml.last-good")).unwrap();
}

/// Waits until a job is requeued; why it was.
fn requeued(cluster: &Cluster, job: JobId) -> String {
    let mut why = None;
    wait_for("the job to be requeued", PATIENCE, || {
        let now = cluster.job(job).map_err(|e| with_causes(&e))?;
        why = match common::admin_comment(cluster, job).says {
            CommentBody::Requeued(why) if now.get("Restarts") == "1" => Some(why),
            _ => return Err(format!("{now:?}")),
        };
        Ok(())
    })
    .unwrap();
    why.unwrap_or_default()
}

#[test]
fn a_node_that_knows_no_good_version_requeues_jobs_of_ours_and_runs_the_others() {
    let cluster = builder().start().unwrap();
    only_the_node_is_lost(&cluster);
    let job = cluster.sbatch(User::Alice, &MIG, LOOK).unwrap();
    let why = requeued(&cluster, job);
    assert!(why.starts_with("by n1: ") && why.contains("node.toml:"), "{why}");
    let stays = cluster.sbatch(User::Alice, &[&MIG[..], &["--no-requeue"]].concat(), LOOK).unwrap();
    // None of it has run, so it may be started again this once.
    let why = requeued(&cluster, stays);
    assert!(why.starts_with("by n1: ") && why.contains("node.toml:"), "{why}");
    assert_eq!(cluster.job(stays).unwrap().get("Requeue"), "0");
    let plain = cluster.complete(User::Alice, &["-w", "n1", "--gres=gpu:1"], "echo ran").unwrap();
    assert!(plain.contains("ran"), "{plain}");
    no_node_is_drained(&cluster);
    assert_eq!(said(&cluster, "slurmd-n1"), 0, "the file has another name");

    let plugstack = std::fs::read_to_string(cluster.layout().etc("plugstack.conf")).unwrap();
    let plugstack = plugstack.replace("/node.toml", "/tessera.toml");
    std::fs::write(cluster.layout().etc("plugstack.conf"), plugstack).unwrap();
    for job in [job, stays] {
        start_now(&cluster, job);
        assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
        assert_eq!(profiles(&cluster.output(job)), ["1g.5gb"], "{}", cluster.output(job));
    }
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}

/// The text without the nodes of this name.
fn without(good: &str, node: &str) -> String {
    let mut sections = good.split_inclusive('\n').fold(vec![String::new()], |mut all, line| {
        if line.starts_with('[') {
            all.push(String::new());
        }
        all.last_mut().unwrap().push_str(line);
        all
    });
    sections
        .retain(|section| !(section.starts_with("[[nodes]]") && section.contains(&format!("\"{node}\""))));
    sections.concat()
}

/// Takes a node out of the file; the text before.
fn take_out(cluster: &Cluster, node: &str) -> String {
    let path = cluster.layout().etc("tessera.toml");
    let good = std::fs::read_to_string(&path).unwrap();
    let shrunken = without(&good, node);
    assert!(shrunken.len() < good.len(), "{good}");
    std::fs::write(&path, shrunken).unwrap();
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
    // Slurm 24.11 makes a step that comes before its node has registered wait for two minutes.
    wait_for(&format!("{node} to register"), PATIENCE, || {
        let node = cluster.run(User::Root, "scontrol", &["-o", "show", "node", node]);
        let said = node.map_err(|e| with_causes(&e))?.stdout;
        let since = said.split_whitespace().find_map(|word| word.strip_prefix("SlurmdStartTime="));
        if since.is_some_and(|time| time.starts_with("20")) { Ok(()) } else { Err(said) }
    })
    .unwrap();
    good
}

#[test]
fn a_job_on_a_node_taken_out_of_the_file_keeps_what_it_has_and_gives_it_back() {
    let cluster = builder().start().unwrap();
    let step = "srun sh -c 'nvidia-smi -L; echo step has $CUDA_VISIBLE_DEVICES'";
    let script = format!("{LOOK}; until test -e gone; do sleep 0.2; done; {step}; {LOOK}");
    let job = cluster.sbatch(User::Alice, &["--gpu-isolation=mig:1g.10gb", "-w", "n2"], &script).unwrap();
    let hers = instances(&looked(&cluster, job));
    assert_eq!(hers.len(), 1);
    let good = take_out(&cluster, "n2");
    std::fs::write(cluster.layout().jobs().join("gone"), "").unwrap();
    cluster.wait_end(job).unwrap();
    let said = cluster.output(job);
    // The device nodes are the job's own whatever its steps make of the file; their variables are not.
    assert!(said.contains(&format!("step has {}", hers[0].1)), "{said}");
    assert_eq!(instances(&said), [hers.clone(), hers.clone(), hers].concat(), "{said}");
    let journal = cluster.layout().at("nodes/n2/state/jobs");
    wait_for("the journal to forget the job", PATIENCE, || {
        let left: Vec<_> = std::fs::read_dir(&journal).map_err(|e| e.to_string())?.flatten().collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .unwrap();
    no_node_is_drained(&cluster);
    repair(&cluster, &good);
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}

/// n2 reads a file of its own from now on, in which it is not listed. slurmctld goes by the old one. Slurm's commands on the
/// nodes are ours: a requeue is granted and never comes, as from a slurmctld that is being replaced.
fn n2_is_lost_and_no_requeue_comes(cluster: &Cluster) {
    let etc = |name: &str| cluster.layout().etc(name);
    let text = std::fs::read_to_string(etc("tessera.toml")).unwrap();
    let commands = cluster.layout().at("late");
    std::fs::create_dir(&commands).unwrap();
    let scontrol = "#!/bin/sh\ncase $1 in requeue*) exit 0;; esac\nexec /usr/bin/scontrol \"$@\"\n";
    std::fs::write(commands.join("scontrol"), scontrol).unwrap();
    std::fs::set_permissions(commands.join("scontrol"), Permissions::from_mode(0o755)).unwrap();
    let plugstack = std::fs::read_to_string(etc("plugstack.conf")).unwrap();
    let path = format!("spank_tessera.so env=PATH={}:/usr/bin:/bin", commands.display());
    let plugstack = plugstack.replace("/tessera.toml", "/node.toml").replace("spank_tessera.so", &path);
    std::fs::write(etc("node.toml"), without(&text, "n2")).unwrap();
    std::fs::write(etc("plugstack.conf"), plugstack).unwrap();
}

#[test]
fn a_step_that_begins_although_its_node_has_given_the_job_back_sees_no_gpu() {
    const SEES: &str = "echo sees=$CUDA_VISIBLE_DEVICES";
    let cluster = builder().start().unwrap();
    n2_is_lost_and_no_requeue_comes(&cluster);
    let on_n2 = |isolation| ["-w", "n2", isolation];
    let refused = |options: &[&str], why: &str| {
        let job = cluster.sbatch(User::Alice, options, SEES).unwrap();
        cluster.wait_end(job).unwrap();
        let said = cluster.output(job);
        assert!(!said.contains("sees="), "{said}");
        let line = format!("job {job} cannot use its GPUs on this node: ");
        assert!(said.lines().any(|text| text.contains(&line) && text.contains(why)), "{said}");
    };
    let journal = cluster.layout().at("nodes/n2/state/jobs");
    let plain = || {
        let said = cluster.complete(User::Bob, &["-w", "n2", "--gres=gpu:1"], SEES).unwrap();
        assert!(said.contains("sees=0"), "{said}");
        cluster.wait_idle().unwrap();
    };
    plain();
    for isolation in ["--gpu-isolation=mig:1g.10gb", "--gpu-isolation=whole"] {
        // What its prolog has noted.
        refused(&on_n2(isolation), "does not know its GPUs");
        cluster.wait_idle().unwrap();
        assert_eq!(std::fs::read_dir(&journal).unwrap().count(), 0, "its epilog forgets it");
        // A command that waits for its job cannot be requeued.
        let srun = [&on_n2(isolation)[..], &["sh", "-c", SEES]].concat();
        let done = cluster.run(User::Alice, "srun", &srun).unwrap();
        assert!(done.code != Some(0) && !done.stdout.contains("sees="), "{done:?}");
        assert!(done.stderr.contains("does not know its GPUs"), "{done:?}");
    }
    plain();
    // Without any file nobody can note it: the step asks slurmctld.
    std::fs::remove_file(cluster.layout().etc("node.toml")).unwrap();
    std::fs::remove_file(cluster.layout().at("spool/n2/tessera.toml.last-good")).unwrap();
    refused(&on_n2("--gpu-isolation=mig:1g.10gb"), "slurmctld has placed the job here");
    plain();
    no_node_is_drained(&cluster);
}

/// Slurm 22.05 by itself gives a device whole to the next job when one of the jobs with shards there ends.
#[test]
fn a_node_that_the_file_does_not_describe_gives_no_gpu_whole_while_a_job_has_shards_of_it() {
    let cluster = builder().start().unwrap();
    let good = take_out(&cluster, "n2");
    let sleeps = |user, gres: &str| cluster.sbatch(user, &["-w", "n2", gres], "exec sleep 600").unwrap();
    let [first, second] = [User::Alice, User::Bob].map(|user| sleeps(user, "--gres=shard:2"));
    cluster.wait_running(first).unwrap();
    cluster.wait_running(second).unwrap();
    cluster.run(User::Alice, "scancel", &[&first.to_string()]).unwrap().ok().unwrap();
    cluster.wait_end(first).unwrap();
    let all = sleeps(User::Alice, "--gres=gpu:4");
    let tried = |job: &Job| job.state() != "PENDING" || job.reason() == "Resources";
    let waits = cluster.wait_job(all, "refused a GPU with shards", tried).unwrap();
    assert_eq!(waits.state(), "PENDING");
    assert_eq!(cluster.job(second).unwrap().state(), "RUNNING");
    // The others are free.
    let three = sleeps(User::Bob, "--gres=gpu:3");
    cluster.run(User::Alice, "scancel", &[&all.to_string()]).unwrap().ok().unwrap();
    cluster.wait_running(three).unwrap();
    // With its last shards the GPU is free.
    for job in [second, three] {
        cluster.run(User::Bob, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
        cluster.wait_end(job).unwrap();
    }
    let all = sleeps(User::Alice, "--gres=gpu:4");
    cluster.wait_running(all).unwrap();
    cluster.run(User::Alice, "scancel", &[&all.to_string()]).unwrap().ok().unwrap();
    repair(&cluster, &good);
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}

#[test]
fn a_reconfiguration_with_a_bad_file_fails_on_24_11() {
    let mut cluster = builder().slurm(Release::V24_11).start().unwrap();
    // In the background, as a site runs it: only there another process is behind the one that fails.
    cluster.kill9(&Daemon::Slurmctld).unwrap();
    cluster.run(User::Root, "/usr/sbin/slurmctld", &[]).unwrap().ok().unwrap();
    let job = cluster.sbatch(User::Alice, &MIG, LOOK_AND_STAY).unwrap();
    looked(&cluster, job);
    let good = break_file(&cluster);
    let before = cluster.published_layouts().unwrap();
    let told = cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().refused().unwrap();
    assert!(told.contains("slurm_reconfigure error"), "{told}");
    assert!(said(&cluster, "slurmctld") > 0, "{}", cluster.log_tails());
    assert_eq!(cluster.published_layouts().unwrap(), before, "nothing has changed");
    assert_eq!(cluster.job(job).unwrap().state(), "RUNNING");
    repair(&cluster, &good);
    assert_eq!(cluster.job(job).unwrap().state(), "RUNNING");
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    cluster.wait_idle().unwrap();
}
