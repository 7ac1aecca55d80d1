//! Finds a task's GPUs among those of its job, from Slurm's variables in its environment.
//!
//! Slurm names a task's GPUs twice. `SLURM_STEP_GPUS`, in batch scripts and interactive steps `SLURM_JOB_GPUS`, counts
//! as the node does, and is unset for tasks without GPUs; the other of the two may be inherited, even from another
//! job. `CUDA_VISIBLE_DEVICES` has the same GPUs, but a device cgroup makes it count from 0
//! [22.05 `gres_common.c`, `gres_g_step_set_env`, `gres_g_task_set_env`]. Only the first can be told in UUIDs.
//!
//! # Numbers or UUIDs
//!
//! CUDA counts the GPUs whose device nodes the process can open. A number therefore means the same GPU for as long as the
//! job runs in three cases only: in Slurm's device cgroup, where the process can open its own GPUs and no other; where the
//! job has all GPUs of the node; and on a node whose device nodes are open to all. Where Tessera closes them to other users and there is no cgroup, the count
//! changes whenever another job of the same user begins or ends on the node. There a number could turn into another
//! job's GPU, so tasks get UUIDs.

use geometry::GpuIndex;
use node_driver::NvmlIndex;
use node_jobs::{gpus_of_task, numbers, uuids, uuids_of_part};
use node_journal::{Entry, GpuRecord, GrantKind};
use node_slurm::step_number::StepNumber;

use crate::spank::Spank;

/// Slurm's variables of one task. Empty variables count as unset.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlurmVariables {
    /// `SLURM_STEP_GPUS`
    step: Option<String>,
    /// `SLURM_JOB_GPUS`
    job: Option<String>,
    /// `CUDA_VISIBLE_DEVICES`, without Slurm's word for none.
    cuda: Option<String>,
    /// A batch script or interactive step.
    is_job: bool,
    /// `SLURM_STEP_GPUS` of a step whose tasks are left without it: `--gpu-bind=none`.
    unbound: Option<String>,
}

/// The variable that Slurm sets where there is none.
pub(crate) const NO_DEVICES: &str = "NoDevFiles";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TaskGpus {
    /// All of the job's instances, or its share, as the journal has them.
    AsJournalled,
    /// Whole GPUs, all of the job's or a part.
    Whole {
        /// As `CUDA_VISIBLE_DEVICES` names them.
        cuda: String,
        /// As containers take them.
        uuids: String,
    },
    /// None: a step with `--gres=none`.
    None,
    /// Slurm's own variables: the journal does not know the GPUs, or the job has all of the node's and nothing is hidden from it.
    AsSlurmSays,
}

impl SlurmVariables {
    /// Reads the numbers of the task in whose hook this is.
    pub(crate) fn of(spank: &dyn Spank) -> Self {
        let get = |name| spank.getenv(name).filter(|list| !list.is_empty());
        Self {
            step: get(c"SLURM_STEP_GPUS"),
            job: get(c"SLURM_JOB_GPUS"),
            cuda: get(c"CUDA_VISIBLE_DEVICES").filter(|list| list != NO_DEVICES),
            is_job: spank.step_id().is_ok_and(|id| StepNumber(id).is_job_script()),
            unbound: None,
        }
    }

    /// A task's, in a step that was told `step` before its tasks were bound. `--gpu-bind=none` makes Slurm take both lists
    /// from the tasks where the step has several; one with `--gres=none` never had them.
    pub(crate) fn in_step(self, step: &Self) -> Self {
        let unbound = if self.step.is_none() && self.cuda.is_none() { step.step.clone() } else { None };
        Self { unbound, ..self }
    }

    /// Tells whether Slurm gave this very task GPUs.
    pub(crate) fn given(&self) -> bool {
        self.cuda.is_some() || self.unbound.is_some()
    }

    /// The GPUs of the step, or in a batch script or interactive step of the job, by the node's numbers.
    pub(crate) fn gpus(&self) -> Vec<GpuIndex> {
        let list = self.step.as_ref().or(self.job.as_ref()).map_or("", String::as_str);
        list.split(',').filter_map(|number| number.trim().parse().ok()).map(GpuIndex).collect()
    }

    /// Tells whether this is a batch script or an interactive step.
    pub(crate) fn is_job(&self) -> bool {
        self.is_job
    }

    /// Tells whether Slurm thinks that this step has GPUs.
    pub(crate) fn any(&self) -> bool {
        [&self.step, &self.job, &self.cuda, &self.unbound].iter().any(|list| list.is_some())
    }

