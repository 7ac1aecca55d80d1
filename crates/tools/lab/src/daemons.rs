//! A cluster's daemons: starts, finds and kills them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::clock::CONTROLLER;
use crate::cluster::Cluster;
use crate::command::{PATIENCE, wait_for};
use crate::daemon::Daemon;
use crate::error::{HarnessError, at};
use crate::lost_answer;
use crate::process::{PidFile, Started};

/// A slurmctld waits 10 s for scripts that it has told to end.
const LOST_AFTER: Duration = Duration::from_secs(30);

impl Cluster {
    /// Starts a daemon and records it.
    ///
    /// # Errors
    ///
    /// If it cannot be started; that it works is seen later, by [`Cluster::wait_ready`].
    pub fn start(&mut self, daemon: &Daemon) -> Result<(), HarnessError> {
        let mut command = match daemon {
            Daemon::Namespace => match self.inside.namespace(self.layout.dir()) {
                Some(command) => command,
                None => return Ok(()),
            },
            Daemon::Munged => self.munged(),
            Daemon::Mariadbd => crate::accounting::database(&self.layout),
            Daemon::Slurmdbd => crate::accounting::slurmdbd(self),
            Daemon::Slurmctld => match crate::backup::file(&self.layout) {
                None => self.daemon_command(CONTROLLER, "slurmctld", &["-D"]),
                Some(_) => crate::backup::named(
                    crate::backup::PRIMARY,
                    &self.daemon_command(CONTROLLER, "slurmctld", &["-D"]),
                ),
            },
            Daemon::Backup => {
                let file = crate::backup::file(&self.layout).unwrap_or_default().display().to_string();
                let command = self.daemon_command(CONTROLLER, "slurmctld", &["-D", "-f", &file]);
                crate::backup::named(crate::backup::BACKUP, &command)
            }
            Daemon::Slurmd(node) => self.slurmd(node, &[]),
        };
        self.spawn(daemon, &mut command)
    }

    /// Starts a node's slurmd as after a boot: it says that the node has just booted. What a boot takes from the machine
    /// itself is the caller's to take.
    ///
    /// # Errors
    ///
    /// The same as of [`Cluster::start`].
    pub fn start_booted(&mut self, node: &str) -> Result<(), HarnessError> {
        let mut command = self.slurmd(node, &["-b"]);
        self.spawn(&Daemon::Slurmd(node.to_owned()), &mut command)
    }

    /// A slurmd of a node with more arguments: `-G` shows the GPUs that it finds, and ends.
    #[must_use]
    pub fn slurmd(&self, node: &str, more: &[&str]) -> Command {
        let named = ["-D", "-N", node];
        let args = if self.by_host_name { &named[..1] } else { &named };
        let mut command = self.daemon_command(node, "slurmd", &[args, more].concat());
        command.env("NVML_SIM_STATE", self.layout.sim_state(node));
        command
    }

    pub(crate) fn spawn(&mut self, daemon: &Daemon, command: &mut Command) -> Result<(), HarnessError> {
        let name = daemon.name();
        let out = self.layout.at("log").join(format!("{name}.out"));
        let open = || at(&out, fs::OpenOptions::new().create(true).append(true).open(&out));
        command.stdin(std::process::Stdio::null()).stdout(open()?).stderr(open()?);
        // A group of its own: Ctrl-C at the terminal is for us, who then end it in order.
        std::os::unix::process::CommandExt::process_group(command, 0);
        let child = command.spawn().map_err(|source| HarnessError::Start {
            program: command.get_program().to_string_lossy().into_owned(),
            source,
        })?;
        let pid = i32::try_from(child.id()).unwrap_or_default();
        if let Some(process) = Started::of(&name, pid) {
            PidFile::new(self.layout.dir()).add(&process)?;
        }
        self.children.push((name, child));
        Ok(())
    }

    pub(crate) fn daemon_command(&self, host: &str, program: &str, args: &[&str]) -> Command {
        let node = self.layout.node(host);
        let gpus_of = (self.inside.detects && program == "slurmd").then_some(node.as_path());
        let daemon = self.slurm.daemon(program);
        let mut command = self.inside.command(self.layout.dir(), host, None, &daemon, gpus_of);
        command.args(args).envs(self.environment()).env_remove("NVML_SIM_STATE");
        command
    }

    /// munged runs on the machine itself, even for a cluster in a chroot: all versions speak the same protocol.
    fn munged(&self) -> Command {
        let mut command = Command::new("/usr/sbin/munged");
        command.args(["--foreground", "--num-threads=2"]);
        let file = |option: &str, path: PathBuf| format!("--{option}={}", path.display());
        command.args([
            file("key-file", self.layout.munge("key")),
            file("socket", self.layout.munge_socket()),
            file("pid-file", self.layout.munge("pid")),
            file("seed-file", self.layout.munge("seed")),
            file("log-file", self.layout.munge("log")),
        ]);
        command
    }

    /// The recorded process of a daemon, if it runs.
    #[must_use]
    pub fn process(&self, daemon: &Daemon) -> Option<Started> {
        let name = daemon.name();
        PidFile::new(self.layout.dir()).read().into_iter().find(|p| p.name == name && p.is_alive())
    }

    /// The first recorded daemon that does not run any more.
    pub(crate) fn dead_daemon(&self) -> Option<String> {
        PidFile::new(self.layout.dir()).read().into_iter().find(|process| !process.is_alive()).map(|p| p.name)
    }

    /// Kills a daemon with SIGKILL and waits until it is gone.
    ///
    /// # Errors
    ///
    /// If it was not running.
    pub fn kill9(&mut self, daemon: &Daemon) -> Result<(), HarnessError> {
        let process = self
            .process(daemon)
            .ok_or_else(|| HarnessError::Unexpected(format!("{} is not running", daemon.name())))?;
        process.signal(rustix::process::Signal::KILL);
        self.wait_gone(&process)
    }

    /// Asks a daemon to end, as an init system does, and waits until it is gone. A slurmctld that will never end by a
    /// fault of Slurm's is killed, which is said.
    ///
    /// # Errors
    ///
    /// If it was not running, or does not end.
    pub fn stop(&mut self, daemon: &Daemon) -> Result<(), HarnessError> {
        let process = self
            .process(daemon)
            .ok_or_else(|| HarnessError::Unexpected(format!("{} is not running", daemon.name())))?;
        self.end(&process)
    }

    /// See [`Cluster::stop`].
    pub(crate) fn end(&mut self, process: &Started) -> Result<(), HarnessError> {
        process.signal(rustix::process::Signal::TERM);
        let begin = Instant::now();
        wait_for("a daemon to be gone, or to be lost", PATIENCE, || {
            self.reap();
            let lost = begin.elapsed() > LOST_AFTER
                && lost_answer::can_be_lost(&self.slurm)
                && lost_answer::waits_for_scripts(process.pid);
            if lost {
                eprintln!("cluster: killed {}, which waits for its script process for ever", process.name);
                process.signal(rustix::process::Signal::KILL);
            }
            if lost || !process.is_alive() { Ok(()) } else { Err("alive".to_owned()) }
        })?;
        self.wait_gone(process)
    }

    fn wait_gone(&mut self, process: &Started) -> Result<(), HarnessError> {
        wait_for("a daemon to be gone", PATIENCE, || {
            self.reap();
            if process.is_alive() { Err("alive".to_owned()) } else { Ok(()) }
        })
    }

    /// Waits for children that have ended, so that they are gone from the process table.
    pub fn reap(&mut self) {
        self.children.retain_mut(|(_, child)| !matches!(child.try_wait(), Ok(Some(_))));
    }
}
