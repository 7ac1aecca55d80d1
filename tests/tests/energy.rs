//! Energy, memory, utilisation and traffic of jobs' GPUs reach Slurm's accounting.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{builder, skipped};
use lab::command::{PATIENCE, wait_for};
use lab::config::Templates;
use lab::{Builder, Cluster, JobId, Slurm, User, device_cgroups};
use slurm_releases::Release;

const SLURM: &str = "AcctGatherEnergyType=acct_gather_energy/tessera\n\
                     AcctGatherInterconnectType=acct_gather_interconnect/tessera\n\
                     JobAcctGatherFrequency=task=1";

/// With control groups where there are any, which is where sites have jobacct_gather/cgroup. Test clusters of 24.11 have none.
fn cluster() -> Builder {
    let slurm = Slurm::by_default().unwrap();
    let groups = slurm.release == Release::MACHINE && device_cgroups();
    if slurm.release == Release::MACHINE && !groups {
        skipped("jobacct_gather/cgroup: this machine has no control groups that root may write to");
    }
    let mut templates = Templates::shipped().unwrap();
    // Slurm names a control group after its node, and the test of several GPUs may run at the same time.
    templates.rename_nodes(|name| format!("e{}", &name[1..]));
    templates.tessera.push_str("\n[power]\nenergy = true\n[bandwidth]\nlearn = true\n");
    templates.slurm = templates
        .slurm
        .replace("PrologFlags=Alloc", "PrologFlags=Alloc,Contain")
        .replace("jobacct_gather/none", if groups { "jobacct_gather/cgroup" } else { "jobacct_gather/linux" })
        .replace("license/slice\n", "license/slice,gres/gpumem,gres/gpuutil,ic/nvlink,ic/pcie\n");
    let builder = builder().slurm(slurm).templates(templates).slurm_conf(SLURM).accounting();
    if groups { builder.device_cgroup() } else { builder }
}

/// Joules of a line of sacct or sstat, such as `1.23K`.
fn joules(text: &str) -> f64 {
    let (number, unit) = match text.trim().strip_suffix('K') {
        Some(number) => (number, 1000.0),
        None => (text.trim().trim_end_matches('M'), if text.trim().ends_with('M') { 1e6 } else { 1.0 }),
    };
    number.parse::<f64>().unwrap_or(0.0) * unit
}

/// What `sacct` says a job and its steps have used: the ends of their names, and joules.
fn accounted(cluster: &Cluster, job: JobId) -> Vec<(String, f64)> {
    let id = job.to_string();
    let args = ["-j", &id, "-n", "-P", "-o", "JobID,ConsumedEnergyRaw"];
    let said = cluster.run(User::Root, "sacct", &args).unwrap().ok().unwrap();
    let pair = |line: &str| {
        let (name, raw) = line.split_once('|')?;
        Some((name.strip_prefix(&id)?.to_owned(), joules(raw)))
    };
    said.lines().filter_map(pair).collect()
}

/// The energy counter of a GPU, J.
fn counter(cluster: &Cluster, node: &str, gpu: u32) -> f64 {
    let mut smi = cluster.command_on(node, User::Root, "tessera").unwrap();
    let said = lab::command::run(smi.args(["power", "status", "--json"])).unwrap().ok().unwrap();
    let all: serde_json::Value = serde_json::from_str(&said).unwrap();
    all["gpus"][gpu as usize]["counted_j"].as_f64().unwrap()
}

/// One cluster: two databases at a time do not start.
#[test]
fn sacct_shows_what_jobs_have_used_of_their_gpus() {
    let cluster = cluster().start().unwrap();
    doctor(&cluster);
    energy(&cluster);
    memory_and_utilisation(&cluster);
    steps(&cluster);
    what_was_learnt_counts(&cluster);
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}

/// The plugins are among those whose versions are compared, and slurm.conf has what they need.
fn doctor(cluster: &Cluster) {
    let mut doctor = cluster.command_on("e1", User::Root, "tessera").unwrap();
    let said = lab::command::run(doctor.arg("doctor")).unwrap().stdout;
    for line in ["ok   Slurm: settings and plugins", "ok   versions: 5 plugins, libraries and programs"] {
        assert!(said.contains(line), "{said}");
    }
}

