//! Tests against the simulated driver and the real MPS control program.
//!
//! The simulator finds its node by an environment variable, so every test runs its body in a process of its own:
//! [`on_node`] makes a node and runs this test binary again, for that test alone.

mod again;
mod clients;
mod compute;
mod concurrency;
mod crash;
mod crowded;
mod damaged;
mod driver_faults;
mod fence;
mod forgotten;
mod journal;
mod kept;
mod leftovers;
mod life;
mod mps;
mod numbers;
mod power;
mod race;
mod shards;
mod shifted;
mod tasks;
mod usage;
mod vanished;

use std::collections::HashSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Once;
use std::time::Duration;

use geometry::{GpuIndex, JobId, Model, Slice};
use node_state::MigPolicy;
use protocol::{ComputeSpec, Grant, MigSpec};
use site_config::{GpuUse, LeftoverProcesses, MemoryLimit, NodeSettings};

use crate::{GpuSettings, Inspection, JobContext, Numbering, NvmlGrant, RealiseError, Realised, Settings};
use node_driver::NvmlIndex;

/// Users of the tests; neither has a name.
pub(super) const ALICE: u32 = 51001;
pub(super) const BOB: u32 = 51002;

/// Set in the process that runs a test's body: the node's directory.
const NODE_DIR: &str = "GPU_NODE_TEST_DIR";

/// A simulated node.
pub(super) struct TestNode {
    pub(super) dir: PathBuf,
    pub(super) settings: Settings,
}

/// Two A100 that need a reset to change their MIG mode, and an H100 that does not. All start with MIG off.
const NODE: &str = r#"
name = "t"
interconnect = "none"
modify_device_files = false
[[gpus]]
model = "a100-40gb"
count = 2
[[gpus]]
model = "h100-80gb-sxm"
count = 1
"#;

/// Runs `body` on a node of its own, in a process of its own. `name` is the test's path.
pub(super) fn on_node(name: &str, body: impl FnOnce(&TestNode)) {
    on_node_of(name, NODE, body);
}

/// Runs a test on a node of this description.
pub(super) fn on_node_of(name: &str, description: &str, body: impl FnOnce(&TestNode)) {
    if let Some(dir) = std::env::var_os(NODE_DIR) {
        return body(&TestNode::open(Path::new(&dir)));
    }
    let dir = tempfile::Builder::new().prefix("tn").tempdir().unwrap();
    TestNode::create(dir.path(), description);
    let output = rerun(name, dir.path(), &[]);
    eprintln!("{}", String::from_utf8_lossy(&output.stdout));
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    TestNode::open(dir.path()).kill_daemons();
    assert_ran(name, &output);
}

/// This test binary once more, for one test, with the node's environment.
pub(super) fn command(name: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture", "--include-ignored"]);
    command.env(NODE_DIR, dir).env("NVML_SIM_STATE", dir.join("state.sim"));
    command
}

pub(super) fn rerun(name: &str, dir: &Path, env: &[(&str, &str)]) -> Output {
    command(name, dir).envs(env.iter().copied()).output().unwrap()
}

/// A filter that matches no test is a success to the test harness.
#[track_caller]
pub(super) fn assert_ran(name: &str, output: &Output) {
    let ran = String::from_utf8_lossy(&output.stdout).contains("1 passed");
    assert!(output.status.success() && ran, "{name}: {}", output.status);
}

/// `target/debug`.
fn build_dir() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    exe.parent().and_then(Path::parent).unwrap().to_owned()
}

/// Finds the simulator's directory; builds it first unless the environment names a directory that has it.
fn simulator() -> PathBuf {
    static BUILD: Once = Once::new();
    if let Some(dir) = std::env::var_os("GPU_NODE_TEST_SIM") {
        return dir.into();
    }
    BUILD.call_once(|| {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "--package", "nvml-sim"]).current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(cargo.status().unwrap().success(), "the simulator does not build");
    });
    build_dir()
}

/// Gives the paths of the journal and the driver.
pub(super) fn places(settings: &Settings) -> job_usage::Places {
    job_usage::Places {
        state_dir: settings.node.state_dir.clone(),
        nvml_library: settings.node.nvml_library.clone(),
    }
}

impl TestNode {
    fn create(dir: &Path, description: &str) {
        // The users' MPS daemons must get to their directories.
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(dir.join("node.toml"), description).unwrap();
        // Built in the parent alone: its children share the build directory.
        std::os::unix::fs::symlink(simulator(), dir.join("sim")).unwrap();
        // Users run it, and need not be able to pass the directories above the build. Copied by a process of its own: what
        // another test starts meanwhile would hold the copy open for writing for a moment, and nobody could run it then.
        let real = build_dir().parent().unwrap().join("real-parts/root/usr/bin/nvidia-cuda-mps-control");
        assert!(Command::new("cp").arg(&real).arg(dir).status().unwrap().success());
        let node = Self::open(dir);
        let (file, root) = (dir.join("node.toml"), dir.join("root"));
        node.sim(&["create", "--node", file.to_str().unwrap(), "--root", root.to_str().unwrap()]);
    }

