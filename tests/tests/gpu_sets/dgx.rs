//! Two nodes with the links and sockets of a DGX-1V, and what jobs there say of their GPUs.

use std::sync::{Mutex, OnceLock};

use lab::config::Templates;
use lab::{Cluster, JobId, User};

use super::common::{self, looked, variable};

/// NVLinks of each GPU of a DGX-1V to each other one, as gres.conf has them.
pub(super) const LINKS: [&str; 8] = [
    "-1,1,1,2,2,0,0,0",
    "1,-1,2,1,0,2,0,0",
    "1,2,-1,2,0,0,1,0",
    "2,1,2,-1,0,0,0,1",
    "2,0,0,0,-1,1,1,2",
    "0,2,0,0,1,-1,2,1",
    "0,0,1,0,1,2,-1,2",
    "0,0,0,1,2,1,2,-1",
];

/// Two such nodes with two sockets, four GPUs near each. The GPUs of n2's sockets are of different types.
pub(super) fn templates() -> Templates {
    let mut templates = Templates::shipped().unwrap();
    let keep = |line: &&str| !line.starts_with("NodeName=") && !line.starts_with("PartitionName=");
    let mut slurm: Vec<String> = templates.slurm.lines().filter(keep).map(str::to_owned).collect();
    for (node, gpus) in [("n1", "gpu:a100:8,shard:320"), ("n2", "gpu:sxm:4,gpu:pcie:4,shard:640")] {
        slurm.push(format!(
            "NodeName={node} NodeHostname={node} Port=6818 CPUs=32 Sockets=2 CoresPerSocket=16 ThreadsPerCore=1 \
             RealMemory=64000 Gres={gpus}"
        ));
    }
    slurm.push("PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP".to_owned());
    slurm.push("PartitionName=plain Nodes=ALL MaxTime=INFINITE State=UP".to_owned());
    templates.slurm = slurm.join("\n") + "\n";
    let mut gres = String::new();
    for node in ["n1", "n2"] {
        for (gpu, links) in LINKS.iter().enumerate() {
            let (side, cores) = if gpu < 4 { ("sxm", "0-15") } else { ("pcie", "16-31") };
            let kind = if node == "n1" { "a100" } else { side };
            gres += &format!(
                "NodeName={node} Name=gpu Type={kind} File=/dev/nvidia{gpu} Cores={cores} Links={links}\n"
            );
        }
        let shards = if node == "n1" { 320 } else { 640 };
        gres += &format!("NodeName={node} Name=shard Count={shards}\n");
    }
    templates.gres = gres;
    let (settings, _) = templates.tessera.split_once("[[nodes]]").unwrap();
    templates.tessera = settings.to_owned();
    templates.tessera += "[[partitions]]\nname = \"plain\"\ngpu_set_policy = \"baseline\"\n\n";
    let list =
        ["\"h100-80gb-sxm\""; 4].into_iter().chain(["\"h100-80gb-pcie\""; 4]).collect::<Vec<_>>().join(", ");
    for (node, gpus) in [("n1", "gpu = \"a100-40gb\"\ncount = 8"), ("n2", &format!("gpus = [{list}]"))] {
        templates.tessera += &format!(
            "[[nodes]]\nnames = \"{node}\"\n{gpus}\nmig = \"dynamic\"\ninterconnect = \"dgx-v\"\n\n"
        );
    }
    templates
}

/// The cluster of all tests here but those that start their own.
pub(super) fn with(test: impl FnOnce(&mut Cluster)) {
    static SHARED: OnceLock<Mutex<Cluster>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| Mutex::new(common::builder().templates(templates()).start().unwrap()));
    common::on(&mut shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner), test);
}

/// Says what the job was given, and stays.
pub(super) const SAY: &str = "env | grep -E '^(TESSERA_GPU|CUDA_VISIBLE|TESSERA_WHY|TESSERA_INST)' | sort\necho looked\nexec sleep 600";

pub(super) fn cancel(cluster: &Cluster, jobs: &[JobId]) {
    let ids: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    cluster.run(User::Root, "scancel", &ids).unwrap().ok().unwrap();
    let wait = |job: &JobId| cluster.wait_end(*job).unwrap();
    jobs.iter().map(wait).for_each(drop);
}

/// UUIDs of a node's GPUs, in its order.
pub(super) fn uuids(cluster: &Cluster, node: &str) -> Vec<String> {
    let mut command = cluster.command_on(node, User::Root, "nvidia-smi").unwrap();
    let out = lab::command::run(command.arg("-L")).unwrap().ok().unwrap();
    let uuid = |line: &str| Some(line.split_once("(UUID: ")?.1.split(')').next()?.to_owned());
    out.lines().filter(|l| l.starts_with("GPU ")).filter_map(uuid).collect()
}

pub(super) fn numbers(text: &str) -> Vec<u32> {
    text.split(',').map(|n| n.parse().unwrap()).collect()
}

/// Runs a job with these options on one node; its GPUs in the order in which it sees them, and all that it said.
pub(super) fn order(cluster: &Cluster, options: &[&str]) -> (Vec<u32>, String) {
    let job = cluster.sbatch(User::Alice, options, SAY).unwrap();
    let said = looked(cluster, job);
    let order = numbers(&variable(&said, "TESSERA_GPU_SET").unwrap());
    let node = cluster.job(job).unwrap().get("BatchHost").to_owned();
    let names = uuids(cluster, &node);
    let seen = variable(&said, "CUDA_VISIBLE_DEVICES").unwrap();
    // All GPUs of a node go by number where the job used no option of ours.
    let by_number = order.len() == names.len() && options.iter().all(|o| !o.starts_with("--gpu-"));
    let name = |g: &u32| if by_number { g.to_string() } else { names[*g as usize].clone() };
    let ours: Vec<String> = order.iter().map(name).collect();
    assert_eq!(seen, ours.join(","), "{said}");
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(cluster.gpus_of(job).unwrap(), sorted, "Slurm's accounts: {said}");
    let shown =
        cluster.run(User::Root, "scontrol", &["show", "job", &job.to_string()]).unwrap().ok().unwrap();
    let comment = shown.lines().find_map(|l| l.trim().strip_prefix("AdminComment=")).unwrap().to_owned();
    let list = order.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    assert!(comment.starts_with(&format!("tessera: {node}=whole:{list}: ")), "{comment}");
    cancel(cluster, &[job]);
    (order, said + &comment)
}

/// Jobs that hold exactly these GPUs of n1, one each: every GPU is taken, and the others given back.
pub(super) fn occupy(cluster: &Cluster, busy: &[u32]) -> Vec<JobId> {
    let one = || cluster.sbatch(User::Bob, &["-w", "n1", "--gres=gpu:1"], "exec sleep 600").unwrap();
    if busy.is_empty() {
        return Vec::new();
    }
    let all: Vec<JobId> = (0..8).map(|_| one()).collect();
    all.iter().for_each(|job| drop(cluster.wait_running(*job).unwrap()));
    let (kept, gone): (Vec<JobId>, Vec<JobId>) =
        all.into_iter().partition(|job| busy.contains(&cluster.gpus_of(*job).unwrap()[0]));
    assert_eq!(kept.len(), busy.len());
    cancel(cluster, &gone);
    kept
}
