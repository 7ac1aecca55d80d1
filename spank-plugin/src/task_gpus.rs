//! Which of its job's GPUs a task has, from what Slurm left in its environment.
//!
//! Slurm names a task's GPUs twice. `SLURM_STEP_GPUS`, in batch scripts and interactive steps `SLURM_JOB_GPUS`, counts
//! as the node does, and is unset for tasks without GPUs; the other of the two may be inherited, even from another
//! job. `CUDA_VISIBLE_DEVICES` has the same GPUs, but a device cgroup makes it count from 0
//! [22.05 `gres_common.c`, `gres_g_step_set_env`, `gres_g_task_set_env`]. Only the first can be told in UUIDs.

use geometry::GpuIndex;
use gpu_node::journal::{Entry, GpuRecord};
use gpu_node::{uuids_of_part, uuids_of_task};

use crate::ffi::Spank;

/// What Slurm says about one task. Empty variables count as unset.
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
}

/// The variable that Slurm sets where there is none.
pub(crate) const NO_DEVICES: &str = "NoDevFiles";

/// `SLURM_BATCH_SCRIPT` and `SLURM_INTERACTIVE_STEP` of slurm/slurm.h.
const WITHOUT_SRUN: [u32; 2] = [0xffff_fffb, 0xffff_fffa];

/// The GPUs of one task.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TaskGpus {
    /// All of the job's, as the journal has them.
    All,
    /// Whole GPUs of which this step or task has a part: these UUIDs.
    Part(String),
    /// None: a step with `--gres=none`.
    None,
    /// What Slurm says: the journal does not know them.
    AsSlurmSays,
}

impl SlurmVariables {
    /// Of the task in whose hook this is.
    pub(crate) fn of(spank: &Spank<'_>) -> Self {
        let get = |name| spank.getenv(name).filter(|list| !list.is_empty());
        Self {
            step: get(c"SLURM_STEP_GPUS"),
            job: get(c"SLURM_JOB_GPUS"),
            cuda: get(c"CUDA_VISIBLE_DEVICES").filter(|list| list != NO_DEVICES),
            is_job: spank.step_id().is_ok_and(|id| WITHOUT_SRUN.contains(&id)),
        }
    }

    /// Whether Slurm gave this very task GPUs.
    pub(crate) fn given(&self) -> bool {
        self.cuda.is_some()
    }

    /// Whether Slurm thinks that this step has GPUs.
    pub(crate) fn any(&self) -> bool {
        self.step.is_some() || self.job.is_some() || self.cuda.is_some()
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
        self.step.as_deref().or_else(|| self.cuda.is_some().then_some(self.job.as_deref())?)
    }

    /// Whether the journal's job has the GPUs that Slurm gave this one; true where Slurm does not say.
    pub(crate) fn agree_with(&self, entry: &Entry, kept: &[GpuIndex]) -> bool {
        self.by_node(entry, kept).is_none_or(|list| uuids_of_part(entry, &list).is_some())
    }

