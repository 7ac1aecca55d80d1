//! The contents of a `tessera.toml`, as types.

use std::path::PathBuf;
use std::sync::Arc;

use geometry::{Model, ProfileId, Slice};
use gpu_rules::{Fill, MigPolicy, PoolPolicy, PowerBudget, PowerRange, Purpose, SharedMemory};
use power::CounterTable;
use protocol::RequestDefaults;
use protocol::{Bandwidth, Isolation, SetWait};
use topology::{BandwidthModel, HardwareGraph, Pattern, Selection};

use crate::health::HealthRule;
use crate::idle::Idle;
use crate::limit::Limit;

/// A whole `tessera.toml` without errors.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteConfig {
    /// `[defaults]`: what holds for jobs that do not say.
    pub defaults: Defaults,
    /// `[mps]`: how GPUs are shared.
    pub mps: Mps,
    /// `[tasks]`: the pool of GPU tasks; `None`: jobs cannot have `gpu-tasks` here.
    pub tasks: Option<Tasks>,
    /// `[node]`, with `%n` not yet replaced.
    pub node: NodeSettings,
    /// `[planner]`: whose past jobs tell how long a job takes.
    pub learn_from: LearnFrom,
    /// `[power]`: how jobs share a GPU under a power cap.
    pub power: Power,
    /// `[[power_budgets]]`, each with its nodes; one of `per_node` is there once for each node.
    pub power_budgets: Vec<PowerBudget>,
    /// `[bandwidth]`: how bandwidth between GPUs is predicted.
    pub bandwidth_model: BandwidthModel,
    /// `learn` in `[bandwidth]`: jobs that do not say how they depend on bandwidth count as their traffic says.
    pub learn_bandwidth: bool,
    /// `[[partitions]]`, each named once.
    pub partitions: Vec<Partition>,
    /// `[[limits]]`, in the order of the file.
    pub limits: Vec<Limit>,
    /// `[submission]`: whether users are told of limits of Slurm that never let their job start.
    pub tell_slurm_limits: bool,
    /// `[[health]]`: rules for unhealthy GPUs that differ from Tessera's own, at most one for each event.
    pub health: Vec<HealthRule>,
    /// `[idle]`: treatment of jobs that hold GPUs without using them; `None` without the section.
    pub idle: Option<Idle>,
    /// `[[nodes]]`; no node is in two of them.
    pub nodes: Vec<NodeSpec>,
}

/// Jobs whose past run times tell how long a job of a job profile takes. The profile's name is whatever its user wrote:
/// times of strangers could be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnFrom {
    /// Past jobs of the job's user.
    User,
    /// Past jobs of the job's account.
    Account,
}

/// Values for jobs that do not give their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// The isolation of a request that names none.
    pub isolation: Isolation,
    /// Memory per instance or share, MiB; `None`: a share must name its memory, an instance may have any.
    pub gpu_mem_mib: Option<u64>,
    /// Threads of an MPS share, percent; `None`: the share's part of the device's memory, rounded up.
    pub mps_threads: Option<u8>,
    /// Dependence of a job on the bandwidth between its GPUs.
    pub bandwidth: Bandwidth,
    /// Pattern in which a job's GPUs talk to each other.
    pub pattern: Pattern,
    /// Policy that selects a set of whole GPUs.
    pub selection: Selection,
    /// Time that a job waits for a better set of whole GPUs.
    pub wait: Option<SetWait>,
    /// Nodes that fill first; `None`: in Slurm's own order, those with the fewest free CPUs.
    pub node_order: Option<Fill>,
    /// Kinds that `auto` may use: `Mig(None)`, `Mps`, `Tasks`, `Whole`, each at most once. Of equally cheap kinds it takes
    /// the first.
    pub auto: Vec<Isolation>,
}

impl Defaults {
    /// The defaults that `admission` fills in.
    #[must_use]
    pub fn of_requests(&self) -> RequestDefaults {
        let Self { isolation, gpu_mem_mib, mps_threads, .. } = self;
        RequestDefaults { isolation: isolation.clone(), gpu_mem_mib: *gpu_mem_mib, mps_threads: *mps_threads }
    }
}

/// Rules for jobs that share a GPU under a power cap.
#[derive(Clone, Debug, PartialEq)]
pub struct Power {
    /// Jobs that may have compute instances in one GPU instance.
    pub shared_memory: SharedMemory,
    /// Each application keeps more than this part of its performance alone, 0 to 1 (Arima et al., section 4.2).
    pub alpha: f64,
    /// An application for which `--gpu-power=auto` chooses a cap keeps more than this part of its performance, and more than `alpha`.
    pub auto_keeps: f64,
    /// True if cautious predictions must keep to `alpha` too.
    pub guard: bool,
    /// The site's counters of applications.
    pub counters: Option<Arc<CounterTable>>,
    /// True if the energy that jobs use is accounted on the nodes.
    pub energy: bool,
    /// Aim with which a planner pairs jobs.
    pub objective: Objective,
    /// True if a planner may raise the time limit of a job that it slows down.
    pub stretch_limits: bool,
}

