//! `sinfo`: which nodes take jobs.

use std::collections::HashMap;

use super::command::run;
use super::{exclusive, scontrol, squeue};
use crate::outcome::Failure;

/// States of a node that takes jobs. `planned` is an idle one that backfill keeps for a pending job.
const USABLE: [&str; 5] = ["idle", "planned", "mixed", "allocated", "completing"];
/// States of a node without jobs.
const IDLE: [&str; 2] = ["idle", "planned"];
/// Marks that sinfo adds to such a state: backfill keeps the rest of the node for a pending job, a job is just ending there, or the node is
/// powered down or up, and a job wakes it.
const STILL_USABLE: [char; 4] = ['-', '+', '~', '#'];
/// Marks that sinfo adds to the state of a node that Slurm powers down, now or as soon as it can.
const POWERS_DOWN: [char; 2] = ['%', '!'];

/// Mark that sinfo adds to the state of a node that is to be rebooted. One with jobs takes further ones until it is idle; slurmctld drains a node
/// that is to be rebooted as soon as possible.
const REBOOTS_LATER: char = '@';

/// States of an idle node that a reservation keeps for its jobs.
const RESERVED: [&str; 2] = ["reserved", "maint"];
/// Mark that sinfo adds to the state of a node in a reservation for maintenance.
const IN_MAINTENANCE: char = '$';
/// Mark that sinfo adds to the state of a node that does not answer.
const SILENT: char = '*';

/// A node as sinfo shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SinfoNode {
    /// Not drained, down, reserved or in maintenance.
    pub(crate) takes_jobs: bool,
    /// It takes jobs of a reservation, and perhaps no others.
    pub(crate) reserved: bool,
    /// It would take jobs, but its slurmd does not answer slurmctld. Slurm has no reason for such a node (`sinfo -R`) until it sets it down.
    pub(crate) silent: bool,
    /// Slurm powers it down, and has no reason for it either. Once it is down, jobs wake it.
    pub(crate) powers_down: bool,
    /// No job is on it.
    pub(crate) idle: bool,
    pub(crate) partitions: Vec<String>,
    /// Partitions that give jobs whole nodes (`OverSubscribe=EXCLUSIVE`, or `Exclusive=NODE`).
    pub(crate) whole_in: Vec<String>,
}

impl SinfoNode {
    /// True if it is in one of these partitions.
    pub(crate) fn is_in(&self, partitions: &[String]) -> bool {
        self.partitions.iter().any(|name| partitions.contains(name))
    }
}

/// All nodes.
pub(crate) fn nodes() -> Result<HashMap<String, SinfoNode>, Failure> {
    let columns = "nodelist:256,statelong:32,partitionname:128,oversubscribe:32";
    let mut nodes = nodes_in(&run("sinfo", &["-h", "-N", "-a", "-O", columns])?);
    if exclusive::has_its_field() {
        // sinfo does not show it.
        let whole = scontrol::whole_partitions()?;
        for node in nodes.values_mut() {
            node.whole_in = node.partitions.iter().filter(|name| whole.contains(*name)).cloned().collect();
        }
    }
    Ok(nodes)
}

/// The nodes that take jobs, with their partitions.
pub(crate) fn usable() -> Result<HashMap<String, Vec<String>>, Failure> {
    let usable = nodes()?.into_iter().filter(|(_, node)| node.takes_jobs);
    Ok(usable.map(|(name, node)| (name, node.partitions)).collect())
}

/// All partitions, those without nodes too.
pub(crate) fn partitions() -> Result<Vec<String>, Failure> {
    Ok(longest_times()?.into_keys().collect())
}

/// The longest time that each partition allows, seconds; `None`: any.
pub(crate) fn longest_times() -> Result<HashMap<String, Option<u64>>, Failure> {
    Ok(longest_in(&run("sinfo", &["-h", "-a", "-O", "partitionname:128,time:32"])?))
}

fn longest_in(text: &str) -> HashMap<String, Option<u64>> {
    let one = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), squeue::limit(words.next()?)))
    };
    text.lines().filter_map(one).collect()
}

/// A node has a line per partition.
fn nodes_in(text: &str) -> HashMap<String, SinfoNode> {
    let mut nodes: HashMap<String, SinfoNode> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(node), Some(state), Some(partition)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let node = nodes.entry(node.to_owned()).or_default();
        let until_idle = state.strip_suffix(REBOOTS_LATER).filter(|state| !IDLE.contains(state));
        node.takes_jobs |= USABLE.contains(&until_idle.unwrap_or(state).trim_end_matches(STILL_USABLE));
        node.silent |= state.strip_suffix(SILENT).is_some_and(|state| USABLE.contains(&state));
        node.powers_down |= state.strip_suffix(POWERS_DOWN).is_some_and(|state| USABLE.contains(&state));
        let bare = state.trim_end_matches(IN_MAINTENANCE);
        node.reserved |= RESERVED.contains(&bare) || bare != state && USABLE.contains(&bare);
        node.idle |= IDLE.contains(&bare.trim_end_matches(STILL_USABLE)) || RESERVED.contains(&bare);
        node.partitions.push(partition.to_owned());
        node.whole_in.extend((words.next() == Some("EXCLUSIVE")).then(|| partition.to_owned()));
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_that_take_jobs() {
        let text = "n1   idle     gpu YES:4\nn1   idle     debug EXCLUSIVE\nn2   drained  gpu\nn3   mixed    gpu\nn4 reserved gpu\nn5\n\
                    n6 mixed- gpu\nn7 planned gpu\nn8 allocated+ gpu\nn9 idle* gpu\nn10 mixed@ gpu\nn11 down* gpu\n\
                    n12 idle@ gpu\nn13 draining@ gpu\nn14 mixed^ gpu\nn15 idle~ gpu\nn16 mixed# gpu\nn17 idle% gpu\nn18 idle! gpu\n";
        let nodes = nodes_in(text);
        assert_eq!(nodes["n1"].partitions, ["gpu", "debug"]);
        assert_eq!(nodes["n1"].whole_in, ["debug"]);
        assert!(nodes["n1"].idle && nodes["n7"].idle && !nodes["n3"].idle && !nodes["n8"].idle);
        let n2 = SinfoNode { partitions: vec!["gpu".to_owned()], ..SinfoNode::default() };
        assert_eq!(nodes["n2"], n2);
        let usable = nodes.iter().filter(|(_, node)| node.takes_jobs);
        let mut names: Vec<_> = usable.map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["n1", "n10", "n15", "n16", "n3", "n6", "n7", "n8"]);
        assert!(nodes["n15"].idle && !nodes["n16"].idle);
        let power_down = |name: &str| nodes[name].powers_down;
        assert_eq!(["n1", "n2", "n15", "n17", "n18"].map(power_down), [false, false, false, true, true]);
        let silent: Vec<_> =
            nodes.iter().filter(|(_, node)| node.silent).map(|(name, _)| name.as_str()).collect();
        assert_eq!(silent, ["n9"], "a node that is down has a reason");
        assert!(nodes["n4"].reserved && nodes["n4"].idle && !nodes["n2"].reserved && !nodes["n3"].reserved);
        let text = "n1 maint gpu\nn2 mixed$ gpu\nn3 drained$ gpu\n";
        let reserved = nodes_in(text).into_iter().filter(|(_, n)| n.reserved && !n.takes_jobs);
        let mut reserved: Vec<_> = reserved.map(|(name, n)| (name, n.idle)).collect();
        reserved.sort_unstable();
        assert_eq!(reserved, [("n1".to_owned(), true), ("n2".to_owned(), false)]);
    }
}
