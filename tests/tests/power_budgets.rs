//! Power budgets: what the GPUs of a rack may draw together holds, through restarts and changes of the file.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{admin_comment, builder};
use lab::command::{PATIENCE, wait_for};
use lab::config::Templates;
use lab::{Cluster, Daemon, JobId, User};
use protocol::CommentBody;
use serde_json::Value;

const STAY: &str = "sleep 1000";

/// 8 idle A100s and 4 idle H100s count as 800 W of 1700 W.
fn cluster() -> Cluster {
    let mut templates = Templates::shipped().unwrap();
    for (node, power) in [("n1", "cap_w = 400\nidle_w = 50\n"), ("n2", "cap_w = 700\nidle_w = 100\n")] {
        let names = format!("names = \"{node}\"\n");
        templates.tessera = templates.tessera.replace(&names, &format!("{names}{power}"));
    }
    templates.tessera.push_str("\n[[power_budgets]]\nnodes = \"n[1-2]\"\nwatts = 1700\nfloor_w = 200\n");
    builder().templates(templates).start().unwrap()
}

fn status(cluster: &Cluster, node: &str) -> Value {
    let mut tessera = cluster.command_on(node, User::Root, "tessera").unwrap();
    let said = lab::command::run(tessera.args(["power", "status", "--json"])).unwrap().ok().unwrap();
    serde_json::from_str(&said).unwrap()
}

/// The limits set on a node's GPUs, W.
fn limits(cluster: &Cluster, node: &str) -> Vec<u64> {
    let gpus = status(cluster, node)["gpus"].as_array().unwrap().clone();
    gpus.iter().map(|gpu| format!("{:.0}", gpu["set_w"].as_f64().unwrap()).parse().unwrap()).collect()
}

/// Waits until so many of a node's GPUs have this limit: a job counts as running while its prolog sets it.
fn wait_limit(cluster: &Cluster, node: &str, watts: u64, gpus: usize) {
    wait_for("the limits to be set", PATIENCE, || {
        let all = limits(cluster, node);
        if all.iter().filter(|limit| **limit == watts).count() == gpus {
            Ok(())
        } else {
            Err(format!("{all:?}"))
        }
    })
    .unwrap();
}

/// What is committed and free, W.
fn committed(cluster: &Cluster) -> (u64, u64) {
    let all = status(cluster, "n1");
    let of = |key: &str| all["budgets"][0][key].as_u64().unwrap();
    (of("committed_w"), of("free_w"))
}

fn submit(cluster: &Cluster, options: &[&str]) -> JobId {
    cluster.sbatch(User::Alice, options, STAY).unwrap()
}

/// The job's start as its AdminComment tells it.
fn started(cluster: &Cluster, job: JobId) -> String {
    cluster.wait_running(job).unwrap();
    match admin_comment(cluster, job).says {
        CommentBody::Started(started) => format!("{}: {}", started.got, started.why),
        other => panic!("{other:?}"),
    }
}

