//! What the ranks of one job can take together, on the simulated driver: never more than is counted for the job.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use audit::{CountedJob, audit_fence, left_limits};
use common::{builder, on};
use lab::command::{PATIENCE, run, wait_for};
use lab::config::Templates;
use lab::{Cluster, JobId, User, paths};
use slurm_releases::Release;

/// GPUs for instances and shares, and GPUs that jobs of GPU tasks share whole.
const NODES: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\nmig = \"on\"\nmemory_fence = true\n\
                     [[nodes]]\nnames = \"n2\"\ngpu = \"v100-16gb\"\ncount = 1\nmig = \"off\"\n";

/// MiB per allocation.
const CHUNK_MIB: u64 = 64;
/// Allocations that a rank tries: more than the 3 GB that it might think are its own.
const TRIES: usize = 50;
/// 3 GB.
const ASKED_MIB: u64 = 2862;

fn cluster() -> Cluster {
    let mut templates = Templates::for_nodes(NODES).unwrap();
    templates.tessera = templates.tessera.replace("[mps]\n", "[tasks]\n[mps]\n");
    let cluster = builder().templates(templates).start().unwrap();
    let crate_dir = paths::workspace().join("crates/sim/cuda-sim");
    let program = cluster.layout().at("bin").join("cuda-client");
    let mut cc = Command::new("cc");
    cc.arg("-I").arg(crate_dir.join("include")).arg(crate_dir.join("tests/client.c")).arg("-pthread");
    cc.arg(cluster.layout().at("lib").join("libcuda.so.1")).arg("-o").arg(program);
    run(&mut cc).unwrap().ok().unwrap();
    cluster
}

/// Starts a job of four ranks. Each takes what it gets, and keeps it until [`Ranks::end`].
struct Ranks<'a> {
    cluster: &'a Cluster,
    job: JobId,
    dir: PathBuf,
}

impl<'a> Ranks<'a> {
    /// `start` runs `sh rank.sh` four times.
    fn start(cluster: &'a Cluster, name: &str, options: &[&str], start: &str) -> Self {
        let dir = cluster.layout().jobs().join(name);
        let tries = vec![format!("alloc {}", CHUNK_MIB << 20); TRIES].join(" ");
        // The program keeps its memory until its input ends.
        let script = format!(
            "mkdir -p {0}; cd {0}\ncat > rank.sh <<'END'\n\
             (until [ -e go ]; do sleep 0.2; done) | cuda-client init context 0 {tries} wait > took.$$\nEND\n\
             {start}\n",
            dir.display()
        );
        let options = [&["-n4", "-t5"], options].concat();
        let job = cluster.sbatch(User::Alice, &options, &script).unwrap();
        Self { cluster, job, dir }
    }

    /// Waits until every rank has tried, and returns what each has taken, in MiB.
    fn took(&self) -> Vec<u64> {
        wait_for("four ranks to take what they get", PATIENCE, || {
            let files = fs::read_dir(&self.dir).map_err(|e| e.to_string())?.flatten();
            let files = files.filter(|f| f.file_name().to_string_lossy().starts_with("took."));
            let texts: Vec<String> = files.filter_map(|f| fs::read_to_string(f.path()).ok()).collect();
            if texts.len() == 4 && texts.iter().all(|text| text.contains("waiting\n")) {
                return Ok(texts
                    .iter()
                    .map(|t| t.matches("alloc: 0\n").count() as u64 * CHUNK_MIB)
                    .collect());
            }
            Err(format!("{texts:?}; {}", self.cluster.output(self.job)))
        })
        .unwrap()
    }

    /// Lets the ranks end, and returns what the job printed.
    fn end(self) -> String {
        fs::write(self.dir.join("go"), "").unwrap();
        let ended = self.cluster.wait_end(self.job).unwrap();
        let text = self.cluster.output(self.job);
        assert_eq!(ended.state(), "COMPLETED", "{text}");
        text
    }
}

/// Memory in use on a node's GPUs, as the driver's tool shows it to root, MiB.
fn used(cluster: &Cluster, node: &str) -> u64 {
    let mut smi = cluster.command_on(node, User::Root, "nvidia-smi").unwrap();
    let done = run(smi.args(["--query-gpu=memory.used", "--format=csv,noheader,nounits"])).unwrap();
    done.ok().unwrap().lines().map(|line| line.trim().parse::<u64>().unwrap()).sum()
}

const BY_SRUN: &str = "srun -n4 sh rank.sh";

