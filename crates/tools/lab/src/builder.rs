//! Lays out a cluster's files and starts its daemons.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use slurm_releases::Release;

use crate::artefacts::{self, Profile};
use crate::cluster::Cluster;
use crate::command::PATIENCE;
use crate::config::{CGROUPS, Templates, Variant};
use crate::daemon::Daemon;
use crate::error::HarnessError;
use crate::files::{check_reachable, fresh_dir, make_dirs, write_config};
use crate::inside::Inside;
use crate::layout::Layout;
use crate::slurm::Slurm;
use crate::{accounting, backup, clock, sim, small_disk};

/// Describes a cluster; [`Builder::start`] makes it.
#[derive(Debug)]
pub struct Builder {
    dir: Option<PathBuf>,
    slurm: Option<Slurm>,
    package_root: Option<PathBuf>,
    unpacked: Option<PathBuf>,
    profile: Profile,
    stock: bool,
    simulated: bool,
    templates: Option<Templates>,
    guardian: Option<Vec<String>>,
    extra_slurm_conf: String,
    accounting: bool,
    state_kib: Option<u32>,
    run_room: Option<(u32, u32)>,
    device_cgroup: bool,
    backup: bool,
    by_host_name: bool,
    clocks: bool,
    detects: bool,
}

impl Cluster {
    /// A cluster from the project's example files: two nodes with Tessera's plugins, in a new directory.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            dir: None,
            slurm: None,
            package_root: None,
            unpacked: None,
            profile: Profile::Debug,
            stock: false,
            simulated: false,
            templates: None,
            guardian: None,
            extra_slurm_conf: String::new(),
            accounting: false,
            state_kib: None,
            run_room: None,
            device_cgroup: false,
            backup: false,
            by_host_name: false,
            clocks: false,
            detects: false,
        }
    }
}

impl Builder {
    /// Uses `dir` and leaves it in place. Without this, the cluster uses a new directory in `/tmp` and removes it.
    #[must_use]
    pub fn dir(mut self, dir: &Path) -> Self {
        self.dir = Some(dir.to_path_buf());
        self
    }

    /// Runs this Slurm instead of [`Slurm::by_default`]: a series of the set-up, or one that somebody has built.
    #[must_use]
    pub fn slurm(mut self, slurm: impl Into<Slurm>) -> Self {
        self.slurm = Some(slurm.into());
        self
    }

    /// Runs the Slurm that is installed in `root`, a copy of its Debian, with the Tessera that is installed there as a package.
    #[must_use]
    pub fn package_root(mut self, root: &Path) -> Self {
        self.package_root = Some(root.to_path_buf());
        self
    }

    /// Takes Tessera's programs and plugins from a directory in which a package was unpacked. cargo builds the simulator.
    #[must_use]
    pub fn unpacked(mut self, root: &Path) -> Self {
        self.unpacked = Some(root.to_path_buf());
        self
    }

    /// Builds for release instead of debugging.
    #[must_use]
    pub fn release(mut self) -> Self {
        self.profile = Profile::Release;
        self
    }

    /// Runs Slurm alone, without any part of Tessera, for comparison.
    #[must_use]
    pub fn stock(mut self, stock: bool) -> Self {
        self.stock = stock;
        self
    }

    /// Gives a cluster without Tessera the simulated GPUs and their programs too.
    #[must_use]
    pub fn simulated(mut self) -> Self {
        self.simulated = true;
        self
    }

    /// Uses these files instead of the project's examples.
    #[must_use]
    pub fn templates(mut self, templates: Templates) -> Self {
        self.templates = Some(templates);
        self
    }

    /// Adds lines to slurm.conf. They replace added ones that set the same option.
    #[must_use]
    pub fn slurm_conf(mut self, lines: &str) -> Self {
        let option = |line: &str| line.split('=').next().unwrap_or("").to_owned();
        let new: Vec<String> = lines.lines().map(option).collect();
        let stays = |line: &&str| option(line).ends_with("Name") || !new.contains(&option(line));
        let before = self.extra_slurm_conf.lines().filter(stays);
        self.extra_slurm_conf = before.chain(lines.lines()).map(|line| format!("{line}\n")).collect();
        self
    }

    /// Holds every task to its own GPUs by Slurm's device cgroup, where [`device_cgroups`] says that the machine has one.
    ///
    /// Slurm names a node's cgroup after the node: no other cluster on the machine may have nodes of the same names. Only tried
    /// on the machine's own Slurm, which is the default then.
    #[must_use]
    pub fn device_cgroup(mut self) -> Self {
        self.device_cgroup = true;
        self
    }

    /// Adds slurmdbd and its database, so that `sacct` lists jobs. The machine's own Slurm is the default then; the chroots of
    /// the set-up have a slurmdbd too.
    #[must_use]
    pub fn accounting(mut self) -> Self {
        self.accounting = true;
        self
    }

    /// Adds a second slurmctld that takes over when the first is gone.
    #[must_use]
    pub fn backup(mut self) -> Self {
        self.backup = true;
        self
    }

    /// Starts slurmd without its node's name, which it then finds by this machine's host name, as on a site's nodes. For a
    /// cluster of one node.
    #[must_use]
    pub fn by_host_name(mut self) -> Self {
        self.by_host_name = true;
        self
    }

    /// Lets slurmd find GPUs by itself, as gres.conf then says: it sees those of its node in `/dev`, `/proc` and `/sys`, and Slurm's
    /// own gpu_nvml.so is in `PluginDir`, if there is one.
    #[must_use]
    pub fn autodetect(mut self) -> Self {
        self.detects = true;
        self
    }

    /// Gives each node, and the controllers, a clock that [`Cluster::set_clock`] sets. munged keeps the machine's.
    #[must_use]
    pub fn clocks(mut self) -> Self {
        self.clocks = true;
        self
    }