fn waits(cluster: &Cluster, job: JobId, why: &str) {
    wait_for("the job to say that it waits for power", PATIENCE, || match admin_comment(cluster, job).says {
        CommentBody::Power(said) if said.contains(why) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .unwrap();
    let waiting = cluster.job(job).unwrap();
    assert_eq!((waiting.state(), waiting.reason()), ("PENDING", "Resources"));
}

fn cancel(cluster: &Cluster, job: JobId) {
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
}

fn reconfigure(cluster: &Cluster, watts: u32) {
    write_watts(cluster, watts);
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
}

fn write_watts(cluster: &Cluster, watts: u32) {
    let file = cluster.layout().etc("tessera.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, after) = text.split_once("\nwatts = ").unwrap();
    let rest = after.split_once('\n').unwrap().1;
    std::fs::write(&file, format!("{before}\nwatts = {watts}\n{rest}")).unwrap();
}

fn doctor(cluster: &Cluster) -> String {
    let mut doctor = cluster.command_on("n1", User::Root, "tessera").unwrap();
    lab::command::run(doctor.arg("doctor")).unwrap().stdout
}

#[test]
fn the_gpus_of_a_rack_never_draw_more_than_its_budget() {
    let mut cluster = cluster();
    assert_eq!(committed(&cluster), (800, 900));
    // A job gets what it asks, the next one what is left.
    let first = submit(&cluster, &["-w", "n1", "--gres=gpu:1"]);
    assert!(started(&cluster, first).starts_with("n1=whole:0/cap=400: "), "{}", started(&cluster, first));
    let second = submit(&cluster, &["-w", "n2", "--gpu-isolation=mig:1g.10gb"]);
    let got = started(&cluster, second);
    assert!(
        got.contains("/cap=650: ") && got.contains("at 650 W: its power budget has no more free"),
        "{got}"
    );
    assert_eq!(committed(&cluster), (1700, 0));
    wait_limit(&cluster, "n2", 650, 1);
    // A third waits, on the other node of the rack.
    let third = submit(&cluster, &["-w", "n1", "--gres=gpu:1", "--gpu-power=300"]);
    waits(&cluster, third, "power budget n[1-2] has 0 of 1700 W free");
    // Beside the second there is power for a part of the same GPU.
    let beside = submit(&cluster, &["-w", "n2", "--gpu-isolation=mig:1g.10gb"]);
    assert!(started(&cluster, beside).contains("/cap=650: "));
    cancel(&cluster, beside);
    let exclusive = submit(&cluster, &["-w", "n2", "--exclusive", "--gres=gpu:1"]);
    cancel(&cluster, second);
    assert!(started(&cluster, third).contains("/cap=300: "), "{}", started(&cluster, third));
    wait_limit(&cluster, "n2", 700, 4);
    // An exclusive job has every GPU of its node, and four H100s at the floor need more than is left.
    assert_eq!((committed(&cluster), cluster.job(exclusive).unwrap().state()), ((1400, 300), "PENDING"));
    cancel(&cluster, exclusive);

    // A smaller budget, and daemons that are killed and know it only from the file: running jobs keep what they have.
    reconfigure(&cluster, 1250);
    let fourth = submit(&cluster, &["--gres=gpu:1"]);
    waits(&cluster, fourth, "has 0 of 1250 W free");
    cluster.wait_saved(fourth).unwrap();
    let daemons = [Daemon::Slurmctld, Daemon::Slurmd("n1".to_owned())];
    daemons.iter().for_each(|daemon| cluster.kill9(daemon).unwrap());
    daemons.iter().for_each(|daemon| cluster.start(daemon).unwrap());
    cluster.wait_ready(PATIENCE).unwrap();
    assert_eq!(committed(&cluster), (1400, 0));
    wait_limit(&cluster, "n1", 300, 1);
    let said = doctor(&cluster);
    assert!(said.contains("bad  power budget n[1-2]: 1400 W are committed, 1250 W allowed"), "{said}");
    waits(&cluster, fourth, "has 0 of 1250 W free");
    cancel(&cluster, first);
    assert!(started(&cluster, fourth).contains("/cap="));
    assert!(committed(&cluster).0 <= 1250);
    let said = doctor(&cluster);
    assert!(said.contains("of 1250 W are committed") && said.contains("power limits are those"), "{said}");
    cancel(&cluster, third);
    cancel(&cluster, fourth);
    cluster.wait_idle().unwrap();

    for (node, found) in [("n1", vec![400; 8]), ("n2", vec![700; 4])] {
        assert_eq!(limits(&cluster, node), found);
    }
    cluster.assert_clean().unwrap();
}

#[test]
fn a_job_whose_cap_cannot_be_set_is_requeued() {
    let cluster = cluster();
    for gpu in 0..8 {
        cluster.fault("n1", &["add", "--gpu", &gpu.to_string(), "--kind", "limit-refused"]).unwrap();
    }
    let uncapped = submit(&cluster, &["-w", "n1", "--gres=gpu:1", "--gpu-power=250"]);
    wait_for("the job to be requeued", PATIENCE, || match admin_comment(&cluster, uncapped).says {
        CommentBody::Requeued(why) if why.contains("no job starts here without its power cap") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .unwrap();
    cancel(&cluster, uncapped);
    cluster.fault("n1", &["clear"]).unwrap();
    cluster.wait_idle().unwrap();
    assert_eq!(limits(&cluster, "n1"), [400; 8]);
    // What could never start is refused at once.
    reconfigure(&cluster, 1200);
    let four = ["-w", "n1", "--gpu-isolation=whole", "--gpus-per-node=4"];
    let many = cluster.try_sbatch(User::Alice, &four, STAY).unwrap().refused().unwrap();
    assert!(many.contains("power budget n[1-2]") && many.contains("even without other jobs"), "{many}");
    // A budget that idle GPUs exceed is not taken over: the last good one counts on. 24.11 says so at once.
    write_watts(&cluster, 700);
    cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap();
    let mut check = cluster.command(User::Root, "tessera").unwrap();
    let said = lab::command::run(check.arg("check")).unwrap();
    let said = said.stdout + &said.stderr;
    assert!(said.contains("700 W is less than the 12 idle GPUs of n[1-2] draw, 800 W"), "{said}");
    assert_eq!(cluster.try_sbatch(User::Alice, &four, STAY).unwrap().refused().unwrap(), many);
    // Slurm alone would start a plain GPU job on a node whose slurmd, new since the reconfiguration, has not spoken.
    cluster.wait_spoken(PATIENCE).unwrap();
    let last = submit(&cluster, &["-w", "n1", "--gres=gpu:1"]);
    assert!(started(&cluster, last).contains("/cap=400: "));
    cancel(&cluster, last);
    cluster.wait_idle().unwrap();
    reconfigure(&cluster, 1700);
    cluster.assert_clean().unwrap();
}
