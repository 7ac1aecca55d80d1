//! What the node side needs from the site's configuration: read once, whole, and never changed.

use std::path::PathBuf;
use std::time::Duration;

use geometry::Model;
use node_state::{MigPolicy, Node};
use site_config::{MemoryLimit, Mps, NodeSettings};

use crate::gpu_ids::NvmlIndex;

/// The model and MIG policy of one GPU, as the site describes it.
#[derive(Clone, Copy, Debug)]
pub struct GpuSettings {
    /// The geometry to expect.
    pub model: &'static Model,
    /// Whether it may be partitioned.
    pub policy: MigPolicy,
}

/// Paths, programs and policies of one node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where device nodes are: `/dev`.
    pub dev_root: PathBuf,
    /// Where `driver/nvidia-caps` is: `/proc`.
    pub proc_root: PathBuf,
    /// The journal's directory; root's alone.
    pub state_dir: PathBuf,
    /// The directory of MPS pipes and logs; only root may write to it.
    pub run_dir: PathBuf,
    /// NVML's file name or path, as for `dlopen`.
    pub nvml_library: PathBuf,
    /// The MPS control program's name or path.
    pub mps_control: PathBuf,
    /// Resets one GPU, whose index replaces `%i` and whose UUID replaces `%u`. Run without a shell.
    pub gpu_reset_command: Vec<String>,
    /// Deadline of one operation on the node, retries included.
    pub operation_timeout: Duration,
    /// Whether owners and modes of device nodes are changed.
    pub manage_device_nodes: bool,
    /// Whether jobs of different users may share one MPS daemon.
    pub share_between_users: bool,
    /// What holds an MPS share to its memory.
    pub memory_limit: MemoryLimit,
    /// The GPUs that the site describes: all in NVML's order, or those that Slurm counts in its order.
    pub gpus: Vec<GpuSettings>,
}

impl Settings {
    /// The settings of one node. `node` has its `%n` replaced already ([`NodeSettings::for_node`]); `gpus` is the
    /// node as [`site_config::NodeSpec::to_node`] gives it.
    #[must_use]
    pub fn new(node: &NodeSettings, mps: &Mps, gpus: &Node) -> Self {
        Self {
            dev_root: node.dev_root.clone(),
            proc_root: node.proc_root.clone(),
            state_dir: node.state_dir.clone(),
            run_dir: node.run_dir.clone(),
            nvml_library: PathBuf::from(&node.nvml_library),
            mps_control: PathBuf::from(&node.mps_control),
            gpu_reset_command: node.gpu_reset_command.clone(),
            operation_timeout: Duration::from_millis(node.operation_timeout_ms),
            manage_device_nodes: node.manage_device_nodes,
            share_between_users: mps.share_between_users,
            memory_limit: mps.memory_limit,
            gpus: gpus.gpus.iter().map(|g| GpuSettings { model: g.model, policy: g.policy }).collect(),
        }
    }

    /// The description of one GPU, where the site describes all of the node in NVML's order; `None` for a GPU that it does
    /// not describe.
    #[must_use]
    pub fn gpu(&self, gpu: NvmlIndex) -> Option<GpuSettings> {
        self.gpus.get(usize::from(gpu.0)).copied()
    }
}
