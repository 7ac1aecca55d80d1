//! GPUs that vanish and nodes that boot: nothing that is remembered of them goes to the wrong GPU, or is shown for ever.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{admin_comment, builder};
use lab::command::{PATIENCE, run, wait_for};
use lab::{Cluster, Daemon, JobId, User};
use protocol::CommentBody;
use serde_json::Value;

const STAY: &str = "sleep 1000";

/// The power limits of n1's GPUs in the simulated driver, by UUID, W.
fn limits(cluster: &Cluster) -> Vec<(String, u64)> {
    let state = read(cluster).1;
    let uuid = |spec: &Value| spec["uuid"].as_str().unwrap().to_owned();
    let uuids = state["node"]["gpus"].as_array().unwrap().iter().map(uuid);
    let limits =
        state["gpus"].as_array().unwrap().iter().map(|g| g["power_limit_mw"].as_u64().unwrap() / 1000);
    uuids.zip(limits).collect()
}

/// The simulated driver's state on n1: its first line without the generation, and what follows.
fn read(cluster: &Cluster) -> ((String, u64), Value) {
    let text = std::fs::read_to_string(cluster.layout().sim_state("n1")).unwrap();
    let (header, json) = text.split_once('\n').unwrap();
    let (format, generation) = header.rsplit_once(' ').unwrap();
    let generation = u64::from_str_radix(generation, 16).unwrap();
    ((format.to_owned(), generation), serde_json::from_str(json).unwrap())
}

fn write(cluster: &Cluster, (format, generation): (String, u64), state: &Value) {
    let path = cluster.layout().sim_state("n1");
    let new = path.with_extension("edited");
    std::fs::write(&new, format!("{format} {:016x}\n{state}", generation + 1)).unwrap();
    std::fs::rename(new, path).unwrap();
}

/// Takes n1's first GPU out of the driver's list, as a driver that is loaded again without it.
fn take_out(cluster: &Cluster) -> [Value; 2] {
    let (header, mut state) = read(cluster);
    let spec = state["node"]["gpus"].as_array_mut().unwrap().remove(0);
    let now = state["gpus"].as_array_mut().unwrap().remove(0);
    write(cluster, header, &state);
    [spec, now]
}

fn put_back(cluster: &Cluster, [spec, now]: [Value; 2]) {
    let (header, mut state) = read(cluster);
    state["node"]["gpus"].as_array_mut().unwrap().insert(0, spec);
    state["gpus"].as_array_mut().unwrap().insert(0, now);
    write(cluster, header, &state);
}

/// Starts a job with one whole GPU at 200 W; the answer is the GPU's place in the driver's list.
fn capped(cluster: &Cluster, user: User) -> (JobId, usize) {
    let options = ["-w", "n1", "--gpu-isolation=whole", "--gpus-per-node=1", "--gpu-power=200"];
    let job = cluster.sbatch(user, &options, STAY).unwrap();
    cluster.wait_running(job).unwrap();
    let CommentBody::Started(started) = admin_comment(cluster, job).says else {
        panic!("job {job} has no GPU")
    };
    let gpu = started.got.strip_prefix("n1=whole:").unwrap();
    let gpu: usize = gpu.split(['/', ';']).next().unwrap().parse().unwrap();
    wait_limit(cluster, &limits(cluster)[gpu].0, Some(200));
    (job, gpu)
}

fn wait_limit(cluster: &Cluster, uuid: &str, watts: Option<u64>) {
    wait_for("a power limit", PATIENCE, || {
        let now = limits(cluster);
        let found = now.iter().find(|(of, _)| of == uuid).map(|(_, limit)| *limit);
        if found == watts { Ok(()) } else { Err(format!("{uuid}: {now:?}")) }
    })
    .unwrap();
}

fn cancel(cluster: &Cluster, job: JobId) {
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    cluster.wait_end(job).unwrap();
    let journalled = cluster.layout().at(&format!("nodes/n1/state/jobs/{job}.json"));
    wait_for("its epilog", PATIENCE, || if journalled.exists() { Err("runs".to_owned()) } else { Ok(()) })
        .unwrap();
}

