//! In slurmstepd: what the step's tasks see of their job's GPUs.
//!
//! The journal is root's. It is read once per step while slurmstepd is still root; the tasks, forked later and already
//! the user's, only use what was read. An error found before the tasks exist is kept and raised in `task_init`: up to
//! 23.02 one in `user_init` does not reach srun.

use std::ffi::CStr;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use geometry::{GpuIndex, JobId, counted};
use node_jobs::loaded;
use node_jobs::{
    Fault, begin_batch, instances_per_task, preload, renew_fence, serve_tasks, stale_variables,
    task_environment,
};
use node_journal::{Entry, GpuRecord, GrantKind, Journal};
use node_slurm::slurm_conf;
use node_slurm::step_number::StepNumber;
use plugin_rt::{Chain, log, set_job};
use site_config::{NodeSettings, VisibleDevices};

use crate::args::Args;
use crate::prologs::{Left, StepCredential, prologs};
use crate::requeue::requeue;
use crate::share_of_process::{Processes, inherited_mib, tasks_of_job};
use crate::spank::{Spank, SpankError};
use crate::spawn_reconcile::load_node;
use crate::step_instances::{cores, of_step};
use crate::submit::{QUIET_ENV, asks_for_ours};
use crate::task_gpus::{NO_DEVICES, Sight, SlurmVariables, TaskGpus};
use crate::this_node::{IfAbsent, NoNode, ThisNode};
use crate::{describe, late_prolog, notes};

/// The node that the step runs on.
#[derive(Clone, Debug)]
struct Here {
    name: String,
    /// Directory of its device nodes.
    dev_root: PathBuf,
    proc_root: PathBuf,
    cgroup_root: PathBuf,
    /// GPUs that no job gets whole, by Slurm's numbers.
    kept: Vec<GpuIndex>,
    gpus: usize,
    /// See [`node_jobs::Settings::leaves_gpus_open`].
    open: bool,
    /// Whole GPUs of this job are named by number where that is right.
    by_number: bool,
    /// A line says what the job got.
    notice: bool,
}

impl Here {
    fn of(node: ThisNode, entry: &Entry, kept: Vec<GpuIndex>) -> Self {
        let (by_number, notice) = shown(entry.plain, &node.site.node);
        Self {
            kept,
            gpus: node.settings.gpus.len(),
            open: node.settings.leaves_gpus_open(),
            by_number,
            notice,
            name: node.name,
            dev_root: node.settings.node.dev_root,
            proc_root: node.settings.node.proc_root,
            cgroup_root: node.settings.node.cgroup_root,
        }
    }
}

/// Tells whether a job's whole GPUs may be named by number, and whether a line says what the job got. A plain job used none
/// of Tessera's options.
fn shown(is_plain: bool, site: &NodeSettings) -> (bool, bool) {
    (is_plain && site.visible_devices == VisibleDevices::Numbers, !is_plain || site.plain_notice)
}

/// The journal's record of this step's job.
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

/// Slurm's variables of the step before its tasks were bound.
static STEP: Mutex<Option<SlurmVariables>> = Mutex::new(None);

/// Why a step's task does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    /// Slurm does not answer.
    #[error(transparent)]
    Spank(#[from] SpankError),
    /// The job's GPUs could not be made.
    #[error("job {job} cannot use its GPUs on this node: {why}")]
    NoGpus { job: u32, why: String },
}

