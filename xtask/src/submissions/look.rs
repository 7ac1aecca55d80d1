//! Rules that must hold while anybody submits anything. They are functions of texts.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use lab::{Cluster, Daemon, User};

use crate::command::TaskError;

/// Words that no log may have.
const FORBIDDEN: [&str; 4] = ["Tessera is off until", "bug in this plugin", "panicked at", "tessera unfit"];

/// States of a node that nobody asked for.
const BAD_STATES: [&str; 6] = ["drain", "down", "fail", "unknown", "inval", "*"];

/// Remembers how much of each log has been read.
#[derive(Debug, Default)]
pub(super) struct Logs(BTreeMap<PathBuf, usize>);

impl Logs {
    /// The forbidden lines that the daemons have written since the last call.
    pub(super) fn fresh(&mut self, cluster: &Cluster) -> Vec<String> {
        let nodes = cluster.nodes().iter().map(|node| format!("slurmd-{node}"));
        let daemons: Vec<String> = nodes.chain(["slurmctld".to_owned()]).collect();
        let mut found = Vec::new();
        for daemon in daemons {
            let path = cluster.layout().log(&daemon);
            let bytes = fs::read(&path).unwrap_or_default();
            let from = self.0.insert(path, bytes.len()).unwrap_or(0).min(bytes.len());
            let text = String::from_utf8_lossy(&bytes[from..]);
            found.extend(forbidden(&text).map(|line| format!("log of {daemon}: {line}")));
        }
        found
    }
}

fn forbidden(log: &str) -> impl Iterator<Item = &str> {
    log.lines().filter(|line| FORBIDDEN.iter().any(|words| line.contains(words)))
}

/// Nodes that take no jobs, of `sinfo -h -N -o "%N %T %E"`.
fn bad_nodes(sinfo: &str) -> Vec<String> {
    let state = |line: &str| line.split_whitespace().nth(1).unwrap_or_default().to_lowercase();
    let is_bad = |line: &&str| BAD_STATES.iter().any(|bad| state(line).contains(bad));
    sinfo.lines().filter(is_bad).map(|line| format!("node {}", line.trim())).collect()
}

/// Lists the faults of the daemons, the nodes and the logs.
pub(super) fn wrong(cluster: &mut Cluster, logs: &mut Logs) -> Result<Vec<String>, TaskError> {
    cluster.reap();
    let nodes = cluster.nodes().iter().cloned().map(Daemon::Slurmd);
    let all: Vec<Daemon> = nodes.chain([Daemon::Slurmctld]).collect();
    let ended = all.iter().filter(|daemon| cluster.process(daemon).is_none());
    let mut found: Vec<String> = ended.map(|daemon| format!("{} has ended", daemon.name())).collect();
    found.extend(logs.fresh(cluster));
    let done = cluster.run(User::Root, "sinfo", &["-h", "-N", "-o", "%N %T %E"])?;
    if done.code == Some(0) {
        found.extend(bad_nodes(&done.stdout));
    } else {
        found.push(format!("sinfo: {}", done.stderr.trim()));
    }
    Ok(found)
}

/// A job of another user, who must still get an instance of his own.
pub(super) fn without_instance(cluster: &Cluster) -> Result<Option<String>, TaskError> {
    let args = ["--gpu-isolation=mig", "--gpu-mem=4G"];
    let job = match cluster.sbatch(User::Bob, &args, "nvidia-smi -L") {
        Ok(job) => job,
        Err(error) => return Ok(Some(format!("a job of {args:?} was refused: {error}"))),
    };
    let state = match cluster.wait_end(job) {
        Ok(ended) => ended.state().to_owned(),
        Err(error) => return Ok(Some(format!("a job of {args:?} did not run: {error}"))),
    };
    let output = cluster.output(job);
    let is_good = state == "COMPLETED" && has_one_instance(&output);
    Ok((!is_good).then(|| format!("a job of {args:?} ended as {state} and saw: {}", output.trim())))
}

/// True if a job saw one instance and no other, in `nvidia-smi -L`.
fn has_one_instance(list: &str) -> bool {
    list.lines().filter(|line| line.trim_start().starts_with("MIG ")).count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_that_is_off_and_a_bug_of_ours_are_found_in_a_log() {
        let off =
            "error: tessera: select plugin: built for Slurm 22.05.8; Tessera is off until it is rebuilt";
        let bug = "error: tessera: bug in this plugin: index out of bounds";
        let log = format!("[1] debug: all is well\n{off}\n{bug}\n");
        assert_eq!(forbidden(&log).collect::<Vec<_>>(), [off, bug]);
    }

    #[test]
    fn a_node_that_takes_no_jobs_is_found() {
        let text = "n1 mixed none\nn2 drained Prolog error\nn3 idle* Not responding\n";
        assert_eq!(bad_nodes(text), ["node n2 drained Prolog error", "node n3 idle* Not responding"]);
        assert!(bad_nodes("n1 idle none\nn2 completing none\nn3 allocated none").is_empty());
    }

    #[test]
    fn a_whole_gpu_is_no_instance() {
        assert!(!has_one_instance("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\n"));
        assert!(has_one_instance(
            "GPU 0: NVIDIA A100 (UUID: GPU-1)\n  MIG 1g.5gb     Device  0: (UUID: MIG-1)\n"
        ));
    }
}
