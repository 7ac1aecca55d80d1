//! Settings of the node side from the site's configuration: read once, whole, and never changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gpu_rules::{MigPolicy, Purpose};
use site_config::{MemoryLimit, NodeSettings, SiteConfig, Tasks};

use crate::gpu_settings::GpuSettings;
use crate::numbering::{DescribedNode, Numbering};
use node_driver::NvmlIndex;

/// Paths, programs and policies of one node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `[node]`, with the node's name in its paths.
    pub node: NodeSettings,
    /// The pool of GPU tasks, if the site has one; `%n` is replaced.
    pub tasks: Option<Tasks>,
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
        let node = &site.node;
        let texts = |all: &[String]| all.iter().map(|s| s.replace("%n", name)).collect();
        let path = |p: &PathBuf| PathBuf::from(p.to_string_lossy().replace("%n", name));
        let tasks = |tasks: &Tasks| Tasks { log: tasks.log.as_ref().map(path), ..tasks.clone() };
        Self {
            node: NodeSettings {
                dev_root: path(&node.dev_root),
                proc_root: path(&node.proc_root),
                cgroup_root: path(&node.cgroup_root),
                state_dir: path(&node.state_dir),
                run_dir: path(&node.run_dir),
                nvml_library: path(&node.nvml_library),
                mps_control: path(&node.mps_control),
                task_broker: path(&node.task_broker),
                task_library: path(&node.task_library),
                gpu_reset_command: texts(&node.gpu_reset_command),
                gpu_clients_command: texts(&node.gpu_clients_command),
                ..*node
            },
            tasks: site.tasks.as_ref().map(tasks),
            share_between_users: site.mps.share_between_users,
            memory_limit: site.mps.memory_limit,
            gpus: site.node(name).map(GpuSettings::all).unwrap_or_default(),
            in_power_budget: site
                .power_budgets
                .iter()
                .any(|budget| budget.nodes.iter().any(|node| node == name)),
            energy: site.power.energy,
            numbering: Numbering::default(),
        }
    }

    /// Deadline of one operation on the node, retries included.
    #[must_use]
    pub fn operation_timeout(&self) -> Duration {
        Duration::from_millis(self.node.operation_timeout_ms)
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
        !self.node.manage_device_nodes && self.gpus.iter().all(|gpu| gpu.policy == MigPolicy::Off)
    }
}

impl DescribedNode for Settings {
    fn gpus(&self) -> &[GpuSettings] {
        &self.gpus
    }

    fn proc_root(&self) -> &Path {
        &self.node.proc_root
    }

    fn nvml_library(&self) -> &Path {
        &self.node.nvml_library
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
        assert_eq!(settings.node.state_dir, Path::new("/s/n1"));
        assert_eq!(settings.tasks.and_then(|tasks| tasks.log).as_deref(), Some(Path::new("/l/n1")));
    }
}
