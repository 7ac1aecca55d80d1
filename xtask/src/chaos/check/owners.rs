//! No slice is used by two jobs at a time, and no GPU instance by two users.

use std::collections::BTreeMap;

use super::Finding;
use super::promise::nominal_gb;
use crate::chaos::seen::{Instance, Seen, Task};

/// Names of devices: which GPU an instance is on, and which GPU a number means.
#[derive(Debug, Default)]
pub(in crate::chaos) struct Devices {
    /// GPU of each MIG device that was ever seen.
    parents: BTreeMap<String, String>,
    /// The GPU instance that each MIG device was in at the last look: GPU, id and profile. A new instance may get the id of one
    /// that is gone.
    homes: BTreeMap<String, (String, u32, String)>,
    /// UUID of each GPU, by node and index.
    numbers: BTreeMap<(String, u32), String>,
}

impl Devices {
    /// Learns the names that a look shows.
    pub(in crate::chaos) fn learn(&mut self, seen: &Seen) {
        self.homes.clear();
        for node in &seen.nodes {
            for gpu in &node.gpus {
                self.numbers.insert((node.name.clone(), gpu.index), gpu.uuid.clone());
                let parts = |of: &Instance| of.parts.iter().map(|part| part.uuid.clone()).collect::<Vec<_>>();
                for (instance, uuid) in
                    gpu.instances.iter().flat_map(|i| parts(i).into_iter().map(move |u| (i, u)))
                {
                    let home = (gpu.uuid.clone(), instance.id, instance.profile.clone());
                    self.parents.insert(uuid.clone(), gpu.uuid.clone());
                    self.homes.insert(uuid, home);
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

    /// Node and number of the GPU that a device is, or is on.
    pub(in crate::chaos) fn place(&self, uuid: &str) -> Option<&(String, u32)> {
        let gpu = self.gpu(uuid);
        self.numbers.iter().find(|(_, known)| *known == gpu).map(|(place, _)| place)
    }

    /// Learns which GPU an instance is on before the next look at the whole.
    pub(in crate::chaos) fn learn_parent(&mut self, node: &str, gpu: u32, uuid: &str) {
        let known = self.numbers.get(&(node.to_owned(), gpu)).filter(|known| *known != uuid);
        if let Some(gpu) = known {
            self.parents.insert(uuid.to_owned(), gpu.clone());
        }
    }

    fn overlap(&self, a: &str, b: &str) -> bool {
        a == b || self.gpu(a) == b || a == self.gpu(b)
    }

    /// True if both are in one GPU instance.
    fn together(&self, a: &str, b: &str) -> bool {
        self.homes.get(a).is_some_and(|home| self.homes.get(b) == Some(home))
    }
}

/// True if both lived at one time. A task that ended while `/proc` was read, before the other began, did not.
fn lived_together(a: &Task, b: &Task) -> bool {
    a.since < b.seen && b.since < a.seen
}

/// True if two jobs may use one device: those of one user, either by shares under one daemon, or by seats.
fn may_share(a: &Task, b: &Task) -> bool {
    a.uid == b.uid && a.has_seats == b.has_seats && a.mps.is_some() && (a.has_seats || a.mps == b.mps)
}

/// Pairs of tasks of different jobs that lived at one time with a device in common, even if one has ended since. Compute
/// instances of two users in one GPU instance count as one device.
pub(in crate::chaos) fn two_owners(tasks: &[Task], devices: &Devices) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, a) in tasks.iter().enumerate() {
        for b in &tasks[at + 1..] {
            // A job id alone does not tell: a slurmctld that was killed gives one twice.
            let same_job = (a.job, a.order) == (b.job, b.order);
            if same_job || may_share(a, b) || a.node != b.node || !lived_together(a, b) {
                continue;
            }
            let uuids = |task: &Task| -> Vec<String> {
                task.devices.iter().map(|name| devices.uuid(&task.node, name)).collect()
            };
            let (of_a, of_b) = (uuids(a), uuids(b));
            let mixed = |x: &str, y: &str| a.uid != b.uid && devices.together(x, y);
            let common = of_a.iter().find(|x| of_b.iter().any(|y| devices.overlap(x, y) || mixed(x, y)));
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

/// GPU instances whose jobs have together stated more memory, in GB, than there is. `stated` is what an order's job states for
/// its compute instance.
pub(in crate::chaos) fn crowded(
    tasks: &[Task],
    devices: &Devices,
    stated: impl Fn(u32) -> Option<u32>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, a) in tasks.iter().enumerate() {
        let Some(home) = a.devices.first().and_then(|uuid| devices.homes.get(uuid)) else { continue };
        // Those that lived when this one was seen: each job once.
        let beside = tasks[at..].iter().filter(|b| b.node == a.node && lived_together(a, b));
        let beside =
            beside.filter(|b| b.devices.first().and_then(|uuid| devices.homes.get(uuid)) == Some(home));
        let jobs: BTreeMap<(u32, Option<u32>), u32> =
            beside.filter_map(|b| Some(((b.job, b.order), stated(b.order?)?))).collect();
        let (sum, room) = (jobs.values().sum::<u32>(), nominal_gb(&home.2));
        if room.is_some_and(|room| sum > room) {
            let subject = format!("instance {} of {} on {}", home.1, home.0, a.node);
            let jobs: Vec<u32> = jobs.into_keys().map(|(job, _)| job).collect();
            found.push(Finding::new(
                "too much memory",
                subject,
                format!("jobs {jobs:?} have stated {sum} GB"),
            ));
        }
    }
    found.sort();
    found.dedup_by(|a, b| a.subject == b.subject);
    found
}
