//! Jobs of every kind on a cluster of the project's example files.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
mod cookbook;

use std::collections::BTreeSet;

use common::{LOOK, LOOK_AND_STAY, instances, looked, profiles, variable, with};
use lab::User;

#[test]
fn auto_takes_the_smallest_instance_that_holds_the_memory() {
    with(|cluster| {
        let saw = cluster.complete(User::Alice, &["--gpu-mem=10G", "-w", "n1"], LOOK).unwrap();
        let own = instances(&saw);
        assert_eq!(own.len(), 1, "{saw}");
        assert!(own[0].0.ends_with(".10gb"), "{saw}");
        assert_eq!(variable(&saw, "CUDA_VISIBLE_DEVICES").as_ref(), Some(&own[0].1), "{saw}");
    });
}

#[test]
fn a_named_profile_is_what_the_job_gets() {
    with(|cluster| {
        for (node, profile) in [("n1", "2g.10gb"), ("n1", "3g.20gb"), ("n2", "3g.40gb")] {
            let isolation = format!("--gpu-isolation=mig:{profile}");
            let saw = cluster.complete(User::Bob, &["-w", node, &isolation], LOOK).unwrap();
            assert_eq!(profiles(&saw), [profile], "{saw}");
        }
    });
}

#[test]
fn each_task_has_its_own_of_two_instances() {
    with(|cluster| {
        let options = ["--gpu-isolation=mig", "--gpu-instances=2", "--ntasks=2", "-w", "n1"];
        let script = "srun -n2 sh -c 'echo task=$CUDA_VISIBLE_DEVICES'";
        let saw = cluster.complete(User::Alice, &options, script).unwrap();
        let tasks: BTreeSet<&str> = saw.lines().filter(|line| line.starts_with("task=MIG-")).collect();
        assert_eq!(tasks.len(), 2, "{saw}");
        assert!(tasks.iter().all(|task| !task.contains(',')), "{saw}");
    });
}

#[test]
fn whole_gpus_are_the_best_linked_ones() {
    with(|cluster| {
        for options in [
            &["--gpu-isolation=whole", "--gpus-per-node=3", "-w", "n1"][..],
            &["--gres=gpu:3", "-w", "n1"][..],
        ] {
            let job = cluster.sbatch(User::Alice, options, LOOK_AND_STAY).unwrap();
            let saw = looked(cluster, job);
            assert_eq!(saw.lines().filter(|line| line.starts_with("GPU ")).count(), 3, "{saw}");
            let gpus = cluster.gpus_of(job).unwrap();
            assert_eq!(cluster.links_within("n1", &gpus).unwrap(), 5, "{options:?} got {gpus:?}");
            cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
            cluster.wait_idle().unwrap();
        }
    });
}

#[test]
fn an_instance_is_kept_for_the_next_job_of_its_shape() {
    with(|cluster| {
        let run = |user| cluster.complete(user, &["--gpu-isolation=mig:1g.5gb", "-w", "n1"], LOOK).unwrap();
        let (first, second) = (run(User::Alice), run(User::Bob));
        assert_eq!(instances(&first), instances(&second), "{first}\n{second}");
    });
}

#[test]
fn nobody_sees_another_users_instance() {
    with(|cluster| {
        let options = ["--gpu-isolation=mig:1g.5gb", "-w", "n1"];
        let alice = cluster.sbatch(User::Alice, &options, LOOK_AND_STAY).unwrap();
        let bob = cluster.sbatch(User::Bob, &options, LOOK_AND_STAY).unwrap();
        let (hers, his) = (instances(&looked(cluster, alice)), instances(&looked(cluster, bob)));
        assert_eq!((hers.len(), his.len()), (1, 1));
        assert_ne!(hers, his);
    });
}

