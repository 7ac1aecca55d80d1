//! A submission as plain values.

use std::collections::BTreeSet;

use protocol::gres_list::Tres;

/// A submission, as far as it concerns GPUs.
#[derive(Clone, Debug, Default)]
pub struct Submission {
    /// The request SPANK stored: text from the user.
    pub request: Option<String>,
    /// What it asks from Slurm itself.
    pub tres: Tres,
    /// Partitions it may run in, the default one where it names none.
    pub partitions: Vec<String>,
    /// The nodes of those; `None`: not known, all.
    pub partition_nodes: Option<BTreeSet<String>>,
    /// Nodes it insists on.
    pub required_nodes: Option<BTreeSet<String>>,
    /// The account it is charged to.
    pub account: Option<String>,
    /// `--exclusive`, or a partition that is so: Slurm gives it every GPU of its nodes as a whole.
    pub exclusive: bool,
}

impl Submission {
    /// Whether the job may run on the node.
    #[must_use]
    pub fn reaches(&self, node: &str) -> bool {
        let within = |set: &Option<BTreeSet<String>>| set.as_ref().is_none_or(|s| s.contains(node));
        within(&self.partition_nodes) && within(&self.required_nodes)
    }
}

/// The names in a list of partitions, each once: a user may write one a thousand times, and each is looked up with all
/// its nodes under slurmctld's locks.
#[must_use]
pub fn distinct(list: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    list.split(',').filter(|name| !name.is_empty() && seen.insert(*name)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_is_named_often_is_looked_up_once() {
        assert_eq!(distinct("gpu,,debug,gpu,"), ["gpu", "debug"]);
        assert_eq!(distinct(&"debug,".repeat(20_000)), ["debug"]);
        assert_eq!(distinct(""), Vec::<String>::new());
    }
}
