//! Finds the GPUs of a node that come back next.

use std::collections::HashMap;

use geometry::{GpuIndex, JobId};
use topology::GpuSet;

use super::{Engine, Question};

impl Engine {
    /// The question with the GPUs of a node that are expected back first.
    pub(crate) fn with_next(&self, mut question: Question, node: &str, ends: &[(i64, JobId)]) -> Question {
        question.ask.next = self.first_back(node, ends);
        question
    }

    /// The GPUs of a node that are expected back first, when its jobs end as told, seconds since 1970. A GPU with several
    /// jobs comes back with the last of them.
    pub(crate) fn first_back(&self, node: &str, ends: &[(i64, JobId)]) -> GpuSet {
        let mut back: HashMap<GpuIndex, i64> = HashMap::new();
        for (job, (_, given)) in self.nodes.get(node).iter().flat_map(|entry| &entry.jobs) {
            let end = ends.iter().find(|(_, id)| id == job).map_or(i64::MAX, |(end, _)| *end);
            for gpu in given.grant.gpus() {
                let last = back.entry(gpu).or_insert(end);
                *last = end.max(*last);
            }
        }
        let first = back.values().min().copied();
        back.into_iter().filter(|(_, end)| Some(*end) == first).map(|(gpu, _)| gpu).collect()
    }
}
