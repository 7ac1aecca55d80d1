//! No slice is used by two jobs at a time.

use std::collections::BTreeMap;

use super::Finding;
use crate::chaos::seen::{Seen, Task};

/// Names of devices: which GPU an instance is on, and which GPU a number means.
#[derive(Debug, Default)]
pub(in crate::chaos) struct Devices {
    /// GPU of each MIG device that was ever seen.
    parents: BTreeMap<String, String>,
    /// UUID of each GPU, by node and index.
    numbers: BTreeMap<(String, u32), String>,
}

impl Devices {
    /// Learns the names that a look shows.
    pub(in crate::chaos) fn learn(&mut self, seen: &Seen) {
        for node in &seen.nodes {
            for gpu in &node.gpus {
                self.numbers.insert((node.name.clone(), gpu.index), gpu.uuid.clone());
                for uuid in gpu.instances.iter().filter_map(|instance| instance.uuid.as_ref()) {
                    self.parents.insert(uuid.clone(), gpu.uuid.clone());
                }
            }
        }
    }

    /// The UUID of what a job calls `name`: a UUID, or a GPU's number on its node.
    pub(in crate::chaos) fn uuid(&self, node: &str, name: &str) -> String {
        let number = name.parse().ok().and_then(|index| self.numbers.get(&(node.to_owned(), index)));
        number.cloned().unwrap_or_else(|| name.to_owned())
    }

    /// All GPUs of a node.
    pub(in crate::chaos) fn count(&self, node: &str) -> usize {
        self.numbers.keys().filter(|(name, _)| name == node).count()
    }

    /// The GPU that a device is, or is on.
    pub(in crate::chaos) fn gpu<'a>(&'a self, uuid: &'a str) -> &'a str {
        self.parents.get(uuid).map_or(uuid, String::as_str)
    }

    fn overlap(&self, a: &str, b: &str) -> bool {
        a == b || self.gpu(a) == b || a == self.gpu(b)
    }
}

/// Whether both lived at one time. A task that ended while `/proc` was read, before the other began, did not.
fn lived_together(a: &Task, b: &Task) -> bool {
    a.since < b.seen && b.since < a.seen
}

/// Pairs of tasks of different jobs that lived at one time with a device in common, even if one has ended since. Jobs of one
/// user may share one through MPS.
pub(in crate::chaos) fn two_owners(tasks: &[Task], devices: &Devices) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, a) in tasks.iter().enumerate() {
        for b in &tasks[at + 1..] {
            // A job id alone does not tell: a slurmctld that was killed gives one twice.
            let same_job = (a.job, a.order) == (b.job, b.order);
            let share = a.mps.is_some() && a.mps == b.mps && a.uid == b.uid;
            if same_job || share || a.node != b.node || !lived_together(a, b) {
                continue;
            }
            let uuids = |task: &Task| -> Vec<String> {
                task.devices.iter().map(|name| devices.uuid(&task.node, name)).collect()
            };
            let (of_a, of_b) = (uuids(a), uuids(b));
            let common = of_a.iter().find(|x| of_b.iter().any(|y| devices.overlap(x, y)));
            if let Some(device) = common {
                let (low, high) = if a.job <= b.job { (a, b) } else { (b, a) };
                let subject = format!("jobs {} and {} on {}", low.job, high.job, a.node);
                let say = |t: &Task| {
                    format!("job {} (user {}, process {}) has {:?}", t.job, t.uid, t.pid, t.devices)
                };
                let seen = format!("both use {device}: {}; {}", say(low), say(high));
                found.push(Finding::new("two owners", subject, seen));
            }
        }
    }
    found.sort();
    found.dedup_by(|a, b| a.subject == b.subject);
    found
}