/// However its ranks are started, the job cannot take more than the share that is counted once.
fn a_share_is_divided(cluster: &Cluster) {
    let steps = "for i in 1 2 3 4; do srun -n1 --overlap sh rank.sh & done; wait";
    let by_script = "for i in 1 2 3 4; do sh rank.sh & done; wait";
    for (name, start) in [("srun", BY_SRUN), ("steps", steps), ("script", by_script)] {
        let options = ["--gpu-isolation=mps", "--gpu-mem=3G", "-w", "n1"];
        let ranks = Ranks::start(cluster, name, &options, start);
        let took = ranks.took();
        let sum: u64 = took.iter().sum();
        // 714 MiB for each, less 58 MiB for its context, in whole chunks.
        assert!(sum <= ASKED_MIB && took.iter().all(|mib| *mib == 640), "{name}: {took:?}");
        let tres = cluster.job(ranks.job).unwrap().get("TresPerNode").to_owned();
        assert!(tres.ends_with("shard:3"), "counted once: {tres}");
        let said = ranks.end();
        assert!(said.contains("a share of 3.0 GB (MPS, cooperative; 749 MB per process)"), "{said}");
    }
}

/// The instance itself ends, whichever rank takes its memory.
fn an_instance_ends_by_itself(cluster: &Cluster) {
    let options = ["--gpu-isolation=mig", "--gpu-mem=3G", "-w", "n1"];
    let ranks = Ranks::start(cluster, "mig", &options, BY_SRUN);
    let took = ranks.took();
    let sum: u64 = took.iter().sum();
    // 1g.5gb, which no two ranks fill.
    assert!((ASKED_MIB..=4864).contains(&sum), "{took:?}");
    let said = ranks.end();
    assert!(said.contains("1g.5gb (5.1 GB)"), "{said}");
}

/// Of GPU tasks each process has the memory, and each is counted by the broker.
fn tasks_are_counted_each(cluster: &Cluster) {
    let idle = used(cluster, "n2");
    let options = ["--gpu-isolation=gpu-tasks", "--gpu-mem=3G", "-w", "n2"];
    let ranks = Ranks::start(cluster, "tasks", &options, BY_SRUN);
    let took = ranks.took();
    assert!(took.iter().all(|mib| *mib + CHUNK_MIB > ASKED_MIB), "{took:?}");
    let run_dir = cluster.layout().at("nodes").join("n2").join("run");
    let account = task_control::Broker::at(&run_dir, PATIENCE).status().unwrap();
    let (counted, device) = (account.devices[0].leased_mib, &account.devices[0]);
    let sum: u64 = took.iter().sum();
    assert!(sum <= counted && counted <= device.mem_mib, "{took:?} of {account:?}");
    assert!(used(cluster, "n2") - idle <= counted + device.overhead_mib, "{took:?} of {account:?}");
    let said = ranks.end();
    assert!(said.contains("4 seats for GPU tasks with 3.0 GB per process (library, cooperative)"), "{said}");
}

/// A kernel with a region for each of a node's GPUs, as plain files. Such a tree makes no files in a new group: a job's group is
/// made for it, while it is held.
struct Kernel {
    root: PathBuf,
    proc: PathBuf,
    capacity: String,
}

impl Kernel {
    fn boot(node: &Path) -> Self {
        let (root, proc) = (node.join("cgroup"), node.join("proc"));
        let gpus = fs::read_dir(proc.join("driver/nvidia/gpus")).unwrap().flatten();
        let region = |bus: &str| format!("nvidia/{}/vidmem 42949672960\n", bus.trim_end_matches(".0"));
        let capacity: String = gpus.map(|gpu| region(&gpu.file_name().to_string_lossy())).collect();
        fs::create_dir_all(root.join("system.slice/slurmstepd.scope")).unwrap();
        for dir in ["", "system.slice", "system.slice/slurmstepd.scope"] {
            fs::write(root.join(dir).join("cgroup.subtree_control"), "cpu memory\n").unwrap();
        }
        fs::write(root.join("dmem.capacity"), &capacity).unwrap();
        Self { root, proc, capacity }
    }

