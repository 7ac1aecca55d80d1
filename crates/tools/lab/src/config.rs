//! The configuration of Slurm and Tessera: the project's example files, with directories, hosts and ports replaced.

use std::fs;
use std::path::Path;

use crate::error::{HarnessError, at};
use crate::layout::Layout;
use crate::paths::workspace;

/// Mount point of cgroups of version 1.
pub(crate) const CGROUPS: &str = "/sys/fs/cgroup";

/// Directory in which a package puts the plugins.
const PACKAGED_PLUGINS: &str = "/usr/lib/tessera";

/// The text of the configuration files, as shipped or as a test changes them.
#[derive(Debug, Clone)]
pub struct Templates {
    /// slurm.conf
    pub slurm: String,
    /// gres.conf
    pub gres: String,
    /// plugstack.conf
    pub plugstack: String,
    /// tessera.toml
    pub tessera: String,
    /// tessera-health
    pub health: String,
    /// cgroup.conf, after the line that names the plugin
    pub cgroup: String,
    /// How long the simulated driver takes for an instance, as a multiple of the real one's time.
    pub time_scale: f64,
}

impl Templates {
    /// The example files of the project.
    ///
    /// # Errors
    ///
    /// The file that cannot be read.
    pub fn shipped() -> Result<Self, HarnessError> {
        let read = |path: &str| {
            let path = workspace().join(path);
            at(&path, fs::read_to_string(&path))
        };
        Ok(Self {
            slurm: without_cgroups(&read("slurm.conf.example")?),
            gres: read("contrib/example/gres.conf")?,
            plugstack: read("contrib/example/plugstack.conf")?,
            tessera: read("contrib/example/tessera.toml")?,
            health: read("contrib/example/tessera-health")?,
            cgroup: String::new(),
            time_scale: 0.0,
        })
    }

    /// See [`crate::Builder::device_cgroup`].
    pub(crate) fn use_device_cgroup(&mut self) {
        self.slurm = self
            .slurm
            .replace(LINUXPROC, "ProctrackType=proctrack/cgroup")
            .replace(NO_TASK_PLUGIN, "TaskPlugin=task/cgroup");
        self.cgroup += &format!("CgroupMountpoint={CGROUPS}\nConstrainDevices=yes\n");
    }

    /// Gives every node another name, in all files.
    pub fn rename_nodes(&mut self, name: impl Fn(&str) -> String) {
        for old in self.node_names() {
            let new = name(&old);
            for key in ["NodeName=", "NodeHostname="] {
                let (from, to) = (format!("{key}{old} "), format!("{key}{new} "));
                self.slurm = self.slurm.replace(&from, &to);
                self.gres = self.gres.replace(&from, &to);
            }
            self.tessera = self.tessera.replace(&format!("names = \"{old}\""), &format!("names = \"{new}\""));
        }
    }

    /// Names of the nodes in slurm.conf, in order. The harness reads plain names only, no lists.
    #[must_use]
    pub fn node_names(&self) -> Vec<String> {
        let name = |line: &str| line.strip_prefix("NodeName=")?.split_whitespace().next().map(str::to_owned);
        self.slurm.lines().filter_map(name).collect()
    }
}

const LINUXPROC: &str = "ProctrackType=proctrack/linuxproc";
const NO_TASK_PLUGIN: &str = "TaskPlugin=task/none";

/// Not every machine that runs tests has control groups.
fn without_cgroups(slurm_conf: &str) -> String {
    let line = |line: &str| match line.split('=').next() {
        Some("ProctrackType") => format!("{LINUXPROC}\n"),
        Some("TaskPlugin") => format!("{NO_TASK_PLUGIN}\n"),
        _ => format!("{line}\n"),
    };
    slurm_conf.lines().map(line).collect()
}

