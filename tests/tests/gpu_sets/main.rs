//! Which whole GPUs jobs get, in which order, on nodes with the links and sockets of a DGX-1V: every way to ask for
//! them, compared with what Slurm alone gives.

#![allow(clippy::unwrap_used, reason = "tests")]

mod beside;
#[path = "../common/mod.rs"]
mod common;
mod dgx;

use common::{looked, variable};
use dgx::{SAY, cancel, numbers, occupy, order, uuids, with};
use lab::User;

fn check(options: &[&str], expect: &[u32]) {
    with(|cluster| {
        let mut all = vec!["-w", "n1"];
        all.extend(options);
        let (order, said) = order(cluster, &all);
        assert_eq!(order, expect, "{options:?}: {said}");
    });
}

#[test]
fn a_plain_request_gets_the_best_linked_set_in_ring_order() {
    check(&["--gres=gpu:2"], &[0, 3]);
    check(&["--gres=gpu:3"], &[0, 2, 3]);
    check(&["--gres=gpu:4"], &[0, 1, 2, 3]);
    check(&["--gpus=4", "-N1"], &[0, 1, 2, 3]);
    check(&["--gpus-per-node=8"], &[0, 3, 2, 1, 5, 6, 7, 4]);
    check(&["--exclusive", "--gres=gpu:2"], &[0, 3, 2, 1, 5, 6, 7, 4]);
    check(&["--gpus-per-task=2", "-n2"], &[0, 1, 2, 3]);
    check(&["--gres=gpu:a100:3"], &[0, 2, 3]);
}

#[test]
fn the_jobs_record_and_environment_name_the_match() {
    with(|cluster| {
        let (_, said) = order(cluster, &["-w", "n1", "--gres=gpu:2"]);
        let variable = |name| variable(&said, name).unwrap();
        assert_eq!(
            variable("TESSERA_GPU_MATCH"),
            "pattern=ring bandwidth=sensitive policy=preserve model=bottleneck"
        );
        assert_eq!(variable("TESSERA_GPU_BANDWIDTH_GBPS"), "50.0");
        let why = "ring at 50 GB/s (bottleneck), the best of 8 free GPUs (preserve)";
        assert_eq!(variable("TESSERA_WHY"), why);
        assert!(said.ends_with(&format!("tessera: n1=whole:0,3: {why}")), "{said}");
    });
}

#[test]
fn pattern_and_policy_are_the_jobs_then_the_partitions() {
    check(&["--gres=gpu:4", "--gpu-pattern=tree"], &[0, 3, 2, 1]);
    check(&["--gres=gpu:3", "--gpu-set-policy=baseline"], &[0, 1, 2]);
    check(&["--gres=gpu:3", "-p", "plain"], &[0, 1, 2]);
    check(&["--gres=gpu:3", "-p", "plain", "--gpu-set-policy=preserve"], &[0, 2, 3]);
    with(|cluster| {
        let refused =
            cluster.try_sbatch(User::Alice, &["--gres=gpu:2", "--gpu-set-policy=best"], SAY).unwrap();
        assert_ne!(refused.code, Some(0));
        let why = "--gpu-set-policy=best: is unknown: expected preserve, greedy, topo-aware or baseline";
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    });
}

#[test]
fn as_many_of_each_socket_as_asked() {
    // 0-3 and 4-7 have two links each, as has 0-4; 3-7 has one.
    let options = ["--gpus-per-socket=2", "--sockets-per-node=2", "--ntasks=2", "--cpus-per-task=16"];
    with(|cluster| {
        let mut all = vec!["-w", "n1"];
        all.extend(options);
        let (order, said) = order(cluster, &all);
        let lower = order.iter().filter(|g| **g < 4).count();
        assert_eq!((order.len(), lower), (4, 2), "{said}");
        assert_eq!(cluster.links_within("n1", &order).unwrap(), 7, "{said}");
    });
}

