//! What Slurm's own commands say.

use std::collections::HashMap;
use std::process::Command;

use crate::outcome::Failure;

/// A Slurm command's output.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<String, Failure> {
    let line = || format!("{program} {}", args.join(" "));
    let out = Command::new(program).args(args).output().map_err(|e| {
        Failure::new(format!("cannot run `{}`: {e}", line())).hint("is Slurm installed here?")
    })?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(Failure::new(format!("`{}` failed: {}", line(), said.trim())));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// States of a node that takes jobs. `planned` is an idle one that backfill keeps for a pending job.
const USABLE: [&str; 5] = ["idle", "planned", "mixed", "allocated", "completing"];
/// What sinfo adds to such a state: backfill keeps the rest of the node for a pending job, or a job is just ending there.
const STILL_USABLE: [char; 2] = ['-', '+'];

/// The nodes that take jobs, with their partitions: not those that are drained, down, reserved or in maintenance.
pub(crate) fn usable() -> Result<HashMap<String, Vec<String>>, Failure> {
    let columns = "nodelist:256,statelong:32,partitionname:128";
    Ok(usable_in(&run("sinfo", &["-h", "-N", "-a", "-O", columns])?))
}

/// A node has a line per partition.
fn usable_in(text: &str) -> HashMap<String, Vec<String>> {
    let mut nodes: HashMap<String, Vec<String>> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(node), Some(state), Some(partition)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        if USABLE.contains(&state.trim_end_matches(STILL_USABLE)) {
            nodes.entry(node.to_owned()).or_default().push(partition.to_owned());
        }
    }
    nodes
}

/// A value in `scontrol show config`.
pub(crate) fn setting<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    let pair = |line: &'a str| line.split_once('=').filter(|(k, _)| k.trim().eq_ignore_ascii_case(key));
    config.lines().find_map(pair).map(|(_, value)| value.trim())
}

/// The layouts that the controller publishes, by node.
pub(crate) fn layouts() -> Result<HashMap<String, String>, Failure> {
    Ok(layouts_in(&run("scontrol", &["show", "nodes"])?))
}

/// The layouts in `scontrol show nodes`.
pub(crate) fn layouts_in(text: &str) -> HashMap<String, String> {
    let mut found = field_by_node(text, "Extra=");
    found.retain(|_, extra| extra.starts_with("tessera"));
    found
}

/// A field that has a line to itself in `scontrol show nodes`, by node.
pub(crate) fn field_by_node(text: &str, field: &str) -> HashMap<String, String> {
    let (mut found, mut name) = (HashMap::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("NodeName=") {
            name = rest.split(' ').next().unwrap_or_default().to_owned();
        } else if let Some(value) = line.trim_start().strip_prefix(field) {
            found.insert(name.clone(), value.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_that_take_jobs() {
        let text = "n1   idle     gpu\nn1   idle     debug\nn2   drained  gpu\nn3   mixed    gpu\nn4 reserved gpu\nn5\n\
                    n6 mixed- gpu\nn7 planned gpu\nn8 allocated+ gpu\nn9 idle* gpu\nn10 mixed@ gpu\n";
        let nodes = usable_in(text);
        assert_eq!(nodes.get("n1").map(Vec::len), Some(2));
        let mut names: Vec<_> = nodes.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["n1", "n3", "n6", "n7", "n8"]);
    }

    #[test]
    fn extra_is_found_by_node() {
        let text = "NodeName=n1 Arch=x86_64 CoresPerSocket=1\n   Gres=gpu:8\n   Extra=tessera gpu0=free\n\n\
                    NodeName=n2 Arch=x86_64\n   Comment=x\n   Extra=somebody else's\n\n";
        let found = layouts_in(text);
        assert_eq!(found.get("n1").map(String::as_str), Some("tessera gpu0=free"));
        assert_eq!(found.len(), 1);
    }
}
