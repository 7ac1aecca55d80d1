//! Faults, as data and in words.

use std::fmt;

/// A node of the cluster, by its place in slurm.conf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) struct Node(pub(in crate::chaos) usize);

impl Node {
    pub(in crate::chaos) fn name(self) -> &'static str {
        ["n1", "n2"][self.0 % 2]
    }
}

/// Choice among the jobs there are then: this number modulo how many there are, by job id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) struct Pick(pub(in crate::chaos) u32);

/// The names of all faults, for `--without`.
pub(in crate::chaos) const NAMES: [&str; 41] = [
    "cancel",
    "cancel-young",
    "cancel-all",
    "requeue",
    "hold",
    "time-limit",
    "drain",
    "down",
    "kill-slurmctld",
    "kill-slurmd",
    "restart-slurmctld",
    "restart-slurmd",
    "takeover",
    "failover",
    "kill-slurmstepd",
    "kill-prolog",
    "kill-epilog",
    "kill-reconcile",
    "kill-mps",
    "kill-broker",
    "reconfigure",
    "changed-file",
    "broken-file",
    "shrunken-file",
    "busy-destroy",
    "out-of-resources",
    "no-permission",
    "list-timeout",
    "gpu-lost",
    "slow",
    "disk-full",
    "clock-forward",
    "clock-back",
    "fat-environments",
    "full-run-dir",
    "no-inodes",
    "fork-storm",
    "idle-connections",
    "gpu-shifted",
    "gpu-sick",
    "xid-storm",
];

/// A fault.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::chaos) enum Fault {
    /// A job of this state is cancelled.
    Cancel(JobState, Pick),
    /// A job is cancelled as soon as it is submitted, this many milliseconds later.
    CancelYoung(u32),
    /// All jobs of one user are cancelled; 0 is the first user.
    CancelAll(u32),
    /// A running job is requeued.
    Requeue(Pick),
    /// A pending job is held, and released later.
    Hold(Pick),
    /// A running job gets a time limit of one minute.
    Limit(Pick),
    /// The node takes no new jobs for a while.
    Drain(Node),
    /// The node's jobs are ended, and it takes none for a while.
    Down(Node),
    /// SIGKILL; it starts again later.
    Kill(Daemon),
    /// An orderly end; it starts again later.
    Restart(Daemon),
    /// The second slurmctld takes over: because it is asked to, or because the first was killed.
    Takeover { killed: bool },
    /// The step daemon of a job, and its tasks with it, are killed.
    KillStep(Node, Pick),
    /// A process at work on the node's GPUs is killed.
    KillWork(Node, Work),
    /// An MPS daemon is killed, and the jobs that use it are cancelled.
    KillMps(Node, Pick),
    /// The broker of GPU tasks is killed.
    KillBroker(Node, Broker),
    /// slurmctld reads its configuration again.
    Reconfigure(FileChange),
    /// The driver of one GPU, or of all, misbehaves.
    Driver(Node, Option<u32>, Driver),
    /// Nothing can be written where the node keeps its journal.
    DiskFull(Node),
    /// The clock of one node, or of all and of the controllers, is set so many seconds forward, or back, and later right.
    Clock(Option<Node>, i64),
    /// A user submits plain jobs with too many or too long variables: user, and seed of the variables.
    FatEnvironments(u32, u32),
    /// A user fills the node's run directory from his MPS daemon's directory there.
    FullRunDir(Node, FullOf),
    /// A user has as many processes on the node as slurmd lets its children have.
    ForkStorm(Node, u32),
    /// Hundreds of connections to an exporter say half a request and wait.
    IdleConnections,
    /// The driver and its proc files list one GPU less, so that others have another index, and later all of them again.
    GpuShifted(Node, u32),
    /// A GPU becomes unhealthy, and its node leaves it out until it is well.
    GpuSick(Node, u32, Ailment),
}

/// The way in which a GPU becomes unhealthy. docs/gpu-health.md, "Unhealthy GPUs", says what each does to the GPU and its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum Ailment {
    /// The driver reports an error with this Xid.
    Xid(u32),
    /// Xid as above, and the driver asks for a reset of the GPU.
    AsksForReset(u32),
    /// An uncorrectable memory error.
    Ecc,
    /// No row is left to remap to.
    RemapFailed,
    /// It is too hot.
    Hot,
    /// An administrator says so.
    Told,
    /// The driver reports an error with Xid 48, and 10,000 errors of programs.
    Storm,
}

impl Ailment {
    /// Tells whether the GPU's jobs are requeued: after Xids 79 and 95.
    pub(in crate::chaos) fn requeues(self) -> bool {
        matches!(self, Self::Xid(79 | 95) | Self::AsksForReset(79 | 95))
    }
}

/// Kinds of full directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum FullOf {
    Bytes,
    Inodes,
}

/// A state of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum JobState {
    Pending,
    Running,
    Completing,
}

/// A daemon of Slurm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum Daemon {
    Slurmctld,
    Slurmd(Node),
}

/// Choice of the broker's process: its child does the work, and its parent starts another child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum Broker {
    Child,
    Parent,
    Both,
}

/// A short-lived process of Tessera on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum Work {
    Prolog,
    Epilog,
    Reconciliation,
}