    /// The task's GPUs by the node's numbers, as far as they are this job's: an exclusive job is told every GPU of the node,
    /// and does not get those that are `kept` from whole jobs.
    fn by_node(&self, entry: &Entry, kept: &[GpuIndex]) -> Option<String> {
        let is_kept = |number: &str| {
            number.trim().parse().is_ok_and(|n| {
                kept.contains(&GpuIndex(n)) && entry.gpus.iter().all(|gpu| gpu.number != GpuIndex(n))
            })
        };
        let list = self.as_told()?;
        let ours: Vec<&str> = list.split(',').filter(|number| !is_kept(number)).collect();
        Some(ours.join(",")).filter(|list| !list.is_empty())
    }

    fn as_told(&self) -> Option<&str> {
        if self.is_job {
            return self.job.as_deref();
        }
        // A step that another launcher starts is told as a job is (24.11, LAUNCH_EXT_LAUNCHER).
        let of_job = || self.cuda.is_some().then_some(self.job.as_deref())?;
        self.step.as_deref().or_else(of_job).or(self.unbound.as_deref())
    }

    /// Tells whether the journal's job has the GPUs that Slurm gave this one; true where Slurm does not say.
    pub(crate) fn agree_with(&self, entry: &Entry, kept: &[GpuIndex]) -> bool {
        self.by_node(entry, kept).is_none_or(|list| uuids_of_part(entry, &list).is_some())
    }

    /// Tells whether a device cgroup has made Slurm count from 0; false where the two lists happen to be the same.
    pub(crate) fn renumbered(&self) -> bool {
        self.cuda.as_deref().zip(self.as_told()).is_some_and(|(cuda, node)| cuda != node)
    }

    /// Chooses the GPUs that a task of the journal's job sees. `place` is the task's number among the step's tasks on this
    /// node and their count.
    pub(crate) fn devices(&self, entry: &Entry, place: (u32, u32), node: &Sight<'_>) -> TaskGpus {
        let Some(list) = self.by_node(entry, node.kept) else {
            // `srun --exclusive` without --gres: the step has no GRES, and finds the job's GPUs by itself.
            let all = entry.kind == GrantKind::Whole && entry.gpus.len() >= node.gpus;
            return if all { TaskGpus::AsSlurmSays } else { TaskGpus::None };
        };
        if !entry.instances.is_empty() || entry.share.is_some() || entry.tasks.is_some() {
            return TaskGpus::AsJournalled;
        }
        let fence = node.fenced.then_some(node.may_open);
        if self.unbound.is_some() && (node.fenced || entry.gpus.len() >= node.gpus) {
            // It sees its step's GPUs by itself, and no other.
            return TaskGpus::AsSlurmSays;
        }
        let Some(gpus) = gpus_of_task(entry, &list, place, fence) else { return TaskGpus::AsSlurmSays };
        let uuids = uuids(&gpus);
        let by_number = node.in_sight(entry).and_then(|in_sight| numbers(&gpus, &in_sight));
        TaskGpus::Whole { cuda: by_number.unwrap_or_else(|| uuids.clone()), uuids }
    }
}

/// The view that a task has of the node's GPUs.
pub(crate) struct Sight<'a> {
    /// GPUs that no job gets whole, by Slurm's numbers.
    pub(crate) kept: &'a [GpuIndex],
    /// Number of GPUs of the node.
    pub(crate) gpus: usize,
    /// Slurm's device cgroup holds each task to its own GPUs.
    pub(crate) fenced: bool,
    /// Every device node is open to everybody, and no GPU is ever cut.
    pub(crate) open: bool,
    /// GPUs are to be named by number where that is right.
    pub(crate) by_number: bool,
    /// Tells whether the task may open this GPU.
    pub(crate) may_open: &'a dyn Fn(&GpuRecord) -> bool,
}

