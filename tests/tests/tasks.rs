//! Jobs of GPU tasks on live clusters: seats, the broker and its end, two users, and isolated jobs beside them.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{LOOK_AND_STAY, builder, instances, looked, on, variable};
use lab::command::{PATIENCE, wait_for};
use lab::config::Templates;
use lab::{Cluster, JobId, User};

/// A node with A30s of which only instances can be had, as in CASE for MIG, and one whose GPUs are shared whole.
const NODES: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a30-24gb\"\ncount = 1\nmig = \"on\"\n\
                     [[nodes]]\nnames = \"n2\"\ngpu = \"v100-16gb\"\ncount = 4\nmig = \"off\"\n";

fn cluster(tasks: &str, mps: &str) -> Cluster {
    let mut templates = Templates::for_nodes(NODES).unwrap();
    let with = format!("[tasks]\n{tasks}[mps]\n{mps}");
    templates.tessera = templates.tessera.replace("[mps]\nshare_between_users = false\n", &with);
    builder().slurm_conf("SchedulerParameters=bf_interval=2").templates(templates).start().unwrap()
}

/// Prints its variables too.
const LOOK: &str = "env | grep -e ^TESSERA_ -e ^LD_PRELOAD -e ^NVIDIA_VIS | sort\n";

fn stays() -> String {
    format!("{LOOK}{LOOK_AND_STAY}")
}

fn layout(cluster: &Cluster, node: &str) -> String {
    let all = cluster.published_layouts().unwrap();
    all.into_iter().find(|(name, _)| name == node).unwrap().1
}

fn cancel(cluster: &Cluster, job: JobId) {
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
}

/// What `tessera tasks --json` says on a node.
fn pool(cluster: &Cluster, node: &str) -> serde_json::Value {
    let mut command = cluster.command_on(node, User::Root, "tessera").unwrap();
    let done = lab::command::run(command.args(["tasks", "--json"])).unwrap();
    serde_json::from_str(&done.ok().unwrap()).unwrap()
}

fn jobs_of(pool: &serde_json::Value) -> Vec<u64> {
    pool["jobs"].as_array().unwrap().iter().map(|job| job["job"].as_u64().unwrap()).collect()
}

fn number(job: JobId) -> u64 {
    job.to_string().parse().unwrap()
}