    /// Gives the state of each node a file system of its own of this size, which a test can fill.
    #[must_use]
    pub fn small_state(mut self, kib: u32) -> Self {
        self.state_kib = Some(kib);
        self
    }

    /// Gives the run directory of each node a file system of its own of this size and with so many inodes, which a user's files
    /// can fill.
    #[must_use]
    pub fn small_run(mut self, kib: u32, inodes: u32) -> Self {
        self.run_room = Some((kib, inodes));
        self
    }

    /// The program that ends the cluster when its stdin closes, even if this process is killed: [`crate::guardian::main`]
    /// in some binary. Its further arguments are the cluster's directory, and `remove` if the directory is to be removed.
    #[must_use]
    pub fn guardian(mut self, program: Vec<String>) -> Self {
        self.guardian = Some(program);
        self
    }

    /// Builds, lays out, starts, and waits until every node is idle.
    ///
    /// # Errors
    ///
    /// The step that failed. If a daemon did not start, the error has the end of its log.
    pub fn start(self) -> Result<Cluster, HarnessError> {
        let (accounting, backup) = (self.accounting, self.backup);
        let mut cluster = self.lay_out()?;
        cluster.start(&Daemon::Namespace)?;
        cluster.start(&Daemon::Munged)?;
        cluster.wait_munged()?;
        if accounting {
            accounting::start(&mut cluster)?;
        }
        cluster.start(&Daemon::Slurmctld)?;
        if backup {
            cluster.wait_primary()?;
            cluster.start(&Daemon::Backup)?;
        }
        for node in cluster.nodes.clone() {
            cluster.start(&Daemon::Slurmd(node))?;
        }
        cluster.wait_ready(PATIENCE)?;
        cluster.wait_spoken(PATIENCE)?;
        Ok(cluster)
    }

    /// Everything but starting the daemons.
    ///
    /// # Errors
    ///
    /// What could not be built or written.
    pub fn lay_out(self) -> Result<Cluster, HarnessError> {
        let mut templates = self.templates.map_or_else(Templates::shipped, Ok)?;
        if self.device_cgroup {
            templates.use_device_cgroup();
        }
        let machine_only = self.accounting || self.device_cgroup;
        let default = || if machine_only { Ok(Release::MACHINE.into()) } else { Slurm::by_default() };
        let slurm = self.slurm.map_or_else(default, Ok)?;
        if !self.stock || self.simulated {
            artefacts::build(self.profile)?;
        }
        let (dir, remove_dir) = match self.dir {
            Some(dir) => (dir, false),
            None => (fresh_dir()?, true),
        };
        let layout = Layout::new(&dir);
        check_reachable(&dir)?;
        make_dirs(&layout, &templates.node_names())?;
        let cluster = Cluster {
            inside: Inside {
                chroot: self.package_root.clone().or_else(|| slurm.chroot()),
                detects: self.detects,
            },
            guardian: self.guardian.map(|program| start_guardian(&program, &dir, remove_dir)).transpose()?,
            nodes: templates.node_names(),
            slurm,
            children: Vec::new(),
            keep: false,
            by_host_name: self.by_host_name,
            remove_dir,
            layout,
        };
        cluster.describe()?;
        if let Some(kib) = self.state_kib {
            cluster
                .nodes
                .iter()
                .try_for_each(|node| small_disk::mount(&cluster.layout, node, "state", kib, None))?;
        }
        if let Some((kib, inodes)) = self.run_room {
            cluster
                .nodes
                .iter()
                .try_for_each(|node| small_disk::mount(&cluster.layout, node, "run", kib, Some(inodes)))?;
        }
        let (stock, accounting, packaged) = (self.stock, self.accounting, self.package_root.is_some());
        write_config(&cluster, &templates, Variant { stock, accounting, packaged }, &self.extra_slurm_conf)?;
        if self.clocks {
            clock::lay_out(&cluster.layout, &cluster.nodes)?;
        }
        if self.backup {
            backup::lay_out(&cluster.layout)?;
        }
        if self.accounting {
            accounting::lay_out(&cluster)?;
        }
        if !self.stock || self.simulated {
            artefacts::install_common(&cluster.layout, self.profile)?;
            if let Some(root) = &self.unpacked {
                artefacts::install_packaged(&cluster.layout, root)?;
            }
            if self.detects {
                artefacts::install_autodetect(&cluster.layout, &cluster.slurm, self.profile)?;
            }
            sim::create_nodes(&cluster, &templates, self.stock)?;
        }
        if self.stock {
            sim::plain_device_nodes(&cluster.layout, &templates)?;
        } else if !packaged {
            let built = || artefacts::plugins(self.profile);
            let plugins = self.unpacked.as_deref().map_or_else(built, artefacts::packaged_plugins);
            artefacts::install_plugins(&cluster.layout, &cluster.slurm, &plugins)?;
        }
        Ok(cluster)
    }
}

/// True if this machine has the cgroups that [`Builder::device_cgroup`] needs: version 1, and root may write to them.
#[must_use]
pub fn device_cgroups() -> bool {
    ["devices/devices.deny", "freezer/cgroup.procs"]
        .iter()
        .all(|file| std::fs::OpenOptions::new().write(true).open(Path::new(CGROUPS).join(file)).is_ok())
}

pub(crate) fn start_guardian(
    program: &[String],
    dir: &Path,
    remove: bool,
) -> Result<std::process::Child, HarnessError> {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).arg(dir).stdin(Stdio::piped()).stdout(Stdio::null());
    command.args(remove.then_some("remove"));
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().map_err(|source| HarnessError::Start { program: program[0].clone(), source })
}
