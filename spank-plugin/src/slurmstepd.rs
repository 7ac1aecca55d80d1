//! In slurmstepd: what the step's tasks see of their job's GPUs.
//!
//! The journal is root's. It is read once per step while slurmstepd is still root; the tasks, forked later and already
//! the user's, only use what was read. An error found before the tasks exist is kept and raised in `task_init`: up to
//! 23.02 one in `user_init` does not reach srun.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use gpu_node::journal::{Entry, GpuRecord, Journal, Phase};
use gpu_node::task_environment;
use placement::JobId;
use plugin_rt::{Chain, log, set_job};

use crate::args::Args;
use crate::describe;
use crate::devices::{Devices, NO_DEVICES, Slurms};
use crate::ffi::{Spank, SpankError, effective_uid};
use crate::node::{NoNode, ThisNode};

/// The node that the step runs on.
#[derive(Clone, Debug)]
struct Here {
    name: String,
    /// Where its device nodes are.
    dev_root: PathBuf,
}

/// What the journal says about this step's job.
#[derive(Clone, Debug)]
enum Share {
    /// The node is not ours to manage.
    None,
    /// The journal does not know the job.
    Unknown,
    /// Ready to be used here.
    Ready(Box<Entry>, Here),
    /// Nothing to use, for this reason.
    Failed(String),
    /// The journal cannot be read: a job that Slurm gave GPUs must not run on them unmanaged.
    Unreadable(String),
}

static SHARE: Mutex<Share> = Mutex::new(Share::None);

/// Why a step's task does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    /// Slurm does not answer.
    #[error(transparent)]
    Spank(#[from] SpankError),
    /// The job's GPUs could not be made.
    #[error("job {job} cannot use its GPUs on this node: {why}")]
    NoGpus {
        /// The job.
        job: u32,
        /// From the journal.
        why: String,
    },
}

/// As root, once per step: reads the journal.
pub(crate) fn init_post_opt(
    spank: &Spank<'_>,
    args: &Args,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(), SpankError> {
    if effective_uid() != 0 {
        // A slurmd that is not root has refused every job with GPUs in its prolog.
        return Ok(());
    }
    let job = spank.job_id()?;
    set_job(job);
    let step = Step { job, uid: spank.job_uid()?, restart: spank.restart_count() };
    let share = look_up(&step, args, env);
    *SHARE.lock().unwrap_or_else(PoisonError::into_inner) = share;
    Ok(())
}

/// What slurmctld's credential says about a step.
struct Step {
    job: u32,
    uid: u32,
    /// 0 in steps that are not told, all but batch scripts.
    restart: u32,
}

fn look_up(step: &Step, args: &Args, env: &dyn Fn(&str) -> Option<String>) -> Share {
    let node = match ThisNode::load(args, env) {
        Ok(node) => node,
        Err(e) if e.unmanaged() || matches!(e, NoNode::Nameless) => return Share::None,
        Err(e) => return Share::Unreadable(Chain(&e).to_string()),
    };
    let read = Journal::open(&node.settings.state_dir).and_then(|j| Ok((j.job(JobId(step.job))?, j)));
    match read {
        Err(e) => Share::Unreadable(Chain(&e).to_string()),
        Ok((None, _)) => Share::Unknown,
        Ok((Some(entry), _)) if entry.uid != step.uid || entry.restart < step.restart => {
            Share::Failed(NO_PROLOG.to_owned())
        }
        Ok((Some(entry), journal)) => match &entry.phase {
            _ if entry.boot != journal.boot() => Share::Failed("the node has been rebooted".to_owned()),
            Phase::Failed(why) => Share::Failed(why.clone()),
            Phase::Intent => Share::Failed("the prolog did not finish".to_owned()),
            Phase::Ready => {
                Share::Ready(Box::new(entry), Here { name: node.name, dev_root: node.settings.dev_root })
            }
        },
    }
}

/// A slurmd that knows a job's number from before slurmctld lost it starts the new job of that number without a prolog.
const NO_PROLOG: &str = "its prolog has not run here, because this slurmd remembers an earlier job of that number; \
                         submit it again";

/// As the user, in each task: sets its environment. The first task of the step on this node says what it got.
pub(crate) fn task_init(spank: &Spank<'_>, args: &Args) -> Result<(), TaskError> {
    let share = SHARE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let job = spank.job_id()?;
    set_job(job);
    let slurms = Slurms::of(spank);
    let (entry, node) = match share {
        Share::None => return Ok(()),
        Share::Unknown if !slurms.given() => return Ok(()),
        Share::Ready(entry, _) if !slurms.agree_with(&entry) => {
            hide_gpus(spank)?;
            return Err(TaskError::NoGpus { job, why: NO_PROLOG.to_owned() });
        }
        Share::Unknown => {
            hide_gpus(spank)?;
            return Err(TaskError::NoGpus { job, why: NO_PROLOG.to_owned() });
        }
        Share::Ready(entry, node) => (entry, node),
        Share::Unreadable(_) if !slurms.any() => return Ok(()),
        Share::Failed(why) | Share::Unreadable(why) => {
            hide_gpus(spank)?;
            return Err(TaskError::NoGpus { job, why });
        }
    };
    let task = spank.local_task()?;
    let place = (task, spank.local_task_count()?);
    let devices = slurms.devices(&entry, place, &|gpu| may_open(&node, gpu));
    for (name, value) in task_environment(&entry, task, place.1) {
        match &devices {
            Devices::Part(uuids) if is_device_list(&name) => spank.setenv(&name, uuids)?,
            Devices::None | Devices::Slurms if is_device_list(&name) => {}
            _ => spank.setenv(&name, &value)?,
        }
    }
    if devices == Devices::None {
        hide_gpus(spank)?;
    }
    if args.notice && task == 0 && devices != Devices::None {
        log::user(format_args!("job {job} on {}: {}: {}", node.name, describe::got(&entry), entry.decision));
    }
    Ok(())
}

fn is_device_list(name: &str) -> bool {
    matches!(name, "CUDA_VISIBLE_DEVICES" | "NVIDIA_VISIBLE_DEVICES")
}

/// Whether this task, already the user's and in its cgroup, may open a GPU of its job.
fn may_open(node: &Here, gpu: &GpuRecord) -> bool {
    let path = node.dev_root.join(format!("nvidia{}", gpu.minor));
    OpenOptions::new().read(true).write(true).open(path).is_ok()
}

/// Under `optional` in plugstack.conf the task starts in spite of our error: it must not find a GPU that way.
fn hide_gpus(spank: &Spank<'_>) -> Result<(), SpankError> {
    spank.setenv("CUDA_VISIBLE_DEVICES", NO_DEVICES)?;
    spank.setenv("NVIDIA_VISIBLE_DEVICES", "void")
}
