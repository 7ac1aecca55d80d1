//! Instances that come and go.

use std::collections::HashMap;
use std::ops::AddAssign;

use geometry::{ProfileId, Slice};
use node_state::{GpuState, Holder, Node};

/// How many instances were made, unmade and used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instances {
    /// Made for a job.
    pub created: u64,
    /// Idle ones that had to go.
    pub destroyed: u64,
    /// Idle ones that a job got.
    pub reused: u64,
}

impl AddAssign for Instances {
    fn add_assign(&mut self, other: Self) {
        self.created += other.created;
        self.destroyed += other.destroyed;
        self.reused += other.reused;
    }
}

impl Instances {
    /// Counts what was done between two states of one node.
    #[must_use]
    pub fn between(before: &Node, after: &Node) -> Self {
        let (before, after) = (known(before), known(after));
        let new = |key| !before.contains_key(key);
        let gone = |key| !after.contains_key(key);
        let again = |(key, idle): (_, &bool)| !*idle && before.get(key) == Some(&true);
        Self {
            created: after.keys().filter(|key| new(*key)).count() as u64,
            destroyed: before.keys().filter(|key| gone(*key)).count() as u64,
            reused: after.iter().filter(|entry| again(*entry)).count() as u64,
        }
    }
}

/// A node's instances by GPU, profile and start: whether each is idle.
fn known(node: &Node) -> HashMap<(usize, ProfileId, Slice), bool> {
    let mut all = HashMap::new();
    for (at, gpu) in node.gpus.iter().enumerate() {
        if let GpuState::Mig(instances) = &gpu.state {
            all.extend(instances.iter().map(|i| ((at, i.profile, i.start), i.holder == Holder::Idle)));
        }
    }
    all
}
