//! An array by its number: the tasks that wait, and those that do not.

use std::collections::BTreeMap;

use geometry::counted;

use super::text;
use crate::slurm::squeue::QueuedJob;

/// Tasks that are shown each in a line.
const MOST_SHOWN: usize = 8;

/// The tasks of an array that Slurm knows.
pub(super) struct Array<'a> {
    id: u32,
    tasks: Vec<&'a QueuedJob>,
}

impl<'a> Array<'a> {
    /// The array of this number; `None`: it is another job, or all of its tasks are one record.
    pub(super) fn find(id: u32, jobs: &'a [QueuedJob]) -> Option<Self> {
        let is_task = |job: &&QueuedJob| job.array.as_ref().is_some_and(|(array, _)| *array == id);
        let tasks: Vec<&QueuedJob> = jobs.iter().filter(is_task).collect();
        // Of the last task, Slurm may know nothing but its own number.
        let alone = matches!(tasks[..], [task] if task.id == id);
        (!tasks.is_empty() && !alone).then_some(Self { id, tasks })
    }

    /// A record with tasks that wait: the one that Slurm splits the next from, if there is one.
    pub(super) fn waiting(&self) -> Option<&'a QueuedJob> {
        let waits = |job: &&&QueuedJob| job.waits();
        let whole = self.tasks.iter().filter(waits).find(|job| job.id == self.id);
        whole.or_else(|| self.tasks.iter().find(waits)).copied()
    }

    /// The states of the other tasks, as a sentence: `Of the array 12, 3 tasks are RUNNING and 1 is COMPLETED.`
    pub(super) fn others(&self) -> String {
        let mut states: BTreeMap<&str, usize> = BTreeMap::new();
        for task in self.tasks.iter().filter(|task| !task.waits()) {
            *states.entry(&task.state).or_default() += 1;
        }
        let states: Vec<String> = states
            .into_iter()
            .map(|(state, n)| format!("{} {} {state}", counted(n, "task"), if n == 1 { "is" } else { "are" }))
            .collect();
        if states.is_empty() {
            String::new()
        } else {
            format!("Of array {}, {}.\n", self.id, states.join(", "))
        }
    }

    /// Tasks that run, if none waits.
    pub(super) fn not_pending(&self) -> String {
        let mut all: String =
            self.tasks.iter().take(MOST_SHOWN).map(|task| text::not_pending(task)).collect();
        let more = self.tasks.len().saturating_sub(MOST_SHOWN);
        if more > 0 {
            all.push_str(&format!(
                "and {}; `tessera why {}_N` shows one\n",
                counted(more, "more task"),
                self.id
            ));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: u32, task: &str, state: &str) -> QueuedJob {
        QueuedJob {
            id,
            array: Some((12, task.to_owned())),
            state: state.to_owned(),
            nodes: if state == "RUNNING" { "n1".to_owned() } else { String::new() },
            ..QueuedJob::default()
        }
    }

    #[test]
    fn an_array_is_told_by_the_tasks_that_wait() {
        let jobs = [
            task(13, "1", "RUNNING"),
            task(14, "2", "RUNNING"),
            task(12, "3-9", "PENDING"),
            task(15, "0", "COMPLETED"),
        ];
        let array = Array::find(12, &jobs).unwrap();
        assert_eq!(array.waiting().map(|job| job.id), Some(12));
        assert_eq!(array.others(), "Of array 12, 1 task is COMPLETED, 2 tasks are RUNNING.\n");
        assert!(Array::find(13, &jobs).is_none() && Array::find(12, &jobs[2..3]).is_none());
        let last = Array::find(12, &jobs[..1]).unwrap();
        assert_eq!(
            last.not_pending(),
            "job 12_1 does not wait: it is RUNNING on n1\n",
            "Slurm has forgotten the others"
        );
    }

    #[test]
    fn an_array_that_runs_is_told_task_by_task() {
        let jobs: Vec<QueuedJob> = (0..20).map(|n| task(13 + n, &n.to_string(), "RUNNING")).collect();
        let array = Array::find(12, &jobs).unwrap();
        assert!(array.waiting().is_none());
        let said = array.not_pending();
        assert!(said.starts_with("job 12_0 does not wait: it is RUNNING on n1\njob 12_1 "), "{said}");
        assert!(said.ends_with("\nand 12 more tasks; `tessera why 12_N` shows one\n"), "{said}");
        assert_eq!(said.lines().count(), 9);
    }
}