fn energy(cluster: &Cluster) {
    let (before, options) = (counter(cluster, "e1", 0), ["-w", "e1", "--gres=gpu:1"]);
    let job = cluster.sbatch(User::Alice, &options, "sleep 3\nsrun sleep 3\nsleep 2").unwrap();
    assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
    cluster.wait_idle().unwrap();
    let outside = counter(cluster, "e1", 0) - before;
    let all = wait_for("sacct to have the job's energy", PATIENCE, || {
        let all = accounted(cluster, job);
        if all.iter().any(|(name, used)| name.is_empty() && *used > 0.0) {
            Ok(all)
        } else {
            Err(format!("{all:?}"))
        }
    })
    .unwrap();
    let of = |end: &str| all.iter().find(|(name, _)| name == end).map(|(_, used)| *used).unwrap_or_default();
    eprintln!("outside {outside} J, sacct {all:?}");
    assert!(of("") > 0.0 && of("") <= outside + 1.0, "{outside} J outside: {all:?}");
    assert!((of("") - of(".extern")).abs() <= 1.0, "the job's own line is its extern step's: {all:?}");
    assert!(of(".0") > 0.0 && of(".0") < of(".batch"), "a step has its own part: {all:?}");
    assert!(of("") >= outside * 0.6, "most of it is the job's: {outside} J outside: {all:?}");
    // A job without GPUs uses none of it.
    let other = cluster.sbatch(User::Alice, &["-w", "e1"], "sleep 1").unwrap();
    cluster.wait_end(other).unwrap();
    cluster.wait_idle().unwrap();
    assert!(
        accounted(cluster, other).iter().all(|(_, used)| *used == 0.0),
        "{:?}",
        accounted(cluster, other)
    );
}

/// True if a job's steps tell what its GPUs do; up to 24.11 its extern step does.
fn by_steps(cluster: &Cluster) -> bool {
    cluster.release().series >= "25.05"
}

/// The step that tells what a job of one node uses.
fn telling_step(cluster: &Cluster, job: JobId) -> String {
    format!("{job}.{}", if by_steps(cluster) { "batch" } else { "extern" })
}

/// Asks `sacct` or `sstat` for a step's GPU memory on all devices, on the largest, and its utilisation. Empty: not told.
fn sampled(cluster: &Cluster, program: &str, step: &str) -> [String; 3] {
    let args = ["-n", "-P", "-j", step, "-o", "TRESUsageInTot,TRESUsageOutMax"];
    let said = cluster.run(User::Root, program, &args).unwrap().stdout;
    let (used, out) = said.trim().split_once('|').unwrap_or_default();
    let of = |list: &str, name: &str| {
        let value = list.split(',').find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_default().to_owned()
    };
    [of(used, "gres/gpumem"), of(out, "gres/gpumem"), of(used, "gres/gpuutil")]
}

