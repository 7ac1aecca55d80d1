//! CPUs and memory of nodes, from what `scontrol show nodes` prints.

use std::collections::HashMap;
use std::path::Path;

use replay::Host;
use site_config::SiteConfig;

use crate::files::read_text;
use crate::outcome::Failure;
use crate::site;

/// Reads the file; a host for each node of the configuration, in its order. Nodes that only the file has are passed over.
///
/// # Errors
///
/// The file cannot be read, or a node of the configuration has no number of CPUs or no memory in it.
pub(super) fn hosts(path: &Path, config: &SiteConfig) -> Result<Vec<Host>, Failure> {
    let known = hosts_in(&read_text(path)?);
    let of = |name: &str| {
        known.get(name).copied().ok_or_else(|| {
            Failure::new(format!(
                "{} does not say how many CPUs and how much memory node {name} has",
                path.display()
            ))
            .hint("make it with `scontrol show nodes`")
        })
    };
    site::nodes(config).map(|(name, _)| of(name)).collect()
}

/// The nodes of `scontrol show nodes`, with or without `-o`. Of their memory, what Slurm keeps for itself is not for jobs.
fn hosts_in(text: &str) -> HashMap<String, Host> {
    let (mut found, mut name) = (HashMap::new(), "");
    let mut fields: HashMap<&str, u64> = HashMap::new();
    let mut end_of_node = |name: &str, fields: &HashMap<&str, u64>| {
        let cpus = fields.get("CPUEfctv").or_else(|| fields.get("CPUTot"));
        if let (Some(cpus), Some(memory)) = (cpus, fields.get("RealMemory")) {
            let mem_mib = memory.saturating_sub(fields.get("MemSpecLimit").copied().unwrap_or(0));
            found.insert(name.to_owned(), Host { cpus: *cpus, mem_mib });
        }
    };
    for (key, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
        if key == "NodeName" {
            end_of_node(name, &fields);
            fields.clear();
            name = value;
        } else if let Ok(number) = value.parse() {
            // A site's own text at the end of a node can have any words: the first counts.
            fields.entry(key).or_insert(number);
        }
    }
    end_of_node(name, &fields);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_both_layouts_are_read() {
        let text = "NodeName=n1 Arch=x86_64 CoresPerSocket=32\n   CPUAlloc=0 CPUEfctv=62 CPUTot=64 CPULoad=0.1\n   \
                    RealMemory=500000 AllocMem=0 FreeMem=N/A Sockets=2\n   MemSpecLimit=2000\n   Extra=RealMemory=1\n\n\
                    NodeName=n2 CPUTot=8 RealMemory=1000\nNodeName=n3 CPUTot=8\n";
        let found = hosts_in(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found["n1"], Host { cpus: 62, mem_mib: 498_000 });
        assert_eq!(found["n2"], Host { cpus: 8, mem_mib: 1000 });
    }
}
