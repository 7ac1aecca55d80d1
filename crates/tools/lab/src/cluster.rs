//! A cluster: its directory, the commands that run on it, and its end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use decision_counts::{decisions, refusals_by_day};
use slurm_releases::Release;

use crate::clock;
use crate::command::{Done, run};
use crate::error::{HarnessError, at};
use crate::inside::Inside;
use crate::layout::Layout;
use crate::process::{PidFile, leftovers};
use crate::slurm::Slurm;
use crate::small_disk;
use crate::user::User;

/// A running cluster. When dropped, it ends its daemons and everything they left running, unless it is kept.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) layout: Layout,
    pub(crate) slurm: Slurm,
    pub(crate) nodes: Vec<String>,
    pub(crate) inside: Inside,
    /// Daemons that are our children, to be waited for when they end.
    pub(crate) children: Vec<(String, Child)>,
    /// It holds the guardian's stdin open: when this process ends, however it ends, the guardian acts.
    pub(crate) guardian: Option<Child>,
    pub(crate) keep: bool,
    /// True if slurmd is started without its node's name.
    pub(crate) by_host_name: bool,
    /// True if the directory was made by us and goes with the cluster.
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
        let path_of = |key: &str| value[key].as_str().map(Path::new);
        let slurm = match (path_of("source"), path_of("prefix")) {
            (Some(source), Some(prefix)) => Slurm::by_hand(source, Some(prefix))?,
            _ => value["slurm"].as_str().and_then(|v| v.parse::<Release>().ok()).ok_or_else(bad)?.into(),
        };
        let names = value["nodes"].as_array().ok_or_else(bad)?;
        let nodes = names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
        Ok(Self {
            layout,
            nodes,
            inside: Inside { chroot: slurm.chroot(), detects: false },
            slurm,
            children: Vec::new(),
            guardian: None,
            keep: true,
            by_host_name: false,
            remove_dir: false,
        })
    }

    /// Writes what [`Cluster::open`] reads.
    pub(crate) fn describe(&self) -> Result<(), HarnessError> {
        let mut value = serde_json::json!({ "slurm": self.slurm.release.series, "nodes": self.nodes });
        if let Some(prefix) = &self.slurm.prefix {
            value["prefix"] = prefix.display().to_string().into();
            value["source"] = self.slurm.source().map(|source| source.display().to_string()).into();
        }
        let path = self.layout.at("cluster.json");
        at(&path, fs::write(&path, value.to_string()))
    }

    /// Returns the paths of its files.
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
        self.slurm.release
    }

    /// The root of the chroot that its daemons run in; `None` if they run on the machine itself.
    #[must_use]
    pub fn chroot(&self) -> Option<&Path> {
        self.inside.chroot.as_deref()
    }

    /// Returns the prefix of its Slurm; `None` for the packages of a Debian.
    #[must_use]
    pub fn prefix(&self) -> Option<&Path> {
        self.slurm.prefix.as_deref()
    }

    /// The source tree of the Slurm it runs, if there is one.
    #[must_use]
    pub fn slurm_source(&self) -> Option<&Path> {
        self.slurm.source()
    }

    /// The directory of the public headers of the Slurm it runs, with which a plugin of a test is compiled.
    #[must_use]
    pub fn slurm_headers(&self) -> PathBuf {
        self.slurm.headers()
    }

    /// Lists what `cluster env` prints: the variables under which Slurm's commands and Tessera's speak to this cluster.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut path = std::env::var("PATH").unwrap_or_default();
        if let Some(prefix) = &self.slurm.prefix {
            path = format!("{0}/bin:{0}/sbin:{path}", prefix.display());
        }
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
        self.command_at(clock::CONTROLLER, user, program)
    }

    fn command_at(&self, host: &str, user: User, program: &str) -> Result<Command, HarnessError> {
        let ids = if user == User::Root { None } else { Some(user.ids()?) };
        let mut command = self.inside.user_command(self.layout.dir(), host, ids, program);
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

    /// A command with the simulated driver and the clock of `node`, as on that node.
    ///
    /// # Errors
    ///
    /// If the user does not exist.
    pub fn command_on(&self, node: &str, user: User, program: &str) -> Result<Command, HarnessError> {
        let mut command = self.command_at(node, user, program)?;
        command.env("NVML_SIM_STATE", self.layout.sim_state(node)).env("SLURMD_NODENAME", node);
        Ok(command)
    }

    /// Runs a node's health check as its slurmd does: where its Slurm is, and with hardly any environment.
    ///
    /// # Errors
    ///
    /// If it cannot be started, or fails. What it starts goes on.
    pub fn health_check(&self, node: &str) -> Result<(), HarnessError> {
        let mut command = self.inside.user_command(self.layout.dir(), node, None, "env");
        command.args(["-i", &format!("SLURMD_NODENAME={node}")]).arg(self.layout.etc("tessera-health"));
        run(&mut command)?.ok().map(drop)
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

    /// Sets the clock of a node, or of the controllers, to so many seconds after the machine's. All its processes see that at
    /// once. Their monotonic clocks go on.
    ///
    /// # Errors
    ///
    /// If the cluster was started without [`crate::Builder::clocks`], or the clock was set 255 times.
    pub fn set_clock(&self, node: Option<&str>, seconds_ahead: i64) -> Result<(), HarnessError> {
        clock::set(&self.layout, node.unwrap_or(clock::CONTROLLER), seconds_ahead)
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
        let _ = fs::write(self.layout.at(KEEP), "");
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

/// The file that a failed test makes in its cluster's directory so that the directory stays.
pub const KEEP: &str = "keep";

/// Removes the files of the cluster in `dir`, and the directory in the chroot that `dir` was mounted on.
pub(crate) fn remove(dir: &Path) {
    let mount_point = Cluster::open(dir).ok().and_then(|cluster| cluster.inside.mount_point(dir));
    // A cluster whose programs never ran has no mount point, and the guardian may come second.
    let _ = mount_point.map(fs::remove_dir);
    pages(dir).iter().for_each(|page| drop(fs::remove_file(page)));
    let _ = fs::remove_dir_all(dir);
}

/// Returns the pages in which the slurmctld of the cluster in `dir` counts its decisions, and refused submissions by day: in memory, outside `dir`.
fn pages(dir: &Path) -> [PathBuf; 2] {
    let state = dir.join("state").display().to_string();
    [decisions::page_name(&state), refusals_by_day::page_name(&state)]
        .map(|page| Path::new(decisions::DIR).join(page))
}

/// How often processes are looked for that others have started while those were ended.
const MOST_GENERATIONS: usize = 5;

/// Ends all processes of the cluster in `dir`: recorded daemons, newest first, then what they left running.
pub fn end(dir: &Path) {
    let daemons = PidFile::new(dir).read();
    for process in daemons.iter().rev() {
        // slurmctld saves its state when it is asked to end; for the other daemons it does not matter how they end.
        process.end(Duration::from_secs(5));
    }
    // These processes must be gone before the directory is removed: they may write more files.
    // One that ends may start another meanwhile.
    for _ in 0..MOST_GENERATIONS {
        let left = leftovers(dir);
        if left.is_empty() {
            break;
        }
        for process in left {
            process.end(Duration::ZERO);
        }
    }
    small_disk::unmount_all(dir);
}
