//! Our own time in a prolog and an epilog, without the (simulated) driver's: median and 95th percentile over many
//! rounds, per kind, the journal's fsyncs and the MPS control program included.
//!
//! `cargo bench -p gpu-node --bench own_time`. The simulator is built first. The journal is where `TMPDIR` is: fsync counts.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints and may fail")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use geometry::{GpuIndex, JobId, Model, Slice};
use gpu_node::{GpuSettings, JobContext, Numbering, Settings, realise, release};
use node_state::MigPolicy;
use protocol::{Grant, MigSpec, ShareOn};
use site_config::{GpuUse, MemoryLimit, NodeSettings};

const NODE: &str = "name = \"bench\"\ninterconnect = \"none\"\n[[gpus]]\nmodel = \"a100-40gb\"\ncount = 8\nmig = \"on\"\n\
                    [[gpus]]\nmodel = \"h100-80gb-sxm\"\n";
const ROUNDS: usize = 100;
const USER: u32 = 51001;

fn main() {
    let dir = std::env::var_os("GPU_NODE_BENCH_DIR").map(PathBuf::from);
    match dir {
        Some(dir) => measure(&dir),
        None => set_up(),
    }
}

/// Makes the node and runs this program again with the simulator's variable.
fn set_up() {
    let dir = tempfile::Builder::new().prefix("tb").tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(dir.path().join("node.toml"), NODE).unwrap();
    std::os::unix::fs::symlink(simulator(), dir.path().join("sim")).unwrap();
    // The user runs it, and need not be able to pass the directories above the build.
    let real = built_at().parent().unwrap().join("real-parts/root/usr/bin/nvidia-cuda-mps-control");
    std::fs::copy(&real, dir.path().join("nvidia-cuda-mps-control")).unwrap();
    let mut create = Command::new(dir.path().join("sim/nvml-sim"));
    create.args(["create", "--node"]).arg(dir.path().join("node.toml"));
    create.arg("--state").arg(dir.path().join("state.sim")).arg("--root").arg(dir.path().join("root"));
    assert!(create.status().unwrap().success());
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.env("GPU_NODE_BENCH_DIR", dir.path()).env("NVML_SIM_STATE", dir.path().join("state.sim"));
    let ended = again.status().unwrap();
    let run_dir = Path::new("/dev/shm").join(dir.path().file_name().unwrap());
    if run_dir.exists() {
        std::fs::remove_dir_all(run_dir).unwrap();
    }
    assert!(ended.success());
}

/// Where the simulator is; built first unless the environment names a directory that has it.
fn simulator() -> PathBuf {
    if let Some(dir) = std::env::var_os("GPU_NODE_TEST_SIM") {
        return dir.into();
    }
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let build = ["build", "--quiet", "--release", "--package", "nvml-sim"];
    let built = Command::new(cargo).args(build).current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
    assert!(built.success());
    built_at()
}

/// `target/release`.
fn built_at() -> PathBuf {
    std::env::current_exe().unwrap().parent().and_then(Path::parent).unwrap().to_owned()
}

fn settings(dir: &Path) -> Settings {
    let gpu = |key, policy| GpuSettings::of(Model::find(key).unwrap(), &GpuUse::AsMig, policy);
    let mut gpus = vec![gpu("a100-40gb", MigPolicy::On); 8];
    gpus.push(gpu("h100-80gb-sxm", MigPolicy::Dynamic));
    Settings {
        node: NodeSettings {
            dev_root: dir.join("root/dev"),
            proc_root: dir.join("root/proc"),
            cgroup_root: dir.join("root/cgroup"),
            state_dir: dir.join("state"),
            // As on a node, where /run is in memory; the journal is on disk.
            run_dir: Path::new("/dev/shm").join(dir.file_name().unwrap()),
            nvml_library: dir.join("sim/libnvidia_ml.so"),
            mps_control: dir.join("nvidia-cuda-mps-control"),
            task_broker: dir.join("tessera-broker"),
            task_library: dir.join("libtessera_task.so"),
            gpu_reset_command: vec!["/bin/true".into()],
            operation_timeout_ms: 10_000,
            ..NodeSettings::default()
        },
        tasks: None,
        share_between_users: false,
        memory_limit: MemoryLimit::Mps,
        gpus,
        in_power_budget: false,
        energy: false,
        numbering: Numbering::default(),
    }
}

fn spec(gpu: u16, profile: &str, start: u8) -> MigSpec {
    let profile = Model::find("a100-40gb").unwrap().profile(profile).unwrap().id;
    MigSpec { gpu: GpuIndex(gpu), profile, start: Slice(start) }
}

fn measure(dir: &Path) {
    let settings = settings(dir);
    // A busy node: fifteen jobs that stay.
    for job in 0..15_u8 {
        let grant = Grant::Mig(vec![spec(1 + u16::from(job) / 7, "1g.5gb", job % 7)]);
        realise(&settings, &context(&settings, 1000 + u32::from(job), &grant)).unwrap();
    }
    let share = Grant::Mps { on: ShareOn::Gpu(GpuIndex(8)), mem_mib: 2862, threads: 25 };
    let two = |a: &str, b: &str| Grant::Mig(vec![spec(0, a, 0), spec(0, b, 4)]);
    println!("                                     prolog ms (95 %)    epilog ms (95 %)");
    row("instance used again", &settings, &|_| Grant::Mig(vec![spec(0, "2g.10gb", 0)]));
    row("two destroyed, two created", &settings, &|i| {
        if i % 2 == 0 { two("2g.10gb", "3g.20gb") } else { two("3g.20gb", "2g.10gb") }
    });
    row("whole GPU", &settings, &|_| Grant::Whole(vec![GpuIndex(8)]));
    row("first and last share (MPS)", &settings, &|_| share.clone());
    realise(&settings, &context(&settings, 2000, &share)).unwrap();
    row("further share (MPS)", &settings, &|_| share.clone());
    release(&settings, JobId(2000)).unwrap();
}

fn context(settings: &Settings, job: u32, grant: &Grant) -> JobContext {
    let grant = Numbering::default().translate(settings, grant).unwrap();
    JobContext {
        job: JobId(job),
        uid: USER,
        gid: USER,
        restart: 0,
        grant,
        cap_w: None,
        decision: String::new(),
        plain: false,
        matched: None,
        live: None,
        group: None,
        slurmd: None,
    }
}

fn row(name: &str, settings: &Settings, grant: &dyn Fn(usize) -> Grant) {
    let (mut prologs, mut epilogs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let job = context(settings, 1, &grant(round));
        let start = Instant::now();
        let driver = realise(settings, &job).unwrap().driver_time;
        prologs.push(start.elapsed().saturating_sub(driver));
        let start = Instant::now();
        release(settings, job.job).unwrap();
        epilogs.push(start.elapsed());
    }
    let ms = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e3;
        format!("{:8.2} ({:6.2})", at(50), at(95))
    };
    println!("{name:36} {}   {}", ms(&mut prologs), ms(&mut epilogs));
}
