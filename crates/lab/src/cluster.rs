//! One cluster: its directory, its daemons, and the commands run on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use slurm_releases::Release;

use crate::command::{Done, PATIENCE, run, wait_for};
use crate::error::{HarnessError, at};
use crate::inside::Inside;
use crate::layout::Layout;
use crate::paths;
use crate::process::{PidFile, Started, leftovers};

/// Who runs a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// The administrator.
    Root,
    /// The first test user.
    Alice,
    /// The second test user.
    Bob,
}

impl std::str::FromStr for User {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [Self::Root, Self::Alice, Self::Bob];
        let found = known.into_iter().find(|user| user.name() == text);
        found.ok_or_else(|| format!("expected {}", known.map(Self::name).join(", ")))
    }
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl User {
    /// Login name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Alice => paths::TEST_USERS[0],
            Self::Bob => paths::TEST_USERS[1],
        }
    }

    /// User and group id, as the machine's passwd file has them.
    ///
    /// # Errors
    ///
    /// If the user is not there: `cargo xtask setup` creates it.
    pub fn ids(self) -> Result<(u32, u32), HarnessError> {
        let path = Path::new("/etc/passwd");
        let text = at(path, fs::read_to_string(path))?;
        let entry =
            text.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|f| f[0] == self.name());
        entry.and_then(|f| Some((f.get(2)?.parse().ok()?, f.get(3)?.parse().ok()?))).ok_or_else(|| {
            HarnessError::Unexpected(format!("no user {}: run `cargo xtask setup`", self.name()))
        })
    }
}

/// A daemon of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Daemon {
    /// Authentication for this cluster alone.
    Munged,
    /// The database behind slurmdbd, on a cluster with accounting.
    Mariadbd,
    /// Accounting, on a cluster with it.
    Slurmdbd,
    /// The controller.
    Slurmctld,
    /// The daemon of one node.
    Slurmd(String),
}

impl Daemon {
    /// Name in the pid file and of its log.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Munged => "munged".to_owned(),
            Self::Mariadbd => "mariadbd".to_owned(),
            Self::Slurmdbd => "slurmdbd".to_owned(),
            Self::Slurmctld => "slurmctld".to_owned(),
            Self::Slurmd(node) => format!("slurmd-{node}"),
        }
    }
}

/// A running cluster. When dropped, it ends its daemons and everything they left running, unless it is kept.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) layout: Layout,
    pub(crate) release: Release,
    pub(crate) nodes: Vec<String>,
    pub(crate) inside: Inside,
    /// Daemons that are our children, to be waited for when they end.
    pub(crate) children: Vec<(String, Child)>,
    /// It holds the guardian's stdin open: when this process ends, however it ends, the guardian acts.
    pub(crate) guardian: Option<Child>,
    pub(crate) keep: bool,
    /// Whether the directory was made by us and goes with the cluster.
    pub(crate) remove_dir: bool,
}

