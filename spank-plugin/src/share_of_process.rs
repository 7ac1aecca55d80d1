//! The part of a job's share that one process may take.
//!
//! `--gpu-mem` is the share of the whole job on a node, and Slurm counts it once. MPS limits each process, not the job. So a
//! process gets the share divided by the number of processes that the job has there. Decision 0030 lists what this holds.

use std::ffi::CStr;

use geometry::JobId;
use node_jobs::memory_level::of_each_process;

/// Among how many processes a share is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processes {
    /// Tasks of the step on this node; for a batch script those of the job, because it may start them itself (`mpirun`).
    pub(crate) tasks: u32,
    /// Number of cores that the job has on this node, and number of those that the step has. Steps of `srun --exact` run at
    /// the same time on different cores of their job.
    pub(crate) cores: Option<(usize, usize)>,
    /// The limit in MiB that the step inherits from the script, which was divided among all of the job's tasks: the steps
    /// that a script starts at the same time have a task of the job each.
    pub(crate) inherited_mib: Option<u64>,
}

impl Processes {
    /// Returns what one process may take of a share of `share_mib` MiB.
    pub(crate) fn each_mib(&self, share_mib: u64) -> u64 {
        let (of, own) = self.cores.filter(|(of, own)| *own > 0 && own < of).unwrap_or((1, 1));
        let part = u128::from(share_mib) * own as u128 / of as u128;
        let part = u64::try_from(part).unwrap_or(share_mib);
        let each = of_each_process(part, u64::from(self.tasks));
        self.inherited_mib.map_or(each, |inherited| each.min(inherited))
    }
}

/// Returns how many tasks a batch script's job has on this node. On several nodes with different numbers of tasks it is the
/// largest number. A job that names no number of tasks has one: Slurm then calls every CPU a task.
pub(crate) fn tasks_of_job(env: &dyn Fn(&CStr) -> Option<String>) -> u32 {
    let number = |name| env(name).and_then(|text| text.trim().parse::<u32>().ok());
    let named = [number(c"SLURM_NTASKS"), number(c"SLURM_NTASKS_PER_NODE")];
    let layout = env(c"SLURM_TASKS_PER_NODE").and_then(|text| most(&text));
    let least = named.into_iter().flatten().min().map(|n| layout.map_or(n, |most| most.min(n)));
    least.unwrap_or(1).max(1)
}

/// The largest number of a list such as `2(x3),1`.
fn most(layout: &str) -> Option<u32> {
    let number = |part: &str| part.split('(').next().and_then(|n| n.trim().parse().ok());
    layout.split(',').map(number).collect::<Option<Vec<u32>>>()?.into_iter().max()
}

/// Returns the limit in MiB that a process of the same job has put into the step's environment, perhaps on another node; `None` for
/// another job's limit, and for one in other words than ours.
pub(crate) fn inherited_mib(job: JobId, env: &dyn Fn(&CStr) -> Option<String>) -> Option<u64> {
    let is_ours = env(c"TESSERA_ISOLATION").as_deref() == Some("mps")
        && env(c"TESSERA_JOB_ID").is_some_and(|id| id == job.to_string());
    let limit = env(c"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT").filter(|_| is_ours)?;
    limit.strip_prefix("0=")?.strip_suffix('M')?.parse().ok().filter(|mib| *mib > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Processes = Processes { tasks: 1, cores: None, inherited_mib: None };

    #[test]
    fn a_share_is_divided_among_its_processes() {
        let each = |processes: Processes| processes.each_mib(2862);
        assert_eq!(each(ALONE), 2862);
        assert_eq!(each(Processes { tasks: 4, ..ALONE }), 715);
        // A step of one task with a quarter of the cores, and one with all of them.
        assert_eq!(each(Processes { cores: Some((4, 1)), ..ALONE }), 715);
        assert_eq!(each(Processes { cores: Some((4, 4)), ..ALONE }), 2862);
        assert_eq!(each(Processes { tasks: 2, cores: Some((4, 2)), ..ALONE }), 715);
        for cores in [(0, 0), (4, 0), (0, 4)] {
            assert_eq!(each(Processes { cores: Some(cores), ..ALONE }), 2862, "{cores:?} is no part");
        }
        // srun -n1 --overlap, four times at once, and srun -n8 --overcommit.
        assert_eq!(each(Processes { inherited_mib: Some(715), ..ALONE }), 715);
        assert_eq!(each(Processes { tasks: 8, inherited_mib: Some(715), ..ALONE }), 357);
    }

    #[test]
    fn a_script_has_the_tasks_that_its_job_names() {
        let of = |ntasks: &str, per_node: &str, layout: &str| {
            tasks_of_job(&|name| {
                let text = match name.to_str().unwrap() {
                    "SLURM_NTASKS" => ntasks,
                    "SLURM_NTASKS_PER_NODE" => per_node,
                    "SLURM_TASKS_PER_NODE" => layout,
                    other => panic!("{other}"),
                };
                (text != "-").then(|| text.to_owned())
            })
        };
        assert_eq!(of("4", "-", "4"), 4);
        assert_eq!(of("7", "-", "2(x3),1"), 2);
        assert_eq!(of("8", "4", "4(x2)"), 4);
        assert_eq!(of("-", "4", "4"), 4);
        assert_eq!(of("-", "-", "16"), 1, "sbatch without -n on 16 hardware threads");
        assert_eq!(of("9", "-", "1"), 1, "SLURM_NTASKS of the job that it was submitted from");
        assert_eq!(of("4", "-", "-"), 4);
        for text in ["", "x", "0", "-1", "99999999999", "2(x"] {
            assert!(of(text, "-", text) <= 2, "{text}");
        }
    }

    #[test]
    fn only_the_limit_of_the_same_job_is_inherited() {
        let of = |isolation: &str, job: &str, limit: &str| {
            inherited_mib(JobId(12), &|name| {
                Some(match name.to_str().unwrap() {
                    "TESSERA_ISOLATION" => isolation.to_owned(),
                    "TESSERA_JOB_ID" => job.to_owned(),
                    // Each node numbers its daemons by its own GPUs.
                    "CUDA_MPS_PIPE_DIRECTORY" => "/of/another/node".to_owned(),
                    _ => limit.to_owned(),
                })
            })
        };
        assert_eq!(of("mps", "12", "0=715M"), Some(715));
        for (isolation, job, limit) in
            [("whole", "12", "0=715M"), ("mps", "11", "0=715M"), ("mps", "12", "0=0M"), ("mps", "12", "0=1G")]
        {
            assert_eq!(of(isolation, job, limit), None, "{isolation} {job} {limit}");
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]
        /// Steps that run at the same time on different cores.
        #[test]
        fn concurrent_steps_never_have_more_than_the_share(
            share in 1024_u64..1 << 24, steps in proptest::collection::vec((1_usize..9, 1_u32..9), 1..7),
        ) {
            let all: usize = steps.iter().map(|(cores, _)| cores).sum();
            let taken: u64 = steps
                .iter()
                .map(|(cores, tasks)| {
                    let step = Processes { tasks: *tasks, cores: Some((all, *cores)), inherited_mib: None };
                    step.each_mib(share) * u64::from(*tasks)
                })
                .sum();
            proptest::prop_assert!(taken <= share, "{} of {}", taken, share);
        }
    }
}