/// Aim with which a planner puts jobs with known counters onto one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// The planner puts no jobs together.
    #[default]
    Off,
    /// The highest throughput under the node's cap (Problem 1 of Arima et al.).
    Throughput,
    /// The highest throughput per watt (Problem 2).
    Efficiency,
}

impl Default for Power {
    /// The paper's alpha, with the guard on. A cap that no user has named costs at most a fifth of the speed.
    fn default() -> Self {
        Self {
            shared_memory: SharedMemory::default(),
            alpha: 0.2,
            auto_keeps: 0.8,
            guard: true,
            counters: None,
            energy: false,
            objective: Objective::Off,
            stretch_limits: false,
        }
    }
}

/// Rules for GPUs that jobs share through MPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mps {
    /// True if jobs of different users may share one MPS daemon.
    pub share_between_users: bool,
    /// If the shares' threads on a device add up to more than this, percent, another device is preferred. A value above
    /// 100 allows oversubscription.
    pub max_threads: u32,
    /// The means that keeps a share within its memory.
    pub memory_limit: MemoryLimit,
}

/// Rules for devices that the GPU tasks of jobs share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tasks {
    /// Policy by which the broker chooses a task's device.
    pub policy: TaskPolicy,
    /// Seats of a device, and memory that each process takes beside its tasks.
    pub pool: PoolPolicy,
    /// Treatment of a process that takes more memory than it was promised.
    pub overuse: Overuse,
    /// File to which the broker adds a line for each task that begins, is granted or ends; `%n` is the node's name.
    pub log: Option<PathBuf>,
}

/// Policy by which the broker chooses a task's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskPolicy {
    /// Ours: memory hard, least loaded device, and nobody waits for ever.
    Tessera,
    /// Algorithm 2 of CASE: emulates the SMs' occupancy.
    Alg2,
    /// Algorithm 3 of CASE: memory hard, fewest warps in use.
    Alg3,
}

impl TaskPolicy {
    /// As `tessera.toml` and the broker write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tessera => "tessera",
            Self::Alg2 => "alg2",
            Self::Alg3 => "alg3",
        }
    }
}

/// Treatment of a process that takes more memory of a pool's device than it was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overuse {
    /// Others get less: what it takes counts as promised.
    Charge,
    /// Ended as well.
    End,
}

/// The means that keeps an MPS share within its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// MPS itself, by `CUDA_MPS_PINNED_DEVICE_MEM_LIMIT`.
    Mps,
    /// Nothing; the job is only told its share.
    Advisory,
}

/// Paths and programs of the node side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    /// Directory of the device nodes: `/dev`.
    pub dev_root: PathBuf,
    /// Directory that contains `driver/nvidia-caps`: `/proc`.
    pub proc_root: PathBuf,
    /// Root of the tree of control groups (cgroup v2): `/sys/fs/cgroup`.
    pub cgroup_root: PathBuf,
    /// Directory of the journal of what each job has on the node.
    pub state_dir: PathBuf,
    /// Directory of MPS pipes and logs.
    pub run_dir: PathBuf,
    /// File name or path of NVML, as `dlopen` takes it.
    pub nvml_library: PathBuf,
    /// Absolute path of the MPS control program, which runs as root.
    pub mps_control: PathBuf,
    /// Absolute path of the task broker, which runs as root.
    pub task_broker: PathBuf,
    /// Absolute path of the library that is preloaded to programs whose GPU tasks do not ask themselves.
    pub task_library: PathBuf,
    /// Program and arguments that reset one GPU, whose index replaces `%i`; never empty.
    pub gpu_reset_command: Vec<String>,
    /// Program, by its absolute path, and arguments that stop (`%a` is `stop`) and start (`start`) other programs that have a GPU open;
    /// empty if the site has none.
    pub gpu_clients_command: Vec<String>,
    /// Time limit of one NVML create or destroy, including retries, ms.
    pub operation_timeout_ms: u64,
    /// True if Tessera changes owners and modes of device nodes.
    pub manage_device_nodes: bool,
    /// Form in which `CUDA_VISIBLE_DEVICES` names the GPUs of a job that used none of our options.
    pub visible_devices: VisibleDevices,
    /// True if such a job is told in a line what it got.
    pub plain_notice: bool,
    /// Treatment of processes that are on a GPU or instance that a job is about to get.
    pub leftover_processes: LeftoverProcesses,
}

/// Form in which `CUDA_VISIBLE_DEVICES` names the whole GPUs of a job that used none of our options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisibleDevices {
    /// By number, as Slurm does, wherever a number means the same GPU for as long as the job runs; else by UUID.
    Numbers,
    /// By UUID.
    Uuids,
}

