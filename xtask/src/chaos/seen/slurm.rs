//! Asks Slurm's commands.

use std::collections::BTreeMap;

use lab::command::run;
use lab::{Cluster, HarnessError, User};

/// A job, as scontrol shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::chaos) struct Job {
    pub(in crate::chaos) id: u32,
    /// Number of its order, from its name.
    pub(in crate::chaos) order: Option<u32>,
    pub(in crate::chaos) uid: u32,
    /// `RUNNING` and so on.
    pub(in crate::chaos) state: String,
    pub(in crate::chaos) reason: String,
    /// Nodes it has or had.
    pub(in crate::chaos) nodes: Vec<String>,
    /// How often it was requeued.
    pub(in crate::chaos) restarts: u32,
    /// When it began or would begin, in seconds since 1970; `None` if Slurm does not know.
    pub(in crate::chaos) start: Option<u64>,
}

impl Job {
    /// True if it may have processes and devices on its nodes.
    pub(in crate::chaos) fn is_there(&self) -> bool {
        ["RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED"].contains(&self.state.as_str())
    }

    pub(in crate::chaos) fn is_on(&self, node: &str) -> bool {
        self.is_there() && self.nodes.iter().any(|name| name == node)
    }
}

/// The name of an order's job.
pub(in crate::chaos) fn name_of(order: u32) -> String {
    format!("chaos{order}")
}

/// The order of a job's name.
pub(in crate::chaos) fn order_of(name: &str) -> Option<u32> {
    name.strip_prefix("chaos")?.parse().ok()
}

/// All jobs that slurmctld knows.
pub(super) fn jobs(cluster: &Cluster) -> Result<Vec<Job>, HarnessError> {
    let mut command = cluster.command(User::Root, "scontrol")?;
    command.env("SLURM_TIME_FORMAT", "%s").args(["-a", "-o", "show", "job"]);
    let out = run(&mut command)?.ok()?;
    Ok(out.lines().filter_map(job).collect())
}

/// Reads a line. All names in it are our own, without spaces.
fn job(line: &str) -> Option<Job> {
    let get = |key: &str| line.split(' ').find_map(|word| word.strip_prefix(key)).unwrap_or_default();
    let user = get("UserId=");
    Some(Job {
        id: get("JobId=").parse().ok()?,
        order: order_of(get("JobName=")),
        uid: user
            .split_once('(')
            .and_then(|(_, rest)| rest.trim_end_matches(')').parse().ok())
            .unwrap_or_default(),
        state: get("JobState=").to_owned(),
        reason: get("Reason=").to_owned(),
        nodes: node_list(get("NodeList=")),
        restarts: get("Restarts=").parse().unwrap_or(0),
        start: get("StartTime=").parse().ok(),
    })
}

/// Reads `n1`, `n1,n3` and `n[1-2]`.
fn node_list(text: &str) -> Vec<String> {
    if text.is_empty() || text == "(null)" {
        return Vec::new();
    }
    let Some((head, rest)) = text.split_once('[') else {
        return text.split(',').map(str::to_owned).collect();
    };
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
    };
    let numbers = rest.trim_end_matches(']').split(',').filter_map(range).flatten();
    numbers.map(|number| format!("{head}{number}")).collect()
}

/// State of a node in sinfo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeState {
    pub(super) state: String,
    pub(super) reason: String,
    /// When it got this reason.
    pub(super) reason_since: String,
}

/// State and reason of each node.
pub(super) fn nodes(cluster: &Cluster) -> Result<BTreeMap<String, NodeState>, HarnessError> {
    let out = cluster.run(User::Root, "sinfo", &["-h", "-N", "-o", "%N|%T|%H|%E"])?.ok()?;
    Ok(out.lines().filter_map(node).collect())
}

/// Reads a line of [`nodes`]. Its end is the reason, which may hold any character.
fn node(line: &str) -> Option<(String, NodeState)> {
    let mut parts = line.splitn(4, '|').map(|part| part.trim().to_owned());
    let (name, state) = (parts.next()?, parts.next()?);
    let (reason_since, reason) = (parts.next()?, parts.next()?);
    Some((name, NodeState { state, reason, reason_since }))
}

/// The GPUs that each node has named as unhealthy.
pub(super) fn left_out(cluster: &Cluster) -> Result<BTreeMap<String, Vec<u32>>, HarnessError> {
    let out = cluster.run(User::Root, "sinfo", &["-h", "-N", "-O", "nodelist:64,extra:16000"])?.ok()?;
    Ok(out
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(node, extra)| (node.to_owned(), sick(extra)))
        .collect())
}

/// Reads `sick=3:1764097557:xid_79,5:1764097600:hot` among the words of a node.
fn sick(extra: &str) -> Vec<u32> {
    let word = extra.split_whitespace().find_map(|word| word.strip_prefix("sick="));
    word.into_iter()
        .flat_map(|word| word.split(','))
        .filter_map(|one| one.split_once(':')?.0.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_sinfo_is_read() {
        let expected = NodeState {
            state: "draining".to_owned(),
            reason: "a|b".to_owned(),
            reason_since: "2026-11-23T14:48:03".to_owned(),
        };
        assert_eq!(node("n1|draining|2026-11-23T14:48:03|a|b"), Some(("n1".to_owned(), expected)));
    }

    #[test]
    fn the_gpus_that_a_node_leaves_out_are_read() {
        let line = "tessera gpu0-7=free sick=3:1764097557:xid_79,5:1764097600:hot node=same:1764097557:9f";
        assert_eq!(sick(line), [3, 5]);
        assert_eq!(sick("tessera gpu0-7=free sick=none"), Vec::<u32>::new());
        assert_eq!(sick("(null)"), Vec::<u32>::new());
    }

    #[test]
    fn a_line_of_scontrol_is_read() {
        let line = "JobId=14 ArrayJobId=13 JobName=chaos7 UserId=tessera-bob(1002) GroupId=x(1002) JobState=RUNNING \
                    Reason=None Restarts=2 StartTime=1700000000 ReqNodeList=(null) NodeList=n[1-2] BatchHost=n1";
        let expected = Job {
            id: 14,
            order: Some(7),
            uid: 1002,
            state: "RUNNING".to_owned(),
            reason: "None".to_owned(),
            nodes: vec!["n1".to_owned(), "n2".to_owned()],
            restarts: 2,
            start: Some(1_700_000_000),
        };
        assert_eq!(job(line), Some(expected));
        assert_eq!(node_list("(null)"), Vec::<String>::new());
        assert_eq!(node_list("n1"), ["n1"]);
    }
}
