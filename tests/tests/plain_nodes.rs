//! Jobs without GPUs where Tessera orders nodes for others: they go where Slurm alone sends them, node for node.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeSet;

use common::more_nodes::four_nodes;
use common::random::Random;
use common::{AT_ONCE, builder};
use lab::{Cluster, JobId, User};

/// Jobs of the test.
const JOBS: usize = 300;
/// Jobs that are submitted one after the other before any of them is looked at.
const TOGETHER: usize = 6;
/// Most jobs that run on when the next ones come. All others fit beside them.
const MOST_LEFT: usize = 4;

/// A cluster whose nodes begin with a prefix of their own: both run on one machine.
struct Side {
    prefix: &'static str,
    cluster: Cluster,
}

impl Side {
    fn start(prefix: &'static str, stock: bool) -> Self {
        let mut templates = four_nodes();
        assert!(templates.tessera.contains("node_order = \"pack\""), "the order of nodes is on");
        templates.rename_nodes(|name| format!("{prefix}{}", &name[1..]));
        let cluster = builder().stock(stock).templates(templates).slurm_conf(AT_ONCE).start().unwrap();
        Self { prefix, cluster }
    }

    fn submit(&self, words: &str) -> JobId {
        let words = words.replace("-w n", &format!("-w {}", self.prefix));
        let words: Vec<&str> = words.split_whitespace().collect();
        self.cluster.sbatch(User::Alice, &words, "exec sleep 600").unwrap()
    }

    /// Nodes and CPUs of a job, once it runs.
    fn has(&self, job: JobId) -> String {
        let job = self.cluster.wait_running(job).unwrap();
        format!("{} with {} CPUs", job.get("NodeList").replace(self.prefix, "n"), job.get("NumCPUs"))
    }

    fn cancel(&self, job: JobId) {
        self.cluster.run(User::Alice, "scancel", &[&job.to_string()]).unwrap().ok().unwrap();
    }

    fn wait_over(&self, job: JobId) {
        let over = |job: &lab::Job| !matches!(job.state(), "RUNNING" | "COMPLETING");
        self.cluster.wait_job(job, "over", over).unwrap();
    }
}

/// A job without GPUs; or, so that GPUs are in use, one with GPUs on a named node.
fn request(random: &mut Random) -> String {
    if random.below(5) == 0 {
        let node = random.of(&["n1", "n2", "n3", "n4"]);
        return format!(
            "-w {node} {} {}",
            random.of(&["--gres=gpu:1", "--gpus-per-node=2"]),
            random.of(&["-c1", "-c6"])
        );
    }
    let cpus = ["-n1", "-n2", "-c4", "-n2 -c3", "-n12", "-N1 -n3", "-N2 -n2", "-N2 -n2 -c4", "-N1 -c12"];
    let rest = ["", "", "--mem=3G", "--mem-per-cpu=200M", "--gres=none", "--spread-job"];
    format!("{} {}", random.of(&cpus), random.of(&rest))
}

#[test]
fn jobs_without_gpus_go_where_slurm_alone_sends_them() {
    let sides = [Side::start("pns", true), Side::start("pnt", false)];
    let mut random = Random(0x5eed);
    let (mut running, mut nodes) = (Vec::<[JobId; 2]>::new(), BTreeSet::new());
    for first in (0..JOBS).step_by(TOGETHER) {
        let requests: Vec<String> = (0..TOGETHER).map(|_| request(&mut random)).collect();
        let started: Vec<[JobId; 2]> =
            requests.iter().map(|words| sides.each_ref().map(|side| side.submit(words))).collect();
        for (i, words) in requests.iter().enumerate() {
            let [stock, ours] = [0, 1].map(|side| sides[side].has(started[i][side]));
            assert_eq!(ours, stock, "job {}: {words}", first + i);
            nodes.insert(ours);
        }
        running.extend(started);
        let mut ended = Vec::new();
        while running.len() > MOST_LEFT {
            ended.push(running.swap_remove(random.below(running.len())));
        }
        for (side, at) in sides.iter().zip(0..) {
            ended.iter().for_each(|jobs| side.cancel(jobs[at]));
            ended.iter().for_each(|jobs| side.wait_over(jobs[at]));
        }
    }
    assert!(nodes.len() > 8, "there was a choice: {nodes:?}");
    for side in &sides {
        side.cluster.run(User::Root, "scancel", &["-u", User::Alice.name()]).unwrap();
        side.cluster.wait_idle().unwrap();
    }
    sides[1].cluster.assert_clean().unwrap();
}