/// As root, once per step: reads the journal.
pub(crate) fn init_post_opt(
    spank: &dyn Spank,
    args: &Args,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<(), SpankError> {
    if spank.effective_uid() != 0 {
        // A slurmd that is not root has refused every job with GPUs in its prolog.
        return Ok(());
    }
    let job = spank.job_id()?;
    set_job(job);
    let slurms = SlurmVariables::of(spank);
    let step = StepCredential {
        job,
        uid: spank.job_uid()?,
        restart: spank.restart_count(),
        batch: spank.step_id().is_ok_and(|id| StepNumber(id) == StepNumber::BATCH_SCRIPT),
        has_gpus: slurms.given(),
    };
    let share = look_up(&step, args, spank, &slurms, env);
    *STEP.lock().unwrap_or_else(PoisonError::into_inner) = Some(slurms);
    *SHARE.lock().unwrap_or_else(PoisonError::into_inner) = share;
    Ok(())
}

fn look_up(
    step: &StepCredential,
    args: &Args,
    spank: &dyn Spank,
    slurms: &SlurmVariables,
    env: &dyn Fn(&str) -> Option<String>,
) -> Share {
    let read = load_node(spank, args, IfAbsent::LeaveToSlurm, env);
    // Somebody has taken the file away, or this node out of it, while jobs that were placed by it still run.
    let gone = read.as_ref().is_err_and(NoNode::unmanaged);
    let read = if gone { load_node(spank, args, IfAbsent::UseJournal, env) } else { read };
    let node = match read {
        Ok(node) => node,
        Err(NoNode::Nameless) => return Share::None,
        Err(e) if e.unmanaged() => return left_to_slurm(step, GONE, args, spank, env),
        // Nothing is known of the GPUs: a job that asked nothing of us has those that Slurm gave it.
        Err(_) if !asks_for_ours(spank) => return Share::None,
        Err(e) => return Share::Unreadable(e.to_string()),
    };
    let kept = node.kept_from_whole_jobs();
    let read = Journal::open(&node.settings.node.state_dir).and_then(|j| Ok((j.job(JobId(step.job))?, j)));
    let left = match read {
        Err(e) => return unreadable(step, &node.name, &e, env),
        Ok((entry, journal)) => prologs(step, entry, journal.boot(), |e| slurms.agree_with(e, &kept)),
    };
    let left = match left {
        Left::Nothing if gone => return left_to_slurm(step, GONE, args, spank, env),
        Left::Nothing if !step.has_gpus => return Share::Unknown,
        Left::Nothing if node.sees_none_of(&slurms.gpus()) => return Share::None,
        Left::Nothing => match late_prolog::realise(spank, args, &node, step.batch, env) {
            Ok(entry) => Left::Ready(Box::new(entry)),
            Err(_) if !slurmd_loads_us(&node.name, env) => {
                return left_to_slurm(step, NOT_LOADED, args, spank, env);
            }
            Err(why) => {
                let why = format!("{NO_PROLOG}; {why}");
                if step.batch {
                    requeue(step.job, &node.name, &why, env);
                }
                Left::Failed(why)
            }
        },
        known if step.batch => match begin_batch(&node.settings, JobId(step.job)) {
            Err(e) => return unreadable(step, &node.name, &e, env),
            Ok(()) => known,
        },
        known => known,
    };
    match served_again(left, &node, step.job) {
        // Slurm gave its tasks what it gives them without Tessera.
        Left::Ready(entry) if entry.kind == GrantKind::Shards => Share::None,
        Left::Ready(entry) => {
            if let Some(tasks) = &entry.tasks {
                notes::begin(&tasks.socket);
            }
            let here = Here::of(node, &entry, kept);
            Share::Ready(entry, here)
        }
        Left::Failed(why) => Share::Failed(why),
        Left::Nothing => Share::Unknown,
    }
}

/// Starts the broker and its MPS daemon again, which may have died since the job's prolog.
fn served_again(left: Left, node: &ThisNode, job: u32) -> Left {
    let entry = match left {
        Left::Ready(entry) if entry.tasks.is_some() => entry,
        left => return left,
    };
    let journal = Journal::open(&node.settings.node.state_dir);
    match journal.map_err(Fault::from).and_then(|j| serve_tasks(&node.settings, &j, &entry)) {
        Err(e) => Left::Failed(Chain(&e).to_string()),
        Ok(problems) => {
            problems.iter().for_each(|why| log::error(format_args!("job {job}: {why}")));
            Left::Ready(entry)
        }
    }
}

/// The journal cannot be used: a script that has not begun may begin later, or elsewhere.
fn unreadable(
    step: &StepCredential,
    node: &str,
    why: &dyn std::error::Error,
    env: &dyn Fn(&str) -> Option<String>,
) -> Share {
    let why = Chain(why).to_string();
    if step.batch && step.has_gpus {
        requeue(step.job, node, &why, env);
    }
    Share::Unreadable(why)
}

/// Tells whether this node's slurmd loads the plugin, and so runs prologs: plugstack.conf can be newer than slurmd.
fn slurmd_loads_us(node: &str, env: &dyn Fn(&str) -> Option<String>) -> bool {
    loaded::read(&loaded::path(&slurm_conf::path(env), node)).is_some()
}

/// Why a job with a placement of ours is refused on a node that somebody has taken out of `tessera.toml` since.
const GONE: &str = "tessera.toml does not describe this node any more";
/// Message for a node whose slurmd was started without the plugin since.
const NOT_LOADED: &str =
    "this node's slurmd was started without spank_tessera.so in plugstack.conf: restart it";

/// On a node that Tessera does not manage, a step has what Slurm gave it, unless slurmctld has placed its job here, with a
/// request of ours: `unmanaged` says why that cannot be had.
fn left_to_slurm(
    step: &StepCredential,
    unmanaged: &str,
    args: &Args,
    spank: &dyn Spank,
    env: &dyn Fn(&str) -> Option<String>,
) -> Share {
    if !(asks_for_ours(spank) && step.has_gpus) {
        return Share::None;
    }
    let node = env("SLURMD_NODENAME").unwrap_or_default();
    args.env_on(&node).for_each(|(name, value)| spank.set_env(name, &value));
    let Some(why) = late_prolog::placed_by_us(step.job, step.uid, env) else { return Share::None };
    let why = format!("{unmanaged}; {why}");
    if step.batch {
        requeue(step.job, &node, &why, env);
    }
    Share::Failed(why)
}

/// A slurmd that knows a job's number from before slurmctld lost it starts the new job of that number without a prolog.
const NO_PROLOG: &str =
    "slurmd has not run its prolog here, as happens when slurmd remembers an earlier job of that number";

/// As above, or slurmctld works without Tessera and gives jobs GPUs that the prolog did not make ready for them.
const OTHER_GPUS: &str = "Slurm gave it other GPUs than this node has made ready for a job of its number: slurmctld works without \
                          Tessera, or slurmd took the job for an earlier one; `tessera doctor` says more";

/// Holds the job, as root in each task and after Slurm has made its control group, to its GPU memory by the kernel, where it can.
pub(crate) fn task_init_privileged() {
    let mut share = SHARE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Share::Ready(entry, here) = &mut *share
        && let Some(why) = renew_fence(&here.cgroup_root, &here.proc_root, entry)
    {
        log::error(why);
    }
}

/// As the user, in each task: sets its environment. The first task of the job on this node says what it got.
pub(crate) fn task_init(spank: &dyn Spank, args: &Args) -> Result<(), TaskError> {
    let share = SHARE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let job = spank.job_id()?;
    set_job(job);
    let quiet = spank.getenv(QUIET_ENV).is_some();
    if quiet {
        // For this step only, not for those that its tasks begin.
        spank.unsetenv(&QUIET_ENV.to_string_lossy());
    }
    let before = STEP.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default();
    let slurms = SlurmVariables::of(spank).in_step(&before);
    let Some((entry, node)) = share_of_task(share, &slurms, spank, job)? else {
        return forget_other_job(spank);
    };
    let mut entry = of_step(*entry, spank.job_cores().as_deref(), spank.step_cores().as_deref());
    let place = (spank.local_task()?, spank.local_task_count()?);
    let each_mib = share_of_process(&entry, spank, slurms.is_job(), place.1);
    let sight = Sight {
        kept: &node.kept,
        gpus: node.gpus,
        fenced: spank.fences_devices().unwrap_or_else(|| slurms.renumbered()),
        open: node.open,
        by_number: node.by_number,
        may_open: &|gpu| may_open(&node, gpu),
    };
    let devices = slurms.devices(&entry, place, &sight);
    let got = describe::got_by_processes(&entry, each_mib);
    if let (Some(share), Some(each)) = (&mut entry.share, each_mib) {
        share.mem_mib = each;
    }
    let tasks = entry.tasks.as_ref();
    preload_library(spank, tasks.filter(|tasks| !tasks.probes).map(|tasks| &*tasks.library))?;
    set_environment(spank, &entry, place, &devices)?;
    if place.0 == 0 && !quiet {
        let says = spank.step_id().is_ok_and(|id| says_what_it_got(StepNumber(id), entry.begun));
        let noticed = (args.notice && node.notice && !entry.begun).then_some(says);
        tell(&node, &entry, (&job_number(spank, job), place.1), (&got, &devices), noticed);
    }
    Ok(())
}

/// Finds the part of this node that the task has. `None`: nothing of ours. An error: it must see no GPU, and sees none from
/// here on.
fn share_of_task(
    share: Share,
    slurms: &SlurmVariables,
    spank: &dyn Spank,
    job: u32,
) -> Result<Option<(Box<Entry>, Here)>, TaskError> {
    let why = match share {
        Share::None => return Ok(None),
        Share::Unknown if !slurms.given() => return Ok(None),
        Share::Unreadable(_) if !slurms.any() => return Ok(None),
        Share::Ready(entry, here) if slurms.agree_with(&entry, &here.kept) => return Ok(Some((entry, here))),
        Share::Ready(..) => OTHER_GPUS.to_owned(),
        Share::Unknown => NO_PROLOG.to_owned(),
        Share::Failed(why) | Share::Unreadable(why) => why,
    };
    hide_gpus(spank)?;
    Err(TaskError::NoGpus { job, why })
}

/// Takes away what the task inherits from the job that it was submitted in, or from its own job's script on another node, but for
/// what Slurm sets itself.
fn forget_other_job(spank: &dyn Spank) -> Result<(), TaskError> {
    let Some(isolation) = spank.getenv(c"TESSERA_ISOLATION") else { return Ok(()) };
    let stale = stale_variables(&[], Some(&isolation));
    stale.into_iter().filter(|name| !OF_SLURM.contains(name)).for_each(|name| spank.unsetenv(name));
    preload_library(spank, None)
}

/// Puts the library of GPU tasks into the task's `LD_PRELOAD` if it is `wanted` there, or takes it out.
fn preload_library(spank: &dyn Spank, wanted: Option<&Path>) -> Result<(), TaskError> {
    let wanted = wanted.map(Path::to_string_lossy);
    match preload(spank.getenv(c"LD_PRELOAD").as_deref(), wanted.as_deref()) {
        Some(list) if list.is_empty() => spank.unsetenv("LD_PRELOAD"),
        Some(list) => spank.setenv("LD_PRELOAD", &list)?,
        None => {}
    }
    Ok(())
}

/// Sets what names the task's devices. `place`: its number on this node, and how many tasks there are here.
fn set_environment(
    spank: &dyn Spank,
    entry: &Entry,
    place: (u32, u32),
    devices: &TaskGpus,
) -> Result<(), TaskError> {
    let environment = task_environment(entry, place.0, place.1);
    for name in stale_variables(&environment, spank.getenv(c"TESSERA_ISOLATION").as_deref()) {
        spank.unsetenv(name);
    }
    for (name, value) in environment {
        match (devices, name.as_str()) {
            (TaskGpus::Whole { cuda, .. }, CUDA) => spank.setenv(CUDA, cuda)?,
            (TaskGpus::Whole { uuids, .. }, CONTAINERS) => spank.setenv(CONTAINERS, uuids)?,
            (TaskGpus::None | TaskGpus::AsSlurmSays, CUDA | CONTAINERS) => {}
            _ => spank.setenv(&name, &value)?,
        }
    }
    if *devices == TaskGpus::None {
        hide_gpus(spank)?;
    }
    Ok(())
}

/// The job's number as Slurm's commands show it: that of an array's task is `4711_2`. The variables are the user's, and so is the
/// log in which it stands.
fn job_number(spank: &dyn Spank, job: u32) -> String {
    let number = |name: &CStr| spank.getenv(name)?.parse::<u32>().ok();
    match (number(c"SLURM_ARRAY_JOB_ID"), number(c"SLURM_ARRAY_TASK_ID")) {
        (Some(array), Some(task)) => format!("{array}_{task}"),
        _ => job.to_string(),
    }
}

/// Tells whether a step says what its job got on the node: the script or interactive step, and the first one of srun where no script
/// has begun.
fn says_what_it_got(step: StepNumber, begun: bool) -> bool {
    !begun && (step == StepNumber(0) || step.is_job_script())
}

/// Says in a step's first task on this node what is odd about what the job got, if the step gives notice, and before that what the
/// job got, if `notice` is true.
fn tell(
    node: &Here,
    entry: &Entry,
    (job, tasks): (&str, u32),
    (got, devices): (&str, &TaskGpus),
    notice: Option<bool>,
) {
    // A step without GPUs of its own, in a job that has all of the node's because of `--exclusive`, did not ask for any.
    let given = !matches!(devices, TaskGpus::None | TaskGpus::AsSlurmSays);
    if notice == Some(true) && given {
        log::user(format_args!("job {job} on {}: {got}: {}", node.name, entry.decision));
    }
    if let (Some(_), Some(problem)) = (notice, &entry.cap_problem) {
        log::user(format_args!("job {job} on {}: it runs without its power cap: {problem}", node.name));
    }
    let (n, uneven) = (entry.instances.len(), instances_per_task(entry, tasks).is_none());
    if entry.kind == GrantKind::Mig && uneven && *devices == TaskGpus::AsJournalled {
        log::user(format_args!(
            "job {job} on {}: {} for {}: every task sees all of them; ask for a multiple of the tasks",
            node.name,
            counted(n, "instance"),
            counted(tasks, "task")
        ));
    }
}

/// Gives the memory that this process may take of the job's share, MiB; `None` for a job without a share.
fn share_of_process(entry: &Entry, spank: &dyn Spank, is_job: bool, step_tasks: u32) -> Option<u64> {
    let share = entry.share.as_ref()?;
    let env = |name: &CStr| spank.getenv(name);
    let cores = || Some((cores(&spank.job_cores()?)?.len(), cores(&spank.step_cores()?)?.len()));
    let processes = Processes {
        tasks: if is_job { tasks_of_job(&env) } else { step_tasks },
        cores: if is_job { None } else { cores() },
        inherited_mib: if is_job { None } else { inherited_mib(entry.job(), &env) },
    };
    Some(processes.each_mib(share.mem_mib))
}

/// As root, whenever a task has ended: tells what the task broker noted about the job's processes.
pub(crate) fn task_exit(spank: &dyn Spank) -> Result<(), SpankError> {
    let job = spank.job_id()?;
    // An error, because Slurm lets those into the job's log whatever its level is.
    notes::untold().iter().for_each(|line| log::error(format_args!("job {job}: {line}")));
    Ok(())
}

const CUDA: &str = "CUDA_VISIBLE_DEVICES";
/// Variables that Slurm sets itself for a job with GPUs or MPS shares of its own.
const OF_SLURM: [&str; 2] = [CUDA, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"];
const CONTAINERS: &str = "NVIDIA_VISIBLE_DEVICES";

/// Tells whether this task, already the user's and in its cgroup, may open a GPU of its job. That no driver answers is not
/// what is asked.
fn may_open(node: &Here, gpu: &GpuRecord) -> bool {
    let path = node.dev_root.join(format!("nvidia{}", gpu.minor));
    let opened = OpenOptions::new().read(true).write(true).open(path);
    !opened.is_err_and(|e| matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound))
}

/// Under `optional` in plugstack.conf the task starts in spite of our error: it must not find a GPU that way.
fn hide_gpus(spank: &dyn Spank) -> Result<(), SpankError> {
    spank.setenv(CUDA, NO_DEVICES)?;
    spank.setenv(CONTAINERS, "void")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_spank::FakeSpank;

    #[test]
    fn a_task_of_an_array_has_slurms_number() {
        let spank = FakeSpank::default();
        assert_eq!(job_number(&spank, 12), "12");
        for (name, value) in [("SLURM_ARRAY_JOB_ID", "9"), ("SLURM_ARRAY_TASK_ID", "2")] {
            spank.step.borrow_mut().insert(name.to_owned(), value.to_owned());
        }
        assert_eq!(job_number(&spank, 12), "9_2");
    }

    #[test]
    fn of_many_steps_one_says_what_the_job_got() {
        let says = |begun| {
            [StepNumber::BATCH_SCRIPT, StepNumber::INTERACTIVE, StepNumber(0), StepNumber(1)]
                .map(|step| says_what_it_got(step, begun))
        };
        assert_eq!(says(false), [true, true, true, false]);
        assert_eq!(says(true), [false; 4], "its script has said it");
    }

    /// Submitted from a job of GPU tasks, to a node that Tessera does not manage.
    #[test]
    fn a_job_that_has_nothing_of_ours_inherits_nothing_of_another() {
        let left = |outer: &[(&str, &str)]| {
            let spank = FakeSpank::default();
            for (name, value) in outer {
                spank.step.borrow_mut().insert((*name).to_owned(), (*value).to_owned());
            }
            task_init(&spank, &Args::default()).unwrap();
            spank.step.take().into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        let of_tasks = [
            ("CUDA_VISIBLE_DEVICES", "0"),
            ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50"),
            ("CUDA_MPS_PIPE_DIRECTORY", "/p"),
            ("LD_PRELOAD", "/a.so:/usr/lib/tessera/libtessera_task.so"),
            ("NVIDIA_VISIBLE_DEVICES", "MIG-1"),
            ("TESSERA_ISOLATION", "gpu-tasks"),
            ("TESSERA_TASK_SOCKET", "/s"),
        ];
        let slurms = ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50", "CUDA_VISIBLE_DEVICES=0"];
        assert_eq!(left(&of_tasks), [slurms[0], slurms[1], "LD_PRELOAD=/a.so"]);
        let of_user = [
            ("CUDA_MPS_PIPE_DIRECTORY", "/p"),
            ("LD_PRELOAD", "/a.so /b.so"),
            ("NVIDIA_VISIBLE_DEVICES", "all"),
        ];
        assert_eq!(left(&of_user), of_user.map(|(name, value)| format!("{name}={value}")));
        let of_mig =
            [("TESSERA_ISOLATION", "mig"), of_user[0], of_user[1], ("NVIDIA_VISIBLE_DEVICES", "MIG-1")];
        assert_eq!(left(&of_mig), ["CUDA_MPS_PIPE_DIRECTORY=/p", "LD_PRELOAD=/a.so /b.so"]);
    }

    #[test]
    fn the_site_chooses_what_a_plain_job_is_shown() {
        let of = |node: &str, is_plain| {
            let text =
                format!("[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 1\n\n[node]\n{node}\n");
            let (site, errors) = site_config::parse("t", &text, &|_| Err(ErrorKind::NotFound.into()));
            assert_eq!(errors, []);
            shown(is_plain, &site.unwrap().node)
        };
        let numbers = |node| of(node, true).0;
        assert!(numbers("") && !numbers("visible_devices = \"uuids\"") && !of("", false).0);
        let is_told = |node| of(node, true).1;
        assert!(is_told("") && !is_told("plain_notice = false") && of("plain_notice = false", false).1);
    }
}