fn reconcile(cluster: &Cluster) -> String {
    let mut tessera = cluster.command_on("n1", User::Root, "tessera").unwrap();
    run(tessera.args(["node", "reconcile"])).unwrap().stdout
}

/// Two users' jobs with power caps; the first GPU vanishes, so the numbers of all others shift.
#[test]
fn an_epilog_sets_the_limit_of_its_own_gpu_after_the_numbers_have_shifted() {
    let cluster = builder().start().unwrap();
    let mut jobs = [User::Alice, User::Bob, User::Alice].map(|user| capped(&cluster, user));
    jobs.sort_by_key(|(_, gpu)| *gpu);
    let before = limits(&cluster);
    let [(on_first, lost), (low, low_gpu), (high, high_gpu)] = jobs;
    let uuid = |gpu: usize| before[gpu].0.as_str();
    assert_eq!(lost, 0, "{jobs:?}");
    let gone = take_out(&cluster);
    assert_eq!(limits(&cluster), before[1..]);

    cancel(&cluster, low);
    wait_limit(&cluster, uuid(low_gpu), Some(400));
    wait_limit(&cluster, uuid(high_gpu), Some(200));
    // The job whose GPU is gone ends: nobody else's limit changes, and the node remembers.
    cancel(&cluster, on_first);
    wait_limit(&cluster, uuid(high_gpu), Some(200));
    let log = std::fs::read_to_string(cluster.layout().log("slurmd-n1")).unwrap();
    let said = format!("the power limit of {} was 400 W and is not put back", uuid(0));
    assert!(log.contains(&said), "{log}");
    put_back(&cluster, gone);
    wait_limit(&cluster, uuid(0), Some(200));
    reconcile(&cluster);
    wait_limit(&cluster, uuid(0), Some(400));
    cancel(&cluster, high);
    assert!(limits(&cluster).iter().all(|(_, limit)| *limit == 400), "{:?}", limits(&cluster));
}

fn layout_of(cluster: &Cluster, node: &str) -> String {
    let all = cluster.published_layouts().unwrap();
    all.into_iter().find(|(name, _)| name == node).unwrap().1
}

/// The node boots: the driver has no instance any more, and the layout shows none.
#[test]
fn after_a_boot_the_layout_shows_no_instance_from_before() {
    let mut cluster = builder().start().unwrap();
    cluster.complete(User::Alice, &["-w", "n1", "--gpu-isolation=mig:3g.20gb"], "true").unwrap();
    cluster.complete(User::Alice, &["-w", "n2", "--gpu-isolation=mig:1g.10gb"], "true").unwrap();
    for node in ["n1", "n2"] {
        wait_for("an idle instance", PATIENCE, || {
            let line = layout_of(&cluster, node);
            if line.contains("idle") { Ok(()) } else { Err(line) }
        })
        .unwrap();
    }
    // A slurmd that is merely started again has booted nothing.
    let n1 = Daemon::Slurmd("n1".to_owned());
    cluster.stop(&n1).unwrap();
    cluster.start(&n1).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    assert!(layout_of(&cluster, "n1").contains("idle"));

    cluster.kill9(&n1).unwrap();
    let (header, mut state) = read(&cluster);
    for gpu in state["gpus"].as_array_mut().unwrap() {
        gpu["mig"] = false.into();
        gpu["mig_pending"] = false.into();
        gpu["instances"] = Value::Array(Vec::new());
    }
    write(&cluster, header, &state);
    cluster.start_booted("n1").unwrap();
    wait_for("n1's layout without an instance", PATIENCE, || {
        let line = layout_of(&cluster, "n1");
        if line == "tessera gpu0-7=free" { Ok(()) } else { Err(line) }
    })
    .unwrap();
    assert!(layout_of(&cluster, "n2").contains("idle"), "n2 has not booted");
}
