//! Many nodes of one kind with two controllers, Slurm alone and with Tessera, of which one runs at a time.
//!
//! The slurmds are real and know nothing of Tessera, so that they serve both controllers. No GPU is simulated: the jobs of a fleet
//! have allocations and no processes. It shows what slurmctld costs, and nothing of the nodes' side.

mod files;

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use crate::artefacts::{self, Profile};
use crate::clock::CONTROLLER;
use crate::cluster::Cluster;
use crate::command::PATIENCE;
use crate::daemon::Daemon;
use crate::error::{HarnessError, at};
use crate::files::fresh_dir;
use crate::inside::Inside;
use crate::layout::Layout;
use crate::process::{PidFile, Started};
use crate::slurm::Slurm;
use crate::user::User;
use files::Ports;

pub use files::PARTITIONS;

/// The GPUs of every node, as tessera.toml and gres.conf name them.
pub const GPUS_PER_NODE: u32 = 8;
/// Processor cores of every node.
pub const CORES_PER_NODE: u32 = 128;

/// The slurmctld that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Slurm alone.
    Stock,
    /// With Tessera's plugins.
    Tessera,
}

impl Controller {
    /// Both, in the order in which they are compared.
    pub const BOTH: [Self; 2] = [Self::Stock, Self::Tessera];

    /// Directory of its configuration below the fleet's own. The slurmds have that of Slurm alone.
    fn etc(self) -> &'static str {
        match self {
            Self::Stock => "etc",
            Self::Tessera => "etc-tessera",
        }
    }
}

impl std::fmt::Display for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Stock => "stock",
            Self::Tessera => "Tessera",
        })
    }
}

/// Describes a fleet; [`Options::lay_out`] makes its files.
#[derive(Debug)]
pub struct Options {
    /// The Slurm that runs.
    pub slurm: Slurm,
    /// How the plugins are built.
    pub profile: Profile,
    /// How many nodes it has.
    pub nodes: usize,
    /// See [`crate::Builder::guardian`].
    pub guardian: Vec<String>,
    /// Lines of slurm.conf that both controllers and all slurmds have.
    pub slurm_conf: String,
}

/// Slurmds, and the controller of the moment. When dropped, it ends them all and removes their files.
#[derive(Debug)]
pub struct Fleet {
    cluster: Cluster,
    ports: Ports,
    slurm_conf: String,
}

impl Options {
    /// Builds Tessera, and lays out the fleet's files in a new directory.
    ///
    /// # Errors
    ///
    /// What could not be built or written.
    pub fn lay_out(self) -> Result<Fleet, HarnessError> {
        artefacts::build(self.profile)?;
        allow_open_files(self.nodes)?;
        let ports = Ports::take(self.nodes)?;
        let dir = fresh_dir()?;
        let layout = Layout::new(&dir);
        files::make_dirs(&layout)?;
        let cluster = Cluster {
            inside: Inside { chroot: self.slurm.chroot(), detects: false },
            guardian: Some(crate::builder::start_guardian(&self.guardian, &dir, true)?),
            nodes: files::names(self.nodes),
            slurm: self.slurm,
            children: Vec::new(),
            keep: false,
            by_host_name: false,
            remove_dir: true,
            layout,
        };
        cluster.describe()?;
        files::keep_state_in_memory(&cluster.layout)?;
        artefacts::install_plugins(&cluster.layout, &cluster.slurm, &artefacts::plugins(self.profile))?;
        artefacts::install_command(&cluster.layout, self.profile)?;
        let fleet = Fleet { cluster, ports, slurm_conf: self.slurm_conf };
        files::write_common(&fleet.cluster)?;
        for controller in Controller::BOTH {
            fleet.configure(controller, "")?;
        }
        Ok(fleet)
    }
}

/// Each port of a slurmd is held by a socket of this process.
fn allow_open_files(nodes: usize) -> Result<(), HarnessError> {
    /// For all else.
    const REST: u64 = 512;
    let (limit, needed) = (getrlimit(Resource::Nofile), nodes as u64 + REST);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let wanted = Rlimit { current: Some(needed), maximum: limit.maximum };
    setrlimit(Resource::Nofile, wanted).map_err(|errno| {
        HarnessError::Unexpected(format!("{nodes} nodes take {needed} open files (ulimit -n): {errno}"))
    })
}

impl Fleet {
    /// The cluster of its slurmds, whose commands speak to the controller of the moment.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// See [`Cluster::keep_files`].
    pub fn keep_files(&mut self) {
        self.cluster.keep_files();
    }

