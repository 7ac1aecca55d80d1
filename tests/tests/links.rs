//! A link that fails on a live node: `tessera doctor` reports it, and the topology that `tessera discover` then writes
//! decides which GPUs jobs get.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::fs;

use common::{looked, variable};
use lab::command::{PATIENCE, run, wait_for};
use lab::{Cluster, User};

const SAY: &str = "env | grep ^TESSERA_GPU_SET=\necho looked\nexec sleep 600";

/// The GPUs of a job with this request on n1, in the order of its ranks.
fn order(cluster: &Cluster, request: &str) -> String {
    let job = cluster.sbatch(User::Alice, &["-w", "n1", request], SAY).unwrap();
    let set = variable(&looked(cluster, job), "TESSERA_GPU_SET").unwrap();
    cluster.run(User::Root, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    cluster.wait_end(job).unwrap();
    cluster.wait_idle().unwrap();
    set
}

fn on_n1(cluster: &Cluster, program: &str, args: &[&str]) -> String {
    let mut command = cluster.command_on("n1", User::Root, program).unwrap();
    run(command.args(args)).unwrap().stdout
}

/// What doctor says of n1's links.
fn doctor(cluster: &Cluster) -> Vec<String> {
    let said = on_n1(cluster, "tessera", &["doctor"]);
    said.lines().filter(|l| l.contains("n1: links")).map(str::to_owned).collect()
}

#[test]
fn a_link_that_is_down_lowers_the_edge_once_it_is_discovered() {
    let mut cluster = common::builder().start().unwrap();
    common::on(&mut cluster, |cluster| {
        assert_eq!(order(cluster, "--gres=gpu:2"), "0,3");
        assert_eq!(doctor(cluster), ["ok   n1: links are up as tessera.toml describes them"]);
        on_n1(cluster, "nvml-sim", &["link", "--gpu", "0", "--link", "2", "down"]);
        let down = "bad  n1: links of GPU 0 to 3: NV1 (25 GB/s) by the driver, NV2 (50 GB/s) by tessera.toml";
        assert_eq!(doctor(cluster), [down]);
        // The site still describes both lanes.
        assert_eq!(order(cluster, "--gres=gpu:2"), "0,3");

        let found = on_n1(cluster, "tessera", &["discover", "--node", "n1"]);
        assert!(
            found.contains("[  \"X\", \"NV1\", \"NV1\", \"NV1\", \"NV2\", \"SYS\", \"SYS\", \"SYS\"]"),
            "{found}"
        );
        fs::write(cluster.layout().etc("n1.toml"), found).unwrap();
        let file = cluster.layout().etc("tessera.toml");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replacen("interconnect = \"dgx-v\"", "discovered = \"n1.toml\"", 1)).unwrap();
        cluster.run(User::Root, "scontrol", &["reconfigure"]).unwrap().ok().unwrap();
        // slurmctld reads the file some time after scontrol's answer.
        let wait = wait_for("the discovered links to decide", PATIENCE, || {
            match order(cluster, "--gres=gpu:2").as_str() {
                "0,4" => Ok(()),
                other => Err(other.to_owned()),
            }
        });
        wait.unwrap();
        assert_eq!(doctor(cluster), ["ok   n1: links are up as tessera.toml describes them"]);
        // A set that does not need the link is what it was.
        assert_eq!(order(cluster, "--gres=gpu:3"), "1,2,3");
    });
}
