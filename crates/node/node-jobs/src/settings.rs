//! Settings of the node side from the site's configuration: read once, whole, and never changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gpu_rules::{MigPolicy, Purpose};
use site_config::{LeftoverProcesses, MemoryLimit, SiteConfig, Tasks};

use crate::gpu_settings::GpuSettings;
use crate::numbering::{DescribedNode, Numbering};
use node_driver::NvmlIndex;

/// Paths, programs and policies of one node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory of the device nodes: `/dev`.
    pub dev_root: PathBuf,
    /// Directory that contains `driver/nvidia-caps`: `/proc`.
    pub proc_root: PathBuf,
    /// The root of the tree of control groups: `/sys/fs/cgroup`.
    pub cgroup_root: PathBuf,
    /// The journal's directory; root's alone.
    pub state_dir: PathBuf,
    /// The directory of MPS pipes and logs; only root may write to it.
    pub run_dir: PathBuf,
    /// NVML's file name or path, as for `dlopen`.
    pub nvml_library: PathBuf,
    /// The MPS control program's absolute path.
    pub mps_control: PathBuf,
    /// The task broker's absolute path.
    pub task_broker: PathBuf,
    /// The library that is preloaded to programs whose GPU tasks do not ask themselves.
    pub task_library: PathBuf,
    /// The pool of GPU tasks, if the site has one; `%n` is replaced.
    pub tasks: Option<Tasks>,
    /// Resets one GPU, whose index replaces `%i` and whose UUID replaces `%u`. Run without a shell.
    pub gpu_reset_command: Vec<String>,
    /// Stops and starts other programs that have a GPU open, while its MIG mode has to change: `stop` or `start` replaces `%a`, the GPU's
    /// index `%i`, its UUID `%u`. Run without a shell; empty: there is none.
    pub gpu_clients_command: Vec<String>,
    /// Deadline of one operation on the node, retries included.
    pub operation_timeout: Duration,
    /// True if Tessera changes owners and modes of device nodes.
    pub manage_device_nodes: bool,
    /// Treatment of processes that are on a GPU or instance that a job is about to get.
    pub leftover_processes: LeftoverProcesses,
    /// True if jobs of different users may share one MPS daemon.
    pub share_between_users: bool,
    /// The means that keeps an MPS share within its memory.
    pub memory_limit: MemoryLimit,
    /// The GPUs that the site describes: all in NVML's order, or those that Slurm counts in its order.
    pub gpus: Vec<GpuSettings>,
    /// The node is in a power budget: a job whose cap cannot be set does not start.
    pub in_power_budget: bool,
    /// The energy that jobs use is accounted.
    pub energy: bool,
    /// Meaning of Slurm's GPU numbers on this node.
    pub numbering: Numbering,
}

impl Settings {
    /// The settings of the node of this name, which replaces `%n`. They have no GPUs where the site does not describe the node.
    #[must_use]
    pub fn of(site: &SiteConfig, name: &str) -> Self {
        let (node, mps) = (&site.node, &site.mps);
        let texts = |all: &[String]| all.iter().map(|s| s.replace("%n", name)).collect();
        let path = |p: &PathBuf| PathBuf::from(p.to_string_lossy().replace("%n", name));
        let tasks = |tasks: &Tasks| Tasks { log: tasks.log.as_ref().map(path), ..tasks.clone() };
        Self {
            dev_root: path(&node.dev_root),
            proc_root: path(&node.proc_root),
            cgroup_root: path(&node.cgroup_root),
            state_dir: path(&node.state_dir),
            run_dir: path(&node.run_dir),
            nvml_library: PathBuf::from(node.nvml_library.replace("%n", name)),
            mps_control: path(&node.mps_control),
            task_broker: path(&node.task_broker),
            task_library: path(&node.task_library),
            tasks: site.tasks.as_ref().map(tasks),
            gpu_reset_command: texts(&node.gpu_reset_command),
            gpu_clients_command: texts(&node.gpu_clients_command),
            operation_timeout: Duration::from_millis(node.operation_timeout_ms),
            manage_device_nodes: node.manage_device_nodes,
            leftover_processes: node.leftover_processes,
            share_between_users: mps.share_between_users,
            memory_limit: mps.memory_limit,
            gpus: site.node(name).map(GpuSettings::all).unwrap_or_default(),
            in_power_budget: site
                .power_budgets
                .iter()
                .any(|budget| budget.nodes.iter().any(|node| node == name)),
            energy: site.power.energy,
            numbering: Numbering::default(),
        }
    }

    /// Number of compute slices of a GPU; 1 for a GPU that the site does not describe.
    #[must_use]
    pub fn compute_slices(&self, gpu: NvmlIndex) -> u32 {
        self.described(gpu).map_or(1, |gpu| u32::from(gpu.model.compute_slices.max(1)))
    }

    /// The description of one GPU, whichever the site describes; `None` for a GPU that it does not describe.
    #[must_use]
    pub fn described(&self, gpu: NvmlIndex) -> Option<GpuSettings> {
        self.numbering.description(self, gpu)
    }

    /// Tells whether Tessera must leave a GPU alone: the site leaves it to Slurm, or neither it nor Slurm knows the GPU.
    #[must_use]
    pub fn must_not_touch(&self, gpu: NvmlIndex) -> bool {
        self.numbering.is_uncounted(self, gpu)
            || self.described(gpu).is_some_and(|d| d.purpose == Purpose::Slurm)
    }

    /// Tells whether nothing may be made, destroyed or switched on a GPU.
    #[must_use]
    pub fn is_fixed(&self, gpu: NvmlIndex) -> bool {
        self.must_not_touch(gpu) || self.described(gpu).is_some_and(|d| d.purpose == Purpose::Static)
    }

    /// Tells whether every GPU's device node is open to all users at all times, and no GPU is ever cut: CUDA then counts
    /// all of them for everybody.
    #[must_use]
    pub fn leaves_gpus_open(&self) -> bool {
        !self.manage_device_nodes && self.gpus.iter().all(|gpu| gpu.policy == MigPolicy::Off)
    }
}

impl DescribedNode for Settings {
    fn gpus(&self) -> &[GpuSettings] {
        &self.gpus
    }

    fn proc_root(&self) -> &Path {
        &self.proc_root
    }

    fn nvml_library(&self) -> &Path {
        &self.nvml_library
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn a_nodes_name_stands_in_its_paths() {
        let text = "[node]\nstate_dir = \"/s/%n\"\n[tasks]\nlog = \"/l/%n\"\n\
                    [[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 1\n";
        let (site, errors) = site_config::parse("t", text, &|_| Err(ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        let site = site.unwrap();
        let settings = Settings::of(&site, "n1");
        assert_eq!(settings.state_dir, Path::new("/s/n1"));
        assert_eq!(settings.tasks.and_then(|tasks| tasks.log).as_deref(), Some(Path::new("/l/n1")));
    }
}
