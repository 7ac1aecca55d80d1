//! What a `tessera.toml` says.

use std::path::PathBuf;

use geometry::Model;
use node_state::{Gpu, GpuState, Kind, MigPolicy, Node, Policy, SetPolicy};
use protocol::meaning::RequestDefaults;
use protocol::{Bandwidth, Isolation, SetWait};
use topology::{BandwidthModel, LinkMatrix, Pattern, Selection};

use crate::limit::Limit;

/// A whole `tessera.toml` without errors.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// `[defaults]`
    pub defaults: Defaults,
    /// `[mps]`
    pub mps: Mps,
    /// `[node]`, with `%n` as written: see [`NodeSettings::for_node`].
    pub node: NodeSettings,
    /// `[bandwidth]`: how bandwidth between GPUs is predicted.
    pub bandwidth_model: BandwidthModel,
    /// `[[partitions]]`, each named once.
    pub partitions: Vec<Partition>,
    /// `[[limits]]`
    pub limits: Vec<Limit>,
    /// `[[nodes]]`; no node is in two of them.
    pub nodes: Vec<NodeSpec>,
}

/// What holds where a job does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// What a request without isolation means once Tessera manages it.
    pub isolation: Isolation,
    /// Memory per instance or share, MiB; `None`: the job must say, or any.
    pub gpu_mem_mib: Option<u64>,
    /// Threads of an MPS share, percent; `None`: its share of the memory, rounded up.
    pub mps_threads: Option<u8>,
    /// Whether bandwidth between a job's GPUs matters.
    pub bandwidth: Bandwidth,
    /// How a job's GPUs talk to each other.
    pub pattern: Pattern,
    /// How a set of whole GPUs is selected.
    pub selection: Selection,
    /// How long a job waits for a better set of whole GPUs.
    pub wait: Option<SetWait>,
    /// What `auto` may use: `Mig(None)`, `Mps`, `Whole`, each once; among equally cheap ones the first.
    pub auto: Vec<Isolation>,
}

impl Defaults {
    /// The part that says what a request means.
    #[must_use]
    pub fn of_requests(&self) -> RequestDefaults {
        let Self { isolation, gpu_mem_mib, mps_threads, .. } = self;
        RequestDefaults { isolation: isolation.clone(), gpu_mem_mib: *gpu_mem_mib, mps_threads: *mps_threads }
    }
}

/// How GPUs are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mps {
    /// Whether jobs of different users may share one MPS daemon.
    pub share_between_users: bool,
    /// Sum of thread shares beyond which another GPU is preferred, percent; above 100 oversubscribes.
    pub max_threads: u32,
    /// What holds a share to its memory.
    pub memory_limit: MemoryLimit,
}

/// What holds an MPS share to its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// MPS itself: `CUDA_MPS_PINNED_DEVICE_MEM_LIMIT`.
    Mps,
    /// Nothing: the job is told its share.
    Advisory,
}

/// Paths and programs of the node side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    /// Where device nodes are: `/dev`.
    pub dev_root: PathBuf,
    /// Where `driver/nvidia-caps` is: `/proc`.
    pub proc_root: PathBuf,
    /// The journal's directory.
    pub state_dir: PathBuf,
    /// The directory of MPS pipes and logs.
    pub run_dir: PathBuf,
    /// NVML's file name or path, as for `dlopen`.
    pub nvml_library: String,
    /// The MPS control program's name or path.
    pub mps_control: String,
    /// Resets one GPU, whose index replaces `%i`; never empty.
    pub gpu_reset_command: Vec<String>,
    /// Deadline of one NVML create or destroy, retries included, ms.
    pub operation_timeout_ms: u64,
    /// Whether owners and modes of device nodes are changed.
    pub manage_device_nodes: bool,
}

