//! The tasks, with what every request looks up about them. A user may have a thousand and can ask all day, so a look-up must not
//! walk over all tasks of a worker.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use task_sched::{DeviceId, TaskId, WorkerId};

use super::{Stage, Task};

#[derive(Default)]
pub(super) struct Tasks {
    all: BTreeMap<TaskId, Task>,
    names: BTreeMap<(WorkerId, u64), TaskId>,
    waiting: BTreeSet<(WorkerId, TaskId)>,
    /// Number of tasks of a worker that run on a device, and their bytes.
    running: BTreeMap<(WorkerId, DeviceId), (usize, u128)>,
    /// True if the policy places tasks without room for their managed memory.
    is_managed_soft: bool,
}

impl Tasks {
    pub(super) fn new(is_managed_soft: bool) -> Self {
        Self { is_managed_soft, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, id: TaskId) -> Option<&Task> {
        self.all.get(&id)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Task> {
        self.all.values()
    }

    pub(super) fn named(&self, worker: WorkerId, nonce: u64) -> Option<TaskId> {
        self.names.get(&(worker, nonce)).copied()
    }

    /// The tasks of a worker, oldest first.
    pub(super) fn of(&self, worker: WorkerId) -> Vec<TaskId> {
        let [first, last] = [0, u64::MAX].map(|nonce| (worker, nonce));
        let mut tasks: Vec<TaskId> = self.names.range(first..=last).map(|(_, task)| *task).collect();
        tasks.sort_unstable();
        tasks
    }

    /// Tells whether a worker has any task.
    pub(super) fn is_any_of(&self, worker: WorkerId) -> bool {
        self.names.range((worker, 0)..=(worker, u64::MAX)).next().is_some()
    }

    /// The oldest task of a worker that waits and is younger than `after`.
    pub(super) fn next_waiting(&self, worker: WorkerId, after: Option<TaskId>) -> Option<TaskId> {
        let from = after.map_or(Bound::Included((worker, TaskId(0))), |id| Bound::Excluded((worker, id)));
        let to = Bound::Included((worker, TaskId(u64::MAX)));
        self.waiting.range((from, to)).next().map(|(_, id)| *id)
    }

    /// Tells whether a task of the worker runs.
    pub(super) fn holds(&self, worker: WorkerId) -> bool {
        let [first, last] = [0, usize::MAX].map(|device| (worker, DeviceId(device)));
        self.running.range(first..=last).next().is_some()
    }

    /// Memory for which a task may have to wait, bytes.
    pub(super) fn hard(&self, task: &Task) -> u64 {
        let need = task.record.need;
        if self.is_managed_soft { need.mem().0 } else { need.total().0 }
    }

    /// Memory of this kind that the running tasks of a worker hold on a device, bytes.
    pub(super) fn held(&self, worker: WorkerId, device: DeviceId) -> u64 {
        let bytes = self.running.get(&(worker, device)).map_or(0, |(_, bytes)| *bytes);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    pub(super) fn insert(&mut self, id: TaskId, task: Task) {
        self.remove(id);
        self.names.insert((task.worker, task.record.nonce), id);
        self.all.insert(id, task);
        self.enters(id, task);
    }

    pub(super) fn remove(&mut self, id: TaskId) -> Option<Task> {
        let task = self.all.remove(&id)?;
        self.names.remove(&(task.worker, task.record.nonce));
        self.leaves(id, task);
        Some(task)
    }

    /// A task enters a stage at this time; nothing happens where there is no such task.
    pub(super) fn set_stage(&mut self, id: TaskId, stage: Stage, t: f64) {
        let Some(task) = self.all.get_mut(&id) else { return };
        let before = *task;
        task.record.stage = stage;
        task.record.since = t;
        let now = *task;
        self.leaves(id, before);
        self.enters(id, now);
    }

    fn enters(&mut self, id: TaskId, task: Task) {
        let mem = u128::from(self.hard(&task));
        match task.record.stage {
            Stage::Waiting => drop(self.waiting.insert((task.worker, id))),
            Stage::Running(device) => {
                let (count, bytes) = self.running.entry((task.worker, device)).or_default();
                *count += 1;
                *bytes += mem;
            }
            Stage::Quarantined(_) => {}
        }
    }

    fn leaves(&mut self, id: TaskId, task: Task) {
        let mem = u128::from(self.hard(&task));
        match task.record.stage {
            Stage::Waiting => drop(self.waiting.remove(&(task.worker, id))),
            Stage::Running(device) => {
                let Some((count, bytes)) = self.running.get_mut(&(task.worker, device)) else { return };
                *count -= 1;
                *bytes -= mem;
                if *count == 0 {
                    self.running.remove(&(task.worker, device));
                }
            }
            Stage::Quarantined(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use task_sched::{Bytes, Need};

    use super::*;
    use crate::core::TaskRecord;

    fn stage(at: usize) -> Stage {
        [
            Stage::Waiting,
            Stage::Running(DeviceId(0)),
            Stage::Running(DeviceId(1)),
            Stage::Quarantined(DeviceId(1)),
        ][at]
    }

    fn task(worker: u64, id: u64, at: usize, mem: u64) -> Task {
        let (task, since) = (TaskId(id), 0.0);
        let need = Need::new(Bytes(mem), 1, 1).unwrap();
        let (nonce, single) = (1000 - id, false);
        let stage = stage(at);
        let record = TaskRecord { task, nonce, stage, need, single, since };
        Task { worker: WorkerId(worker), record }
    }

    proptest! {
        /// Checks that a look-up finds what a walk over all tasks finds.
        #[test]
        fn a_look_up_and_a_walk_agree(
            steps in prop::collection::vec((0..3u8, 1..4u64, 0..20u64, 0..4usize, any::<u64>()), 1..80)
        ) {
            let mut tasks = Tasks::default();
            for (step, worker, id, at, mem) in steps {
                let there = tasks.get(TaskId(id)).is_some();
                match step {
                    0 if !there => tasks.insert(TaskId(id), task(worker, id, at, mem)),
                    1 => prop_assert_eq!(tasks.remove(TaskId(id)).is_some(), there),
                    _ => tasks.set_stage(TaskId(id), stage(at), 1.0),
                }
                for worker in (1..4).map(WorkerId) {
                    let own = || tasks.values().filter(move |task| task.worker == worker);
                    let on = |device| own().filter(move |task| task.record.stage == Stage::Running(device));
                    let ids: Vec<TaskId> = own().map(|task| task.record.task).collect();
                    let waits = |task: &&Task| task.record.stage == Stage::Waiting;
                    let waiting: Vec<TaskId> = own().filter(waits).map(|task| task.record.task).collect();
                    let walked = std::iter::successors(tasks.next_waiting(worker, None), |id| {
                        tasks.next_waiting(worker, Some(*id))
                    });
                    prop_assert_eq!(walked.collect::<Vec<_>>(), waiting);
                    prop_assert_eq!(tasks.is_any_of(worker), !ids.is_empty());
                    for id in &ids {
                        prop_assert_eq!(tasks.named(worker, 1000 - id.0), Some(*id));
                    }
                    prop_assert_eq!(tasks.of(worker), ids);
                    let devices = [DeviceId(0), DeviceId(1)];
                    prop_assert_eq!(tasks.holds(worker), devices.iter().any(|id| on(*id).next().is_some()));
                    for device in devices {
                        let held = on(device).fold(0, |sum: u64, task| sum.saturating_add(task.record.need.mem().0));
                        prop_assert_eq!(tasks.held(worker, device), held);
                    }
                }
            }
        }
    }
}