/// Treatment of processes on a GPU or instance that do not belong to any job that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftoverProcesses {
    /// Killed.
    End,
    /// The new job waits for their end, until the operation's deadline, and fails then.
    Wait,
    /// The new job fails at once.
    Fail,
}

/// A set of nodes that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSpec {
    /// Names of the nodes, in the order of the hostlist; never empty.
    pub names: Vec<String>,
    /// The GPUs of each, in NVML's order, which must be the order of gres.conf; never empty.
    pub gpus: Vec<&'static Model>,
    /// Rule for partitioning the GPUs.
    pub mig: MigPolicy,
    /// Purpose of each of `gpus`, in their order.
    pub uses: Vec<GpuUse>,
    /// So many of the GPUs that jobs may have whole stay without instances and shares.
    pub keep_uncut: usize,
    /// The links between the GPUs of one node, in the order of `gpus` and with as many rows.
    pub links: Arc<HardwareGraph>,
    /// Source of `links`: a system's name, `matrix`, or the name of the file that `discovered` gives.
    pub interconnect: String,
    /// The kernel of these nodes can hold a share to its memory: it has a region for each GPU.
    pub memory_fence: bool,
    /// The site's settings for the power of its GPUs.
    pub power: NodePower,
}

/// The site's settings for the power of a node's GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePower {
    /// The highest power limit that a GPU with jobs has, W; `None`: as it is found.
    pub cap_w: Option<u16>,
    /// Draw of a GPU without jobs, W. Power budgets need it.
    pub idle_w: Option<u16>,
    /// Model of applications that share these GPUs and run under caps.
    pub model: Option<Arc<power::Model>>,
}

impl NodePower {
    /// Both, as power budgets need them.
    #[must_use]
    pub fn range(&self) -> Option<PowerRange> {
        Some(PowerRange { cap_w: self.cap_w?, idle_w: self.idle_w? })
    }
}

/// Purpose of one GPU of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GpuUse {
    /// For whatever the node's `mig` allows.
    #[default]
    AsMig,
    /// For instances only, as if `mig` were `on`.
    Instances,
    /// For whole jobs only.
    Whole,
    /// For shares only.
    Shares,
    /// For jobs that fit these instances of the administrator's own, never none.
    Static(Vec<(ProfileId, Slice)>),
    /// Not ours.
    Slurm,
}

impl GpuUse {
    /// Gives the purpose of a GPU of this use, and the rule for partitioning it under the node's `mig`.
    #[must_use]
    pub fn rules(&self, model: &Model, mig: MigPolicy) -> (Purpose, MigPolicy) {
        let (purpose, mig) = match self {
            Self::AsMig => (Purpose::Any, mig),
            Self::Instances => (Purpose::Any, MigPolicy::On),
            Self::Whole => (Purpose::Whole, mig),
            Self::Shares => (Purpose::Shares, mig),
            Self::Static(_) => (Purpose::Static, mig),
            Self::Slurm => (Purpose::Slurm, mig),
        };
        (purpose, purpose.policy(model, mig))
    }

    /// Lists the instances of a static GPU; none of another.
    #[must_use]
    pub fn fixed(&self) -> &[(ProfileId, Slice)] {
        if let Self::Static(instances) = self { instances } else { &[] }
    }
}

/// Rules for choosing sets of whole GPUs for the jobs of one partition. `None` in a field: as in the site's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// Name in slurm.conf.
    pub name: String,
    /// Policy that selects a set.
    pub selection: Option<Selection>,
    /// Model that predicts bandwidth.
    pub model: Option<BandwidthModel>,
    /// Pattern in which a job's GPUs talk to each other.
    pub pattern: Option<Pattern>,
    /// Dependence of a job on the bandwidth between its GPUs.
    pub bandwidth: Option<Bandwidth>,
    /// Time that a job waits for a better set of whole GPUs.
    pub wait: Option<SetWait>,
    /// Nodes that fill first; `Some(None)`: in Slurm's own order.
    pub node_order: Option<Option<Fill>>,
    /// Aim with which a planner pairs its jobs.
    pub objective: Option<Objective>,
    /// The part of its performance alone that each application keeps.
    pub alpha: Option<f64>,
}

impl SiteConfig {
    /// The node set that this node is in; `None` for a node that the file does not describe.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&NodeSpec> {
        self.nodes.iter().find(|spec| spec.names.iter().any(|n| n == name))
    }

    /// Fills in the numbers of the users whom limits name; gives the limits of those who are not known.
    pub fn name_users(&mut self, uid_of: impl Fn(&str) -> Option<u32>) -> Vec<&Limit> {
        for limit in self.limits.iter_mut().filter(|limit| limit.uid.is_none()) {
            limit.uid = limit.user.as_deref().and_then(&uid_of);
        }
        self.limits.iter().filter(|limit| limit.user.is_some() && limit.uid.is_none()).collect()
    }
}