impl NodeSettings {
    /// The settings on one node: `%n` is its name.
    #[must_use]
    pub fn for_node(&self, name: &str) -> Self {
        let text = |s: &str| s.replace("%n", name);
        let path = |p: &PathBuf| PathBuf::from(text(&p.to_string_lossy()));
        Self {
            dev_root: path(&self.dev_root),
            proc_root: path(&self.proc_root),
            state_dir: path(&self.state_dir),
            run_dir: path(&self.run_dir),
            nvml_library: text(&self.nvml_library),
            mps_control: text(&self.mps_control),
            gpu_reset_command: self.gpu_reset_command.iter().map(|s| text(s)).collect(),
            ..*self
        }
    }
}

/// A set of nodes that are alike.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// Their names, in the order of the hostlist; never empty.
    pub names: Vec<String>,
    /// The GPUs of each, in NVML's order, which must be the order of gres.conf; never empty.
    pub gpus: Vec<&'static Model>,
    /// Whether they may be partitioned.
    pub mig: MigPolicy,
    /// The links between them; as many rows as `gpus`.
    pub links: LinkMatrix,
    /// Where `links` comes from: a system's name, `matrix`, or the file that was discovered.
    pub interconnect: String,
}

impl NodeSpec {
    /// Such a node with nothing on it.
    #[must_use]
    pub fn to_node(&self) -> Node {
        let gpu = |model: &&'static Model| Gpu { model, policy: self.mig, state: GpuState::Free };
        Node { gpus: self.gpus.iter().map(gpu).collect(), links: self.links.clone() }
    }
}

/// How sets of whole GPUs are chosen for the jobs of one partition, where that differs from the site's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// Its name in slurm.conf.
    pub name: String,
    /// How a set is selected.
    pub selection: Option<Selection>,
    /// How bandwidth is predicted.
    pub model: Option<BandwidthModel>,
    /// How a job's GPUs talk to each other.
    pub pattern: Option<Pattern>,
    /// Whether bandwidth between a job's GPUs matters.
    pub bandwidth: Option<Bandwidth>,
    /// How long a job waits for a better set of whole GPUs.
    pub wait: Option<SetWait>,
}

impl SiteConfig {
    /// How sets of whole GPUs are chosen for jobs of a partition that do not say.
    #[must_use]
    pub fn sets(&self, partition: Option<&str>) -> SetPolicy {
        let Defaults { pattern, bandwidth, selection, wait, .. } = &self.defaults;
        let own = partition.and_then(|name| self.partitions.iter().find(|p| p.name == name));
        SetPolicy {
            selection: own.and_then(|p| p.selection).unwrap_or(*selection),
            model: own.and_then(|p| p.model).unwrap_or(self.bandwidth_model),
            pattern: own.and_then(|p| p.pattern.clone()).unwrap_or_else(|| pattern.clone()),
            bandwidth: own.and_then(|p| p.bandwidth).unwrap_or(*bandwidth),
            wait: own.and_then(|p| p.wait).or(*wait),
        }
    }

    /// What the site prefers, as the placement engine takes it.
    #[must_use]
    pub fn policy(&self) -> Policy {
        let kind = |isolation: &Isolation| match isolation {
            Isolation::Mig(_) => Some(Kind::Mig),
            Isolation::Mps => Some(Kind::Mps),
            Isolation::Whole => Some(Kind::Whole),
            Isolation::Auto | Isolation::None => None,
        };
        Policy {
            auto: self.defaults.auto.iter().filter_map(kind).collect(),
            share_between_users: self.mps.share_between_users,
            max_threads: self.mps.max_threads,
            mps_threads: self.defaults.mps_threads,
            default_mem_mib: self.defaults.gpu_mem_mib,
            sets: self.sets(None),
        }
    }

    /// The node set that holds this node.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&NodeSpec> {
        self.nodes.iter().find(|spec| spec.names.iter().any(|n| n == name))
    }

    /// The limits that hold for jobs of this partition and account.
    pub fn limits_for<'a>(
        &'a self,
        partition: Option<&'a str>,
        account: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Limit> {
        let holds =
            |wanted: &Option<String>, is: Option<&str>| wanted.as_deref().is_none_or(|w| is == Some(w));
        self.limits.iter().filter(move |l| holds(&l.partition, partition) && holds(&l.account, account))
    }
}
