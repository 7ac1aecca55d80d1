//! A node with simulated GPUs, the real broker and the real library.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lab::artefacts::BUILT;
use lab::paths::{target_dir, workspace};
use serde_json::Value;
use task_control::{Broker, ControlError, Device};

use super::ChaosTasks;
use crate::command::{TaskError, at, output};
use crate::test::cargo;

/// The first GPUs of the node are the pool, each alone in its group; those after them are one group; the rest belong to isolated jobs.
const GROUPED: usize = 2;
const ISOLATED: usize = 2;
/// An A30's memory, MiB.
pub(super) const MEMORY_MIB: u64 = 24 << 10;
/// How long the broker gets to answer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The node.
pub(super) struct TaskNode {
    dir: PathBuf,
    uuids: Vec<String>,
    /// GPUs of the pool.
    pool: usize,
    /// Isolated GPUs that no job has.
    free: Mutex<Vec<String>>,
    has_broker: bool,
    restarts: AtomicU64,
    starting: Mutex<()>,
}

/// Builds what a node runs, unless `cargo xtask test` has: of fewer packages cargo makes other files of the same names.
fn build(debug: bool) -> Result<(), TaskError> {
    if debug && std::env::var_os(BUILT).is_some() {
        return Ok(());
    }
    let packages =
        ["nvml-sim", "cuda-sim", "task-broker", "task-client", "tessera-cli"].map(|name| ["-p", name]);
    let mut build = cargo(&["build", "--quiet"]);
    build.args(packages.as_flattened()).args((!debug).then_some("--release"));
    output(&mut build).map(drop)
}

