//! What a node file may say, and the node that it describes.

use serde::{Deserialize, Serialize};

/// A node file, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFile {
    /// Goes into the UUIDs, so that two nodes of one description differ.
    #[serde(default)]
    pub name: Option<String>,
    /// What `nvmlSystemGetDriverVersion` answers.
    #[serde(default = "default_driver")]
    pub driver_version: String,
    /// CUDA version, `12.8`.
    #[serde(default = "default_cuda")]
    pub cuda_version: String,
    /// Factor on the creation and destruction times; 0 for none.
    #[serde(default)]
    pub time_scale: f64,
    /// Permission bits of a new instance's capability node, octal text. The driver's own is 0444.
    #[serde(default = "default_cap_mode")]
    pub cap_mode: String,
    /// Whether the driver's helper makes and changes device nodes, as with `NVreg_ModifyDeviceFiles=1`, the driver's default.
    #[serde(default = "yes")]
    pub modify_device_files: bool,
    /// Named interconnect: one of placement's `data/systems.toml`, `nvswitch` or `none`.
    #[serde(default)]
    pub interconnect: Option<String>,
    /// Number of NVLink connections between each pair of GPUs; instead of `interconnect`.
    #[serde(default)]
    pub links: Option<Vec<Vec<u32>>>,
    /// NVLink generation, if it is neither the named system's nor the GPUs' own.
    #[serde(default)]
    pub nvlink: Option<u8>,
    /// NVLinks that are down at the start: GPU and its link number; the other end is down too.
    #[serde(default)]
    pub links_down: Option<Vec<(u32, u32)>>,
    /// Topology level of each pair: `internal`, `single`, `multiple`, `hostbridge`, `node`, `system`.
    #[serde(default)]
    pub levels: Option<Vec<Vec<String>>>,
    /// True where `SetMigMode` on Ampere resets an unused GPU by itself, as a bare-metal driver does.
    #[serde(default)]
    pub set_mode_resets: bool,
    /// How long a killed CUDA program's memory stays taken, milliseconds.
    #[serde(default = "default_late_free")]
    pub late_free_ms: u64,
    /// Device memory that a CUDA context takes, MiB; without it, by the device's SMs.
    #[serde(default)]
    pub context_mib: Option<u64>,
    /// GPUs, in NVML order.
    pub gpus: Vec<GpuGroup>,
}

/// `count` equal GPUs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuGroup {
    /// Model key or NVML name.
    pub model: String,
    /// Name to report, if it is not the model's first one.
    #[serde(default)]
    pub name: Option<String>,
    /// How many GPUs of this description there are.
    #[serde(default = "one")]
    pub count: u32,
    /// MIG mode at the start: `on` or `off`.
    #[serde(default)]
    pub mig: Option<String>,
    /// PCI bus ids `0000:07:00.0`, one per GPU.
    #[serde(default)]
    pub pci: Vec<String>,
    /// NUMA node of each GPU.
    #[serde(default)]
    pub numa: Vec<u32>,
    /// CPUs near each GPU: `0-15,32-47`.
    #[serde(default)]
    pub cpus: Vec<String>,
    /// Default power limit in W, if it is not the board's.
    #[serde(default)]
    pub power_w: Option<u32>,
    /// Lowest power limit in W, if it is not the board's.
    #[serde(default)]
    pub min_power_w: Option<u32>,
}

fn default_driver() -> String {
    "570.133.20".into()
}
fn default_cuda() -> String {
    "12.8".into()
}
fn yes() -> bool {
    true
}

fn default_cap_mode() -> String {
    "0444".into()
}
fn one() -> u32 {
    1
}
fn default_late_free() -> u64 {
    500
}

/// A described GPU, with every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuSpec {
    /// The model's key in `geometry`.
    pub model: String,
    /// Name to report.
    pub name: String,
    /// `GPU-…`.
    pub uuid: String,
    /// Serial number of the board.
    pub serial: String,
    /// PCI domain, bus, device.
    pub pci: [u32; 3],
    /// The NUMA node that the GPU is nearest to.
    pub numa: u32,
    /// CPUs near it, as inclusive ranges.
    pub cpus: Vec<(u32, u32)>,
    /// Lowest power limit, mW.
    pub power_min_mw: u32,
    /// Default and highest power limit, mW.
    pub power_default_mw: u32,
}

/// A described node, with every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The node's name, part of every UUID.
    pub name: String,
    /// What `nvmlSystemGetDriverVersion` answers.
    pub driver_version: String,
    /// CUDA version times 1000, as NVML gives it: 12080.
    pub cuda_version: i32,
    /// Factor on the creation and destruction times.
    pub time_scale: f64,
    /// Permission bits of a new instance's capability node.
    pub cap_mode: u32,
    /// Whether a new instance gets its capability nodes from the driver's helper.
    pub modify_device_files: bool,
    /// NVLink connections per pair.
    pub links: Vec<Vec<u32>>,
    /// NVLink connections of each GPU to NVSwitches.
    pub switch_links: Vec<u32>,
    /// NVLink version as NVML numbers it, where it is not that of each GPU's chip.
    pub nvlink_version: Option<u32>,
    /// NVML topology level per pair.
    pub levels: Vec<Vec<u32>>,
    /// Whether `SetMigMode` resets an unused Ampere GPU: see [`NodeFile::set_mode_resets`].
    pub set_mode_resets: bool,
    /// How long a killed CUDA program's memory stays taken, milliseconds.
    pub late_free_ms: u64,
    /// Device memory that a CUDA context takes, MiB: see [`NodeFile::context_mib`].
    pub context_mib: Option<u64>,
    /// GPUs, in NVML order.
    pub gpus: Vec<GpuSpec>,
}

/// A node file that cannot be simulated, in a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NodeError(pub String);

pub(super) fn fail<T>(message: impl Into<String>) -> Result<T, NodeError> {
    Err(NodeError(message.into()))
}

/// How a node starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// GPUs in MIG mode, by index.
    pub mig: Vec<bool>,
    /// Ends of NVLinks that are down: GPU, link.
    pub links_down: Vec<(u32, u32)>,
}
