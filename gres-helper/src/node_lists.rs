//! The nodes of partitions, read from their host lists. Each list is read once, not with every submission.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use site_config::hostlist;

/// Names of nodes, by the host lists that they stand in. Only lists of the configuration belong here, not those of users.
#[derive(Debug, Default)]
pub(crate) struct NodeLists {
    /// `None`: the list cannot be read.
    known: HashMap<String, Option<Arc<BTreeSet<String>>>>,
    /// Names in all of them together; a list without any counts as one.
    names: usize,
}

impl NodeLists {
    /// Most names that are kept: some 10 MiB. Before more would be, all are forgotten.
    const MOST_NAMES: usize = 100_000;

    /// Gives the names in a host list; `None` for one that cannot be read.
    pub(crate) fn names(&mut self, list: &str) -> Option<Arc<BTreeSet<String>>> {
        if let Some(names) = self.known.get(list) {
            return names.clone();
        }
        let names = expanded(list).map(Arc::new);
        let count = names.as_ref().map_or(0, |names| names.len()).max(1);
        if self.names + count > Self::MOST_NAMES {
            *self = Self::default();
        }
        self.names += count;
        self.known.insert(list.to_owned(), names.clone());
        names
    }

    /// How many names are kept, and how many may be.
    pub(crate) fn count(&self) -> [usize; 2] {
        [self.names, Self::MOST_NAMES]
    }
}

/// Gives the nodes in a user's host list, of a job whose partitions have `nodes`; `None`: not known. A list with more names than these
/// is not read to its end: no such job starts, and slurmctld holds its locks.
pub(crate) fn required(list: &str, nodes: Option<&BTreeSet<String>>) -> Option<BTreeSet<String>> {
    let names = hostlist::expand_at_most(list, nodes?.len()).ok()?;
    Some(names.into_iter().collect())
}

/// The names in a host list; `None` for one that cannot be read.
pub(crate) fn expanded(list: &str) -> Option<BTreeSet<String>> {
    hostlist::expand(list).ok().map(|names| names.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_once() {
        let mut lists = NodeLists::default();
        let first = lists.names("n[1-2]").unwrap();
        assert_eq!(*first, ["n1", "n2"].map(str::to_owned).into());
        assert!(Arc::ptr_eq(&first, &lists.names("n[1-2]").unwrap()));
        assert_eq!((lists.names("n[1"), lists.names("n[1")), (None, None));
        assert_eq!((lists.names, lists.known.len()), (3, 2));
    }

    #[test]
    fn a_users_list_is_read_as_far_as_the_partition_has_nodes() {
        let nodes = expanded("n[1-3]");
        let of = |list| required(list, nodes.as_ref()).map(|names| names.len());
        assert_eq!(
            [of("n[1-2]"), of("n1,m[1-2]"), of("n[1-4]"), of("n[1-65536]")],
            [Some(2), Some(3), None, None]
        );
        assert_eq!(required("n1", None), None);
    }

    #[test]
    fn no_more_names_are_kept_than_the_bound() {
        let mut lists = NodeLists::default();
        for rack in 0..30 {
            assert_eq!(lists.names(&format!("r{rack}n[1-5000]")).unwrap().len(), 5000);
            assert!(lists.names <= NodeLists::MOST_NAMES);
            let kept: usize = lists.known.values().flatten().map(|names| names.len()).sum();
            assert_eq!(kept, lists.names);
        }
        for bad in 0..=NodeLists::MOST_NAMES {
            assert_eq!(lists.names(&format!("n[{bad}")), None);
        }
        assert!(lists.known.len() <= NodeLists::MOST_NAMES);
    }
}