/// What a process may do beyond the broker's needs, as bits of `CapEff`, `CapPrm` and `CapInh` together. The broker gives a
/// socket to its user, reads `/proc` and device nodes of users, and ends processes.
fn more_than_it_needs(pid: u32) -> u64 {
    const CHOWN: u64 = 1 << 0;
    const DAC_OVERRIDE: u64 = 1 << 1;
    const KILL: u64 = 1 << 5;
    const SYS_PTRACE: u64 = 1 << 19;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let sets = ["CapEff:", "CapPrm:", "CapInh:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    });
    sets.into_iter().fold(0, |all, set| all | set) & !(CHOWN | DAC_OVERRIDE | KILL | SYS_PTRACE)
}

/// Waits until the node's pool is empty and nobody serves it.
fn all_over(cluster: &Cluster, node: &str) {
    let socket = cluster.layout().at("nodes").join(node).join("run/tasks/control.sock");
    wait_for("the broker to end", PATIENCE, || match socket.exists() {
        true => Err(format!("{} is still there", socket.display())),
        false => Ok(()),
    })
    .unwrap();
    assert_eq!(jobs_of(&pool(cluster, node)), Vec::<u64>::new());
}

#[test]
fn a_job_gets_a_seat_and_the_broker_lives_as_long_as_the_pool() {
    let mut cluster = cluster("", "");
    on(&mut cluster, |cluster| {
        let options = ["--gpu-isolation=gpu-tasks", "--gpu-mem=3G", "-n2", "-w", "n2"];
        let first = cluster.sbatch(User::Alice, &options, &stays()).unwrap();
        let saw = looked(cluster, first);
        let socket = variable(&saw, "TESSERA_TASK_SOCKET").unwrap();
        assert!(socket.ends_with(&format!("/run/tasks/{first}.sock")), "{saw}");
        assert_eq!(variable(&saw, "TESSERA_ISOLATION").as_deref(), Some("gpu-tasks"));
        assert!(variable(&saw, "LD_PRELOAD").unwrap().ends_with("/libtessera_task.so"), "{saw}");
        assert!(variable(&saw, "CUDA_MPS_PIPE_DIRECTORY").unwrap().ends_with("/mps/gpu0/pipe"), "{saw}");
        assert_eq!(layout(cluster, "n2"), format!("tessera gpu0=tasks[job{first}*2] gpu1-3=free"));
        // Slurm counts a shard for each seat.
        let tres = cluster.job(first).unwrap().get("TresPerNode").to_owned();
        assert!(tres.contains("shard:2"), "{tres}");
        // The second job of the same user joins; its programs ask by themselves.
        let options = ["--gpu-isolation=gpu-tasks:probes", "-w", "n2"];
        let second = cluster.sbatch(User::Alice, &options, &stays()).unwrap();
        let saw = looked(cluster, second);
        assert_eq!(variable(&saw, "LD_PRELOAD"), None, "{saw}");
        assert_eq!(
            layout(cluster, "n2"),
            format!("tessera gpu0=tasks[job{first}*2,job{second}*1] gpu1-3=free")
        );
        assert_eq!(jobs_of(&pool(cluster, "n2")), [number(first), number(second)]);
        // Another user's jobs have a pool of their own.
        let other = cluster.sbatch(User::Bob, &options, &stays()).unwrap();
        let saw = looked(cluster, other);
        assert!(variable(&saw, "CUDA_MPS_PIPE_DIRECTORY").unwrap().ends_with("/mps/gpu1/pipe"), "{saw}");
        let refused =
            cluster.try_sbatch(User::Bob, &["--gpu-isolation=gpu-tasks", "-n5", "-w", "n2"], "true").unwrap();
        assert!(
            refused.stderr.contains("v100-16gb has at most 4 seats where 5 are needed"),
            "{}",
            refused.stderr
        );
        for job in [first, second, other] {
            cancel(cluster, job);
        }
        cluster.wait_idle().unwrap();
        all_over(cluster, "n2");
        // A mig job started from nowhere near the pool has none of its variables.
        let plain = cluster
            .complete(
                User::Alice,
                &["--gpu-isolation=mig", "-w", "n1"],
                &stays().replace("exec sleep 600", ""),
            )
            .unwrap();
        assert_eq!(variable(&plain, "TESSERA_TASK_SOCKET"), None, "{plain}");
    });
}

#[test]
fn a_step_finds_a_broker_that_was_killed() {
    let mut cluster = cluster("workers_per_slice = 2\n", "");
    on(&mut cluster, |cluster| {
        let script = format!(
            "{LOOK}echo looked\nwhile [ ! -e {}/go ]; do sleep 0.1; done\nsrun true && echo done; exec sleep 600",
            cluster.layout().jobs().display()
        );
        let job = cluster
            .sbatch(User::Alice, &["--gpu-isolation=gpu-tasks", "--gpu-mem=1G", "-w", "n2"], &script)
            .unwrap();
        looked(cluster, job);
        let status = cluster.layout().at("nodes").join("n2/run");
        let broker = task_control::Broker::at(&status, PATIENCE);
        let before = broker.status().unwrap();
        for pid in [before.parent, before.child] {
            assert_eq!(more_than_it_needs(pid), 0, "{pid}");
        }
        // The site's own number of seats on a GPU that is not cut.
        let refused =
            cluster.try_sbatch(User::Bob, &["--gpu-isolation=gpu-tasks", "-n3", "-w", "n2"], "true").unwrap();
        assert!(refused.stderr.contains("has at most 2 seats where 3 are needed"), "{}", refused.stderr);
        for pid in [before.parent, before.child] {
            lab::command::run(std::process::Command::new("kill").args(["-9", &pid.to_string()])).unwrap();
        }
        wait_for("the broker to be gone", PATIENCE, || {
            broker.status().is_err().then_some(()).ok_or("it answers".to_owned())
        })
        .unwrap();
        std::fs::write(cluster.layout().jobs().join("go"), "").unwrap();
        wait_for("the step", PATIENCE, || {
            let text = cluster.output(job);
            if text.contains("done") { Ok(()) } else { Err(text) }
        })
        .unwrap();
        assert_eq!(jobs_of(&pool(cluster, "n2")), [number(job)]);
        assert_ne!(broker.status().unwrap().child, before.child);
        cancel(cluster, job);
        cluster.wait_idle().unwrap();
        all_over(cluster, "n2");
    });
}

#[test]
fn isolated_jobs_have_their_instances_beside_the_pool() {
    let mut cluster = cluster("", "share_between_users = true\n");
    on(&mut cluster, |cluster| {
        let alone =
            cluster.sbatch(User::Bob, &["--gpu-isolation=mig:1g.6gb", "-w", "n1"], LOOK_AND_STAY).unwrap();
        let [(_, own)] = &instances(&looked(cluster, alone))[..] else { panic!("one instance") };
        // Two users' jobs in one pool, which the site allows here, until it has no instance left.
        let mut pool_jobs = Vec::new();
        for (user, limit) in [(User::Alice, "-t90"), (User::Bob, "-t90"), (User::Alice, "-t60")] {
            let options = ["--gpu-isolation=gpu-tasks:probes", "-n4", limit, "-w", "n1"];
            let job = cluster.sbatch(user, &options, &stays()).unwrap();
            let saw = looked(cluster, job);
            assert!(!variable(&saw, "NVIDIA_VISIBLE_DEVICES").unwrap_or_default().contains(own), "{saw}");
            pool_jobs.push(job);
        }
        assert_eq!(layout(cluster, "n1").matches(":tasks[").count(), 3, "{}", layout(cluster, "n1"));
        let broker = pool(cluster, "n1");
        assert_eq!(broker["devices"].as_array().unwrap().len(), 3, "{broker}");
        // An isolated job now waits for the pool alone, and claims the device that comes free soonest.
        let waits = cluster
            .sbatch(User::Bob, &["--gpu-isolation=mig:1g.6gb", "-t5", "-w", "n1"], LOOK_AND_STAY)
            .unwrap();
        wait_for("the claim to be shown", PATIENCE, || {
            let line = layout(cluster, "n1");
            if line.contains(&format!(":tasks[job{}*4>job{waits}]", pool_jobs[2])) {
                Ok(())
            } else {
                Err(line)
            }
        })
        .unwrap();
        // Seats come free on another device: a job of GPU tasks that came later overtakes by backfill, and may not use the
        // claimed one.
        cancel(cluster, pool_jobs[0]);
        let late = cluster
            .sbatch(User::Alice, &["--gpu-isolation=gpu-tasks:probes", "-n1", "-t5", "-w", "n1"], &stays())
            .unwrap();
        let of_late = variable(&looked(cluster, late), "NVIDIA_VISIBLE_DEVICES").unwrap();
        assert!(cluster.job(late).unwrap().get("Scheduler").contains("Backfill"), "{:?}", cluster.job(late));
        assert_eq!(cluster.job(waits).unwrap().state(), "PENDING");
        assert!(layout(cluster, "n1").contains(&format!(">job{waits}]")), "{}", layout(cluster, "n1"));
        // It comes free although the pool's other jobs go on.
        cancel(cluster, pool_jobs[2]);
        let saw = looked(cluster, waits);
        let claimed = variable(&saw, "CUDA_VISIBLE_DEVICES").unwrap();
        assert!(instances(&saw).iter().any(|(_, uuid)| *uuid == claimed), "{saw}");
        assert!(![own, &claimed].iter().any(|uuid| of_late.contains(*uuid)), "{claimed}: {own} {of_late}");
        assert_eq!(cluster.job(pool_jobs[1]).unwrap().state(), "RUNNING");
        assert_eq!(cluster.job(alone).unwrap().state(), "RUNNING", "never disturbed");
        for job in [alone, waits, late, pool_jobs[1]] {
            cancel(cluster, job);
        }
        cluster.wait_idle().unwrap();
        all_over(cluster, "n1");
    });
}
