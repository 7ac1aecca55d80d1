//! The journal's records of a job and of an MPS daemon.

use std::borrow::Cow;
use std::path::PathBuf;

use geometry::{GpuIndex, JobId, Placement, Slice};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fence::FenceRecord;
use crate::format::JournalRecord;
use node_driver::gpu_ids::{GpuMinor, NvmlIndex, slurm_number};

/// Stage of a job's resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Being made: any part may exist.
    Intent,
    /// All there, and the job may use it.
    Ready,
    /// Could not be made, for this reason; nothing is held for the job.
    Failed(String),
}

/// GrantKind of the job's grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrantKind {
    /// MIG instances of its own.
    Mig,
    /// A share of a GPU or of an instance, under MPS.
    Mps,
    /// Seats on devices that GPU tasks share, under MPS.
    Tasks,
    /// GPUs that no other job uses.
    Whole,
    /// Shards that Slurm alone has given out: its other jobs with shards may be on the same GPU.
    Shards,
}

/// A GPU that a job uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuRecord {
    /// NVML's number when the job was started. It moves when a GPU goes or comes; the UUID says which GPU it is.
    pub index: NvmlIndex,
    /// N of /dev/nvidiaN when the job was started.
    pub minor: GpuMinor,
    /// `GPU-…`: which GPU it is. Every format of the journal has it.
    pub uuid: String,
    /// Slurm's number of it: see `gpu_node::Numbering`.
    #[serde(with = "slurm_number")]
    pub number: GpuIndex,
}

/// An instance that exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveInstance {
    /// GPU instance id.
    pub gi: u32,
    /// Compute instance id.
    pub ci: u32,
    /// `MIG-…`.
    pub uuid: String,
}

/// A compute instance within a GPU instance that other jobs may use as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRecord {
    /// Compute slices.
    pub slices: u8,
    /// First compute slice within the GPU instance.
    pub start: u8,
}

impl PartRecord {
    /// The compute slices as a bit mask.
    #[must_use]
    pub fn mask(self) -> u16 {
        geometry::compute_mask(self.slices, Slice(self.start))
    }
}

/// An instance that a job uses, alone or shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceRecord {
    /// NVML's index of its GPU when the job was started: names one of the entry's [`Entry::gpus`].
    pub gpu: NvmlIndex,
    /// The profile's id, unique within the GPU's model.
    pub profile: u32,
    /// The profile's name; of a compute instance its own, `4c.7g.40gb`.
    pub name: String,
    /// First placement unit.
    pub start: u8,
    /// Number of placement units.
    pub size: u8,
    /// Memory, MiB, as the driver says; of a compute instance what its job states.
    pub memory_mib: u64,
    /// The compute instance that is the job's; `None`: all of the GPU instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartRecord>,
    /// `None` until it exists.
    pub live: Option<LiveInstance>,
}

impl GpuRecord {
    /// Stem of the names of files about the GPU.
    pub fn file_stem(&self) -> String {
        crate::file_names::plain(&self.uuid)
    }
}

impl InstanceRecord {
    /// Tells whether both, which are on one GPU, are compute instances in one GPU instance without a compute slice in common.
    pub fn is_beside(&self, other: &Self) -> bool {
        let (Some(mine), Some(theirs)) = (self.part, other.part) else { return false };
        let same = (self.profile, self.placement()) == (other.profile, other.placement());
        same && mine.mask() & theirs.mask() == 0
    }

    /// The placement units that it takes.
    #[must_use]
    pub fn placement(&self) -> Placement {
        Placement { start: Slice(self.start), size: self.size }
    }
}

/// A job's share of a device under MPS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareRecord {
    /// The daemon's key: `gpu0` of a GPU, `gpu0-14-2` (profile id, start) of an instance.
    pub daemon: String,
    /// Memory of the device that the job may use, MiB.
    pub mem_mib: u64,
    /// Percent of the device's SMs.
    pub threads: u8,
    /// True if MPS holds the job to its memory.
    pub memory_enforced: bool,
    /// The daemon's pipes, for `CUDA_MPS_PIPE_DIRECTORY`.
    pub pipe_dir: PathBuf,
    /// The daemon's logs, for `CUDA_MPS_LOG_DIRECTORY`.
    pub log_dir: PathBuf,
}

