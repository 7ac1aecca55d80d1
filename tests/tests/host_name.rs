//! A node whose name in Slurm is not its host's name.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::LOOK;
use common::processes::wait_quiet;
use lab::User;
use lab::config::Templates;

const ONE_NODE: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 1\nmig = \"dynamic\"\n";

#[test]
fn a_slurmd_that_is_not_told_its_node_reconciles_it() {
    let templates = Templates::for_nodes(ONE_NODE).unwrap();
    let cluster = common::builder().templates(templates).by_host_name().start().unwrap();
    wait_quiet(&cluster).unwrap();
    let log = std::fs::read_to_string(cluster.layout().log("slurmd-n1")).unwrap();
    assert!(log.contains("node reconcile"), "{log}");
    // doctor asks for the copy of tessera.toml that a reconciliation keeps.
    cluster.assert_clean().unwrap();
    let out = std::fs::read_to_string(cluster.layout().at("log/slurmd-n1.out")).unwrap();
    assert!(!out.contains("is not in tessera.toml"), "{out}");
    let saw = cluster.complete(User::Alice, &["--gpu-isolation=mig:1g.5gb"], LOOK).unwrap();
    assert_eq!(common::profiles(&saw), ["1g.5gb"], "{saw}");
}
