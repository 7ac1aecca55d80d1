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
    /// The most tasks that ran at one time.
    most_tasks: usize,
}

impl Turn {
    /// `None`: another step answers for the job in this Slurm.
    pub(crate) fn of(slurm: Version, job: JobId, step: StepNumber, node: &str) -> Option<Self> {
        match (slurm.since(25, 5), step == StepNumber::EXTERN) {
            (false, true) => Some(Self::Extern),
            (true, false) => {
                Some(Self::Oldest(OldestStep { job, step, node: node.to_owned(), most_tasks: 0 }))
            }
            (false, false) | (true, true) => None,
        }
    }

    /// Tells whether the first question of a sample is to be answered.
    pub(crate) fn answers(&mut self) -> bool {
        match self {
            Self::Extern => true,
            Self::Oldest(own) => {
                let steps = live_steps::steps_of(own.job, &own.node, &|variable| env::var(variable).ok());
                is_oldest(own.step, steps.as_ref())
                    && (own.step.is_job_script() || first_task_runs(&mut own.most_tasks, children()))
            }
        }
    }

    /// Tells whether the other questions of a sample have the same answer: they are for other processes of the same task.
    pub(crate) fn answers_again(&self) -> bool {
        matches!(self, Self::Extern)
    }

    /// Tells whether entries that somebody else has filled in are the plugin's. Before 25.05 they can be its own of the last sample. Since then
    /// they are Slurm's, with `AutoDetect=nvml`, and Slurm adds those of a task's processes to the plugin's.
    pub(crate) fn writes_over(&self) -> bool {
        matches!(self, Self::Extern)
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

/// Tells whether no older step of the job lives on the node. `None`: the kernel does not tell, and the job's script alone is sure.
fn is_oldest(own: StepNumber, steps: Option<&BTreeSet<StepNumber>>) -> bool {
    let age = |step: StepNumber| (!step.is_job_script(), step);
    match steps {
        Some(steps) => !steps.iter().any(|other| *other != StepNumber::EXTERN && age(*other) < age(own)),
        None => own.is_job_script(),
    }
}

/// Tells whether the first question is still for the same task as ever. Slurm asks for the tasks in an order that does not change. If
/// one has ended, the first of the others may be a different one, and the sum over tasks would count the same bytes twice.
fn first_task_runs(most: &mut usize, tasks: Option<usize>) -> bool {
    let Some(tasks) = tasks else { return false };
    *most = tasks.max(*most);
    // A single task is asked for once more after its end.
    *most <= 1 || tasks == *most
}

/// Children of this process: slurmstepd's tasks. `None`: the kernel does not list them.
fn children() -> Option<usize> {
    let threads = fs::read_dir("/proc/self/task").ok()?.flatten();
    // A thread may end meanwhile.
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.map(|list| list.split_ascii_whitespace().count()).reduce(|sum, more| sum + more)
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
    fn one_step_at_a_time_answers_on_a_node() {
        let all = [StepNumber::INTERACTIVE, BATCH, StepNumber(0), StepNumber(1), EXTERN];
        for (listed, oldest) in [
            (&all[1..], BATCH),
            (&all[2..], StepNumber(0)),
            (&all[3..], StepNumber(1)),
            (&[all[0], all[2]], StepNumber::INTERACTIVE),
        ] {
            let listed: BTreeSet<StepNumber> = listed.iter().copied().collect();
            let answering =
                listed.iter().copied().filter(|step| *step != EXTERN && is_oldest(*step, Some(&listed)));
            assert_eq!(answering.collect::<Vec<_>>(), [oldest], "{listed:?}");
        }
        assert_eq!([BATCH, StepNumber(0)].map(|step| is_oldest(step, None)), [true, false]);
    }

    #[test]
    fn answers_end_with_the_first_of_several_tasks() {
        let told = |counts: &[usize]| {
            let mut most = 0;
            counts.iter().map(|tasks| first_task_runs(&mut most, Some(*tasks))).collect::<Vec<_>>()
        };
        assert_eq!(told(&[1, 1, 0]), [true; 3], "the last question comes after the end of the only task");
        assert_eq!(told(&[4, 4, 3, 2, 1, 0]), [true, true, false, false, false, false]);
        assert!(!first_task_runs(&mut 0, None), "this kernel does not list children");
        assert_eq!(children(), Some(0));
    }
}
