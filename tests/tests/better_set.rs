//! Jobs that wait for better GPUs than are free now, on a node with the links of a DGX-1V. Both of slurmctld's schedulers
//! are active.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::time::{Duration, UNIX_EPOCH};

use lab::command::{PATIENCE, wait_for};
use lab::{Cluster, Daemon, JobId, User};

/// Both schedulers soon after each other.
const OFTEN: &str = "SchedulerParameters=bf_interval=3,sched_interval=6,batch_sched_delay=1\n";
const STAY: &str = "exec sleep 600";

fn submit(cluster: &Cluster, options: &[&str]) -> JobId {
    let mut all = vec!["-w", "n1", "-t", "30"];
    all.extend(options);
    cluster.sbatch(User::Alice, &all, STAY).unwrap()
}

fn end(cluster: &Cluster, jobs: &[JobId]) {
    for job in jobs {
        cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    }
    jobs.iter().for_each(|job| drop(cluster.wait_end(*job).unwrap()));
}

/// A job on each GPU of n1, by GPU.
fn fill(cluster: &Cluster, partition: &str) -> Vec<JobId> {
    let jobs: Vec<JobId> = (0..8).map(|_| submit(cluster, &["-p", partition, "--gres=gpu:1"])).collect();
    jobs.iter().for_each(|job| drop(cluster.wait_running(*job).unwrap()));
    let mut by_gpu: Vec<(u32, JobId)> =
        jobs.into_iter().map(|job| (cluster.gpus_of(job).unwrap()[0], job)).collect();
    by_gpu.sort_unstable();
    by_gpu.into_iter().map(|(_, job)| job).collect()
}

/// What a job's AdminComment says, without what the job asks.
fn admin_comment(cluster: &Cluster, job: JobId) -> String {
    let shown =
        cluster.run(User::Alice, "scontrol", &["show", "job", &job.to_string()]).unwrap().ok().unwrap();
    let comment = shown.lines().find_map(|l| l.trim().strip_prefix("AdminComment="));
    let comment = comment.unwrap_or_default();
    comment.split_once("; asks ").map_or(comment, |(says, _)| says).to_owned()
}

fn wait_waiting(cluster: &Cluster, job: JobId) -> String {
    wait_for(&format!("job {job} to wait"), PATIENCE, || {
        let comment = admin_comment(cluster, job);
        if comment.starts_with("tessera: waits until ") { Ok(comment) } else { Err(comment) }
    })
    .unwrap()
}

/// How many seconds a job waited, by Slurm: a short wait may be over before a slow machine looks at it.
fn waited(cluster: &Cluster, job: JobId) -> u64 {
    let words = ["SLURM_TIME_FORMAT=%s", "scontrol", "-o", "show", "job", &job.to_string()];
    let shown = cluster.run(User::Root, "env", &words).unwrap().ok().unwrap();
    let time = |key: &str| -> u64 {
        let word = shown.split_whitespace().find_map(|word| word.strip_prefix(key));
        word.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{shown}"))
    };
    time("StartTime=") - time("SubmitTime=")
}

