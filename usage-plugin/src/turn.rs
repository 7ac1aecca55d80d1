//! Chooses the step that answers for its job on this node, so that nothing is counted twice.
//!
//! Up to Slurm 24.11 the extern step answers: it lives as long as its job and has one task. From 25.05 on, it has no process, and
//! Slurm does not ask for it (docs/slurm-quirks.md). There the oldest step on the node answers: the job's script, and on nodes without it one
//! step of `srun` after the other. Sums of bytes are then the sums over a job's steps.

use std::collections::BTreeSet;
use std::env;
use std::fs;

use geometry::JobId;
use node_slurm::live_steps;
use node_slurm::step_number::StepNumber;
use slurm_tables::Version;

/// When a step answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Always: it is the job's extern step.
    Extern,
    /// While it is the oldest of its job's steps on this node.
    Oldest(OldestStep),
}

/// A step that answers while it is the oldest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OldestStep {
    job: JobId,
    step: StepNumber,
    /// The node's name in Slurm.
    node: String,
    tasks: StepTasks,
}

impl Turn {
    /// `None`: another step answers for the job in this Slurm.
    pub(crate) fn of(slurm: Version, job: JobId, step: StepNumber, node: &str) -> Option<Self> {
        match (slurm.since(25, 5), step == StepNumber::EXTERN) {
            (false, true) => Some(Self::Extern),
            (true, false) => {
                let (node, tasks) = (node.to_owned(), StepTasks::default());
                Some(Self::Oldest(OldestStep { job, step, node, tasks }))
            }
            (false, false) | (true, true) => None,
        }
    }

    /// Tells whether this question is for the step's first task, the only one that gets an answer. Each question is to be told once.
    pub(crate) fn asked_first(&mut self) -> bool {
        match self {
            Self::Extern => true,
            Self::Oldest(own) => own.step.is_job_script() || own.tasks.asked_first(children),
        }
    }

    /// Tells whether no other step answers for the job on this node.
    pub(crate) fn is_own(&self) -> bool {
        match self {
            Self::Extern => true,
            Self::Oldest(own) if own.step.is_job_script() => true,
            Self::Oldest(own) => {
                let before = |step| step == own.step || is_older(step, own.step);
                let env = |variable: &str| env::var(variable).ok();
                live_steps::steps_of(own.job, &own.node, &env, &before)
                    .is_some_and(|steps| is_alone(own.step, &steps))
            }
        }
    }

    /// Tells whether entries that are filled in are the plugin's. Before 25.05 they can be its own of the last sample. Since then
    /// they are Slurm's, with `AutoDetect=nvml`, and Slurm adds those of a task's processes to the plugin's.
    pub(crate) fn writes_over(&self) -> bool {
        matches!(self, Self::Extern)
    }
}

/// The plugin's entries in Slurm's array that Slurm has filled in once. After the task's end they are empty, and still Slurm's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlurmsEntries([bool; 4]);

impl SlurmsEntries {
    /// Tells whether the plugin may fill in an entry that is empty now or not; `over`: also one that is not.
    pub(crate) fn may_fill(&mut self, entry: usize, is_empty: bool, over: bool) -> bool {
        let Some(is_slurms) = self.0.get_mut(entry) else { return false };
        *is_slurms |= !is_empty && !over;
        !*is_slurms
    }
}

/// Reads job and step from slurmstepd's command line. It sets `slurmstepd: [4711.extern]`, and from 24.05 on
/// `[4711.extern stepmgr]` where it manages the job's steps.
pub(crate) fn own_step(command_line: &str) -> Option<(JobId, StepNumber)> {
    let (title, _) = command_line.split_once("slurmstepd: [")?.1.split_once(']')?;
    let (job, step) = title.split_once('.')?;
    let step = match step.split(' ').next()? {
        "extern" => StepNumber::EXTERN,
        "batch" => StepNumber::BATCH_SCRIPT,
        "interactive" => StepNumber::INTERACTIVE,
        // `0+1`: a component of a heterogeneous step.
        number => StepNumber(number.split('+').next()?.parse().ok()?),
    };
    Some((JobId(job.parse().ok()?), step))
}

/// Tells whether a step began before another one of its job.
fn is_older(step: StepNumber, than: StepNumber) -> bool {
    step != StepNumber::EXTERN && !than.is_job_script() && (step.is_job_script() || step < than)
}

/// Tells whether a step is the only one of a list. Two components of a heterogeneous step have one number, and neither answers.
fn is_alone(own: StepNumber, steps: &BTreeSet<(StepNumber, u32)>) -> bool {
    steps.len() == 1 && steps.iter().all(|(step, _)| *step == own)
}

/// The tasks of a step of `srun`. At each sample, Slurm asks once for each of them, in an order that does not change, and does not say for which. It adds
/// up the last answers of all, so that a second task with an answer would count the same bytes twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct StepTasks {
    /// Processes at the first question, all tasks; empty before it, and if the kernel does not list them.
    pids: BTreeSet<u32>,
    questions: usize,
    /// Questions can no longer be told apart: one of several tasks has ended.
    over: bool,
}

