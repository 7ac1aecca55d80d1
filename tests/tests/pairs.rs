//! Jobs whose counters are known share a GPU in the state and under the cap that its power model chooses.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::Path;

use common::{admin_comment, builder};
use lab::command::{PATIENCE, run, wait_for};
use lab::{Cluster, JobId, User};
use protocol::{CommentBody, Plan, Started};
use serde_json::Value;

fn tessera(cluster: &Cluster, args: &[&str]) -> String {
    let mut command = cluster.command(User::Root, "tessera").unwrap();
    run(command.args(args)).unwrap().ok().unwrap()
}

/// Returns what the planner says in one round. Slurm may start a job between its look and its plan, which then comes too late;
/// 22.05 writes why to its log alone.
fn planned(cluster: &Cluster) -> String {
    let mut command = cluster.command(User::Root, "tessera").unwrap();
    let done = run(command.args(["planner", "--once"])).unwrap();
    let said = format!("{}{}", done.stdout, done.stderr);
    let is_late = |line: &str| {
        line.contains("refuses the plan")
            && ["this one has started", "Invalid generic resource"].iter().any(|why| line.contains(why))
    };
    assert!(done.code == Some(0) || said.lines().any(is_late), "{said}");
    said
}

/// Puts the simulated A100's calibration into the site's configuration.
fn calibrate(cluster: &Cluster) {
    let etc = |name: &str| cluster.layout().etc(name);
    let text = |path: &Path| path.display().to_string();
    let dir = etc("tessera.toml").parent().unwrap().to_path_buf();
    tessera(cluster, &["power", "simulate", "--figure", "4", "--calibration", &text(&dir)]);
    let [counters, runs, model] = ["counters.csv", "runs.csv", "a100.json"].map(|name| text(&etc(name)));
    tessera(cluster, &["power", "fit", &counters, &runs, "--gpu", "a100-40gb", "--out", &model]);
    let file = etc("tessera.toml");
    let site = std::fs::read_to_string(&file).unwrap();
    let site = site.replace("names = \"n1\"\n", "names = \"n1\"\npower_model = \"a100.json\"\ncap_w = 250\n");
    let power = "[power]\nobjective = \"efficiency\"\ncounters = \"counters.csv\"\nstretch_limits = true\n";
    std::fs::write(&file, format!("{site}\n{power}")).unwrap();
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
}

/// A job that has every GPU of a node.
fn fill(cluster: &Cluster, node: &str, gpus: &str) -> JobId {
    let count = format!("--gpus-per-node={gpus}");
    let options = ["--gpu-isolation=whole", &count, "-w", node, "--time=5"];
    let job = cluster.sbatch(User::Bob, &options, "sleep 300").unwrap();
    cluster.wait_running(job).unwrap();
    job
}

fn waiting(cluster: &Cluster, options: &[&str]) -> JobId {
    let job = cluster.sbatch(User::Alice, options, "sleep 1000").unwrap();
    cluster.wait_job(job, "pending", |j| j.state() == "PENDING").unwrap();
    job
}

fn plan(cluster: &Cluster, job: JobId, said: &str) -> Plan {
    let comment = admin_comment(cluster, job);
    comment.plan().unwrap_or_else(|| panic!("{comment:?}: {said}")).clone()
}

/// A job whose partner runs starts as soon as it has its plan, and the plan is then gone.
fn is_planned_beside(cluster: &Cluster, job: JobId, partner: JobId, said: &str) {
    match admin_comment(cluster, job).says {
        CommentBody::Started(_) => {}
        CommentBody::Plan(plan) => assert_eq!(plan.sharing.with, [partner.0], "{said}"),
        other => panic!("{other:?}: {said}"),
    }
}

fn started(cluster: &Cluster, job: JobId) -> Started {
    cluster.wait_running(job).unwrap();
    match admin_comment(cluster, job).says {
        CommentBody::Started(started) => started,
        other => panic!("{other:?}"),
    }
}

fn cancel(cluster: &Cluster, job: JobId) {
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
}

/// The limits set on n1's GPUs, W.
fn limits(cluster: &Cluster) -> Vec<u64> {
    let mut command = cluster.command_on("n1", User::Root, "tessera").unwrap();
    let said = run(command.args(["power", "status", "--json"])).unwrap().ok().unwrap();
    let all: Value = serde_json::from_str(&said).unwrap();
    let set = |gpu: &Value| format!("{:.0}", gpu["set_w"].as_f64().unwrap()).parse().unwrap();
    all["gpus"].as_array().unwrap().iter().map(set).collect()
}

/// The parts and the cap that the model chooses by itself, the parts as sizes.
fn chosen(cluster: &Cluster, apps: &str) -> (Vec<String>, u16) {
    let file = |name: &str| cluster.layout().etc(name).display().to_string();
    let (model, counters) = (file("a100.json"), file("counters.csv"));
    let args =
        ["power", "choose", "--power-model", &model, "--counters", &counters, "--apps", apps, "--json"];
    let choice: Value = serde_json::from_str(&tessera(cluster, &args)).unwrap();
    let size = |part: &str| match part.strip_suffix('c') {
        Some(slices) => format!("{slices}c.7g.40gb"),
        None => format!("{part}.20gb"),
    };
    let sizes = choice["state"].as_str().unwrap().split('+').map(size).collect();
    (sizes, choice["cap_w"].as_u64().unwrap().try_into().unwrap())
}

