//! Says for every node that its slurmd loads Tessera, as `spank_tessera.so` does there: a fleet's slurmds do not load it.

use std::collections::BTreeMap;

use lab::User;
use lab::command::run;
use lab::fleet::Fleet;
use protocol::{Extra, NodeWord, Said};

use crate::command::TaskError;

/// Writes the word of each node behind its layout.
pub(super) fn speak(fleet: &Fleet) -> Result<(), TaskError> {
    let file = fingerprint(&fleet.tessera_toml()?, &fleet.cluster().nodes()[0])?;
    let mut show = fleet.cluster().command(User::Root, "scontrol")?;
    let shown = run(show.env("SLURM_TIME_FORMAT", "%s").args(["-o", "show", "nodes"]))?.ok()?;
    for (started, names) in by_start(&shown) {
        let word = NodeWord::Says(Said { started, file });
        let extra = Extra { before: "tessera", word: Some(word), ..Extra::default() };
        let update = [format!("NodeName={}", names.join(",")), format!("Extra={extra}")];
        fleet.run("scontrol", &["update", &update[0], &update[1]])?;
    }
    Ok(())
}

/// Nodes whose jobs with requests of Tessera's would wait for ever.
pub(super) fn silent(fleet: &Fleet) -> Result<usize, TaskError> {
    let shown = fleet.run("scontrol", &["-o", "show", "nodes"])?;
    Ok(shown.lines().filter(|line| line.starts_with("NodeName=") && !line.contains(" node=same:")).count())
}

fn fingerprint(text: &str, node: &str) -> Result<u64, TaskError> {
    let (config, errors) =
        site_config::parse("tessera.toml", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
    let missing = || TaskError::Other(format!("tessera.toml does not describe {node}: {errors:?}"));
    let of = |config: site_config::SiteConfig| Some(config.fingerprint_of(config.node(node)?));
    config.and_then(of).ok_or_else(missing)
}

/// The nodes by the time at which their slurmds started, as `scontrol -o show nodes` has it in seconds since 1970.
fn by_start(shown: &str) -> BTreeMap<u64, Vec<&str>> {
    let mut all: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for line in shown.lines() {
        let field = |key: &str| line.split_whitespace().find_map(|word| word.strip_prefix(key));
        let started = field("SlurmdStartTime=").and_then(|time| time.parse().ok());
        if let (Some(name), Some(started)) = (field("NodeName="), started) {
            all.entry(started).or_default().push(name);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_told_apart_by_their_start() {
        let text = "NodeName=n1 Arch=x86_64 BootTime=1 SlurmdStartTime=5\nNodeName=n2 SlurmdStartTime=6\n\
                    NodeName=n3 SlurmdStartTime=5\nNodeName=n4 SlurmdStartTime=None\n";
        assert_eq!(by_start(text), BTreeMap::from([(5, vec!["n1", "n3"]), (6, vec!["n2"])]));
    }
}