impl Sight<'_> {
    /// All GPUs that the task can open for as long as it runs; `None` where that may change, or no number is wanted.
    fn in_sight(&self, entry: &Entry) -> Option<Vec<NvmlIndex>> {
        let own = || entry.gpus.iter().filter(|g| (self.may_open)(g)).map(|g| g.index).collect();
        let last = entry.gpus.iter().map(|g| g.index.0).max()?;
        match self {
            Self { by_number: false, .. } => None,
            Self { fenced: true, .. } => Some(own()),
            // No other job can come to the node's GPUs.
            Self { gpus, .. } if entry.gpus.len() >= *gpus => Some(own()),
            // What comes after the job's last GPU does not count.
            Self { open: true, .. } => Some((0..=last).map(NvmlIndex).collect()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole GPUs with these numbers, whose UUIDs are `GPU-0` and so on.
    fn whole(gpus: &[u16]) -> Entry {
        let gpus: Vec<String> = gpus
            .iter()
            .map(|g| format!(r#"{{"index":{g},"minor":{g},"uuid":"GPU-{g}","number":{g}}}"#))
            .collect();
        entry("whole", &gpus.join(","), "null")
    }

    fn entry(kind: &str, gpus: &str, share: &str) -> Entry {
        let text = format!(
            r#"{{"version":2,"boot":"b","job":12,"uid":1000,"gid":1000,"restart":0,"decision":"","phase":"ready",
            "kind":"{kind}","gpus":[{gpus}],"instances":[],"share":{share},"device_nodes":[]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    /// `-` is unset.
    fn slurms(is_job: bool, step: &str, job: &str, cuda: &str) -> SlurmVariables {
        let list = |text: &str| (text != "-").then(|| text.to_owned());
        SlurmVariables { step: list(step), job: list(job), cuda: list(cuda), is_job, unbound: None }
    }

    fn named(uuids: &str) -> TaskGpus {
        TaskGpus::Whole { cuda: uuids.to_owned(), uuids: uuids.to_owned() }
    }

    /// A node that closes its device nodes, without a device cgroup.
    const CLOSED: Sight<'static> =
        Sight { kept: &[], gpus: 8, fenced: false, open: false, by_number: true, may_open: &|_| true };

    #[test]
    fn a_step_has_what_its_own_list_names() {
        let entry = whole(&[0, 2, 3]);
        let step = |step, cuda| slurms(false, step, "0,2,3", cuda).devices(&entry, (0, 1), &CLOSED);
        assert_eq!(step("0,2,3", "0,2,3"), named("GPU-0,GPU-2,GPU-3"));
        assert_eq!(step("3,2,0", "3,2,0"), named("GPU-0,GPU-2,GPU-3"));
        assert_eq!(step("2", "2"), named("GPU-2"));
        // In the order of the job's ranks.
        assert_eq!(step("3,2", "3,2"), named("GPU-2,GPU-3"));
        // --gres=none: its job's list is inherited from the batch script.
        assert_eq!(step("-", "-"), TaskGpus::None);
    }

    #[test]
    fn a_step_without_gpus_finds_its_jobs_where_those_are_all_of_the_nodes() {
        let entry = whole(&[1, 0]);
        let step = |gpus| slurms(false, "-", "0,1", "-").devices(&entry, (0, 1), &Sight { gpus, ..CLOSED });
        assert_eq!([step(2), step(3)], [TaskGpus::AsSlurmSays, TaskGpus::None]);
    }

    #[test]
    fn tasks_that_are_bound_to_none_see_all_of_their_steps_gpus() {
        let entry = whole(&[0, 2, 3]);
        let task = |step: SlurmVariables, node: &Sight<'_>| {
            slurms(false, "-", "0,2,3", "-").in_step(&step).devices(&entry, (1, 2), node)
        };
        let step = || slurms(false, "2,3", "0,2,3", "2,3");
        assert_eq!(task(step(), &CLOSED), named("GPU-2,GPU-3"));
        assert_eq!(task(step(), &Sight { fenced: true, ..CLOSED }), TaskGpus::AsSlurmSays);
        assert_eq!(task(step(), &Sight { gpus: 3, ..CLOSED }), TaskGpus::AsSlurmSays);
        // --gres=none.
        assert_eq!(task(slurms(false, "-", "0,2,3", "-"), &CLOSED), TaskGpus::None);
        // Bound to one of them.
        let bound = slurms(false, "3", "0,2,3", "3").in_step(&step());
        assert_eq!(bound.devices(&entry, (1, 2), &CLOSED), named("GPU-3"));
    }

    #[test]
    fn a_device_cgroup_makes_numbers_count_from_nought() {
        // Rank 0 has GPU 3.
        let entry = whole(&[3, 1]);
        let of = |slurms: SlurmVariables, by_number, open: &[u16]| {
            let may_open = |gpu: &GpuRecord| open.contains(&gpu.index.0);
            let node = Sight { fenced: true, by_number, may_open: &may_open, ..CLOSED };
            match slurms.devices(&entry, (0, 1), &node) {
                TaskGpus::Whole { cuda, uuids } => [cuda, uuids],
                other => panic!("{other:?}"),
            }
        };
        let (step, script) = (|| slurms(false, "1,3", "1,3", "0,1"), || slurms(true, "-", "1,3", "0,1"));
        assert!(step().renumbered() && !slurms(false, "0,1", "-", "0,1").renumbered());
        assert_eq!(of(step(), true, &[1, 3]), ["1,0", "GPU-3,GPU-1"]);
        assert_eq!(of(script(), true, &[1, 3]), ["1,0", "GPU-3,GPU-1"]);
        assert_eq!(of(script(), false, &[1, 3]), ["GPU-3,GPU-1", "GPU-3,GPU-1"]);
        // A task that is bound to one of two GPUs: Slurm's list names the first in every task.
        assert_eq!(of(slurms(false, "1", "1,3", "0"), true, &[3]), ["0", "GPU-3"]);
        assert_eq!(of(slurms(false, "1", "1,3", "0"), true, &[1]), ["0", "GPU-1"]);
    }

    #[test]
    fn numbers_are_right_where_the_job_has_all_gpus() {
        let want = TaskGpus::Whole { cuda: "1,0".to_owned(), uuids: "GPU-1,GPU-0".to_owned() };
        let sight = Sight { gpus: 2, ..CLOSED };
        assert_eq!(slurms(false, "0,1", "-", "0,1").devices(&whole(&[1, 0]), (0, 1), &sight), want);
    }

    #[test]
    fn numbers_are_the_nodes_where_its_device_nodes_are_open() {
        let entry = whole(&[3, 1]);
        let open = Sight { open: true, ..CLOSED };
        let want = TaskGpus::Whole { cuda: "3,1".to_owned(), uuids: "GPU-3,GPU-1".to_owned() };
        assert_eq!(slurms(false, "1,3", "-", "1,3").devices(&entry, (0, 1), &open), want);
        assert_eq!(
            slurms(false, "1,3", "-", "1,3").devices(&entry, (0, 1), &Sight { by_number: false, ..open }),
            named("GPU-3,GPU-1")
        );
    }

    #[test]
    fn a_batch_script_has_its_jobs_list_whatever_step_it_was_submitted_from() {
        let entry = whole(&[2, 3]);
        assert_eq!(slurms(true, "2", "2,3", "2,3").devices(&entry, (0, 1), &CLOSED), named("GPU-2,GPU-3"));
        assert_eq!(slurms(true, "2", "-", "-").devices(&entry, (0, 1), &CLOSED), TaskGpus::None);
        assert!(slurms(true, "7", "2,3", "2,3").agree_with(&entry, &[]));
        assert!(!slurms(true, "2", "7", "7").agree_with(&entry, &[]));
        // An exclusive job is told every GPU of the node, also one that no job gets whole.
        let kept = [GpuIndex(0), GpuIndex(3)];
        let told = slurms(true, "-", "0,2,3", "0,1,2");
        assert!(told.agree_with(&entry, &kept) && !told.agree_with(&entry, &[]));
        assert_eq!(told.devices(&entry, (0, 1), &Sight { kept: &kept, ..CLOSED }), named("GPU-2,GPU-3"));
    }

    #[test]
    fn a_step_of_another_launcher_is_told_as_a_job_is() {
        let entry = whole(&[2, 3]);
        assert_eq!(slurms(false, "-", "2,3", "2,3").devices(&entry, (0, 1), &CLOSED), named("GPU-2,GPU-3"));
    }

    #[test]
    fn another_jobs_gpus_are_seen_to_be_that() {
        let entry = whole(&[0, 1]);
        assert!(!slurms(false, "2", "0,1", "2").agree_with(&entry, &[]));
        assert_eq!(slurms(false, "2", "0,1", "2").devices(&entry, (0, 1), &CLOSED), TaskGpus::AsSlurmSays);
        assert_eq!(slurms(false, "gpu", "0,1", "x").devices(&entry, (0, 1), &CLOSED), TaskGpus::AsSlurmSays);
        assert!(slurms(false, "1", "9", "1").agree_with(&entry, &[]), "the job's list is another job's");
        assert!(slurms(false, "-", "9", "-").agree_with(&entry, &[]), "Slurm says nothing");
    }

    #[test]
    fn shares_and_instances_are_not_divided() {
        let share =
            r#"{"daemon":"d","mem_mib":1,"threads":1,"memory_enforced":true,"pipe_dir":"/p","log_dir":"/l"}"#;
        let entry = entry("mps", r#"{"index":3,"minor":3,"uuid":"GPU-3","number":3}"#, share);
        assert_eq!(slurms(false, "3", "3", "0").devices(&entry, (0, 1), &CLOSED), TaskGpus::AsJournalled);
        assert_eq!(slurms(true, "-", "3", "3").devices(&entry, (0, 1), &CLOSED), TaskGpus::AsJournalled);
        // --gres=none: nothing is divided, but nothing is given either.
        assert_eq!(slurms(false, "-", "3", "-").devices(&entry, (0, 1), &CLOSED), TaskGpus::None);
    }
}
