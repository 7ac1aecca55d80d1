//! Plans that become jobs, the planner, and what it learns from accounting.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::process::{Child, Stdio};

use common::{admin_comment, builder, with};
use lab::command::{Done, PATIENCE, run, wait_for};
use lab::{Cluster, JobId, User};
use protocol::AdminComment;
use serde_json::Value;

/// Runs `tessera` as a user, where jobs' files go.
fn tessera(cluster: &Cluster, user: User, args: &[&str]) -> Done {
    let mut command = cluster.command(user, "tessera").unwrap();
    run(command.args(args)).unwrap()
}

/// A file that both users may read.
fn file(cluster: &Cluster, name: &str, text: &str) -> String {
    let path = cluster.layout().jobs().join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// AdminComment, which `scontrol` prints with spaces in it.
fn comment(cluster: &Cluster, job: JobId) -> String {
    admin_comment(cluster, job).to_string()
}

fn cancel(cluster: &Cluster, job: JobId) {
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
}

#[test]
fn a_submitted_plan_runs_on_the_planned_instances_in_the_planned_order() {
    with(|cluster| {
        let tasks = file(
            cluster,
            "plan.csv",
            "name,1g,2g,3g,4g,7g,command\n\
             a,9s,5s,4s,4s,4s,sleep 3\nb,,6s,4s,3s,2s,sleep 2\nc,4s,3s,3s,3s,3s,sleep 2\nd,,,,6s,3s,sleep 2\ne,,,,,2s,sleep 1\n\
             f,3s,3s,3s,3s,3s,exit 3\n",
        );
        let record = cluster.layout().jobs().join("plan.json").display().to_string();
        let args = ["plan", "--tasks", &tasks, "--on", "n1:5", "--submit", "--wait", "--record", &record];
        let done = tessera(cluster, User::Alice, &[&args[..], &["--", "--output=/dev/null"]].concat());
        assert_eq!(done.code, Some(1), "one task fails: {}{}", done.stdout, done.stderr);

        let json = tessera(cluster, User::Alice, &["plan", "--json", "--reality", &record]).stdout;
        let value: Value = serde_json::from_str(&json).unwrap();
        let tasks = value["tasks"].as_array().unwrap();
        assert_eq!(tasks.len(), 6);
        for task in tasks {
            let state = if task["task"] == "f" { "FAILED" } else { "COMPLETED" };
            assert_eq!(task["state"], state, "{json}");
            assert_eq!(task["moved"], false, "{json}");
            assert_eq!((&task["node"], &task["gpu"]), (&Value::from("n1"), &Value::from(5)), "{json}");
        }
        // The same is found by the jobs alone.
        let ids: Vec<String> = tasks.iter().map(|task| task["job"].to_string()).collect();
        let by_jobs = tessera(cluster, User::Alice, &["plan", "--json", "--reality", &ids.join(",")]).stdout;
        let by_jobs: Value = serde_json::from_str(&by_jobs).unwrap();
        for key in ["id", "makespan", "real_makespan", "tasks"] {
            assert_eq!(by_jobs[key], value[key]);
        }
        // On one slice nothing begins before the one planned before it has ended, failed or not.
        let get = |task: &Value, key: &str| task[key].as_f64().unwrap();
        let units = |task: &Value| {
            let profile =
                geometry::Model::find("a100-40gb").unwrap().profile(task["profile"].as_str().unwrap());
            let start = task["start"].as_u64().unwrap();
            start..start + u64::from(profile.unwrap().size)
        };
        for (a, b) in tasks.iter().flat_map(|a| tasks.iter().map(move |b| (a, b))) {
            let (x, y) = (units(a), units(b));
            if x.start < y.end && y.start < x.end && get(a, "begin") < get(b, "begin") {
                assert!(
                    get(a, "real_end") <= get(b, "real_begin"),
                    "{} and {}: {json}",
                    a["task"],
                    b["task"]
                );
            }
        }
    });
}

#[test]
fn a_plan_that_slurm_refuses_leaves_nothing_behind() {
    with(|cluster| {
        let tasks = file(cluster, "bad.csv", "name,1g,7g,command\na,9s,5s,true\nb,9s,5s,true\n");
        let args = ["plan", "--tasks", &tasks, "--on", "n1:0", "--submit", "--", "--partition=nowhere"];
        let said = tessera(cluster, User::Alice, &args).refused().unwrap();
        assert!(said.contains("nowhere") || said.contains("artition"), "{said}");
        assert!(said.contains("nothing was submitted"), "{said}");
        let args = ["plan", "--tasks", &tasks, "--on", "n1:9", "--submit"];
        let said = tessera(cluster, User::Alice, &args).refused().unwrap();
        assert!(said.contains("n1 has GPUs 0 to 7"), "{said}");
        let left = cluster.run(User::Root, "squeue", &["-h"]).unwrap().ok().unwrap();
        assert_eq!(left, "");
    });
}

/// Jobs that have every GPU of both nodes.
fn fill(cluster: &Cluster) -> Vec<JobId> {
    let whole = |node: &str, gpus: &str| {
        let count = format!("--gpus-per-node={gpus}");
        let options = ["--gpu-isolation=whole", &count, "-w", node, "--time=5"];
        let job = cluster.sbatch(User::Bob, &options, "sleep 300").unwrap();
        cluster.wait_running(job).unwrap();
        job
    };
    vec![whole("n1", "8"), whole("n2", "4")]
}

/// Pending jobs of Alice that scale perfectly, but would take the smallest size by themselves.
fn moldable(cluster: &Cluster, count: usize) -> Vec<JobId> {
    let options = ["--gpu-times=1g:60s,2g:31s,3g:21s,4g:16s,7g:9.5s"];
    let submit = |_| cluster.sbatch(User::Alice, &options, "sleep 1").unwrap();
    let jobs: Vec<JobId> = (0..count).map(submit).collect();
    for &job in &jobs {
        cluster.wait_job(job, "pending", |j| j.state() == "PENDING").unwrap();
        assert!(admin_comment(cluster, job).asks.is_some(), "{}", comment(cluster, job));
    }
    jobs
}

/// Plans pending jobs once and lets them run.
fn planned_once(cluster: &Cluster) {
    let full = fill(cluster);
    let jobs = moldable(cluster, 3);
    let held = cluster.sbatch(User::Alice, &["--gpu-times=1g:60s,7g:9s", "-H"], "true").unwrap();

    let dry = tessera(cluster, User::Root, &["planner", "--once", "--dry-run"]).ok().unwrap();
    assert_eq!(dry.lines().filter(|l| l.starts_with("job ")).count(), 3, "{dry}");
    assert!(admin_comment(cluster, jobs[0]).plan().is_none(), "a dry run sets nothing");

    let said = tessera(cluster, User::Root, &["planner", "--once"]).ok().unwrap();
    let plans: Vec<_> = jobs.iter().map(|&j| admin_comment(cluster, j).plan().unwrap().clone()).collect();
    for plan in &plans {
        assert!(plan.size.starts_with("7g."), "alone on its GPU, each is fastest on all of it: {said}");
    }
    assert!(admin_comment(cluster, jobs[0]).asks.is_some(), "the request stays for the next plan");
    assert!(admin_comment(cluster, held).plan().is_none(), "a held job is left alone");
    assert!(!said.contains(&format!("job {held} ")), "{said}");

    full.iter().for_each(|&job| cancel(cluster, job));
    for (&job, plan) in jobs.iter().zip(&plans) {
        assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
        let comment = admin_comment(cluster, job);
        let started = comment.started().unwrap();
        let got = started.got.split_once("=mig:").unwrap().1;
        assert!(got.contains(&format!("/{}@", plan.size)), "planned {plan:?}, got {started:?}");
    }
    let again = tessera(cluster, User::Root, &["planner", "--once"]).ok().unwrap();
    assert_eq!(again, "", "nothing is left to plan");
    // Plan against reality.
    let ids: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    let json = tessera(cluster, User::Alice, &["plan", "--json", "--reality", &ids.join(",")]).ok().unwrap();
    let value: Value = serde_json::from_str(&json).unwrap();
    let tasks = value["tasks"].as_array().unwrap();
    assert!(tasks.len() == 3 && tasks.iter().all(|task| task["real_end"].is_number()), "{json}");
}

#[test]
fn pending_jobs_are_planned_and_run_as_planned() {
    with(|cluster| planned_once(cluster));
}

/// A planner in the background, which has begun.
fn planner(cluster: &Cluster) -> Child {
    let path = cluster.layout().jobs().join("planner.err");
    let said = std::fs::File::create(&path).unwrap();
    let mut command = cluster.command(User::Root, "tessera").unwrap();
    command.args(["planner", "--every", "1s"]).stdout(Stdio::null()).stderr(said);
    let child = command.spawn().unwrap();
    wait_for("the planner to begin", PATIENCE, || {
        let said = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
        if said.contains("planning every") { Ok(()) } else { Err(said) }
    })
    .unwrap();
    child
}

fn planned(cluster: &Cluster, jobs: &[JobId]) {
    wait_for("the jobs to be planned", PATIENCE, || {
        let comments: Vec<String> = jobs.iter().map(|&j| comment(cluster, j)).collect();
        let all = comments.iter().all(|c| AdminComment::parse(c).plan().is_some());
        if all { Ok(()) } else { Err(comments.join("\n")) }
    })
    .unwrap();
}

#[test]
fn jobs_run_although_the_planner_was_killed() {
    with(|cluster| {
        let full = fill(cluster);
        let jobs = moldable(cluster, 2);
        let mut first = planner(cluster);
        planned(cluster, &jobs);
        let second = tessera(cluster, User::Root, &["planner", "--once"]).refused().unwrap();
        assert!(second.contains("another planner is running"), "{second}");
        first.kill().unwrap();
        first.wait().unwrap();
        let late = moldable(cluster, 1);
        full.iter().for_each(|&job| cancel(cluster, job));
        for &job in jobs.iter().chain(&late) {
            assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
        }
        // The lock went with it.
        tessera(cluster, User::Root, &["planner", "--once"]).ok().unwrap();
    });
}

#[test]
fn the_planner_ends_cleanly_when_told() {
    with(|cluster| {
        let mut child = planner(cluster);
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = wait_for("the planner to end", PATIENCE, || {
            child.try_wait().map_err(|e| e.to_string())?.ok_or_else(|| "alive".to_owned())
        });
        assert!(status.unwrap().success());
    });
}

#[test]
fn a_user_cannot_run_the_planner() {
    with(|cluster| {
        let said = tessera(cluster, User::Alice, &["planner", "--once"]).refused().unwrap();
        assert!(said.contains("cannot hold") && said.contains("hint: run as root or SlurmUser"), "{said}");
    });
}

/// How many seconds a job took, by Slurm.
fn elapsed(cluster: &Cluster, job: JobId) -> u64 {
    let args = ["-n", "-X", "-P", "-o", "ElapsedRaw", "-j", &job.to_string()];
    cluster.run(User::Root, "sacct", &args).unwrap().ok().unwrap().trim().parse().unwrap()
}

#[test]
fn times_are_learnt_from_accounting() {
    let cluster = builder().accounting().start().unwrap();
    // What a slow machine adds to each is less than the difference.
    let past = [("1g.5gb", "20"), ("7g.40gb", "2"), ("7g.40gb", "3")].map(|(size, seconds)| {
        let isolation = format!("--gpu-isolation=mig:{size}");
        let options = ["-w", "n1", &isolation, "--gpu-app=bert"];
        let job = cluster.sbatch(User::Alice, &options, &format!("sleep {seconds}")).unwrap();
        assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
        job
    });
    let times = wait_for("sacct to have the jobs", PATIENCE, || {
        let done = tessera(&cluster, User::Root, &["times", "--json"]);
        let rows: Value = serde_json::from_str(&done.stdout).map_err(|_| done.stderr.clone())?;
        let jobs: u64 = rows.as_array().into_iter().flatten().filter_map(|r| r["jobs"].as_u64()).sum();
        if jobs == 3 { Ok(rows) } else { Err(done.stdout) }
    });
    let times = times.unwrap();
    let row = |instance: &str| {
        let found = times.as_array().unwrap().iter().find(|r| r["instance"] == instance).unwrap().clone();
        (found["profile"].as_str().unwrap().to_owned(), found["median"].as_u64().unwrap())
    };
    let [long, short, shorter] = past.map(|job| elapsed(&cluster, job));
    assert!(long >= 20 && row("1g.5gb").1 == long, "{long}: {times}");
    let between = short.min(shorter)..=short.max(shorter);
    assert!(between.contains(&row("7g.40gb").1), "{between:?}: {times}");
    assert_eq!(row("1g.5gb").0, "bert");

    // A job that only names its profile is planned by what was learnt: 7g is faster.
    let full = fill(&cluster);
    let job = cluster.sbatch(User::Alice, &["--gpu-app=bert", "--gpu-mem=4G"], "true").unwrap();
    cluster.wait_job(job, "pending", |j| j.state() == "PENDING").unwrap();
    let said = tessera(&cluster, User::Root, &["planner", "--once"]).ok().unwrap();
    let planned = admin_comment(&cluster, job);
    assert_eq!(planned.plan().map(|p| p.size.as_str()), Some("7g.40gb"), "{said}");
    full.iter().for_each(|&job| cancel(&cluster, job));
    assert_eq!(cluster.wait_end(job).unwrap().state(), "COMPLETED");
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
}

#[test]
fn without_accounting_there_is_a_clear_error() {
    with(|cluster| {
        let said = tessera(cluster, User::Root, &["times"]).refused().unwrap();
        assert!(
            said.contains("sacct: ") && said.contains("hint: times are learnt from Slurm's accounting"),
            "{said}"
        );
    });
}