    /// Makes the group of a job, and lets slurmstepd find itself in it.
    fn group(&self, name: &str) -> PathBuf {
        let group = format!("system.slice/slurmstepd.scope/{name}");
        let dir = self.root.join(&group);
        fs::create_dir(&dir).unwrap();
        let max = |line: &str| line.split(' ').next().unwrap().to_owned() + " max\n";
        fs::write(dir.join("dmem.max"), self.capacity.lines().map(max).collect::<String>()).unwrap();
        fs::create_dir_all(self.proc.join("self")).unwrap();
        fs::write(self.proc.join("self/cgroup"), format!("0::/{group}/step_batch/slurm\n")).unwrap();
        dir.join("dmem.max")
    }
}

/// Gives the name of a job's control group, which Slurm 26.05 takes from its SLUID.
fn group_name(cluster: &Cluster, job: JobId) -> String {
    if cluster.release() != Release::V26_05 {
        return format!("job_{job}");
    }
    let asked = ["-h", "-j", &job.to_string(), "-O", "SLUID:40"];
    cluster.run(User::Root, "squeue", &asked).unwrap().ok().unwrap().trim().to_owned()
}

/// Where the kernel has regions for the GPUs, the job's control group holds the share, and everybody says so.
fn the_kernel_holds_a_share(cluster: &Cluster) {
    let kernel = Kernel::boot(&cluster.layout().node("n1"));
    let go = cluster.layout().jobs().join("fence.go");
    let options = ["-H", "-n1", "-t5", "--gpu-isolation=mps", "--gpu-mem=3G", "-w", "n1"];
    let script = format!("until [ -e {} ]; do sleep 0.2; done; echo $TESSERA_GPU_SHARE", go.display());
    let job = cluster.sbatch(User::Alice, &options, &script).unwrap();
    let max = kernel.group(&group_name(cluster, job));
    cluster.run(User::Root, "scontrol", &["release", &job.to_string()]).unwrap().ok().unwrap();
    cluster.wait_running(job).unwrap();
    wait_for("the job's log", PATIENCE, || {
        let said = cluster.output(job);
        if said.contains("a share of 3.0 GB (kernel) and") { Ok(()) } else { Err(said) }
    })
    .unwrap();
    let text = fs::read_to_string(&max).unwrap();
    let limited = left_limits(&text);
    assert!(limited.len() == 1 && limited[0].ends_with(&format!(" {}", ASKED_MIB << 20)), "{text}");
    let gpu = limited[0].split('/').nth(1).unwrap();
    let counted = |max| {
        audit_fence(
            &kernel.capacity,
            &CountedJob { job: geometry::JobId(job.0), gpu, mem_mib: ASKED_MIB, max },
        )
    };
    assert_eq!(counted(&text), [""; 0]);

    let tessera = |user, args: &[&str]| {
        let done = run(cluster.command_on("n1", user, "tessera").unwrap().args(args)).unwrap();
        done.stdout + &done.stderr
    };
    let said =
        tessera(User::Alice, &["explain", "--node", "n1", "--gpu-isolation=mps", "--gpu-mem=3G", "--json"]);
    assert!(said.contains("\"memory_level\": \"kernel\""), "{said}");
    let said = tessera(User::Root, &["discover"]);
    assert!(said.contains("memory_fence = true # memory of shares: kernel"), "{said}");
    let said = tessera(User::Root, &["doctor"]);
    assert!(said.contains("the kernel has a region for the memory of each GPU"), "{said}");
    // Somebody raises the limit.
    let raised = text.replace(limited[0], &limited[0].replace(&(ASKED_MIB << 20).to_string(), "max"));
    fs::write(&max, &raised).unwrap();
    assert_eq!(counted(&raised).len(), 1);
    let said = tessera(User::Root, &["doctor"]);
    assert!(
        said.contains(&format!("job {job}: its control group may take all of nvidia/{gpu}/vidmem")),
        "{said}"
    );
    fs::write(&max, &text).unwrap();

    fs::write(&go, "").unwrap();
    assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
    assert!(cluster.output(job).contains("3.0 GB (kernel), "), "{}", cluster.output(job));
    wait_for("the epilog to put the limit back", PATIENCE, || {
        let text = fs::read_to_string(&max).unwrap();
        if left_limits(&text).is_empty() { Ok(()) } else { Err(text) }
    })
    .unwrap();
}

#[test]
fn four_ranks_take_what_is_counted_for_their_job_and_no_more() {
    let mut cluster = cluster();
    on(&mut cluster, |cluster| {
        a_share_is_divided(cluster);
        an_instance_ends_by_itself(cluster);
        tasks_are_counted_each(cluster);
        the_kernel_holds_a_share(cluster);
    });
}
