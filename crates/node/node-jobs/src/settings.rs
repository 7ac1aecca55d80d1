//! Settings of the node side from the site's configuration: read once, whole, and never changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use job_usage::Places;
use node_state::{Gpu, MigPolicy, Purpose};
use site_config::{LeftoverProcesses, MemoryLimit, Mps, NodeSettings, SiteConfig, Tasks};

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

/// Gives `[node]` on one node: `%n` is its name.
#[must_use]
pub fn for_node(settings: &NodeSettings, name: &str) -> NodeSettings {
    let text = |s: &str| s.replace("%n", name);
    let path = |p: &PathBuf| PathBuf::from(text(&p.to_string_lossy()));
    NodeSettings {
        dev_root: path(&settings.dev_root),
        proc_root: path(&settings.proc_root),
        cgroup_root: path(&settings.cgroup_root),
        state_dir: path(&settings.state_dir),
        run_dir: path(&settings.run_dir),
        nvml_library: text(&settings.nvml_library),
        mps_control: path(&settings.mps_control),
        task_broker: path(&settings.task_broker),
        task_library: path(&settings.task_library),
        gpu_reset_command: settings.gpu_reset_command.iter().map(|s| text(s)).collect(),
        gpu_clients_command: settings.gpu_clients_command.iter().map(|s| text(s)).collect(),
        ..*settings
    }
}

impl Settings {
    /// The settings of one node. `node` has its `%n` replaced already ([`for_node`]); `gpus` are the
    /// node's as [`site_config::NodeSpec::to_node`] gives them; none where nobody describes them.
    #[must_use]
    pub fn new(node: &NodeSettings, mps: &Mps, gpus: &[Gpu]) -> Self {
        Self {
            dev_root: node.dev_root.clone(),
            proc_root: node.proc_root.clone(),
            cgroup_root: node.cgroup_root.clone(),
            state_dir: node.state_dir.clone(),
            run_dir: node.run_dir.clone(),
            nvml_library: PathBuf::from(&node.nvml_library),
            mps_control: node.mps_control.clone(),
            task_broker: node.task_broker.clone(),
            task_library: node.task_library.clone(),
            tasks: None,
            gpu_reset_command: node.gpu_reset_command.clone(),
            gpu_clients_command: node.gpu_clients_command.clone(),
            operation_timeout: Duration::from_millis(node.operation_timeout_ms),
            manage_device_nodes: node.manage_device_nodes,
            leftover_processes: node.leftover_processes,
            share_between_users: mps.share_between_users,
            memory_limit: mps.memory_limit,
            gpus: gpus.iter().map(GpuSettings::of).collect(),
            in_power_budget: false,
            energy: false,
            numbering: Numbering::default(),
        }
    }

    /// Gives the paths of the journal and the driver.
    #[must_use]
    pub fn places(&self) -> Places {
        Places { state_dir: self.state_dir.clone(), nvml_library: self.nvml_library.clone() }
    }

    /// Number of compute slices of a GPU; 1 for a GPU that the site does not describe.
    #[must_use]
    pub fn compute_slices(&self, gpu: NvmlIndex) -> u32 {
        self.described(gpu).map_or(1, |gpu| u32::from(gpu.model.compute_slices.max(1)))
    }

    /// Returns the settings with accounting of the energy that jobs use turned on or off.
    #[must_use]
    pub fn with_energy(self, energy: bool) -> Self {
        Self { energy, ..self }
    }

    /// Returns the settings with whether the node of this name is in one of the site's power budgets.
    #[must_use]
    pub fn with_budget(self, site: &SiteConfig, name: &str) -> Self {
        let in_power_budget = site.power_budgets.iter().any(|budget| budget.nodes.iter().any(|n| n == name));
        Self { in_power_budget, ..self }
    }

    /// Returns the settings with the site's pool of GPU tasks, on the node of this name.
    #[must_use]
    pub fn with_tasks(self, tasks: Option<&Tasks>, name: &str) -> Self {
        let here = |path: &PathBuf| PathBuf::from(path.to_string_lossy().replace("%n", name));
        let tasks = tasks.map(|tasks| Tasks { log: tasks.log.as_ref().map(here), ..tasks.clone() });
        Self { tasks, ..self }
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
        let settings =
            Settings::new(&for_node(&site.node, "n1"), &site.mps, &[]).with_tasks(site.tasks.as_ref(), "n1");
        assert_eq!(settings.state_dir, Path::new("/s/n1"));
        assert_eq!(settings.tasks.and_then(|tasks| tasks.log).as_deref(), Some(Path::new("/l/n1")));
    }
}