impl TaskNode {
    /// Builds everything and makes the node in `dir`.
    pub(super) fn make(dir: &Path, options: &ChaosTasks) -> Result<TaskNode, TaskError> {
        let (debug, has_broker, pool) = (options.debug, !options.no_broker, usize::from(options.gpus));
        build(debug)?;
        let built = target_dir().join(if debug { "debug" } else { "release" });
        at(dir, std::fs::create_dir_all(dir.join("lib")))?;
        // Copies: what is built while a long run goes on is not what it runs.
        for (from, to) in [
            ("libnvidia_ml.so", "lib/libnvidia-ml.so.1"),
            ("libcuda.so", "lib/libcuda.so.1"),
            ("libtessera_task.so", "lib/libtessera_task.so"),
            ("tessera-broker", "tessera-broker"),
            ("tessera", "tessera"),
        ] {
            let path = dir.join(to);
            at(&path, std::fs::copy(built.join(from), &path).map(drop))?;
        }
        let description = dir.join("node.toml");
        let count = pool + GROUPED + ISOLATED;
        at(
            &description,
            std::fs::write(&description, format!("[[gpus]]\nmodel = \"a30-24gb\"\ncount = {count}\n")),
        )?;
        let mut create = Command::new(built.join("nvml-sim"));
        create.arg("create").arg("--node").arg(&description).args(["--name", "n1"]);
        output(create.arg("--state").arg(dir.join("state")).arg("--root").arg(dir.join("root")))?;
        let mut cc = Command::new("cc");
        cc.arg("-O1").arg("-I").arg(workspace().join("crates/sim/cuda-sim/include"));
        cc.arg("-I").arg(workspace().join("contrib/case-pass/include"));
        cc.arg(workspace().join("xtask/src/chaos_tasks/churn.c")).arg(dir.join("lib/libcuda.so.1"));
        output(cc.arg(dir.join("lib/libtessera_task.so")).arg("-o").arg(dir.join("churn")))?;
        let shown = output(
            Command::new(built.join("nvml-sim")).args(["show", "--json", "--state"]).arg(dir.join("state")),
        )?;
        let mut node = TaskNode {
            dir: dir.to_owned(),
            uuids: uuids(&shown),
            pool,
            free: Mutex::default(),
            has_broker,
            restarts: AtomicU64::new(0),
            starting: Mutex::default(),
        };
        if node.uuids.len() != count {
            return Err(TaskError::Other(format!("nvml-sim shows {:?}", node.uuids)));
        }
        node.free = Mutex::new(node.uuids[pool + GROUPED..].to_vec());
        if has_broker {
            node.start();
        }
        Ok(node)
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(super) fn has_broker(&self) -> bool {
        self.has_broker
    }

    pub(super) fn broker(&self) -> Broker {
        Broker::at(&self.at("run"), PATIENCE)
    }

    /// Starts the broker if it does not run, as the next step or the health check would.
    pub(super) fn start(&self) {
        let _one = self.starting.lock();
        if !matches!(self.broker().status(), Err(ControlError::NotRunning { .. })) {
            return;
        }
        let mut start = Command::new(self.at("tessera-broker"));
        start.arg("--run-dir").arg(self.at("run")).arg("--nvml").arg(self.at("lib/libnvidia-ml.so.1"));
        start.arg("--log").arg(self.at("events")).arg("--daemon").env("NVML_SIM_STATE", self.at("state"));
        // One that does not start is seen by the next call.
        let _ = start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }

    /// Says something to the broker until it hears it.
    pub(super) fn ask<T>(&self, what: impl Fn(&Broker) -> Result<T, ControlError>) -> Result<T, String> {
        let begin = Instant::now();
        loop {
            match what(&self.broker()) {
                Ok(answer) => return Ok(answer),
                Err(e @ ControlError::Refused(_)) => return Err(e.to_string()),
                Err(e) if begin.elapsed() > PATIENCE * 2 => return Err(e.to_string()),
                Err(ControlError::NotRunning { .. }) => {
                    // Its parent may be about to start it.
                    std::thread::sleep(Duration::from_millis(200));
                    self.start();
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Kills the broker's child, its parent or both, and waits for its return.
    pub(super) fn kill_broker(&self, which: u64) {
        let Ok(before) = self.ask(Broker::status) else { return };
        let all = [before.child, before.parent];
        let pids = match which % 3 {
            0 => &all[..1],
            1 => &all[1..],
            _ => &all[..],
        };
        pids.iter().for_each(|pid| kill(*pid));
        let is_other = || self.ask(Broker::status).is_ok_and(|now| now.child != before.child);
        let begin = Instant::now();
        // Where only the parent died, the child serves on.
        while pids.contains(&before.child) && !is_other() && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.restarts.fetch_add(u64::from(pids.contains(&before.child)), Ordering::Relaxed);
    }

    pub(super) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Chooses the devices of a job: some devices alone, or the group.
    pub(super) fn devices(&self, which: u64) -> Vec<Device> {
        let device = |uuid: &String, group: &str| Device {
            uuid: uuid.clone(),
            group: group.to_owned(),
            mps_pipe: None,
            memory_mib: MEMORY_MIB,
            sms: 56,
            workers: 8,
        };
        if which.is_multiple_of(4) {
            return self.uuids[self.pool..self.pool + GROUPED]
                .iter()
                .map(|uuid| device(uuid, "group"))
                .collect();
        }
        self.uuids[..self.pool].iter().map(|uuid| device(uuid, uuid)).collect()
    }

    /// A GPU for an isolated job, if one is free.
    pub(super) fn take_isolated(&self) -> Option<String> {
        self.free.lock().ok()?.pop()
    }

    pub(super) fn give_isolated(&self, uuid: String) {
        if let Ok(mut free) = self.free.lock() {
            free.push(uuid);
        }
    }

    pub(super) fn isolated(&self) -> &[String] {
        &self.uuids[self.pool + GROUPED..]
    }

    /// A program on the node.
    pub(super) fn program(&self) -> Command {
        let mut program = Command::new(self.at("churn"));
        program.env("NVML_SIM_STATE", self.at("state")).env("LD_LIBRARY_PATH", self.at("lib"));
        program.env("CUDA_SIM_LOG", self.at("driver")).env_remove("TESSERA_TASK_SOCKET");
        program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        program
    }

    /// Checks the broker's log by `tessera`.
    pub(super) fn check_events(&self) -> Result<Value, TaskError> {
        let mut check = Command::new(self.at("tessera"));
        check.args(["simulate", "case", "--json", "--audit"]).arg(self.at("events"));
        let done = check.output().map_err(|e| TaskError::Other(format!("tessera: {e}")))?;
        serde_json::from_slice(&done.stdout)
            .map_err(|_| TaskError::Other(String::from_utf8_lossy(&done.stderr).into_owned()))
    }

    /// Ends the broker and says what is left that should not be: on devices, in the broker, in its folder.
    pub(super) fn end(&self) -> Vec<String> {
        let mut left = Vec::new();
        if !self.has_broker {
            return left;
        }
        let begin = Instant::now();
        loop {
            match self.ask(Broker::status) {
                Ok(status) if status.devices.is_empty() && status.jobs.is_empty() => break,
                other if begin.elapsed() > PATIENCE => {
                    left.push(format!("the broker still has {other:?}"));
                    break;
                }
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
        let pids = self.ask(Broker::status).map(|s| [s.parent, s.child]).unwrap_or_default();
        if let Err(why) = self.ask(Broker::stop) {
            left.push(format!("the broker does not end: {why}"));
        }
        let lives = |pid: &u32| *pid > 0 && Path::new(&format!("/proc/{pid}/ns")).read_dir().is_ok();
        while pids.iter().any(lives) && begin.elapsed() < PATIENCE * 2 {
            std::thread::sleep(Duration::from_millis(20));
        }
        left.extend(pids.iter().filter(|pid| lives(pid)).map(|pid| format!("process {pid} of the broker")));
        let files = std::fs::read_dir(self.at("run/tasks")).into_iter().flatten().flatten();
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        left.extend(names.filter(|name| !["lock", "parent.lock", "broker.log"].contains(&name.as_str())));
        left
    }
}

pub(super) fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    // It may have ended.
    let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
}

/// Every GPU's UUID in nvml-sim's JSON, in order.
fn uuids(shown: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, _) in shown.match_indices("\"GPU-") {
        let uuid = shown[at + 1..].split('"').next().unwrap_or_default().to_owned();
        if !found.contains(&uuid) {
            found.push(uuid);
        }
    }
    found
}