/// Differences between two clusters on one machine.
#[derive(Debug, Clone)]
pub(crate) struct Place<'a> {
    pub(crate) layout: &'a Layout,
    /// Host name of this machine.
    pub(crate) host: &'a str,
    pub(crate) controller_port: u16,
    /// Ports of the nodes, in the order of slurm.conf.
    pub(crate) node_ports: &'a [u16],
    /// Directory of Slurm's own plugins, as the daemons see it.
    pub(crate) slurm_plugins: &'a str,
    pub(crate) variant: Variant,
}

/// Parts of a cluster, and their origin.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Variant {
    /// Slurm alone, without any part of Tessera.
    pub(crate) stock: bool,
    /// With a slurmdbd of its own: only then does Slurm start with TRES to account.
    pub(crate) accounting: bool,
    /// Tessera is installed as a package, not in the cluster's directory.
    pub(crate) packaged: bool,
}

impl Place<'_> {
    /// Directory of the `tessera` command.
    fn programs(&self) -> String {
        if self.variant.packaged { "/usr/bin".to_owned() } else { self.path("bin") }
    }

    fn path(&self, below: &str) -> String {
        self.layout.at(below).display().to_string()
    }

    /// slurm.conf for this place.
    pub(crate) fn slurm(&self, text: &str) -> String {
        let mut ports = self.node_ports.iter();
        let mut out = String::new();
        for line in text.lines() {
            if line.starts_with("NodeName=") {
                let port = ports.next().copied().unwrap_or_default();
                out.push_str(&self.node_line(line, port));
                out.push('\n');
                continue;
            }
            let key = line.split('=').next().unwrap_or_default();
            // The cluster's own slurmdbd adds its lines.
            let slurmdbd = ["AccountingStorageType", "AccountingStorageHost"].contains(&key);
            if slurmdbd || (key == "AccountingStorageTRES" && !self.variant.accounting) {
                continue;
            }
            if key == "PartitionName" && !self.variant.accounting {
                let unbilled =
                    line.split_whitespace().filter(|word| !word.starts_with("TRESBillingWeights="));
                out.push_str(&unbilled.collect::<Vec<_>>().join(" "));
                out.push('\n');
                continue;
            }
            if self.variant.stock && (key == "JobSubmitPlugins" || key.starts_with("HealthCheck")) {
                continue;
            }
            match self.value(key) {
                Some(value) => out.push_str(&format!("{key}={value}\n")),
                None => out.push_str(&format!("{line}\n")),
            }
        }
        // Programs find the simulated driver through the environment. A real node needs no such script.
        out.push_str(&format!("TaskProlog={}\n", self.path("etc/task-prolog")));
        out
    }

    fn value(&self, key: &str) -> Option<String> {
        let plugins = || {
            if self.variant.stock {
                self.slurm_plugins.to_owned()
            } else {
                let own =
                    if self.variant.packaged { PACKAGED_PLUGINS.to_owned() } else { self.path("plugins") };
                format!("{own}:{}", self.slurm_plugins)
            }
        };
        Some(match key {
            "SlurmctldHost" => format!("{}(127.0.0.1)", self.host),
            "SlurmctldPort" => self.controller_port.to_string(),
            "AuthInfo" => format!("socket={}", self.layout.munge_socket().display()),
            "StateSaveLocation" => self.path("state"),
            "SlurmdSpoolDir" => self.path("spool/%n"),
            "SlurmctldPidFile" => self.path("run/slurmctld.pid"),
            "SlurmdPidFile" => self.path("run/slurmd-%n.pid"),
            "SlurmctldLogFile" => self.path("log/slurmctld.log"),
            "SlurmdLogFile" => self.path("log/slurmd-%n.log"),
            "PluginDir" => plugins(),
            "PlugStackConfig" => self.path("etc/plugstack.conf"),
            "HealthCheckProgram" => self.path("etc/tessera-health"),
            _ => return None,
        })
    }

    fn node_line(&self, line: &str, port: u16) -> String {
        let word = |word: &str| match word.split('=').next() {
            Some("NodeHostname") => format!("NodeHostname={} NodeAddr=127.0.0.1", self.host),
            Some("Port") => format!("Port={port}"),
            _ => word.to_owned(),
        };
        line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
    }

    /// gres.conf for this place: each node has a `/dev` of its own.
    pub(crate) fn gres(&self, text: &str) -> String {
        let line = |line: &str| {
            let node = line.strip_prefix("NodeName=").and_then(|rest| rest.split_whitespace().next());
            match node {
                Some(node) => line.replace(
                    "File=/dev/",
                    &format!("File={}/", self.layout.node(node).join("dev").display()),
                ),
                None => line.to_owned(),
            }
        };
        text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
    }

    /// plugstack.conf for this place. Slurm starts prolog and epilog with an environment of its own: the simulator's
    /// has to be named here. The plugin loses its directory, so that a cluster with another PluginDir has another plugin.
    pub(crate) fn plugstack(&self, text: &str) -> String {
        let simulator = format!(
            "required spank_tessera.so env=NVML_SIM_STATE={} env=LD_LIBRARY_PATH={}",
            self.layout.sim_state("%n").display(),
            self.path("lib")
        );
        text.replace("=/etc/slurm/", &format!("={}/", self.path("etc")))
            .replace("=/usr/local/bin/", &format!("={}/", self.programs()))
            .replace("required /usr/local/lib/tessera/spank_tessera.so", &simulator)
    }

    /// tessera.toml for this place.
    pub(crate) fn tessera(&self, text: &str) -> String {
        let line = |line: &str| {
            let key = line.split('=').next().unwrap_or_default().trim();
            let value = match key {
                "state_dir" => self.path("nodes/%n/state"),
                "run_dir" => self.path("nodes/%n/run"),
                "dev_root" => self.path("nodes/%n/dev"),
                "proc_root" => self.path("nodes/%n/proc"),
                "cgroup_root" => self.path("nodes/%n/cgroup"),
                "nvml_library" => self.path("lib/libnvidia-ml.so.1"),
                "mps_control" => self.path("bin/nvidia-cuda-mps-control"),
                "task_broker" => self.path("bin/tessera-broker"),
                "task_library" => self.path("lib/libtessera_task.so"),
                // Of the task broker.
                "log" => self.path("log/tasks-%n.log"),
                _ => return line.replace("\"nvidia-smi\"", &format!("\"{}\"", self.path("bin/nvidia-smi"))),
            };
            format!("{key} = \"{value}\"")
        };
        text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
    }

    /// tessera-health for this place. slurmd starts it with hardly any environment.
    pub(crate) fn health(&self, text: &str) -> String {
        let simulator = format!(
            "export NVML_SIM_STATE={}\nexport LD_LIBRARY_PATH={}\n",
            self.layout.sim_state("$SLURMD_NODENAME").display(),
            self.path("lib"),
        );
        text.replace("/etc/slurm/", &format!("{}/", self.path("etc")))
            .replace("/usr/local/bin/", &format!("{}/", self.programs()))
            .replacen("\nsetsid ", &format!("\n{simulator}setsid "), 1)
    }

    /// The script that hands the simulator's environment to every task.
    pub(crate) fn task_prolog(&self) -> String {
        format!(
            "#!/bin/sh\n\
             echo \"export NVML_SIM_STATE={}\"\n\
             echo \"export LD_LIBRARY_PATH={}\"\n\
             echo \"export PATH={}:$PATH\"\n",
            self.layout.sim_state("$SLURMD_NODENAME").display(),
            self.path("lib"),
            self.path("bin"),
        )
    }
}

/// Lines of a rewritten file that still name a directory of the system: a test of the example files calls this.
#[must_use]
pub fn foreign_paths(text: &str, dir: &Path) -> Vec<String> {
    let dir = dir.display().to_string();
    let names_system = |line: &&str| {
        ["/etc/", "/var/", "/run/"].iter().any(|root| line.replace(&dir, "DIR").contains(&format!("={root}")))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter(names_system).map(str::to_owned).collect()
}