/// A device that the tasks of a job may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskDevice {
    /// The key of its MPS daemon, as [`ShareRecord::daemon`]; whole GPUs of one job have one together.
    pub daemon: String,
    /// Seats there that are the job's own.
    pub seats: u32,
    /// Memory as the site describes it, MiB.
    pub memory_mib: u64,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Seats that the device has in all.
    pub workers: u32,
    /// The daemon's pipes.
    pub pipe_dir: PathBuf,
    /// The daemon's logs.
    pub log_dir: PathBuf,
}

/// A job's seats among devices that GPU tasks share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TasksRecord {
    /// Number of seats: one for each Slurm task on the node.
    pub seats: u32,
    /// Memory that each process takes from begin to end, MiB; `None`: the programs ask themselves.
    pub mem_mib: Option<u64>,
    /// The programs ask for their tasks themselves.
    pub probes: bool,
    /// Whole GPUs of the job's own, one device each.
    pub own: bool,
    /// The devices: the instances in their order, or without any the GPUs in theirs.
    pub devices: Vec<TaskDevice>,
    /// Socket on which the broker listens for the job's processes.
    pub socket: PathBuf,
    /// Library that is preloaded to programs that do not ask themselves.
    pub library: PathBuf,
}

/// A job on this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// [`crate::VERSION`].
    pub version: u32,
    /// The kernel's boot id: nothing on a GPU survives a boot.
    pub boot: String,
    /// The job's id; [`Entry::job`] gives it its type.
    pub job: u32,
    /// The job's user.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
    /// Number of times that the job was requeued.
    pub restart: u32,
    /// Why it got this, in one line.
    pub decision: String,
    /// For whole GPUs: how the set was chosen and what it promises, as `protocol::set_summary` writes it.
    pub matched: Option<String>,
    /// Stage of the job's resources.
    pub phase: Phase,
    /// GrantKind of the job's grant.
    pub kind: GrantKind,
    /// The GPUs, in the order the job sees them.
    pub gpus: Vec<GpuRecord>,
    /// The instances, in the order the job sees them; for a share inside an instance, that one.
    pub instances: Vec<InstanceRecord>,
    /// The share; `None` unless the kind is [`GrantKind::Mps`].
    pub share: Option<ShareRecord>,
    /// The seats; `None` unless the kind is [`GrantKind::Tasks`].
    #[serde(default)]
    pub tasks: Option<TasksRecord>,
    /// Device nodes under `dev_root` that were given to the job, relative to it.
    pub device_nodes: Vec<String>,
    /// The job's batch script has begun here. A prolog takes the note back. A script that begins while it stands has had
    /// no prolog.
    #[serde(default)]
    pub begun: bool,
    /// The job used none of Tessera's options.
    #[serde(default)]
    pub plain: bool,
    /// The power cap of each of its GPUs, W; the lower of it and the limit found counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_w: Option<u16>,
    /// Why a power limit is not as the jobs on the GPUs ask for, for the job's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_problem: Option<String>,
    /// Name of its control group, if that is not `job_` and its number: in the tree of version 2, Slurm 26.05 names it by the
    /// job's SLUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Limits of its control group on its GPUs' memory, if the kernel has regions for them and the job is counted in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<FenceRecord>,
}

/// Tells whether this is a SLUID, Slurm's second number of a job: `s` and 13 digits of Crockford's base 32 [`print_sluid`,
/// `sluid.c` of 25.11 and 26.05].
#[must_use]
pub fn is_sluid(name: &str) -> bool {
    let is_digit = |b: u8| b.is_ascii_digit() || b.is_ascii_uppercase() && !b"ILOU".contains(&b);
    name.strip_prefix('s').is_some_and(|digits| digits.len() == 13 && digits.bytes().all(is_digit))
}

impl JournalRecord for Entry {
    fn file_name(&self) -> String {
        crate::file_names::file_of(self.job())
    }

    /// A GPU without `number` had its `index` as that.
    fn upgrade_from_1(record: &mut Map<String, Value>) {
        let gpus = record.get_mut("gpus").and_then(Value::as_array_mut);
        for gpu in gpus.into_iter().flatten().filter_map(Value::as_object_mut) {
            if let Some(index) = gpu.get("index").cloned() {
                gpu.entry("number").or_insert(index);
            }
        }
    }
}

