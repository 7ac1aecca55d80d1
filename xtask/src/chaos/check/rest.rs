//! When no job is there, nothing of one is left.

use super::Finding;
use crate::chaos::seen::{Holder, Seen, SeenNode};

/// Lists what should not be there. Idle instances should: they are kept for the next job.
pub(in crate::chaos) fn leftovers(seen: &Seen) -> Vec<Finding> {
    let mut found = Vec::new();
    for task in &seen.tasks {
        let subject = format!("process {} on {}", task.pid, task.node);
        found.push(Finding::new("left process", subject, format!("of job {}, user {}", task.job, task.uid)));
    }
    for node in &seen.nodes {
        found.extend(of_node(node));
    }
    found
}

fn of_node(node: &SeenNode) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |rule, subject: String, seen: String| {
        found.push(Finding::new(rule, format!("{}: {subject}", node.name), seen));
    };
    for entry in &node.journal {
        add("left in the journal", format!("job {}", entry.job), format!("{entry:?}"));
    }
    for file in &node.journal_rest {
        add("left in the journal", file.clone(), "no job is there".to_owned());
    }
    for daemon in &node.mps {
        add("left daemon", format!("process {}", daemon.pid), format!("{daemon:?}"));
    }
    for broker in &node.brokers {
        add("left daemon", format!("broker {}", broker.pid), format!("{broker:?}"));
    }
    for step in &node.steps {
        add("left daemon", format!("slurmstepd {}", step.pid), format!("of job {}", step.job));
    }
    for place in node.layout.iter().filter(|place| place.holder != Holder::Idle) {
        add("left in the layout", format!("GPU {} {:?}", place.gpu, place.instance), format!("{place:?}"));
    }
    found
}

/// Slices that slurmctld counts as used. `shown` is a license of `scontrol -o show licenses`.
pub(in crate::chaos) fn counted_slices(shown: &str) -> Option<Finding> {
    let free = shown.split_whitespace().any(|field| field == "Used=0");
    (!free).then(|| Finding::new("left in the accounts", "license slice", shown.trim()))
}

/// GPUs whose power limit is not the default. `csv` is what nvidia-smi says of a node on which no GPU is lost: `index, limit,
/// default`, a line per GPU. An answer without numbers proves nothing, and is told too.
pub(in crate::chaos) fn changed_limits(node: &str, csv: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut tell = |subject: String, seen: String| found.push(Finding::new("power limit", subject, seen));
    if csv.trim().is_empty() {
        tell(node.to_owned(), "nvidia-smi names no GPU".to_owned());
    }
    for line in csv.lines() {
        let fields: Vec<&str> = line.split(", ").collect();
        match fields[..] {
            [_, limit, default] if limit == default && limit.ends_with(" W") => {}
            [gpu, limit, default] => {
                tell(format!("{node}: GPU {gpu}"), format!("limited to {limit}, and was to {default}"));
            }
            _ => tell(node.to_owned(), format!("nvidia-smi says {line:?}")),
        }
    }
    found
}