    /// What a task of the journal's job sees. `place` is the task's number among the step's tasks on this node and their
    /// count; `may_open` says whether its cgroup lets it open a GPU.
    pub(crate) fn devices(
        &self,
        entry: &Entry,
        kept: &[GpuIndex],
        place: (u32, u32),
        may_open: &dyn Fn(&GpuRecord) -> bool,
    ) -> TaskGpus {
        let Some(list) = self.by_node(entry, kept) else { return TaskGpus::None };
        if !entry.instances.is_empty() || entry.share.is_some() {
            return TaskGpus::All;
        }
        match uuids_of_task(entry, &list, place, may_open) {
            Some(_) if list.split(',').count() == entry.gpus.len() => TaskGpus::All,
            Some(uuids) => TaskGpus::Part(uuids),
            None => TaskGpus::AsSlurmSays,
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
        SlurmVariables { step: list(step), job: list(job), cuda: list(cuda), is_job }
    }

    fn part(uuids: &str) -> TaskGpus {
        TaskGpus::Part(uuids.to_owned())
    }

    #[test]
    fn a_step_has_what_its_own_list_names() {
        let entry = whole(&[0, 2, 3]);
        let step = |step, cuda| slurms(false, step, "0,2,3", cuda).devices(&entry, &[], (0, 1), &|_| true);
        assert_eq!(step("0,2,3", "0,2,3"), TaskGpus::All);
        assert_eq!(step("3,2,0", "3,2,0"), TaskGpus::All);
        assert_eq!(step("2", "2"), part("GPU-2"));
        // In the order of the job's ranks.
        assert_eq!(step("3,2", "3,2"), part("GPU-2,GPU-3"));
        // --gres=none: its job's list is inherited from the batch script.
        assert_eq!(step("-", "-"), TaskGpus::None);
    }

    #[test]
    fn a_device_cgroup_counts_from_nought_and_changes_nothing() {
        let entry = whole(&[1, 3]);
        assert_eq!(slurms(false, "1,3", "1,3", "0,1").devices(&entry, &[], (0, 1), &|_| true), TaskGpus::All);
        // The second of two GPUs, bound to this task: as a number of the node it would be the first.
        assert_eq!(slurms(false, "3", "1,3", "1").devices(&entry, &[], (0, 1), &|_| true), part("GPU-3"));
        assert_eq!(slurms(false, "3", "1,3", "0").devices(&entry, &[], (0, 1), &|_| true), part("GPU-3"));
        assert_eq!(slurms(true, "-", "1,3", "0,1").devices(&entry, &[], (0, 1), &|_| true), TaskGpus::All);
    }

    #[test]
    fn a_batch_script_has_its_jobs_list_whatever_step_it_was_submitted_from() {
        let entry = whole(&[2, 3]);
        assert_eq!(slurms(true, "2", "2,3", "2,3").devices(&entry, &[], (0, 1), &|_| true), TaskGpus::All);
        assert_eq!(slurms(true, "2", "-", "-").devices(&entry, &[], (0, 1), &|_| true), TaskGpus::None);
        // An exclusive job is told every GPU of the node, also one that no job gets whole.
        let kept = [GpuIndex(0), GpuIndex(3)];
        assert!(slurms(true, "-", "0,2,3", "0,1,2").agree_with(&entry, &kept));
        assert_eq!(slurms(true, "-", "0,2,3", "x").devices(&entry, &kept, (0, 1), &|_| true), TaskGpus::All);
        assert!(!slurms(true, "-", "0,2,3", "x").agree_with(&entry, &[]));
        assert!(slurms(true, "7", "2,3", "2,3").agree_with(&entry, &[]));
        assert!(!slurms(true, "2", "7", "7").agree_with(&entry, &[]));
    }

    #[test]
    fn a_step_of_another_launcher_is_told_as_a_job_is() {
        let entry = whole(&[2, 3]);
        assert_eq!(slurms(false, "-", "2,3", "2,3").devices(&entry, &[], (0, 1), &|_| true), TaskGpus::All);
    }

    #[test]
    fn another_jobs_gpus_are_seen_to_be_that() {
        let entry = whole(&[0, 1]);
        assert!(!slurms(false, "2", "0,1", "2").agree_with(&entry, &[]));
        assert_eq!(
            slurms(false, "2", "0,1", "2").devices(&entry, &[], (0, 1), &|_| true),
            TaskGpus::AsSlurmSays
        );
        assert_eq!(
            slurms(false, "gpu", "0,1", "x").devices(&entry, &[], (0, 1), &|_| true),
            TaskGpus::AsSlurmSays
        );
        assert!(slurms(false, "1", "9", "1").agree_with(&entry, &[]), "the job's list is another job's");
        assert!(slurms(false, "-", "9", "-").agree_with(&entry, &[]), "Slurm says nothing");
    }

    #[test]
    fn shares_and_instances_are_not_divided() {
        let share =
            r#"{"daemon":"d","mem_mib":1,"threads":1,"memory_enforced":true,"pipe_dir":"/p","log_dir":"/l"}"#;
        let entry = entry("mps", r#"{"index":3,"minor":3,"uuid":"GPU-3","number":3}"#, share);
        assert_eq!(slurms(false, "3", "3", "0").devices(&entry, &[], (0, 1), &|_| true), TaskGpus::All);
        assert_eq!(slurms(true, "-", "3", "3").devices(&entry, &[], (0, 1), &|_| true), TaskGpus::All);
        // --gres=none: nothing is divided, but nothing is given either.
        assert_eq!(slurms(false, "-", "3", "-").devices(&entry, &[], (0, 1), &|_| true), TaskGpus::None);
    }
}