#[test]
fn a_job_waits_for_a_slice_and_starts_when_there_is_one() {
    with(|cluster| {
        let all = ["--gpu-isolation=mig:7g.80gb", "-w", "n2"];
        let full: Vec<_> =
            (0..4).map(|_| cluster.sbatch(User::Alice, &all, LOOK_AND_STAY).unwrap()).collect();
        for job in &full {
            looked(cluster, *job);
        }
        let small = ["--gpu-isolation=mig:1g.10gb", "-w", "n2"];
        let waiting = cluster.sbatch(User::Bob, &small, LOOK).unwrap();
        cluster
            .wait_job(waiting, "waiting for resources", |job| {
                job.state() == "PENDING" && job.reason() == "Resources"
            })
            .unwrap();
        cluster.run(User::Root, "scancel", &[&full[0].to_string()]).unwrap().ok().unwrap();
        assert_eq!(cluster.wait_end(waiting).unwrap().state(), "COMPLETED");
        assert_eq!(profiles(&cluster.output(waiting)), ["1g.10gb"]);
    });
}

#[test]
fn an_option_has_an_environment_twin() {
    with(|cluster| {
        let script = "nvidia-smi -L";
        let path = cluster.layout().jobs().join("twin.sh");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        let out = cluster.layout().jobs().join("twin.out");
        let mut command = cluster.command(User::Alice, "sbatch").unwrap();
        command.env("TESSERA_GPU_ISOLATION", "mig:2g.10gb").args(["--wait", "-w", "n1"]);
        command.arg(format!("--output={}", out.display())).arg(&path);
        lab::command::run(&mut command).unwrap().ok().unwrap();
        let saw = std::fs::read_to_string(&out).unwrap();
        assert_eq!(profiles(&saw), ["2g.10gb"], "{saw}");
    });
}

#[test]
fn srun_alone_gets_an_instance_too() {
    with(|cluster| {
        let options = ["--gpu-isolation=mig:1g.5gb", "-w", "n1", "nvidia-smi", "-L"];
        let saw = cluster.run(User::Bob, "srun", &options).unwrap().ok().unwrap();
        assert_eq!(profiles(&saw), ["1g.5gb"], "{saw}");
    });
}

#[test]
fn the_layout_is_in_sinfo() {
    with(|cluster| {
        let job =
            cluster.sbatch(User::Alice, &["--gpu-isolation=mig:2g.10gb", "-w", "n1"], LOOK_AND_STAY).unwrap();
        looked(cluster, job);
        let layouts = cluster.published_layouts().unwrap();
        let (_, layout) = layouts.iter().find(|(node, _)| node == "n1").unwrap();
        assert!(layout.contains("2g.10gb@") && layout.contains(&format!(":job{job}")), "{layout}");
    });
}

#[test]
fn the_sample_tasks_of_the_documentation_succeed() {
    let sample = include_str!("../../contrib/example/tasks.csv");
    let rows = sample.lines().filter(|line| !line.starts_with('#')).skip(1);
    let commands: Vec<&str> = rows.map(|row| row.splitn(7, ',').last().unwrap()).collect();
    assert_eq!(commands.len(), 6);
    with(|cluster| {
        // On the largest size they take the shortest time, and all run at once.
        let options = ["-w", "n1", "--gpu-isolation=mig:7g.40gb"];
        let jobs: Vec<_> =
            commands.iter().map(|command| cluster.sbatch(User::Alice, &options, command).unwrap()).collect();
        for (job, command) in jobs.into_iter().zip(commands) {
            let ended = cluster.wait_end(job).unwrap();
            assert_eq!(ended.state(), "COMPLETED", "{command}: {}", cluster.output(job));
        }
    });
}

#[test]
fn the_scripts_of_the_cookbook_run() {
    with(|cluster| cookbook::scripts_run(cluster));
}

#[test]
fn containers_of_the_cookbook_see_their_jobs_devices() {
    with(|cluster| cookbook::podman_shows_the_jobs_devices(cluster));
}

#[test]
fn interactive_recipes_of_the_cookbook_see_a_gpu() {
    with(|cluster| {
        cookbook::a_shell_of_salloc_is_on_the_node(cluster);
        cookbook::answers_to_the_form_are_jobs(cluster);
    });
}
