//! Slurm alone gives out the GPUs while the other side of Tessera still works: what jobs have then is what stock Slurm gives.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::os::unix::fs::MetadataExt as _;

use common::{builder, looked, variable};
use error_chain::with_causes;
use lab::command::{PATIENCE, wait_for};
use lab::config::Templates;
use lab::{Cluster, Daemon, JobId, User};

/// A script that says which GPU it has and whether it may open that GPU's device node, and then runs until it is cancelled.
fn look_and_stay(cluster: &Cluster) -> String {
    let dev = cluster.layout().node("n2").join("dev/nvidia");
    format!(
        "gpu=$CUDA_VISIBLE_DEVICES\necho gpu=$gpu shards=$SLURM_SHARDS_ON_NODE isolation=$TESSERA_ISOLATION\n\
         test -r {dev}$gpu && test -w {dev}$gpu && echo open=yes\necho looked\nexec sleep 600",
        dev = dev.display()
    )
}

fn access(cluster: &Cluster, gpu: &str) -> (u32, u32) {
    let node = cluster.layout().node("n2").join(format!("dev/nvidia{gpu}"));
    let meta = std::fs::metadata(node).unwrap();
    (meta.uid(), meta.mode() & 0o777)
}

fn cancel(cluster: &Cluster, job: JobId) {
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    cluster.wait_end(job).unwrap();
}

/// Starts the daemons of a cluster that is only laid out.
fn start(cluster: &mut Cluster) {
    cluster.start(&Daemon::Munged).unwrap();
    cluster.wait_munged().unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    for node in cluster.nodes().to_vec() {
        cluster.start(&Daemon::Slurmd(node)).unwrap();
    }
    cluster.wait_ready(PATIENCE).unwrap();
}

/// The nodes and Slurm's commands read a file of their own from now on, with this text; `None`: there is none.
fn nodes_read(cluster: &Cluster, text: Option<&str>) {
    let etc = |name: &str| cluster.layout().etc(name);
    let plugstack = std::fs::read_to_string(etc("plugstack.conf")).unwrap();
    let own = plugstack.replace("/tessera.toml", "/node.toml");
    assert_ne!(own, plugstack);
    std::fs::write(etc("plugstack.conf"), own).unwrap();
    if let Some(text) = text {
        std::fs::write(etc("node.toml"), text).unwrap();
    }
    // Its health check would find slurmctld's file.
    let slurm = std::fs::read_to_string(etc("slurm.conf")).unwrap();
    let kept: String =
        slurm.lines().filter(|line| !line.starts_with("HealthCheck")).map(|l| format!("{l}\n")).collect();
    std::fs::write(etc("slurm.conf"), kept).unwrap();
}

/// Three jobs of two users with shards of n2, which all run, and their GPUs as Slurm counts them.
fn with_shards(cluster: &Cluster) -> ([JobId; 3], Vec<String>) {
    let script = look_and_stay(cluster);
    let shards = |user, of: &str| {
        let gres = format!("--gres=shard:{of}");
        cluster.sbatch(user, &["-w", "n2", &gres], &script).unwrap()
    };
    let jobs = [shards(User::Alice, "10"), shards(User::Bob, "20"), shards(User::Alice, "5")];
    let has = |(job, shards)| {
        let saw = looked(cluster, job);
        let has = variable(&saw, "gpu").unwrap();
        let (gpu, rest) = has.split_once(' ').unwrap();
        assert_eq!(rest, format!("shards={shards} isolation="), "Slurm's own variables: {saw}");
        assert!(saw.contains("open=yes"), "{saw}");
        gpu.to_owned()
    };
    let gpus = jobs.into_iter().zip(["10", "20", "5"]).map(has).collect();
    for job in jobs {
        let now = cluster.job(job).unwrap();
        assert_eq!((now.state(), now.get("Restarts")), ("RUNNING", "0"), "{}", cluster.log_tails());
    }
    (jobs, gpus)
}

/// Jobs with shards run beside each other on one GPU, as without Tessera, and give back what they had.
fn plain_slurm_remains(cluster: &Cluster) {
    let (jobs, gpus) = with_shards(cluster);
    assert!(gpus.iter().all(|gpu| *gpu == gpus[0]), "one GPU has room for all: {gpus:?}");
    let gpu = &gpus[0];
    // A job with a GPU has another one, and a step has what its job has. In this order: once a job with shards ends, 22.05 gives
    // its GPU away, whoever else has shards there (docs/slurm-quirks.md).
    let saw = cluster.complete(User::Bob, &["-w", "n2", "--gres=gpu:1"], "nvidia-smi -L").unwrap();
    assert!(saw.contains("GPU 0: "), "{saw}");
    let step = "srun sh -c 'echo step=$CUDA_VISIBLE_DEVICES'";
    let saw = cluster.complete(User::Bob, &["-w", "n2", "--gres=shard:10"], step).unwrap();
    assert_eq!(variable(&saw, "step").as_deref(), Some(gpu.as_str()), "{saw}");
    for job in [jobs[0], jobs[2]] {
        cancel(cluster, job);
    }
    assert_eq!(access(cluster, gpu), (0, 0o666), "the last one still runs");
    cancel(cluster, jobs[1]);
    cluster.wait_idle().unwrap();
    wait_for("everything to be given back", PATIENCE, || {
        let left = cluster.leftovers().map_err(|e| with_causes(&e))?;
        let closed = access(cluster, gpu) == (0, 0o600);
        if left.is_empty() && closed { Ok(()) } else { Err(format!("{left:?} {:?}", access(cluster, gpu))) }
    })
    .unwrap();
    no_node_is_drained(cluster);
}