    /// Writes a controller's configuration, with these lines of slurm.conf at its end.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn configure(&self, controller: Controller, lines: &str) -> Result<(), HarnessError> {
        let all = format!("{}\n{lines}\n", self.slurm_conf);
        files::write(&self.cluster, controller, &self.ports, &all)
    }

    /// The text of the `tessera.toml` that slurmctld reads.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn tessera_toml(&self) -> Result<String, HarnessError> {
        let path = self.etc(Controller::Tessera, "tessera.toml");
        at(&path, fs::read_to_string(&path))
    }

    fn etc(&self, controller: Controller, name: &str) -> PathBuf {
        self.cluster.layout.at(controller.etc()).join(name)
    }

    /// Starts munged and all slurmds, one after the other, and calls `told` for each.
    ///
    /// # Errors
    ///
    /// The first that could not be started.
    pub fn start_nodes(&mut self, mut told: impl FnMut(usize)) -> Result<(), HarnessError> {
        /// A slurmd's start takes a third of that of a core.
        const PACE: Duration = Duration::from_millis(30);
        self.cluster.start(&Daemon::Namespace)?;
        self.cluster.start(&Daemon::Munged)?;
        self.cluster.wait_munged()?;
        for (index, node) in self.cluster.nodes.clone().into_iter().enumerate() {
            let mut slurmd = polite(&self.cluster.daemon_command(&node, "slurmd", &["-D", "-N", &node]));
            self.cluster.spawn(&Daemon::Slurmd(node), &mut slurmd)?;
            std::thread::sleep(PACE);
            told(index + 1);
        }
        Ok(())
    }

    /// Starts a controller; `fresh` begins without any state. Returns once it listens, which is before it answers.
    ///
    /// # Errors
    ///
    /// If it ends, or does not listen; with the end of its log.
    pub fn start(&mut self, controller: Controller, fresh: bool) -> Result<(), HarnessError> {
        if fresh {
            files::empty_state(&self.cluster.layout)?;
        }
        let file = self.etc(controller, "slurm.conf").display().to_string();
        let args = ["-D", "-f", &file, "-c"];
        let args = if fresh { &args[..] } else { &args[..3] };
        let mut command = self.cluster.daemon_command(CONTROLLER, "slurmctld", args);
        command.env("SLURM_CONF", &file);
        self.cluster.spawn(&Daemon::Slurmctld, &mut command)?;
        let begin = std::time::Instant::now();
        while TcpStream::connect(("127.0.0.1", self.ports.controller)).is_err() {
            self.cluster.reap();
            if self.cluster.process(&Daemon::Slurmctld).is_none() || begin.elapsed() > PATIENCE {
                return Err(HarnessError::Unexpected(format!(
                    "slurmctld does not listen:\n{}",
                    self.log_tail()
                )));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The end of slurmctld's log and of what it printed.
    fn log_tail(&self) -> String {
        let paths =
            [self.cluster.layout.log("slurmctld"), self.cluster.layout.at("log").join("slurmctld.out")];
        let tail = |path: &PathBuf| {
            let text = fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(15)..].join("\n")
        };
        paths.each_ref().map(tail).join("\n")
    }

    /// slurmctld's process: after a reconfiguration of 24.11, another one than was started.
    #[must_use]
    pub fn controller(&self) -> Option<Started> {
        let file = self.cluster.layout.at("run").join("slurmctld.pid");
        let pid = fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
        let by_file = pid.and_then(|pid| Started::of("slurmctld", pid)).filter(Started::is_alive);
        by_file.or_else(|| self.cluster.process(&Daemon::Slurmctld))
    }

    /// Asks slurmctld to end, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// If it does not end.
    pub fn stop(&mut self) -> Result<(), HarnessError> {
        let Some(process) = self.controller() else { return Ok(()) };
        self.cluster.end(&process)
    }

    /// A command that reads a controller's own configuration, as `sbatch` has to, which loads its SPANK plugins.
    ///
    /// # Errors
    ///
    /// If the user does not exist.
    pub fn command(
        &self,
        controller: Controller,
        user: User,
        program: &str,
    ) -> Result<Command, HarnessError> {
        let mut command = self.cluster.command(user, program)?;
        command.env("SLURM_CONF", self.etc(controller, "slurm.conf"));
        Ok(command)
    }

    /// Runs a command of the administrator's that any configuration serves.
    ///
    /// # Errors
    ///
    /// If it cannot be started, or fails.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String, HarnessError> {
        self.cluster.run(User::Root, program, args)?.ok()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // The cluster ends one process after the other, and waits for each: most have ended by then.
        let all = PidFile::new(self.cluster.layout.dir()).read();
        all.iter().filter(|process| process.name.starts_with("slurmd-")).for_each(|p| p.signal(Signal::TERM));
        if self.controller().is_none() && !self.cluster.keep {
            // Nobody reads what the last controller has saved; else it would be copied to the disk.
            let _ = files::empty_state(&self.cluster.layout);
        }
    }
}

/// Lets a command yield to slurmctld, whose time is what is measured.
fn polite(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "5"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    nice
}