/// State of tessera.toml when slurmctld reads it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum FileChange {
    Same,
    Changed,
    Broken,
    Shrunken,
}

/// How a driver misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chaos) enum Driver {
    Busy,
    OutOfResources,
    Refusing,
    ListTimeout,
    Lost,
    Slow,
}

impl Driver {
    /// Returns the name at `nvml-sim fault`.
    pub(in crate::chaos) fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy-destroy",
            Self::OutOfResources => "out-of-resources",
            Self::Refusing => "no-permission",
            Self::ListTimeout => "list-timeout",
            Self::Lost => "gpu-lost",
            Self::Slow => "slow",
        }
    }
}

impl Fault {
    /// A short name, for `--without` and for counting.
    pub(in crate::chaos) fn name(&self) -> &'static str {
        match self {
            Self::Cancel(..) => "cancel",
            Self::CancelYoung(_) => "cancel-young",
            Self::CancelAll(_) => "cancel-all",
            Self::Requeue(_) => "requeue",
            Self::Hold(_) => "hold",
            Self::Limit(_) => "time-limit",
            Self::Drain(_) => "drain",
            Self::Down(_) => "down",
            Self::Kill(Daemon::Slurmctld) => "kill-slurmctld",
            Self::Kill(Daemon::Slurmd(_)) => "kill-slurmd",
            Self::Restart(Daemon::Slurmctld) => "restart-slurmctld",
            Self::Restart(Daemon::Slurmd(_)) => "restart-slurmd",
            Self::Takeover { killed: false } => "takeover",
            Self::Takeover { killed: true } => "failover",
            Self::KillStep(..) => "kill-slurmstepd",
            Self::KillWork(_, Work::Prolog) => "kill-prolog",
            Self::KillWork(_, Work::Epilog) => "kill-epilog",
            Self::KillWork(_, Work::Reconciliation) => "kill-reconcile",
            Self::KillMps(..) => "kill-mps",
            Self::KillBroker(..) => "kill-broker",
            Self::Reconfigure(FileChange::Same) => "reconfigure",
            Self::Reconfigure(FileChange::Changed) => "changed-file",
            Self::Reconfigure(FileChange::Broken) => "broken-file",
            Self::Reconfigure(FileChange::Shrunken) => "shrunken-file",
            Self::Driver(_, _, driver) => driver.name(),
            Self::DiskFull(_) => "disk-full",
            Self::Clock(_, seconds) if *seconds < 0 => "clock-back",
            Self::Clock(..) => "clock-forward",
            Self::FatEnvironments(..) => "fat-environments",
            Self::FullRunDir(_, FullOf::Bytes) => "full-run-dir",
            Self::FullRunDir(_, FullOf::Inodes) => "no-inodes",
            Self::ForkStorm(..) => "fork-storm",
            Self::IdleConnections => "idle-connections",
            Self::GpuShifted(..) => "gpu-shifted",
            Self::GpuSick(_, _, Ailment::Storm) => "xid-storm",
            Self::GpuSick(..) => "gpu-sick",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Cancel(state, pick) => write!(f, " ({state:?}, pick {})", pick.0),
            Self::Requeue(pick) | Self::Hold(pick) | Self::Limit(pick) => write!(f, " (pick {})", pick.0),
            Self::CancelYoung(ms) => write!(f, " (after {ms} ms)"),
            Self::CancelAll(user) => write!(f, " (user {user})"),
            Self::Drain(node) | Self::Down(node) | Self::KillWork(node, _) | Self::DiskFull(node) => {
                write!(f, " on {}", node.name())
            }
            Self::KillStep(node, pick) | Self::KillMps(node, pick) => {
                write!(f, " on {} (pick {})", node.name(), pick.0)
            }
            Self::KillBroker(node, which) => write!(f, " on {} ({which:?})", node.name()),
            Self::Kill(Daemon::Slurmd(node)) | Self::Restart(Daemon::Slurmd(node)) => {
                write!(f, " on {}", node.name())
            }
            Self::Driver(node, Some(gpu), _) => write!(f, " on {}, GPU {gpu}", node.name()),
            Self::Driver(node, None, _) => write!(f, " on {}, every GPU", node.name()),
            Self::Clock(Some(node), seconds) => write!(f, " on {}, {} s", node.name(), seconds.abs()),
            Self::Clock(None, seconds) => write!(f, " everywhere, {} s", seconds.abs()),
            Self::Kill(Daemon::Slurmctld) | Self::Restart(Daemon::Slurmctld) => Ok(()),
            Self::FatEnvironments(user, seed) => write!(f, " (user {user}, seed {seed})"),
            Self::FullRunDir(node, _) => write!(f, " on {}", node.name()),
            Self::ForkStorm(node, user) => write!(f, " on {} (user {user})", node.name()),
            Self::GpuShifted(node, gpu) => write!(f, " on {}, GPU {gpu}", node.name()),
            Self::GpuSick(node, gpu, ailment) => write!(f, " on {}, GPU {gpu} ({ailment:?})", node.name()),
            Self::Takeover { .. } | Self::Reconfigure(_) | Self::IdleConnections => Ok(()),
        }
    }
}