/// The GPU of a start on one instance, as slurmctld numbers it.
fn gpu(started: &Started) -> String {
    started.got.split_once("=mig:").unwrap().1.split_once('/').unwrap().0.to_owned()
}

fn is_as_planned(started: &Started, plan: &Plan, size: &str, cap_w: u16) {
    let slices = size.split_once('.').unwrap().0;
    let got = &started.got;
    assert!(got.contains(&format!("/{slices}")) && got.ends_with(&format!("/cap={cap_w}")), "{started:?}");
    assert_eq!(started.low, plan.sharing.low);
    assert!(started.why.contains(&format!("at {cap_w} W; predicted speed ")), "{}", started.why);
}

fn scontrol(cluster: &Cluster, args: &[&str]) {
    cluster.run(User::Root, "scontrol", args).unwrap().ok().unwrap();
}

#[test]
fn jobs_share_as_the_model_says() {
    let cluster = builder().start().unwrap();
    let found = limits(&cluster);
    calibrate(&cluster);
    let full = fill(&cluster, "n1", "8");
    fill(&cluster, "n2", "4");
    let first = waiting(&cluster, &["--gpu-app=igemm4", "--gpu-mem=15G", "--time=10"]);
    let second = waiting(&cluster, &["--gpu-app=stream", "--gpu-mem=15G", "--time=10"]);
    let unknown = waiting(&cluster, &["--gpu-app=mystery", "--gpu-mem=4G"]);
    let said = planned(&cluster);
    let (sizes, cap_w) = chosen(&cluster, "igemm4,stream");
    let plans = [first, second].map(|job| plan(&cluster, job, &said));
    for (plan, size) in plans.iter().zip(&sizes) {
        assert_eq!((&plan.size, plan.sharing.cap_w), (size, Some(cap_w)), "{said}");
        assert!(plan.is_bound(), "{said}");
    }
    // A slower job has more time, and keeps in mind what it had.
    let limit = cluster
        .run(User::Root, "squeue", &["-h", "-o", "%l", "-j", &first.to_string()])
        .unwrap()
        .ok()
        .unwrap();
    assert_ne!(limit.trim(), "10:00", "{said}");
    assert_eq!(admin_comment(&cluster, first).limit.map(|raise| raise.own_min), Some(10), "{said}");
    assert_eq!(plan(&cluster, unknown, &said).size, "7g.40gb");

    // A partner that never starts: the other one has the part, the cap and the promise of the pair.
    scontrol(&cluster, &["hold", &second.to_string()]);
    cancel(&cluster, full);
    let got = started(&cluster, first);
    is_as_planned(&got, &plans[0], &sizes[0], cap_w);
    wait_for("the cap to be set", PATIENCE, || {
        let all = limits(&cluster);
        let capped: Vec<&u64> = all.iter().filter(|limit| **limit == u64::from(cap_w)).collect();
        // slurmctld's numbers need not be NVML's.
        if capped.len() == 1 { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .unwrap();
    let alone = started(&cluster, unknown);
    // 250 W is the site's cap of every job there.
    assert!(alone.got.ends_with("/7g.40gb@0/cap=250"), "{alone:?}");
    assert!(alone.why.contains("mystery has no counters on this GPU model: profile it"), "{alone:?}");

    // Another takes its place, beside the part that is taken.
    let rest =
        cluster.sbatch(User::Bob, &["--gpu-isolation=whole", "--gpus-per-node=6", "-w", "n1"], "sleep 300");
    cluster.wait_running(rest.unwrap()).unwrap();
    let third = waiting(&cluster, &["--gpu-app=stream", "--gpu-mem=15G", "--time=10"]);
    let said = planned(&cluster);
    is_planned_beside(&cluster, third, first, &said);
    let beside = started(&cluster, third);
    assert_eq!((gpu(&beside), beside.low), (gpu(&got), plans[1].sharing.low), "{beside:?}");

    // A partner that ends first: the next one comes, and the part of the one that stays is as it was.
    cancel(&cluster, third);
    cluster.wait_end(third).unwrap();
    scontrol(&cluster, &["release", &second.to_string()]);
    let said = planned(&cluster);
    is_planned_beside(&cluster, second, first, &said);
    let last = started(&cluster, second);
    is_as_planned(&last, &plans[1], &sizes[1], cap_w);
    assert_eq!((gpu(&last), started(&cluster, first)), (gpu(&got), got));
    for job in [first, second, unknown] {
        cancel(&cluster, job);
    }
    for user in [User::Alice, User::Bob] {
        cluster.run(User::Root, "scancel", &["-u", user.name()]).unwrap().ok().unwrap();
    }
    cluster.wait_idle().unwrap();
    assert_eq!(limits(&cluster), found);
    cluster.assert_clean().unwrap();
}
