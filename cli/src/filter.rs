//! Chooses the nodes and jobs of the cluster that a person wants to see.

use std::collections::HashMap;

use site_config::hostlist;

use crate::cluster_snapshot::{ClusterSnapshot, NodeSeen, Use};
use crate::outcome::Failure;
use crate::slurm::squeue::QueuedJob;
use crate::unknown_name::{self, meant};

/// A filter; empty: everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) nodes: Vec<String>,
    pub(crate) partition: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) in_use: Option<Use>,
}

impl Filter {
    /// `nodes` is a hostlist; an empty text wants everything. The error is for the person who wrote the hostlist.
    pub(crate) fn new(nodes: &str, partition: &str, user: &str, in_use: &str) -> Result<Self, String> {
        let some = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let nodes = match nodes.trim() {
            "" => Vec::new(),
            list => hostlist::expand(list).map_err(|why| format!("the list of nodes {list:?} {why}"))?,
        };
        let in_use = Use::ALL.into_iter().find(|known| known.name() == in_use);
        Ok(Self { nodes, partition: some(partition), user: some(user), in_use })
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The wanted nodes, in their order: of a user those where one of his jobs runs.
    pub(crate) fn nodes<'a>(&self, seen: &'a ClusterSnapshot) -> Vec<&'a NodeSeen> {
        let users: HashMap<u32, &str> = match self.user {
            Some(_) => seen.jobs.iter().map(|job| (job.id, job.user.as_str())).collect(),
            None => HashMap::new(),
        };
        let of_user = |node: &NodeSeen| match &self.user {
            Some(user) => node.jobs().any(|job| users.get(&job) == Some(&user.as_str())),
            None => true,
        };
        let wanted = |node: &&NodeSeen| {
            (self.nodes.is_empty() || self.nodes.contains(&node.name))
                && self.partition.as_ref().is_none_or(|wanted| node.partitions.contains(wanted))
                && self.in_use.is_none_or(|wanted| node.in_use() == wanted)
                && of_user(node)
        };
        seen.nodes.iter().filter(wanted).collect()
    }

    /// Why neither a node nor a job can ever be shown: a name that tessera.toml's nodes do not have.
    pub(crate) fn shows_none_of(&self, seen: &ClusterSnapshot) -> Option<String> {
        if let Some(failure) = self.unknown_node(seen) {
            return Some(failure.in_a_line());
        }
        let name = self.partition.as_ref()?;
        let known = || seen.nodes.iter().flat_map(|node| &node.partitions).map(String::as_str);
        known()
            .all(|known| known != name)
            .then(|| format!("no node of tessera.toml is in partition {name}; {}", meant(name, known())))
    }

    /// Refuses a filter that names what there is not; Slurm is asked for a partition without a node.
    pub(crate) fn refuse_unknown(&self, seen: &ClusterSnapshot) -> Result<(), Failure> {
        if let Some(failure) = self.unknown_node(seen) {
            return Err(failure);
        }
        let has_node =
            |name: &str| seen.nodes.iter().any(|node| node.partitions.iter().any(|known| known == name));
        unknown_name::partitions(self.partition.as_slice(), &has_node)?;
        self.user.as_deref().map_or(Ok(()), |name| unknown_name::user(name, seen))
    }

    /// The error for the first of the nodes that tessera.toml does not have.
    fn unknown_node(&self, seen: &ClusterSnapshot) -> Option<Failure> {
        let known = || seen.nodes.iter().map(|node| node.name.as_str());
        let name = self.nodes.iter().find(|name| known().all(|known| known != *name))?;
        Some(unknown_name::unknown_node(name, known()))
    }

    /// True if a job is wanted. Nodes and their use say nothing of a job that waits.
    pub(crate) fn job(&self, job: &QueuedJob) -> bool {
        let listed = |partition: &String| job.partition.split(',').any(|name| name == partition);
        self.user.as_ref().is_none_or(|user| *user == job.user) && self.partition.as_ref().is_none_or(listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_snapshot::tests::seen;

    fn names(nodes: &str, partition: &str, user: &str, in_use: &str) -> Vec<String> {
        let filter = Filter::new(nodes, partition, user, in_use).unwrap();
        filter.nodes(&seen()).iter().map(|node| node.name.clone()).collect()
    }

    #[test]
    fn each_wish_leaves_out_the_others() {
        assert_eq!(names("", "", "", "").len(), 4);
        assert_eq!(names("n[2-3,9]", "", "", ""), ["n2", "n3"]);
        assert_eq!(names("", "debug", "", ""), ["n2"]);
        assert_eq!(names("", "", "alice", ""), ["n1"]);
        assert_eq!(names("", "", "", "away"), ["n3"]);
        assert_eq!(names("n[1-3]", "gpu", "", "full"), ["n2"]);
        assert_eq!(names("", "", "nobody", ""), [""; 0]);
        assert!(Filter::new("n[1", "", "", "").unwrap_err().contains("has a [ without a ]"));
    }

    #[test]
    fn a_name_that_no_node_has_shows_nothing() {
        let why = |nodes, partition| Filter::new(nodes, partition, "", "").unwrap().shows_none_of(&seen());
        assert_eq!(why("n[1-2]", "gpu"), None);
        assert_eq!(
            why("n[1,77]", ""),
            Some("node n77 is not in tessera.toml; there are n1, n2, n3, n4".to_owned())
        );
        assert_eq!(
            why("", "gpus"),
            Some(
                "no node of tessera.toml is in partition gpus; did you mean gpu? there are debug, gpu"
                    .to_owned()
            )
        );
    }

    #[test]
    fn jobs_are_wanted_by_user_and_partition() {
        let job =
            QueuedJob { user: "alice".to_owned(), partition: "gpu,debug".to_owned(), ..QueuedJob::default() };
        let wants = |partition, user| Filter::new("n1", partition, user, "free").unwrap().job(&job);
        assert!(wants("", "") && wants("debug", "alice"));
        assert!(!wants("deb", "") && !wants("", "bob"));
    }
}
