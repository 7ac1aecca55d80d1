//! A node whose slurmd does not load Tessera, or has another tessera.toml, takes no jobs with requests of Tessera's: they wait with
//! the reason, or run elsewhere. Slurm gives its GPUs to plain jobs.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use common::{admin_comment, builder};
use error_chain::with_causes;
use lab::command::{PATIENCE, run, wait_for};
use lab::{Cluster, Daemon, JobId, User};
use protocol::{CommentBody, Standing};

const MIG: &str = "--gpu-isolation=mig";

/// Starts n2's slurmd anew with this text as plugstack.conf, which all other processes see for that moment only.
fn restart_n2(cluster: &mut Cluster, plugstack: &str) {
    let path = cluster.layout().etc("plugstack.conf");
    let own = fs::read_to_string(&path).unwrap();
    let n2 = Daemon::Slurmd("n2".to_owned());
    cluster.stop(&n2).unwrap();
    // Slurm tells one slurmd from the next by the second of its start.
    sleep(Duration::from_secs(1));
    fs::write(&path, plugstack).unwrap();
    cluster.start(&n2).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    fs::write(&path, own).unwrap();
}

fn wait_standing(cluster: &Cluster, wanted: Standing) {
    wait_for("n2 to be judged", PATIENCE, || {
        let all = cluster.standings().map_err(|e| with_causes(&e))?;
        let now = [("n1".to_owned(), Standing::Same), ("n2".to_owned(), wanted)];
        if all == now { Ok(()) } else { Err(format!("{all:?}\n{}", cluster.log_tails())) }
    })
    .unwrap();
}

/// `tessera` on n1.
fn tessera(cluster: &Cluster, args: &[&str]) -> String {
    run(cluster.command_on("n1", User::Root, "tessera").unwrap().args(args)).unwrap().stdout
}

/// A job that insists on n2 and waits there for this reason.
fn waits_on_n2(cluster: &Cluster, why: &str) -> JobId {
    let job = cluster.sbatch(User::Alice, &["-w", "n2", MIG], "true").unwrap();
    wait_for("the job's reason", PATIENCE, || match admin_comment(cluster, job).says {
        CommentBody::Nodes(said) if said.contains(why) => Ok(()),
        says => Err(format!("{says:?}")),
    })
    .unwrap();
    assert_eq!(cluster.job(job).unwrap().state(), "PENDING");
    let said = tessera(cluster, &["why", &job.to_string()]);
    assert!(said.contains(why), "{said}");
    job
}

/// Checks how a cluster runs on whose n2 stands so, and leaves a job that waits for n2.
fn check(cluster: &mut Cluster, standing: Standing, why: &str) -> JobId {
    wait_standing(cluster, standing);
    let waits = waits_on_n2(cluster, why);
    let elsewhere = cluster.sbatch(User::Bob, &[MIG], "true").unwrap();
    let ended = cluster.wait_end(elsewhere).unwrap();
    assert_eq!((ended.state(), ended.get("NodeList")), ("COMPLETED", "n1"));
    let said = tessera(cluster, &["doctor", "--node", "n2"]);
    assert!(said.lines().any(|line| line.starts_with("bad ") && line.contains(why)), "{said}");
    // A slurmctld that starts anew knows it before the node registers.
    cluster.stop(&Daemon::Slurmctld).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    wait_standing(cluster, standing);
    waits
}

/// A job by `--gres` runs on n2, where Slurm alone places it.
fn runs_plain_on_n2(cluster: &Cluster) {
    let plain = cluster.sbatch(User::Bob, &["-w", "n2", "--gres=gpu:1"], "true").unwrap();
    assert_eq!(cluster.wait_end(plain).unwrap().state(), "COMPLETED");
    let says = admin_comment(cluster, plain).says;
    assert!(!matches!(says, CommentBody::Started(_)), "Slurm placed it: {says:?}");
}

#[test]
fn jobs_of_tesseras_run_only_where_slurmd_loads_it_with_slurmctlds_file() {
    // The health check would find the right file again.
    let mut cluster = builder().slurm_conf("HealthCheckInterval=0").start().unwrap();
    common::on(&mut cluster, |cluster| {
        let own = fs::read_to_string(cluster.layout().etc("plugstack.conf")).unwrap();
        wait_standing(cluster, Standing::Same);
        let said = tessera(cluster, &["doctor", "--node", "n2"]);
        assert!(!said.contains("tessera.toml than") && !said.contains("does not load"), "{said}");

        restart_n2(cluster, "");
        let waits = check(cluster, Standing::Silent, "node n2 does not load Tessera");
        runs_plain_on_n2(cluster);
        // By hand the command says so, and tells slurmctld nothing.
        let mut by_hand = cluster.command_on("n2", User::Root, "tessera").unwrap();
        let said = run(by_hand.args(["node", "reconcile"])).unwrap();
        assert!(said.stdout.contains("slurmd of n2 does not load Tessera"), "{said:?}");
        wait_standing(cluster, Standing::Silent);
        restart_n2(cluster, &own);
        wait_standing(cluster, Standing::Same);
        assert_eq!(cluster.wait_end(waits).unwrap().state(), "COMPLETED");

        let toml = fs::read_to_string(cluster.layout().etc("tessera.toml")).unwrap();
        let another = toml.replacen("[node]", "[node]\nmanage_device_nodes = false", 1);
        assert_ne!(another, toml);
        fs::write(cluster.layout().etc("node.toml"), another).unwrap();
        restart_n2(cluster, &own.replace("/tessera.toml", "/node.toml"));
        let waits = check(cluster, Standing::Other, "node n2 has another tessera.toml");
        // Its prolog finds slurmctld's file by now, and lets the node say so.
        runs_plain_on_n2(cluster);
        wait_standing(cluster, Standing::Same);
        assert_eq!(cluster.wait_end(waits).unwrap().state(), "COMPLETED");
    });
}