#[test]
fn each_tasks_own_gpus_follow_the_order_of_ranks() {
    // A tree's ranks: 0 has 2 below it, 2 has 1 and 3.
    for (options, step, per_task) in [
        (&["-n4", "--gpus-per-task=1"][..], "-n4", 1),
        (&["-n2", "--gpus-per-task=2"], "-n2", 2),
        (&["-n1", "--gres=gpu:4"], "-n1 --gres=gpu:3", 3),
    ] {
        with(|cluster| {
            let say = "sh -c 'echo task=$SLURM_PROCID=$CUDA_VISIBLE_DEVICES'\necho set=$TESSERA_GPU_SET";
            let mut all = vec!["-w", "n1", "--gpu-pattern=tree"];
            all.extend(options);
            let said = cluster.complete(User::Alice, &all, &format!("srun {step} {say}")).unwrap();
            let order = numbers(&variable(&said, "set").unwrap());
            assert_eq!(order, [0, 3, 2, 1], "{said}");
            let names = uuids(cluster, "n1");
            let number = |uuid: &str| names.iter().position(|name| name == uuid).unwrap();
            let mut seen: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("task=")).collect();
            seen.sort_unstable();
            let seen: Vec<Vec<usize>> = seen
                .iter()
                .map(|line| line.split_once('=').unwrap().1.split(',').map(number).collect())
                .collect();
            assert!(seen.iter().all(|gpus| gpus.len() == per_task), "{said}");
            let seen: Vec<u32> = seen.concat().into_iter().map(|g| u32::try_from(g).unwrap()).collect();
            let in_order: Vec<u32> = order.iter().copied().filter(|g| seen.contains(g)).collect();
            assert_eq!(seen, in_order, "{options:?}: {said}");
        });
    }
}

#[test]
fn enforced_binding_is_kept() {
    with(|cluster| {
        // A job on the lower socket, so that the next one's cores are on the upper.
        let lower = cluster
            .sbatch(User::Alice, &["-w", "n1", "--exclusive=user", "-c16", "-n1"], "exec sleep 600")
            .unwrap();
        cluster.wait_running(lower).unwrap();
        let options = ["-w", "n1", "--gres=gpu:2", "--gres-flags=enforce-binding", "-n1", "-c2"];
        let job = cluster.sbatch(User::Alice, &options, SAY).unwrap();
        let said = looked(cluster, job);
        let cores = cluster.job(job).unwrap().get("CPU_IDs").to_owned();
        let first: u32 = cores.split(['-', ',']).next().unwrap().parse().unwrap();
        let near = if first < 16 { 0..4 } else { 4..8 };
        let gpus = numbers(&variable(&said, "TESSERA_GPU_SET").unwrap());
        assert!(gpus.iter().all(|g| near.contains(g)), "cores {cores}: {said}");
        assert_eq!(cluster.links_within("n1", &gpus).unwrap(), 2, "cores {cores}: {said}");
        cancel(cluster, &[lower, job]);
    });
}

#[test]
fn types_and_several_nodes() {
    with(|cluster| {
        let (order, said) = order(cluster, &["-w", "n2", "--gres=gpu:pcie:2"]);
        assert!(order.iter().all(|g| *g >= 4), "{said}");
        assert_eq!(cluster.links_within("n2", &order).unwrap(), 2, "{said}");
        // One of each type: two links are possible.
        let (order, said) = dgx::order(cluster, &["-w", "n2", "--gres=gpu:sxm:1,gpu:pcie:1"]);
        assert_eq!(cluster.links_within("n2", &order).unwrap(), 2, "{said}");
        let both = cluster.sbatch(User::Alice, &["-N2", "--gpus-per-node=2"], SAY).unwrap();
        let said = looked(cluster, both);
        let comment = cluster.run(User::Root, "scontrol", &["show", "job", &both.to_string()]).unwrap();
        let comment =
            comment.stdout.lines().find_map(|l| l.trim().strip_prefix("AdminComment=")).unwrap().to_owned();
        assert!(
            comment.starts_with("tessera: n1=whole:0,3;n2=whole:0,3: n1: ring at 50 GB/s"),
            "{comment} {said}"
        );
        cancel(cluster, &[both]);
    });
}

