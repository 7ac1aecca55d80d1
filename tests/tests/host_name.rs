//! Nodes whose name in Slurm is not their host's name, or not in slurm.conf.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Stdio};

use common::processes::wait_quiet;
use common::{LOOK, LOOK_AND_STAY, looked, profiles, skipped};
use error_chain::with_causes;
use lab::command::{PATIENCE, run, wait_for};
use lab::config::Templates;
use lab::{Cluster, Daemon, User};
use protocol::Standing;
use slurm_releases::Release;

const ONE_NODE: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 1\nmig = \"dynamic\"\n";
const MIG: &str = "--gpu-isolation=mig:1g.5gb";

#[test]
fn a_slurmd_that_is_not_told_its_node_reconciles_it() {
    let templates = Templates::for_nodes(ONE_NODE).unwrap();
    let cluster = common::builder().templates(templates).by_host_name().start().unwrap();
    wait_quiet(&cluster).unwrap();
    let log = fs::read_to_string(cluster.layout().log("slurmd-n1")).unwrap();
    assert!(log.contains("node reconcile"), "{log}");
    // doctor asks for the copy of tessera.toml that a reconciliation keeps.
    cluster.assert_clean().unwrap();
    let out = fs::read_to_string(cluster.layout().at("log/slurmd-n1.out")).unwrap();
    assert!(!out.contains("is not in tessera.toml"), "{out}");
    let saw = cluster.complete(User::Alice, &[MIG], LOOK).unwrap();
    assert_eq!(profiles(&saw), ["1g.5gb"], "{saw}");
}

/// A slurmd whose node is in no file of Slurm's. It ends with the test.
struct Dynamic(Child);

impl Dynamic {
    /// Starts it for n2, which is like n1.
    fn start(cluster: &Cluster) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let conf = format!("CPUs=64 RealMemory=64000 Gres=gpu:a100:1,shard:40 Port={port}");
        let mut slurmd = cluster.slurmd("n2", &["-Z", "--conf", &conf]);
        let started = slurmd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let started = Self(started.unwrap());
        wait_for("n2 to say that it loads Tessera", PATIENCE, || {
            let all = cluster.standings().map_err(|e| with_causes(&e))?;
            if all.contains(&("n2".to_owned(), Standing::Same)) { Ok(()) } else { Err(format!("{all:?}")) }
        })
        .unwrap();
        started
    }
}

impl Drop for Dynamic {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes the files of n2, and its simulated driver.
fn add_n2(cluster: &Cluster) {
    let (layout, own) = (cluster.layout(), cluster.layout().node("n2"));
    fs::create_dir_all(layout.at("spool/n2")).unwrap();
    ["dev", "proc", "state", "run"].iter().for_each(|name| fs::create_dir_all(own.join(name)).unwrap());
    let n1 = fs::read_to_string(layout.node("n1").join("node.toml")).unwrap();
    fs::write(own.join("node.toml"), n1.replace("\"n1\"", "\"n2\"")).unwrap();
    let mut create = cluster.command(User::Root, "nvml-sim").unwrap();
    create.args(["create", "--node"]).arg(own.join("node.toml"));
    create.arg("--state").arg(layout.sim_state("n2")).arg("--root").arg(&own);
    run(&mut create).unwrap().ok().unwrap();
}

fn scontrol(cluster: &Cluster, args: &[&str]) -> lab::command::Done {
    cluster.run(User::Root, "scontrol", args).unwrap()
}

/// Other nodes' places in slurmctld's table stay, and jobs keep what they have.
#[test]
fn a_node_that_comes_and_goes_takes_jobs_each_time() {
    if common::release() == Release::V22_05 {
        return skipped("nodes that slurm.conf does not name: 22.05 gives them no port of their own");
    }
    let mut templates = Templates::for_nodes(ONE_NODE).unwrap();
    templates.tessera += &ONE_NODE.replace("n1", "n2");
    templates.gres += &templates.gres.replace("NodeName=n1", "NodeName=n2");
    let mut cluster = common::builder().templates(templates).slurm_conf("MaxNodeCount=4").start().unwrap();
    add_n2(&cluster);
    let stays = cluster.sbatch(User::Alice, &["-w", "n1", MIG], LOOK_AND_STAY).unwrap();
    looked(&cluster, stays);
    let runs = |cluster: &Cluster| {
        let saw = cluster.complete(User::Bob, &["-w", "n2", MIG], LOOK).unwrap();
        assert_eq!(profiles(&saw), ["1g.5gb"], "{saw}");
        let whole = ["-w", "n2", "--gpu-isolation=whole"];
        assert!(cluster.complete(User::Alice, &whole, LOOK).unwrap().contains("GPU 0"));
    };
    let slurmd = Dynamic::start(&cluster);
    runs(&cluster);
    let there = cluster.sbatch(User::Bob, &["-w", "n2", MIG], LOOK_AND_STAY).unwrap();
    looked(&cluster, there);
    cluster.stop(&Daemon::Slurmctld).unwrap();
    cluster.start(&Daemon::Slurmctld).unwrap();
    cluster.wait_ready(PATIENCE).unwrap();
    let layouts = cluster.published_layouts().unwrap();
    assert!(
        layouts.iter().any(|(node, text)| node == "n2" && text.contains(&format!(":job{there}"))),
        "{layouts:?}"
    );
    scontrol(&cluster, &["delete", "nodename=n2"]).refused().unwrap();
    cluster.run(User::Root, "scancel", &[&there.to_string()]).unwrap().ok().unwrap();
    cluster.wait_end(there).unwrap();
    drop(slurmd);
    wait_for("n2 to go", PATIENCE, || {
        scontrol(&cluster, &["delete", "nodename=n2"]).ok().map(drop).map_err(|e| with_causes(&e))
    })
    .unwrap();
    assert!(cluster.published_layouts().unwrap().iter().all(|(node, _)| node != "n2"));
    let slurmd = Dynamic::start(&cluster);
    runs(&cluster);
    assert_eq!(cluster.job(stays).unwrap().state(), "RUNNING");
    let doctor = run(cluster.command_on("n2", User::Root, "tessera").unwrap().arg("doctor")).unwrap();
    assert_eq!(doctor.code, Some(0), "{}", doctor.stdout);
    cluster.run(User::Root, "scancel", &[&stays.to_string()]).unwrap().ok().unwrap();
    cluster.wait_idle().unwrap();
    cluster.assert_clean().unwrap();
    drop(slurmd);
}