#[test]
fn a_job_waits_for_better_gpus_and_others_pass() {
    let mut cluster = common::builder().slurm_conf(OFTEN).start().unwrap();
    let busy = fill(&cluster, "gpu");
    // GPUs 0 and 6 have no link: 10 GB/s.
    end(&cluster, &[busy[0], busy[6]]);

    // What could never be had is not waited for: a DGX-1V has no pair above 50 GB/s.
    let job = submit(&cluster, &["--gres=gpu:2", "--gpu-wait=50GB/s,10:00"]);
    cluster.wait_running(job).unwrap();
    let got = admin_comment(&cluster, job);
    assert!(got.ends_with(", no set in its reach is above 50 GB/s"), "{got}");
    end(&cluster, &[job]);
    // Nor for a single GPU.
    let job = submit(&cluster, &["--gres=gpu:1", "--gpu-wait=25GB/s,10:00"]);
    cluster.wait_running(job).unwrap();
    end(&cluster, &[job]);

    // Slurm asks when it could start: when the wait is over, for the others stay longer.
    let asks = |options: &[&str]| {
        let mut words =
            vec!["SLURM_TIME_FORMAT=%s", "sbatch", "--test-only", "-w", "n1", "-t", "30", "--gres=gpu:2"];
        words.extend(options);
        words.extend(["--wrap", "true"]);
        let now = || UNIX_EPOCH.elapsed().unwrap().as_secs();
        let before = now();
        let said = cluster.run(User::Alice, "env", &words).unwrap();
        let said = said.stdout + &said.stderr;
        let start =
            said.split_once(" to start at ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        let start: u64 = start.unwrap_or_else(|| panic!("{said}"));
        // At least and at most so long after it was asked.
        (start.saturating_sub(now()), start.saturating_sub(before))
    };
    assert!(asks(&[]).0 < 60);
    let (least, most) = asks(&["--gpu-wait=25GB/s,10:00"]);
    assert!(least <= 600 && most >= 590, "{least} to {most}");

    // The others pass, also one that needs the same node for longer than the wait.
    let patient = submit(&cluster, &["--gres=gpu:2", "--gpu-wait=25GB/s,10:00"]);
    let comment = wait_waiting(&cluster, patient);
    assert!(comment.ends_with(" for GPUs above 25 GB/s: 10.0 GB/s on n1 now"), "{comment}");
    let passes = submit(&cluster, &["--gres=gpu:2"]);
    cluster.wait_running(passes).unwrap();
    assert_eq!(cluster.gpus_of(passes).unwrap(), [0, 6]);
    let waiting = cluster.job(patient).unwrap();
    assert_eq!((waiting.state(), waiting.reason()), ("PENDING", "Resources"));
    assert_eq!(admin_comment(&cluster, patient), comment, "the wait began once");
    cluster.wait_saved(passes).unwrap();
    cluster.kill9(&Daemon::Slurmctld).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    assert_eq!(admin_comment(&cluster, patient), comment, "and goes on");

    // A pair with two links comes free beside the others: GPUs 0 and 3.
    end(&cluster, &[passes, busy[3]]);
    cluster.wait_running(patient).unwrap();
    assert_eq!(cluster.gpus_of(patient).unwrap(), [0, 3]);
    let got = admin_comment(&cluster, patient);
    assert!(got.starts_with("tessera: n1=whole:0,3: ") && !got.contains("wait"), "{got}");

    // Nothing better comes free: when its time is over the job takes what there is, GPUs 1 and 6 without a link.
    end(&cluster, &[busy[1]]);
    let hurried = submit(&cluster, &["--gpus=2", "-N1", "--gpu-wait=25GB/s,12s"]);
    cluster.wait_running(hurried).unwrap();
    assert_eq!(cluster.gpus_of(hurried).unwrap(), [1, 6]);
    let got = admin_comment(&cluster, hurried);
    assert!(got.ends_with(", its wait for more than 25 GB/s is over"), "{got}");
    assert!(waited(&cluster, hurried) >= 12);
}

/// `gpu` is the lowest of these partitions, and its jobs make way for those of the others.
const PARTITIONS: &str = "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n\
    PartitionName=linked Nodes=n1 PriorityTier=2 PreemptMode=OFF\n\
    PartitionName=pcie Nodes=n2 PriorityTier=2 PreemptMode=OFF\n";

#[test]
fn a_job_that_waits_in_several_partitions_preempts_nobody_and_is_not_forgotten() {
    let cluster = common::builder().slurm_conf(OFTEN).slurm_conf(PARTITIONS).start().unwrap();
    let busy = fill(&cluster, "linked");
    end(&cluster, &[busy[0], busy[6]]);
    let waits = ["-t", "30", "--gres=gpu:2", "--gpu-wait=25GB/s,10:00"];
    let patient = |options: &[&str]| {
        let job = cluster.sbatch(User::Alice, &[&waits, options].concat(), STAY).unwrap();
        wait_waiting(&cluster, job);
        job
    };

    // n2 is idle and has no links at all, but n1 is in reach as well.
    let job = patient(&["-p", "linked,pcie"]);
    end(&cluster, &[job]);

    // GPUs 0 and 6 are a lower job's, and not worth ending it.
    let low = submit(&cluster, &["--gres=gpu:2"]);
    cluster.wait_running(low).unwrap();
    let job = patient(&["-p", "linked"]);
    std::thread::sleep(Duration::from_secs(8));
    assert_eq!(cluster.job(low).unwrap().state(), "RUNNING");
    end(&cluster, &[job, low]);

    // Nothing else happens on the cluster when the wait is over, and the main scheduler does not start such a job.
    let options = [
        "-p",
        "linked",
        "-t",
        "30",
        "--gres=gpu:2",
        "--gpu-wait=25GB/s,10s",
        ":",
        "-p",
        "pcie",
        "--gres=gpu:1",
    ];
    let job = cluster.sbatch(User::Alice, &options, STAY).unwrap();
    cluster.wait_running(job).unwrap();
    assert_eq!(cluster.gpus_of(job).unwrap(), [0, 6]);
    let waited = waited(&cluster, job);
    assert!((10..40).contains(&waited), "{waited}");
}