impl Entry {
    /// The job's id.
    #[must_use]
    pub fn job(&self) -> JobId {
        JobId(self.job)
    }

    /// Name of its control group within that of slurmstepd, in the tree of version 2.
    #[must_use]
    pub fn group_name(&self) -> Cow<'_, str> {
        self.group.as_deref().map_or_else(|| format!("job_{}", self.job).into(), Cow::from)
    }

    /// True for the name of its control group in any version of the kernel's trees.
    #[must_use]
    pub fn is_group(&self, name: &str) -> bool {
        let by_number = || name.strip_prefix("job_").is_some_and(|id| id.parse() == Ok(self.job));
        self.group.as_deref() == Some(name) || by_number()
    }

    /// True while GPUs, instances or shares are held for the job.
    #[must_use]
    pub fn holds(&self) -> bool {
        !matches!(self.phase, Phase::Failed(_))
    }

    /// True where device nodes may have been given to the job.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.holds() && (self.phase == Phase::Ready || !self.device_nodes.is_empty())
    }

    /// True if the kernel lets the job take no more GPU memory than is counted for it.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        self.fence.as_ref().is_some_and(FenceRecord::holds)
    }

    /// The MPS daemons that the job uses, by key, each once.
    #[must_use]
    pub fn daemons(&self) -> Vec<&str> {
        let of_tasks = self.tasks.iter().flat_map(|t| &t.devices).map(|d| d.daemon.as_str());
        let mut keys: Vec<&str> = self.share.iter().map(|s| s.daemon.as_str()).chain(of_tasks).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The UUID of a device of its tasks, by its place among them; `None` until it exists.
    #[must_use]
    pub fn task_device_uuid(&self, place: usize) -> Option<&str> {
        if self.instances.is_empty() {
            return self.gpus.get(place).map(|gpu| gpu.uuid.as_str());
        }
        self.instances.get(place)?.live.as_ref().map(|live| live.uuid.as_str())
    }

    /// True where no other job may use its GPUs.
    #[must_use]
    pub fn has_whole_gpus(&self) -> bool {
        self.kind == GrantKind::Whole || self.tasks.as_ref().is_some_and(|tasks| tasks.own)
    }

    /// True where other jobs may use its device through MPS.
    #[must_use]
    pub fn shares_device(&self) -> bool {
        self.kind == GrantKind::Mps || self.tasks.as_ref().is_some_and(|tasks| !tasks.own)
    }

    /// True where the job uses the GPU with this UUID in any way.
    #[must_use]
    pub fn uses(&self, uuid: &str) -> bool {
        self.gpus.iter().any(|g| g.uuid == uuid)
    }

    /// The GPU of one of the job's instances, as it was when the job was started.
    #[must_use]
    pub fn gpu_of(&self, instance: &InstanceRecord) -> Option<&GpuRecord> {
        self.gpus.iter().find(|g| g.index == instance.gpu)
    }

    /// NVML's number of the GPU that has this UUID, or on which the instance with it is, as it was when the job was started.
    #[must_use]
    pub fn gpu_with(&self, uuid: &str) -> Option<NvmlIndex> {
        let has = |i: &&InstanceRecord| i.live.as_ref().is_some_and(|live| live.uuid == uuid);
        let with_instance = || self.instances.iter().find(has).map(|i| i.gpu);
        self.gpus.iter().find(|g| g.uuid == uuid).map(|g| g.index).or_else(with_instance)
    }

    /// The job's instances on the GPU with this UUID.
    pub fn instances_on(&self, uuid: &str) -> impl Iterator<Item = &InstanceRecord> {
        self.instances.iter().filter(move |i| self.gpu_of(i).is_some_and(|g| g.uuid == uuid))
    }
}

/// An MPS control daemon that we started or are about to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonRecord {
    /// [`crate::VERSION`].
    pub version: u32,
    /// The kernel's boot id.
    pub boot: String,
    /// Key: `gpu0` of a GPU, `gpu0-14-2` (profile id, start) of an instance.
    pub key: String,
    /// The user it runs as.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
    /// UUID of the GPU or instance it serves.
    pub device: String,
    /// Process id and start time in clock ticks since boot; `None` until it runs.
    pub process: Option<(u32, u64)>,
}

impl JournalRecord for DaemonRecord {
    fn file_name(&self) -> String {
        crate::file_names::file_of_key(&self.key)
    }
}