impl Cluster {
    /// Opens a cluster that another process started. Dropping it does not end the cluster.
    ///
    /// # Errors
    ///
    /// If `dir` holds no cluster.
    pub fn open(dir: &Path) -> Result<Self, HarnessError> {
        let layout = Layout::new(dir);
        let path = layout.at("cluster.json");
        let read = fs::read_to_string(&path);
        if read.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
            let dir = dir.display();
            return Err(HarnessError::Unexpected(format!(
                "no cluster in {dir}: `cargo xtask cluster up --dir {dir}` starts one there"
            )));
        }
        let text = at(&path, read)?;
        let bad = || HarnessError::Unexpected(format!("{}: not a cluster's description", path.display()));
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|_| bad())?;
        let release: Release = value["slurm"].as_str().and_then(|v| v.parse().ok()).ok_or_else(bad)?;
        let names = value["nodes"].as_array().ok_or_else(bad)?;
        let nodes = names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
        Ok(Self {
            layout,
            release,
            nodes,
            inside: Inside { chroot: paths::chroot(release) },
            children: Vec::new(),
            guardian: None,
            keep: true,
            remove_dir: false,
        })
    }

    /// Writes what [`Cluster::open`] reads.
    pub(crate) fn describe(&self) -> Result<(), HarnessError> {
        let value = serde_json::json!({ "slurm": self.release.series, "nodes": self.nodes });
        let path = self.layout.at("cluster.json");
        at(&path, fs::write(&path, value.to_string()))
    }

    /// Where its files lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Names of its nodes, in slurm.conf's order.
    #[must_use]
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The Slurm it runs.
    #[must_use]
    pub fn release(&self) -> Release {
        self.release
    }

    /// What `cluster env` prints: the variables under which Slurm's commands and Tessera's speak to this cluster.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut all = vec![
            ("SLURM_CONF", self.layout.etc("slurm.conf").display().to_string()),
            ("LD_LIBRARY_PATH", self.layout.at("lib").display().to_string()),
            ("PATH", format!("{}:{path}:/usr/sbin:/sbin", self.layout.at("bin").display())),
        ];
        if let Some(first) = self.nodes.first() {
            all.push(("NVML_SIM_STATE", self.layout.sim_state(first).display().to_string()));
        }
        all
    }

    /// A command on the controller's side, run by `user`.
    ///
    /// # Errors
    ///
    /// If the user does not exist.
    pub fn command(&self, user: User, program: &str) -> Result<Command, HarnessError> {
        let ids = if user == User::Root { None } else { Some(user.ids()?) };
        let mut command = self.inside.command(self.layout.dir(), ids, program);
        command.envs(self.environment()).env("USER", user.name()).env("HOME", "/nonexistent");
        command.current_dir(self.layout.jobs());
        for (name, _) in
            std::env::vars().filter(|(name, _)| name.starts_with("SLURM_") && name != "SLURM_CONF")
        {
            command.env_remove(name);
        }
        Ok(command)
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    ///
    /// If it cannot be started; its own failure is in [`Done`].
    pub fn run(&self, user: User, program: &str, args: &[&str]) -> Result<Done, HarnessError> {
        run(self.command(user, program)?.args(args))
    }

    /// A command with the simulated driver of `node`, as on that node.
    ///
    /// # Errors
    ///
    /// If the user does not exist.
    pub fn command_on(&self, node: &str, user: User, program: &str) -> Result<Command, HarnessError> {
        let mut command = self.command(user, program)?;
        command.env("NVML_SIM_STATE", self.layout.sim_state(node)).env("SLURMD_NODENAME", node);
        Ok(command)
    }

    /// Starts a daemon and records it.
    ///
    /// # Errors
    ///
    /// If it cannot be started; that it works is seen later, by [`Cluster::wait_ready`].
    pub fn start(&mut self, daemon: &Daemon) -> Result<(), HarnessError> {
        let mut command = match daemon {
            Daemon::Munged => self.munged(),
            Daemon::Mariadbd => crate::accounting::database(&self.layout),
            Daemon::Slurmdbd => crate::accounting::slurmdbd(&self.layout),
            Daemon::Slurmctld => self.daemon_command("slurmctld", &["-D"]),
            Daemon::Slurmd(node) => {
                let mut command = self.daemon_command("slurmd", &["-D", "-N", node]);
                command.env("NVML_SIM_STATE", self.layout.sim_state(node));
                command
            }
        };
        let name = daemon.name();
        let out = self.layout.at("log").join(format!("{name}.out"));
        let open = || at(&out, fs::OpenOptions::new().create(true).append(true).open(&out));
        command.stdin(std::process::Stdio::null()).stdout(open()?).stderr(open()?);
        // A group of its own: Ctrl-C at the terminal is for us, who then end it in order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
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

    fn daemon_command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = self.inside.command(self.layout.dir(), None, &format!("/usr/sbin/{program}"));
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
        self.reap();
        wait_for("a killed daemon to be gone", PATIENCE, || {
            self.reap();
            if process.is_alive() { Err("alive".to_owned()) } else { Ok(()) }
        })
    }

    /// Waits for children that have ended, so that they are gone from the process table.
    pub fn reap(&mut self) {
        self.children.retain_mut(|(_, child)| !matches!(child.try_wait(), Ok(Some(_))));
    }

    /// Ends everything that was started, newest first, and removes the directory if it was made for this cluster.
    pub fn down(&mut self) {
        end(self.layout.dir());
        for (_, mut child) in self.children.drain(..) {
            let _ = child.wait();
        }
        if let Some(mut guardian) = self.guardian.take() {
            drop(guardian.stdin.take());
            let _ = guardian.wait();
        }
        self.keep = true;
        if self.remove_dir {
            remove(self.layout.dir());
        }
    }

    /// Closes the guardian's input, as the kernel does when this process is killed.
    pub fn abandon(&mut self) {
        if let Some(guardian) = &mut self.guardian {
            drop(guardian.stdin.take());
        }
    }

    /// Leaves the cluster's files where they are when it ends.
    pub fn keep_files(&mut self) {
        self.remove_dir = false;
        // The guardian looks for this file. If it cannot be written, the guardian removes the directory.
        let _ = fs::write(self.layout.at(crate::guardian::KEEP), "");
    }

    /// Leaves the cluster running when this is dropped.
    pub fn keep(&mut self) {
        self.keep = true;
        // A guardian that is killed before its stdin closes does nothing.
        if let Some(mut guardian) = self.guardian.take() {
            let _ = guardian.kill();
            let _ = guardian.wait();
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        if std::thread::panicking() {
            // The logs show what failed.
            self.keep_files();
            eprintln!("cluster: the test failed; logs stay in {}", self.layout.at("log").display());
        }
        self.down();
    }
}

/// Removes the files of the cluster in `dir`, and the directory in the chroot that `dir` was mounted on.
pub(crate) fn remove(dir: &Path) {
    let mount_point = Cluster::open(dir).ok().and_then(|cluster| cluster.inside.mount_point(dir));
    // A cluster whose programs never ran has no mount point, and the guardian may come second.
    let _ = mount_point.map(fs::remove_dir);
    let _ = fs::remove_dir_all(dir);
}

/// Ends all processes of the cluster in `dir`: recorded daemons, newest first, then what they left running.
pub fn end(dir: &Path) {
    let daemons = PidFile::new(dir).read();
    for process in daemons.iter().rev() {
        // slurmctld saves its state when it is asked to end; for the other daemons it does not matter how they end.
        process.end(Duration::from_secs(5));
    }
    // These processes must be gone before the directory is removed: they may write more files.
    for process in leftovers(dir) {
        process.end(Duration::ZERO);
    }
}