    pub(super) fn open(dir: &Path) -> Self {
        let sim = dir.join("sim");
        let gpu = |key, policy| GpuSettings::of(Model::find(key).unwrap(), &GpuUse::AsMig, policy);
        let reset = [sim.join("nvml-sim").display().to_string(), "reset".into(), "--gpu".into(), "%i".into()];
        let settings = Settings {
            node: NodeSettings {
                dev_root: dir.join("root/dev"),
                proc_root: dir.join("root/proc"),
                cgroup_root: dir.join("root/cgroup"),
                state_dir: dir.join("state"),
                run_dir: dir.join("run"),
                nvml_library: sim.join("libnvidia_ml.so"),
                mps_control: dir.join("nvidia-cuda-mps-control"),
                task_broker: build_dir().join("tessera-broker"),
                task_library: dir.join("libtessera_task.so"),
                gpu_reset_command: reset.to_vec(),
                gpu_clients_command: Vec::new(),
                operation_timeout_ms: 60_000,
                manage_device_nodes: true,
                leftover_processes: LeftoverProcesses::End,
                ..NodeSettings::default()
            },
            tasks: None,
            share_between_users: false,
            memory_limit: MemoryLimit::Mps,
            gpus: vec![
                gpu("a100-40gb", MigPolicy::Dynamic),
                gpu("a100-40gb", MigPolicy::Dynamic),
                gpu("h100-80gb-sxm", MigPolicy::Dynamic),
            ],
            in_power_budget: false,
            energy: false,
            numbering: Numbering::default(),
        };
        Self { dir: dir.to_owned(), settings }
    }

    /// Runs the simulator's own command.
    pub(super) fn sim(&self, args: &[&str]) -> String {
        let mut command = Command::new(self.dir.join("sim/nvml-sim"));
        let output = command.arg("--state").arg(self.dir.join("state.sim")).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A job that Slurm grants this by NVML's numbers, as where gres.conf lists all GPUs in the driver's order.
    pub(super) fn job(&self, job: u32, uid: u32, grant: Grant) -> JobContext {
        let grant = Numbering::default().translate(&self.settings, &grant).unwrap();
        self.job_with(job, uid, grant)
    }

    pub(super) fn job_with(&self, job: u32, uid: u32, grant: NvmlGrant) -> JobContext {
        let decision = "smallest that fits".to_owned();
        JobContext {
            job: JobId(job),
            uid,
            gid: uid,
            restart: 0,
            grant,
            cap_w: None,
            decision,
            plain: false,
            matched: None,
            live: None,
            group: None,
            slurmd: None,
        }
    }

    pub(super) fn realise(&self, job: u32, uid: u32, grant: Grant) -> Result<Realised, RealiseError> {
        crate::realise(&self.settings, &self.job(job, uid, grant))
    }

    pub(super) fn release(&self, job: u32) {
        let released = crate::release(&self.settings, JobId(job)).unwrap();
        assert_eq!(released.problems, Vec::<String>::new());
    }

    /// Owner and mode of a device node.
    pub(super) fn access(&self, name: &str) -> (u32, u32) {
        let meta = std::fs::symlink_metadata(self.settings.node.dev_root.join(name)).unwrap();
        (meta.uid(), meta.mode() & 0o7777)
    }

    pub(super) fn inspect(&self) -> Inspection {
        crate::inspect(&self.settings, None).unwrap()
    }

    /// Lists the differences when only these jobs are on the node.
    pub(super) fn disagreements(&self, live: &[u32]) -> Vec<String> {
        let live: HashSet<JobId> = live.iter().map(|j| JobId(*j)).collect();
        let seen = crate::inspect(&self.settings, Some(&live)).unwrap();
        seen.disagreements.iter().map(ToString::to_string).collect()
    }

    /// Number of the journal's files that were moved aside.
    pub(super) fn bad_files(&self) -> usize {
        std::fs::read_dir(self.settings.node.state_dir.join("bad")).map_or(0, Iterator::count)
    }

    #[track_caller]
    pub(super) fn assert_clean(&self, live: &[u32]) {
        assert_eq!(self.disagreements(live), Vec::<String>::new());
    }

    pub(super) fn reconcile(&self, live: &[u32]) -> crate::ReconcileReport {
        let live: HashSet<JobId> = live.iter().map(|j| JobId(*j)).collect();
        crate::reconcile(&self.settings, crate::LiveJobs::Exactly(&live)).unwrap()
    }

    /// Processes of MPS programs that were started for this node.
    pub(super) fn daemons(&self) -> Vec<u32> {
        let run = self.settings.node.run_dir.display().to_string();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = processes.filter_map(|e| e.file_name().to_string_lossy().parse::<u32>().ok());
        let is_mps = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|c| c.starts_with("nvidia-cuda-mps"))
        };
        let here = |pid: &u32| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|env| String::from_utf8_lossy(&env).contains(&run))
        };
        pids.filter(is_mps).filter(here).collect()
    }

    fn kill_daemons(&self) {
        for pid in self.daemons() {
            kill(pid);
        }
    }
}

pub(super) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// An instance by its profile's name.
pub(super) fn spec(gpu: u16, profile: &str, start: u8) -> MigSpec {
    let key = if gpu == 2 { "h100-80gb-sxm" } else { "a100-40gb" };
    let profile = Model::find(key).unwrap().profile(profile).unwrap().id;
    MigSpec { gpu: GpuIndex(gpu), profile, start: Slice(start) }
}

pub(super) fn mig(specs: &[(u16, &str, u8)]) -> Grant {
    Grant::Mig(specs.iter().map(|(g, p, s)| spec(*g, p, *s)).collect())
}

/// A compute instance by its name, whose job states 10,000 MiB, in a GPU instance at slice 0.
pub(super) fn compute(gpu: u16, name: &str, start: u8) -> Grant {
    let (slices, profile) = geometry::split_compute_name(name).unwrap();
    let part = ComputeSpec { slices, start: Slice(start) };
    Grant::Compute { within: spec(gpu, profile, 0), part, mem_mib: 10_000 }
}

pub(super) fn whole(gpus: &[u16]) -> Grant {
    Grant::Whole(gpus.iter().map(|g| GpuIndex(*g)).collect())
}

/// The value of a variable in a task's environment.
pub(super) fn var<'a>(env: &'a [(String, String)], name: &str) -> &'a str {
    env.iter().find(|(k, _)| k == name).map_or("", |(_, v)| v)
}