fn wait_sampled(cluster: &Cluster, program: &str, step: &str, wanted: [&str; 3]) {
    wait_for(&format!("{program} to have the samples of step {step}"), PATIENCE, || {
        let now = sampled(cluster, program, step);
        if now == wanted { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .unwrap();
}

fn memory_and_utilisation(cluster: &Cluster) {
    let work = |memory_mib: u32| format!("exec nvml-sim work --app stream --memory-mib {memory_mib}");
    let share = ["-w", "e1", "--gpu-isolation=mps", "--gpu-mem=10G"];
    let two = ["-w", "e2", "--gpu-isolation=mig:1g.10gb", "--gpu-instances=2"];
    let jobs: [(&[&str], String, [&str; 3]); 7] = [
        (&["-w", "e1", "--gpu-mem=20G"], work(6000), ["6000M", "6000M", ""]),
        // The driver of an H100 counts for instances.
        (&["-w", "e2", "--gpu-mem=20G"], work(5000), ["5000M", "5000M", "100"]),
        // A program uses the first of two.
        (&two, work(4000), ["4000M", "4000M", "50"]),
        (&["-w", "e1", "--gres=gpu:2"], work(9000) + " --link-mbps 3000", ["18000M", "9000M", "100"]),
        (&["-w", "e1", "--gres=gpu:1"], "exec sleep 600".to_owned(), ["0", "0", "0"]),
        (&share, work(1000), ["1000M", "1000M", ""]),
        (&share, work(2000), ["2000M", "2000M", ""]),
    ];
    let started: Vec<JobId> = jobs
        .iter()
        .map(|(options, script, _)| cluster.sbatch(User::Alice, options, script).unwrap())
        .collect();
    let all = || started.iter().copied().zip(jobs.iter().map(|(_, _, wanted)| *wanted));
    for (job, wanted) in all() {
        wait_sampled(cluster, "sstat", &telling_step(cluster, job), wanted);
    }
    for job in &started {
        cluster.run(User::Alice, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    }
    for (job, wanted) in all() {
        cluster.wait_end(job).unwrap();
        // The last sample finds nothing any more. What counts is the most.
        wait_sampled(cluster, "sacct", &telling_step(cluster, job), wanted);
    }
    traffic(cluster, &started);
    let report = |job: JobId| {
        let mut report = cluster.command(User::Root, "tessera").unwrap();
        lab::command::run(report.args(["report", &job.to_string()])).unwrap().ok().unwrap()
    };
    let busy =
        ["not known: before the H100, the driver does not report it for instances\n", "at most 100 %, "];
    for ((job, memory), busy) in started.iter().zip(["6.3", "5.2"]).zip(busy) {
        let said = report(*job);
        assert!(
            said.contains(&format!("\n  GPU memory  at most {memory} GB of the 20.0 GB asked for\n")),
            "{said}"
        );
        assert!(said.contains(&format!("\n  GPU busy    {busy}")), "{said}");
    }
}

/// Bytes that a step says were sent over NVLink and over PCIe.
fn sent(cluster: &Cluster, step: &str) -> [Option<u64>; 2] {
    let args = ["-n", "-P", "-j", step, "--noconvert", "-o", "TRESUsageOutTot"];
    let said = cluster.run(User::Root, "sacct", &args).unwrap().ok().unwrap();
    ["ic/nvlink", "ic/pcie"].map(|name| {
        said.trim().split(',').find_map(|entry| entry.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    })
}

/// Checks the traffic of [`memory_and_utilisation`]'s jobs: the fourth sends 3 GB/s between two GPUs with NVLinks, and the fifth has one idle GPU.
fn traffic(cluster: &Cluster, started: &[JobId]) {
    let sent = |job: JobId| sent(cluster, &telling_step(cluster, job));
    let [nvlink, pcie]: [Option<u64>; 2] = sent(started[3]);
    assert!(nvlink.is_some_and(|bytes| bytes > 3_000_000_000), "{nvlink:?}");
    assert_eq!(pcie, Some(0), "all of it went over NVLink");
    assert_eq!(sent(started[4]), [Some(0); 2]);
    assert_eq!(sent(started[0]), [None; 2], "the driver does not count for instances");
    let mut report = cluster.command(User::Root, "tessera").unwrap();
    let said = lab::command::run(report.args(["report", &started[3].to_string()])).unwrap().ok().unwrap();
    assert!(said.contains("\n  links       ") && said.contains(" GB sent over NVLink"), "{said}");
}

/// Checks jobs with several steps, tasks and nodes: one step answers on each node, for the whole job, and no byte counts twice.
fn steps(cluster: &Cluster) {
    if !by_steps(cluster) {
        return;
    }
    let task = "timeout -s INT 15 nvml-sim work --app stream --memory-mib 1000 --link-mbps 500";
    // Two tasks that use two GPUs in each of two steps, side by side.
    let step = format!("srun -n2 --overlap {task}");
    let script = format!("{step} & {step}; wait");
    let one = cluster.sbatch(User::Alice, &["-w", "e1", "-n2", "--gres=gpu:2"], &script).unwrap();
    // The first node has the script, the second one only the step.
    let both = ["-N2", "-w", "e1,e2", "-n4", "--ntasks-per-node=2", "--gres=gpu:2"];
    let two = cluster.sbatch(User::Alice, &both, &format!("srun {task}")).unwrap();
    // No script: several tasks of one step.
    let bare = ["-w", "e1", "-n2", "--gres=gpu:2", "sh", "-c", &format!("echo $SLURM_JOB_ID; exec {task}")];
    let said = cluster.run(User::Alice, "srun", &bare).unwrap().stdout;
    let three = JobId(said.lines().find_map(|line| line.parse().ok()).unwrap());
    let [none, of_one, of_two] = [["", "", ""], ["8000M", "4000M", "100"], ["4000M", "2000M", "100"]];
    // With the processes that send on a node: each sends 500 MB/s to the other GPU.
    let wanted = [
        (one, "batch", of_one, 4),
        (one, "0", none, 0),
        (one, "1", none, 0),
        (two, "batch", of_two, 2),
        (two, "0", of_two, 2),
        (three, "0", of_two, 2),
    ];
    for (job, step, wanted, senders) in wanted {
        cluster.wait_end(job).unwrap();
        let step = format!("{job}.{step}");
        wait_for("sacct to have the step", PATIENCE, || {
            let said =
                cluster.run(User::Root, "sacct", &["-n", "-P", "-j", &step, "-o", "State"]).unwrap().stdout;
            if said.trim() == "COMPLETED" || said.starts_with("FAILED") { Ok(()) } else { Err(said) }
        })
        .unwrap();
        wait_sampled(cluster, "sacct", &step, wanted);
        let [nvlink, _] = sent(cluster, &step);
        eprintln!("{step}: {nvlink:?} bytes over NVLink");
        // Bytes before the first sample and after the last one are missed.
        let most = senders * 15 * 2 * 500_000_000;
        let right = |bytes: u64| bytes > most / 10 && bytes < most * 3 / 2;
        assert!(nvlink.map_or(senders == 0, right), "{step}: {nvlink:?} of at most {most}");
    }
    let nvlink = |step: String| sent(cluster, &step)[0].unwrap();
    let sum = nvlink(format!("{two}.batch")) + nvlink(format!("{two}.0"));
    let mut report = cluster.command(User::Root, "tessera").unwrap();
    let said = lab::command::run(report.args(["report", &two.to_string(), "--json"])).unwrap().ok().unwrap();
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&json["nvlink_sent_bytes"], &json["memory_mib"]), (&sum.into(), &8000.into()), "{json}");
}

/// A user's job counts as the table says, if it does not say itself.
fn what_was_learnt_counts(cluster: &Cluster) {
    let mut write = cluster.command(User::Root, "tessera").unwrap();
    let said = lab::command::run(write.args(["traffic", "--write"])).unwrap().ok().unwrap();
    let path = said.trim_end().lines().next_back().unwrap().strip_suffix(": 0 rows").unwrap();
    let row = format!("{} name quiet 2 insensitive\n", User::Alice.ids().unwrap().0);
    std::fs::write(path, std::fs::read_to_string(path).unwrap() + &row).unwrap();
    let cases: [(User, &[&str], &str); 3] = [
        (User::Alice, &[], "insensitive"),
        (User::Alice, &["--gpu-bandwidth=sensitive"], "sensitive"),
        (User::Bob, &[], "sensitive"),
    ];
    let submit = |(user, own, expected): (User, &[&str], &'static str)| {
        let options = [&["-w", "e1", "-J", "quiet", "--gres=gpu:2"], own].concat();
        (cluster.sbatch(user, &options, "echo $TESSERA_GPU_MATCH").unwrap(), expected)
    };
    for (job, expected) in cases.map(submit) {
        assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
        let said = cluster.output(job);
        assert!(said.contains(&format!(" bandwidth={expected} ")), "job {job}: {said}");
    }
}
