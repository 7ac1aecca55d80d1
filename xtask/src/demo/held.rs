//! Jobs that print what they see and then run until they are told to end.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use error_chain::with_causes;
use lab::command::wait_for;
use lab::{Cluster, HarnessError, JobId, User};

/// A job of the demo.
pub(super) struct DemoJob {
    pub(super) id: JobId,
}

/// Script of the job: it prints its devices as CUDA and as `nvidia-smi` see them.
const LOOK: &str = "nvidia-smi -L\nenv | grep -E '^(CUDA|NVIDIA)_' | sort\n";
/// Script of the job, for two tasks.
const LOOK_PER_TASK: &str = "srun -n 2 --label sh -c 'sleep 0.$SLURM_PROCID; echo CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES; nvidia-smi -L'\n";
/// Then it waits for the file that lets it end.
const HOLD: &str = "echo looked\nwhile [ ! -e go-$SLURM_JOB_ID ]; do sleep 0.1; done\n";

impl DemoJob {
    /// Submits; the job may have to wait.
    pub(super) fn submit(
        cluster: &Cluster,
        user: User,
        options: &[&str],
        per_task: bool,
    ) -> Result<Self, HarnessError> {
        let look = if per_task { LOOK_PER_TASK } else { LOOK };
        let id = cluster.sbatch(user, options, &format!("{look}{HOLD}"))?;
        Ok(Self { id })
    }

    /// Waits until it has said what it sees, and returns that.
    pub(super) fn looked(&self, cluster: &Cluster) -> Result<String, HarnessError> {
        wait_for(&format!("job {} to run and look at its GPUs", self.id), Duration::from_secs(60), || {
            let text = cluster.output(self.id);
            match text.split_once("looked\n") {
                Some((before, _)) => Ok(before.to_owned()),
                None => {
                    let job = cluster.job(self.id).map_err(|error| with_causes(&error))?;
                    Err(format!("{} ({}): {text}", job.state(), job.reason()))
                }
            }
        })
    }

    /// Lets it end.
    pub(super) fn release(&self, cluster: &Cluster) -> Result<(), HarnessError> {
        let path = cluster.layout().jobs().join(format!("go-{}", self.id));
        fs::write(&path, "").map_err(|source| HarnessError::File { path: path.display().to_string(), source })
    }
}

/// UUIDs of the MIG instances in `nvidia-smi -L`, each with its profile.
pub(super) fn instances(text: &str) -> Vec<(String, String)> {
    let parse = |line: &str| {
        let (_, rest) = line.split_once("MIG ")?;
        let profile = rest.split_whitespace().next()?.to_owned();
        let uuid = line.split_once("(UUID: ")?.1.split(')').next()?.to_owned();
        uuid.starts_with("MIG-").then_some((profile, uuid))
    };
    text.lines().filter_map(parse).collect()
}

/// Number of GPUs that `nvidia-smi -L` lists.
pub(super) fn gpus(text: &str) -> usize {
    text.lines().filter(|line| line.starts_with("GPU ")).count()
}

/// Devices in `CUDA_VISIBLE_DEVICES`, over all tasks.
pub(super) fn visible(text: &str) -> BTreeSet<String> {
    let values =
        text.lines().filter_map(|line| line.split_once("CUDA_VISIBLE_DEVICES=").map(|(_, value)| value));
    values.flat_map(|value| value.split(',')).map(str::to_owned).collect()
}

/// The value of a variable in the job's output.
pub(super) fn variable<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMI: &str = "tessera: n1\nGPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\n  MIG 2g.10gb     Device  0: (UUID: MIG-a)\n\
                       1: CUDA_VISIBLE_DEVICES=MIG-a,MIG-b\nCUDA_MPS_PIPE_DIRECTORY=/x\n";

    #[test]
    fn a_jobs_words_are_read() {
        assert_eq!(instances(SMI), [("2g.10gb".to_owned(), "MIG-a".to_owned())]);
        assert_eq!(gpus(SMI), 1);
        assert_eq!(visible(SMI).into_iter().collect::<Vec<_>>(), ["MIG-a", "MIG-b"]);
        assert_eq!(variable(SMI, "CUDA_MPS_PIPE_DIRECTORY"), Some("/x"));
    }
}