impl StepTasks {
    /// Counts a question, and tells whether it is for the first task.
    fn asked_first(&mut self, children: impl FnOnce() -> BTreeSet<u32>) -> bool {
        let at = self.questions;
        self.questions += 1;
        if at == 0 {
            self.pids = children();
            return !self.pids.is_empty();
        }
        match self.pids.len() {
            0 => false,
            // A single task is asked for once more after its end.
            1 => true,
            tasks if self.over || !at.is_multiple_of(tasks) => false,
            _ => {
                self.over = !self.pids.is_subset(&children());
                !self.over
            }
        }
    }
}

/// Children of this process, of which all are slurmstepd's tasks when Slurm asks first.
fn children() -> BTreeSet<u32> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return BTreeSet::new() };
    // A thread may end meanwhile.
    let lists =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: StepNumber = StepNumber::BATCH_SCRIPT;
    const EXTERN: StepNumber = StepNumber::EXTERN;

    #[test]
    fn a_step_is_told_by_the_title_of_its_daemon() {
        let read = |title: &str| own_step(&format!("slurmstepd: [{title}\0"));
        for own in ["4711.extern]", "4711.extern stepmgr]\0"] {
            assert_eq!(read(own), Some((JobId(4711), EXTERN)), "{own}");
        }
        let others = [
            ("batch", BATCH),
            ("interactive", StepNumber::INTERACTIVE),
            ("3", StepNumber(3)),
            ("0+1", StepNumber(0)),
        ];
        for (title, step) in others {
            assert_eq!(read(&format!("4711.{title}]")), Some((JobId(4711), step)), "{title}");
        }
        for bad in ["x.extern]", "4711.external]", "4711]", "4711.extern", "4711.0"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        for bad in ["slurmd", ""] {
            assert_eq!(own_step(bad), None, "{bad}");
        }
    }

    #[test]
    fn one_kind_of_step_answers_in_each_slurm() {
        let answers =
            |version: &str, step| Turn::of(version.parse().unwrap(), JobId(1), step, "n1").is_some();
        for (version, by_extern) in
            [("22.05.8", true), ("24.11.7", true), ("25.05.0", false), ("26.05.5", false)]
        {
            let all = [EXTERN, BATCH, StepNumber(0)].map(|step| answers(version, step));
            assert_eq!(all, [by_extern, !by_extern, !by_extern], "{version}");
        }
    }

    #[test]
    fn an_entry_that_slurm_fills_stays_slurms() {
        let mut entries = SlurmsEntries::default();
        assert!(entries.may_fill(0, true, false));
        assert!(!entries.may_fill(0, false, false), "AutoDetect=nvml has counted");
        assert!(!entries.may_fill(0, true, false), "the task has ended");
        assert!(
            entries.may_fill(1, true, false)
                && entries.may_fill(1, false, true)
                && !entries.may_fill(4, true, true)
        );
    }

    #[test]
    fn one_step_at_a_time_answers_on_a_node() {
        let all = [StepNumber::INTERACTIVE, BATCH, StepNumber(0), StepNumber(1), EXTERN];
        for (listed, oldest) in [
            (&all[1..], BATCH),
            (&all[2..], StepNumber(0)),
            (&all[3..], StepNumber(1)),
            (&[all[0], all[2], all[3]], StepNumber::INTERACTIVE),
        ] {
            let answers = |own: &StepNumber| {
                let before = listed.iter().filter(|step| *step == own || is_older(**step, *own));
                *own != EXTERN && is_alone(*own, &before.map(|step| (*step, 0)).collect())
            };
            assert_eq!(listed.iter().copied().filter(answers).collect::<Vec<_>>(), [oldest], "{listed:?}");
        }
        let zero = StepNumber(0);
        assert!(!is_alone(zero, &BTreeSet::new()), "the kernel's list does not have the step that asks");
        assert!(!is_alone(zero, &[(zero, 0), (zero, 1)].into()));
    }

    /// The questions that are answered, of samples with these children.
    fn answered(samples: &[&[u32]], tasks: usize) -> Vec<usize> {
        let mut own = StepTasks::default();
        let questions = samples.iter().flat_map(|children| vec![*children; tasks]).enumerate();
        let first = questions.filter(|(_, children)| own.asked_first(|| children.iter().copied().collect()));
        first.map(|(question, _)| question).collect()
    }

    #[test]
    fn one_task_of_several_is_answered_and_none_once_one_has_ended() {
        assert_eq!(
            answered(&[&[7], &[7], &[]], 1),
            [0, 1, 2],
            "the last question comes after the task's end"
        );
        let four: &[u32] = &[4, 5, 6, 7];
        assert_eq!(answered(&[four, four, &[4, 5, 6], four], 4), [0, 4]);
        assert_eq!(answered(&[four, &[4, 5, 6, 7, 8], &[5, 6, 7, 8]], 4), [0, 4], "a child that is no task");
        assert_eq!(answered(&[&[], &[]], 2), [0; 0], "this kernel does not list children");
        assert_eq!(children(), BTreeSet::new());
    }
}
