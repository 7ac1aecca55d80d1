//! A submission's list of partitions.

use std::collections::BTreeSet;

/// The names in a list of partitions, each once. A user may write a name a thousand times, and each is looked up with all
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
