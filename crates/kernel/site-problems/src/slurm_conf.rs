//! Reads the names of partitions and types of GPUs from a slurm.conf, for checks without a running Slurm.

use std::collections::HashMap;

use site_config::hostlist::expand;
use slurm_files::{Line, lines};
use slurm_names::{SlurmNames, gpu_types_in};

/// Reads the partitions and types of GPUs that a slurm.conf names.
///
/// If the file includes others, no names are known: those others could have any. Accounts are never known from files.
#[must_use]
pub fn names_in_slurm_conf(text: &str) -> SlurmNames {
    let mut partitions = Vec::new();
    for line in lines(text) {
        if line.trim_start().get(..7).is_some_and(|word| word.eq_ignore_ascii_case("include")) {
            return SlurmNames::default();
        }
        let line = Line::read(&line);
        if line.begins("PartitionName") {
            let name = line.field("PartitionName").unwrap_or_default();
            if !name.eq_ignore_ascii_case("DEFAULT") {
                partitions.push(name.to_owned());
            }
        }
    }
    let types = |(node, gres): (String, String)| (node, gpu_types_in(&gres));
    let gpu_types = gres_in_slurm_conf(text).into_iter().map(types).collect();
    SlurmNames { partitions: Some(partitions), gpu_types, ..SlurmNames::default() }
}

/// Reads each node's `Gres=`, with that of the `NodeName=DEFAULT` before it where its line has none. A later one without `Gres=` changes
/// nothing [read_config.c, `_parse_nodename`].
#[must_use]
pub fn gres_in_slurm_conf(text: &str) -> HashMap<String, String> {
    let (mut found, mut default) = (HashMap::new(), None);
    for line in lines(text) {
        let line = Line::read(&line);
        if !line.begins("NodeName") {
            continue;
        }
        let (list, gres) =
            (line.field("NodeName").unwrap_or_default(), line.field("Gres").map(str::to_owned));
        if list.eq_ignore_ascii_case("DEFAULT") {
            default = gres.or(default);
        } else if let Some(gres) = gres.or_else(|| default.clone()) {
            found.extend(expand(list).unwrap_or_default().into_iter().map(|node| (node, gres.clone())));
        }
    }
    found
}

/// Counts the shards of a node in gres.conf; `None` if no line gives a number of them.
#[must_use]
pub fn shards_in_gres_conf(text: &str, node: &str) -> Option<u32> {
    let count = |line: String| {
        let line = Line::read(&line);
        let nodes = line.field("NodeName").map(|list| expand(list).unwrap_or_default());
        let shards = line.field("Name").is_some_and(|name| name.eq_ignore_ascii_case("shard"));
        let here = nodes.is_none_or(|nodes| nodes.iter().any(|name| name == node));
        line.field("Count").filter(|_| shards && here)?.parse::<u32>().ok()
    };
    lines(text).into_iter().filter_map(count).reduce(u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_and_types_are_read() {
        let text = "NodeName=DEFAULT Gres=gpu:a100:8,shard:320\nNodeName=n[1-2] CPUs=4 # PartitionName=no\n\
                    nodename=n3 Gres=gpu:no_consume:4 \\\n  CPUs=2\nPartitionName=DEFAULT State=UP\n\
                    PartitionName=gpu Nodes=ALL\nPartitionName=debug Nodes=n1\n";
        let SlurmNames { partitions, accounts, gpu_types, .. } = names_in_slurm_conf(text);
        assert_eq!((partitions.unwrap(), accounts), (vec!["gpu".to_owned(), "debug".to_owned()], None));
        assert_eq!(gpu_types["n2"], ["a100"]);
        assert!(gpu_types["n3"].is_empty());
    }

    #[test]
    fn gres_of_nodes_are_read() {
        let text = "NodeName=DEFAULT Gres=gpu:2\nNodeName=n[1-2] CPUs=4\nNodeName=n3 Gres=gpu:a100:8,shard:320 # x\n";
        let gres = gres_in_slurm_conf(text);
        assert_eq!((gres["n2"].as_str(), gres["n3"].as_str()), ("gpu:2", "gpu:a100:8,shard:320"));
        let text = "Name=shard Count=3\nNodeName=n1 Name=shard Count=40 File=/dev/nvidia0\nNodeName=n2 Name=gpu Count=9\n";
        assert_eq!(["n1", "n2"].map(|node| shards_in_gres_conf(text, node)), [Some(43), Some(3)]);
        assert_eq!(shards_in_gres_conf("Name=gpu Count=9\nName=shard Count=9G\n", "n1"), None);
    }

    #[test]
    fn a_default_stays_until_another_default_replaces_it() {
        let text = "NodeName=DEFAULT Gres=gpu:a100:4\nNodeName=DEFAULT CPUs=8\nNodeName=n1\nNodeName=DEFAULT Gres=gpu:h100:2\nNodeName=n2\n";
        let (gres, types) = (gres_in_slurm_conf(text), names_in_slurm_conf(text).gpu_types);
        assert_eq!(["n1", "n2"].map(|node| gres[node].as_str()), ["gpu:a100:4", "gpu:h100:2"]);
        assert_eq!(["n1", "n2"].map(|node| types[node][0].as_str()), ["a100", "h100"]);
    }

    #[test]
    fn a_file_that_includes_others_says_nothing_sure() {
        let names = names_in_slurm_conf("PartitionName=gpu\nInclude /etc/slurm/parts.conf\n");
        assert_eq!((names.partitions, names.gpu_types.len()), (None, 0));
    }
}
