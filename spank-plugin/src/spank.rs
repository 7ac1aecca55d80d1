//! Requests of a hook to the Slurm process that has called it. `ffi` carries them out through C; nothing else of the plugin knows C.

use std::ffi::CStr;
use std::io;

use job_options::Spec;

/// The process that has loaded the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    /// srun.
    Local,
    /// sbatch, salloc, scrontab.
    Allocator,
    /// slurmstepd with a step.
    Remote,
    /// slurmd.
    Slurmd,
    /// slurmstepd for a prolog or epilog.
    JobScript,
    /// None that we know.
    Other,
}

/// A SPANK call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{call} failed (SPANK error {code})")]
pub(crate) struct SpankError {
    pub(crate) call: &'static str,
    pub(crate) code: u32,
}

/// Destination of a detached program's errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errors {
    /// To our own stderr: slurmd's log or journal.
    Ours,
    /// Nowhere. In 24.11 a prolog's stderr is a pipe that slurmd reads to its end: whoever keeps it open keeps the job
    /// waiting, and at `PrologEpilogTimeout` the node is drained [24.11 `run_command.c`].
    Nowhere,
}

/// Options of this srun that SPANK does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OptionsOfSrun {
    /// Has `--quiet`.
    pub(crate) is_quiet: bool,
    /// Value of `--gpu-bind`.
    pub(crate) gpu_bind: Option<String>,
    /// Has `--exact` and asks for no GRES of its own.
    pub(crate) takes_all_gres: bool,
}

/// A hook of the job, step or submission, and the process that runs it.
pub(crate) trait Spank {
    fn job_id(&self) -> Result<u32, SpankError>;

    fn job_uid(&self) -> Result<u32, SpankError>;

    /// The job's group.
    fn job_gid(&self) -> Result<u32, SpankError>;

    /// The step's number; that of a batch script or interactive step is one of slurm/slurm.h's own.
    fn step_id(&self) -> Result<u32, SpankError>;

    /// The job's cores on this node, as a list; `None` if Slurm does not tell the step.
    fn job_cores(&self) -> Option<String>;

    /// Lists the cores of the step.
    fn step_cores(&self) -> Option<String>;

    /// Number of times that the job was requeued; 0 if Slurm does not tell the step.
    fn restart_count(&self) -> u32;

    /// Tasks of this step on this node.
    fn local_task_count(&self) -> Result<u32, SpankError>;

    /// This task's number on this node, from 0.
    fn local_task(&self) -> Result<u32, SpankError>;

    /// A variable of the step's environment; `None` if it is unset or longer than 128 KiB.
    fn getenv(&self, name: &CStr) -> Option<String>;

    /// Sets a variable in the environment of the step, or of the task in a task hook.
    fn setenv(&self, name: &str, value: &str) -> Result<(), SpankError>;

    /// Takes a variable out of the task's environment, in a task hook; one that is not set is no error.
    fn unsetenv(&self, name: &str);

    /// Sets a variable that travels with the job to slurmctld, prolog and epilog.
    fn control_setenv(&self, name: &str, value: &str) -> Result<(), SpankError>;

    /// Removes such a variable; one that is not set is no error.
    fn control_unsetenv(&self, name: &str);

    /// Registers an option under this name, which is only possible in `slurm_spank_init`.
    fn register(&self, name: &str, position: u8, spec: &Spec) -> Result<(), SpankError>;

    /// The options of this srun; none in other commands.
    fn options_of_srun(&self) -> OptionsOfSrun;

    /// Tells whether Slurm's device cgroup holds each task to its own GPUs (`ConstrainDevices` with task/cgroup); `None`:
    /// this Slurm does not say.
    fn fences_devices(&self) -> Option<bool>;

    /// The node that a slurmd without `-N` serves: that whose NodeHostname in slurm.conf is this machine's host name, as
    /// slurmd itself finds it. `None` if Slurm's functions do not say.
    fn configured_node_name(&self) -> Option<String>;

    /// Tells whether this slurmd takes MIG instances for GPUs: see [`protocol::Standing::Detects`].
    fn detects_gpus(&self) -> bool;

    /// Number of the Slurm that this plugin was installed for: 0xMMmmuu. Slurm loads it if the series is its own.
    fn slurm_number(&self) -> u32;

    fn effective_uid(&self) -> u32;

    /// Sets a variable of this process, unless it has that value already.
    ///
    /// Only for a submitting command, which has one thread here; for prolog and epilog, which Slurm runs in a process without
    /// threads; and for a step that stands in for a prolog before it has tasks. In addition to that one slurmstepd has a thread
    /// for messages, which reads no variable [22.05 and 24.11 `slurmstepd/req.c`].
    fn set_env(&self, name: &str, value: &str);

    /// Removes a variable from this process's environment, before Slurm reads it for itself.
    ///
    /// Only for `slurm_spank_init` in a submitting command: sbatch, salloc and srun call it before their first thread.
    fn forget_env(&self, name: &str);

    /// Starts `argv` in a session of its own, adopted by init: no zombie, no wait. stdin and stdout are `/dev/null`; every
    /// descriptor above stderr is closed (a listening socket of slurmd would outlive slurmd in it).
    ///
    /// An `execve` that fails is silent: the caller checks the program beforehand.
    ///
    /// # Errors
    ///
    /// A string with a NUL in it, or a `fork` that failed.
    fn spawn_detached(&self, argv: &[String], env: &[String], errors: Errors) -> io::Result<()>;
}