/// srun hands the script's environment, which is the first node's, to the tasks on both.
#[test]
fn a_task_is_told_of_its_own_node_only_and_once() {
    with(|cluster| {
        let each = "srun -l sh -c 'echo $SLURMD_NODENAME=$TESSERA_GPU_SET/$TESSERA_GPU_BANDWIDTH_GBPS'\n";
        let script = format!("{each}{each}{SAY}");
        let job = cluster.sbatch(User::Alice, &["-N2", "--gpus=3"], &script).unwrap();
        let said = looked(cluster, job);
        let sets: Vec<&str> =
            said.lines().filter_map(|l| Some(l.split_once(": n")?.1.split_once('=')?.1)).collect();
        let single = |set: &&&str| !set.contains(',');
        assert_eq!((sets.len(), sets.iter().filter(single).count()), (4, 2), "{said}");
        for set in sets {
            let (gpus, gbps) = set.split_once('/').unwrap();
            assert_eq!(gpus.contains(','), !gbps.is_empty(), "{said}");
        }
        let told = |node: &str| said.matches(&format!("tessera: job {job} on {node}: ")).count();
        // By the script on its node, by the first step on the other one.
        assert_eq!((told("n1"), told("n2")), (1, 1), "{said}");
        assert!(said.contains(": the slowest set of the job is on n1: ring at "), "{said}");
        cancel(cluster, &[job]);
    });
}

#[test]
fn gpus_with_instances_are_no_candidates_and_insensitive_jobs_leave_the_good_links() {
    with(|cluster| {
        let mig = cluster.sbatch(User::Bob, &["-w", "n1", "--gpu-isolation=mig:1g.5gb"], SAY).unwrap();
        let said = looked(cluster, mig);
        let seen = variable(&said, "TESSERA_INSTANCES").unwrap();
        let on: u32 = seen.split_once('@').unwrap().1.split(':').next().unwrap().parse().unwrap();
        let (order, told) = order(cluster, &["-w", "n1", "--gres=gpu:4"]);
        assert!(!order.contains(&on), "{on} in {order:?}: {said}{told}");
        assert_eq!(cluster.links_within("n1", &order).unwrap(), 9, "{told}");
        cancel(cluster, &[mig]);
        let taken = occupy(cluster, &[0, 1]);
        let (given, said) = dgx::order(cluster, &["-w", "n1", "--gres=gpu:3"]);
        assert_eq!(cluster.links_within("n1", &given).unwrap(), 5, "{said}");
        let options = ["-w", "n1", "--gres=gpu:3", "--gpu-bandwidth=insensitive"];
        let (given, said) = dgx::order(cluster, &options);
        assert!(cluster.links_within("n1", &given).unwrap() < 5, "{said}");
        assert!(said.contains("leaves") && said.contains("the most of 6 free GPUs (preserve)"), "{said}");
        cancel(cluster, &taken);
    });
}

/// GPUs 1 and 3 are free. Only 1 is linked to 5, only 3 to 7; else they are alike.
#[test]
fn the_links_to_gpus_that_come_back_next_are_kept() {
    with(|cluster| {
        let taken = occupy(cluster, &[0, 2, 4, 5, 6, 7]);
        let on = |gpu: u32| *taken.iter().find(|job| cluster.gpus_of(**job).unwrap() == [gpu]).unwrap();
        let given = || {
            let job = cluster.sbatch(User::Alice, &["-w", "n1", "--gres=gpu:1"], "exec sleep 600").unwrap();
            cluster.wait_running(job).unwrap();
            let gpus = cluster.gpus_of(job).unwrap();
            cancel(cluster, &[job]);
            gpus
        };
        for (first, expect) in [(5, 3), (7, 1), (5, 3)] {
            for job in &taken {
                let minutes = if *job == on(first) { 20 } else { 40 };
                let change = ["update", &format!("JobId={job}"), &format!("TimeLimit={minutes}")];
                cluster.run(User::Root, "scontrol", &change).unwrap().ok().unwrap();
            }
            assert_eq!(given(), [expect], "GPU {first} comes back first");
        }
        cancel(cluster, &taken);
    });
}