fn no_node_is_drained(cluster: &Cluster) {
    let states = cluster.run(User::Root, "sinfo", &["-h", "-N", "-o", "%N %T"]).unwrap().ok().unwrap();
    assert!(!states.contains("drain") && !states.contains("down"), "{states}\n{}", cluster.log_tails());
}

#[test]
fn without_a_file_for_slurmctld() {
    let mut cluster = builder().lay_out().unwrap();
    let file = cluster.layout().etc("tessera.toml");
    nodes_read(&cluster, Some(&std::fs::read_to_string(&file).unwrap()));
    std::fs::remove_file(file).unwrap();
    start(&mut cluster);
    plain_slurm_remains(&cluster);
}

#[test]
fn with_a_bad_file_for_slurmctld_and_no_good_copy() {
    let mut templates = Templates::shipped().unwrap();
    let good = templates.tessera.clone();
    templates.tessera = good.replacen("mig = \"dynamic\"", "mig = \"sometimes\"", 1);
    let mut cluster = builder().templates(templates).lay_out().unwrap();
    let bad = std::fs::read_to_string(cluster.layout().etc("tessera.toml")).unwrap();
    nodes_read(&cluster, Some(&bad.replacen("sometimes", "dynamic", 1)));
    start(&mut cluster);
    let layouts = cluster.published_layouts().unwrap();
    assert!(layouts.iter().all(|(_, line)| line == "tessera config=bad"), "{layouts:?}");
    plain_slurm_remains(&cluster);
}

#[test]
fn without_the_select_plugin() {
    let mut cluster = builder().lay_out().unwrap();
    std::fs::remove_file(cluster.layout().at("plugins/select_cons_tres.so")).unwrap();
    start(&mut cluster);
    plain_slurm_remains(&cluster);
}

#[test]
fn without_a_file_on_the_nodes() {
    let mut cluster = builder().lay_out().unwrap();
    nodes_read(&cluster, None);
    start(&mut cluster);
    // As the driver makes them where nobody closes them.
    for gpu in 0..4 {
        let node = cluster.layout().node("n2").join(format!("dev/nvidia{gpu}"));
        assert_eq!(std::fs::metadata(node).unwrap().mode() & 0o777, 0o666, "GPU {gpu}");
    }
    // slurmctld has placed them, perhaps on several GPUs; the node leaves them as they are.
    let (jobs, _) = with_shards(&cluster);
    jobs.iter().for_each(|job| cancel(&cluster, *job));
    cluster.wait_idle().unwrap();
    assert_eq!(cluster.leftovers().unwrap(), [""; 0]);
    no_node_is_drained(&cluster);
}

/// Slurm alone does not know what an earlier placement has of a GPU beside its shards.
#[test]
fn a_placed_job_keeps_its_gpu_when_slurmctld_loses_its_file() {
    let mut cluster = builder().start().unwrap();
    let options = ["-w", "n2", "--gpu-isolation=mps", "--gpu-mem=2G"];
    let placed = cluster.sbatch(User::Alice, &options, "echo looked\nexec sleep 600").unwrap();
    looked(&cluster, placed);
    let later = cluster.sbatch(User::Bob, &[&["-H"], &options[..]].concat(), "echo ran").unwrap();
    cluster.wait_saved(later).unwrap();
    let gpu = (0..4).map(|gpu| gpu.to_string()).find(|gpu| access(&cluster, gpu).0 != 0).unwrap();
    let hers = access(&cluster, &gpu);
    cluster.stop(&Daemon::Slurmctld).unwrap();
    let file = cluster.layout().etc("tessera.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    nodes_read(&cluster, Some(&text));
    std::fs::remove_file(&file).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    // A share that nobody places does not run without what it asked for.
    cluster.run(User::Root, "scontrol", &["release", &later.to_string()]).unwrap().ok().unwrap();
    let now = cluster.wait_job(later, "to be requeued", |job| job.get("Restarts") == "1").unwrap();
    assert!(!cluster.output(later).contains("ran"), "{now:?}");
    let log = std::fs::read_to_string(cluster.layout().log("slurmd-n2")).unwrap();
    assert!(log.contains("gave it shards only"), "{log}");
    cancel(&cluster, later);
    // Slurm puts it onto the same GPU, which has shards left. It waits there for the placed job, and starts behind it.
    let waits = cluster.sbatch(User::Bob, &["-w", "n2", "--gres=shard:10"], "echo ran").unwrap();
    cluster.wait_job(waits, "to be requeued", |job| job.get("Restarts") == "1").unwrap();
    assert_eq!(cluster.job(placed).unwrap().state(), "RUNNING");
    assert_eq!(access(&cluster, &gpu), hers, "nobody else may open it");
    cancel(&cluster, placed);
    common::start_now(&cluster, waits);
    assert_eq!(cluster.wait_end(waits).unwrap().state(), "COMPLETED");
    assert!(cluster.output(waits).contains("ran"));
}
