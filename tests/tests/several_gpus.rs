//! Several instances of one job, and the GPU tasks of one, on several GPUs of a node.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{device_cgroups, looked, profiles, variable};
use lab::command::{PATIENCE, wait_for};
use lab::config::Templates;
use lab::{Cluster, Daemon, JobId, User};
use slurm_releases::Release;

/// The job's devices, then each task's; every one is opened where a cgroup could forbid it.
const TASKS: &str = r#"
nvidia-smi -L
echo all=$CUDA_VISIBLE_DEVICES
srun -Q sh -c 'echo t.$SLURM_LOCALID=$CUDA_VISIBLE_DEVICES; nvidia-smi -L | grep -c MIG | sed s/^/s.$SLURM_LOCALID=/'
echo looked
exec sleep 600
"#;

fn list(saw: &str, name: &str) -> Vec<String> {
    let devices = variable(saw, name).unwrap_or_else(|| panic!("no {name}: {saw}"));
    devices.split(',').map(str::to_owned).collect()
}

/// What Slurm shows of a node's shards in use: 22.05 the number of GPUs, 24.11 of shards.
/// After a restart it does not know its nodes' GRES before they register.
fn shards_used(cluster: &Cluster, node: &str) -> Option<u64> {
    let shown =
        cluster.run(User::Root, "sinfo", &["-h", "-n", node, "-O", "gresused:200"]).unwrap().ok().unwrap();
    let (_, rest) = shown.split_once("shard:").unwrap_or_else(|| panic!("{shown}"));
    let count = rest.split(['(', ',']).next().unwrap().rsplit(':').next().unwrap();
    count.trim().parse().ok()
}

/// Nothing is left in Slurm's accounts: so many jobs that take all shards of a GPU run at a time, and slurmctld has
/// never counted below 0.
fn all_shards_are_free(cluster: &Cluster, node: &str, gpus: usize, each: &str) {
    let shards = format!("--gres=shard:{each}");
    let options = ["-w", node, &shards, "--mem=50"];
    let jobs: Vec<JobId> =
        (0..gpus).map(|_| cluster.sbatch(User::Bob, &options, "exec sleep 600").unwrap()).collect();
    jobs.iter().for_each(|job| drop(cluster.wait_running(*job).unwrap()));
    cluster.run(User::Root, "scancel", &["-u", User::Bob.name()]).unwrap().ok().unwrap();
    cluster.wait_idle().unwrap();
    let log = std::fs::read_to_string(cluster.layout().log("slurmctld")).unwrap();
    let odd: Vec<&str> =
        log.lines().filter(|l| l.contains("underflow") || l.contains("overallocated")).collect();
    assert_eq!(odd, Vec::<&str>::new());
}

fn end(cluster: &Cluster, job: JobId) {
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    cluster.wait_idle().unwrap();
}

/// Four instances of which two fit on a GPU, a task each.
fn two_on_each_of_two_gpus(cluster: &mut Cluster) {
    let options = ["-w", "n1", "-n4", "--mem-per-cpu=50", "--gpu-isolation=mig:3g.20gb", "--gpu-instances=4"];
    let job = cluster.sbatch(User::Alice, &options, TASKS).unwrap();
    let saw = looked(cluster, job);
    assert_eq!(profiles(&saw), ["3g.20gb"; 4], "{saw}");
    let all = list(&saw, "all");
    let mut tasks: Vec<String> = (0..4).flat_map(|task| list(&saw, &format!("t.{task}"))).collect();
    tasks.sort();
    let mut sorted = all.clone();
    sorted.sort();
    assert_eq!((all.len(), &tasks), (4, &sorted), "one for each task: {saw}");
    (0..4).for_each(|task| {
        assert_eq!(list(&saw, &format!("s.{task}")), ["4"], "a step reaches both GPUs: {saw}")
    });
    let counted = if cluster.release() == Release::V22_05 { 2 } else { 80 };
    assert_eq!(shards_used(cluster, "n1"), Some(counted));

    // What Slurm counts survives its restart, and all of it is given back.
    cluster.stop(&Daemon::Slurmctld).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    wait_for("n1's shards to be counted again", PATIENCE, || match shards_used(cluster, "n1") {
        Some(used) if used == counted => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .unwrap();
    // A third instance of that size has room only on another GPU, and nobody's accounts object.
    let beside = cluster
        .sbatch(User::Bob, &["-w", "n1", "--gpu-isolation=mig:3g.20gb"], "nvidia-smi -L; echo looked")
        .unwrap();
    looked(cluster, beside);
    end(cluster, job);
}

/// The nodes have other GPUs: one of n2 alone has room for four. Both carry what n1's can.
fn the_same_number_on_two_nodes(cluster: &Cluster) {
    let options = ["-N2", "--gpu-isolation=mig", "--gpu-mem=18G", "--gpu-instances=4"];
    let script = "srun -Q sh -c 'echo $SLURMD_NODENAME=$CUDA_VISIBLE_DEVICES'; echo looked; exec sleep 600";
    let job = cluster.sbatch(User::Alice, &options, script).unwrap();
    let saw = looked(cluster, job);
    assert_eq!((list(&saw, "n1").len(), list(&saw, "n2").len()), (4, 4), "{saw}");
    for (node, layout) in cluster.published_layouts().unwrap() {
        // Two GPUs that look the same are shown as one entry.
        let (_, both) = layout.split_once("gpu0-1=mig[").unwrap_or_else(|| panic!("{node}: {layout}"));
        let both = both.split(']').next().unwrap();
        assert_eq!(both.matches(&format!("job{job}")).count(), 2, "{node}: {layout}");
    }
    end(cluster, job);
}

/// One seat, on one of the three GPUs that the job's tasks may use.
fn tasks_reach_three_gpus(cluster: &Cluster) {
    let script = "srun -Q sh -c 'nvidia-smi -L; echo gpus=$(nvidia-smi -L | grep -c ^GPU)'\necho looked\nexec sleep 600";
    let options = ["-w", "n1", "--gpu-isolation=gpu-tasks:probes"];
    let job = cluster.sbatch(User::Alice, &options, script).unwrap();
    let saw = looked(cluster, job);
    assert_eq!(variable(&saw, "gpus").as_deref(), Some("3"), "a step reaches all of them: {saw}");
    assert_eq!(shards_used(cluster, "n1"), Some(3), "a shard on each");
    end(cluster, job);
}

#[test]
fn instances_of_one_job_come_from_several_gpus() {
    let mut templates = Templates::shipped().unwrap();
    templates.tessera = templates.tessera.replace("\n[mps]\n", "\n[tasks]\ngpus_per_job = 3\n\n[mps]\n");
    let builder = common::builder().templates(templates);
    let builder = if device_cgroups() { builder.device_cgroup() } else { builder };
    let mut cluster = builder.start().unwrap();
    // First: an idle instance would be taken before a free GPU.
    tasks_reach_three_gpus(&cluster);
    two_on_each_of_two_gpus(&mut cluster);
    the_same_number_on_two_nodes(&cluster);
    let refused = ["-w", "n1", "--gpu-isolation=mig:3g.20gb", "--gpu-instances=17"];
    let said = cluster.try_sbatch(User::Alice, &refused, "true").unwrap().refused().unwrap();
    assert!(said.contains("each GPU must carry the same number, 16 do"), "{said}");
    all_shards_are_free(&cluster, "n1", 8, "40");
    all_shards_are_free(&cluster, "n2", 4, "80");
    cluster.assert_clean().unwrap();
}
