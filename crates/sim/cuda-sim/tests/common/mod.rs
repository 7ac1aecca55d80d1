//! What the tests share: a node in a scratch directory, the libraries just built, client programs.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use nvidia_ml::engine::state::State;
use nvidia_ml::engine::store::Store;
use nvidia_ml::engine::{node, tree};
use tempfile::TempDir;

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const V100: &str = "[[gpus]]\nmodel = \"v100-16gb\"\ncount = 2\n";
/// What a V100 of the simulator has for programs, and what a context takes of it, MiB.
pub(crate) const V100_MIB: u64 = 16130;
pub(crate) const V100_CONTEXT_MIB: u64 = 304;

/// A simulated node.
pub(crate) struct Node {
    dir: TempDir,
}

impl Node {
    pub(crate) fn new(description: &str) -> Node {
        let dir = TempDir::with_prefix("cuda-sim").unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let made = Node { dir };
        let (described, start) = node::parse(description, Some("n1"), "n1").unwrap();
        std::fs::create_dir(made.path("root")).unwrap();
        let mut state = State::new(described, &start, made.path("root"), tree::free_major());
        tree::create(&state).unwrap();
        state.tree_dirty = false;
        Store::create(&made.path("state"), &state).unwrap();
        std::fs::create_dir(made.path("lib")).unwrap();
        let libraries =
            [("nvidia_ml", "libnvidia-ml.so.1"), ("cuda", "libcuda.so.1"), ("cudart", "libcudart.so.12")];
        for (built, name) in libraries {
            std::fs::copy(library(built), made.path("lib").join(name)).unwrap();
        }
        made
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn store(&self) -> Store {
        Store::new(&self.path("state"))
    }

    /// What processes hold on a GPU, or an instance of it, as NVML has it, MiB.
    pub(crate) fn used(&self, gpu: u32, gi: Option<u32>) -> u64 {
        self.store().read().unwrap().memory(gpu, gi).unwrap()[2]
    }

    /// A program that will find this node and none of the caller's settings.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        for name in ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] {
            command.env_remove(name);
        }
        command.env("CUDA_MPS_PIPE_DIRECTORY", self.path("no-mps"));
        command.env("NVML_SIM_STATE", self.path("state")).env("LD_LIBRARY_PATH", self.path("lib"));
        command.env("CUDA_SIM_LOG", self.path("log"));
        command
    }

    /// The client with a line of verbs; returns its lines.
    pub(crate) fn client(&self, verbs: &str) -> Vec<String> {
        self.client_with(verbs, &[])
    }

    pub(crate) fn client_with(&self, verbs: &str, environment: &[(&str, &str)]) -> Vec<String> {
        let mut command = self.command(client());
        command.args(verbs.split_whitespace()).envs(environment.iter().copied());
        text(&ok(&mut command)).lines().map(str::to_owned).collect()
    }

    /// A client that waits somewhere in its verbs. Returns when it does, with the lines before.
    pub(crate) fn waiting(&self, verbs: &str, environment: &[(&str, &str)]) -> (Waiting, Vec<String>) {
        let mut command = self.command(client());
        command.args(verbs.split_whitespace()).envs(environment.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let before = lines.take_while(|line| line != "waiting").collect();
        (Waiting(child), before)
    }

    /// `nvidia-smi`, the real one.
    pub(crate) fn smi(&self, args: &str) -> String {
        let smi = parts().join("root/usr/lib/nvidia/current/nvidia-smi");
        assert!(smi.exists(), "{} is missing: run cargo xtask setup", smi.display());
        text(&ok(self.command(smi).args(args.split_whitespace())))
    }

    pub(crate) fn log(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A client that waits; killed when dropped.
pub(crate) struct Waiting(pub(crate) Child);

impl Waiting {
    /// Lets it end by itself.
    pub(crate) fn finish(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }

    /// `kill -9`, and its parent has noticed.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `done`, at most ten seconds.
pub(crate) fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed().as_secs() < 60, "not within 60 s: {what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    eprintln!("{command:?}\n{}{}{}", text(&output), String::from_utf8_lossy(&output.stderr), output.status);
    output
}

pub(crate) fn ok(command: &mut Command) -> Output {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {}", output.status);
    output
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn compiler() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_cuda-sim-cc"))
}

/// A C library as cargo built it last: beside the programs or among the dependencies.
pub(crate) fn library(name: &str) -> PathBuf {
    let dir = compiler().parent().unwrap().to_path_buf();
    let candidates = [dir.join(format!("lib{name}.so")), dir.join(format!("deps/lib{name}.so"))];
    let found = candidates.iter().filter(|p| p.exists());
    found.max_by_key(|p| p.metadata().unwrap().modified().unwrap()).expect("cargo built the library").clone()
}

/// Where `cargo xtask setup` unpacks the real programs.
pub(crate) fn parts() -> PathBuf {
    let default = compiler().ancestors().nth(2).unwrap().join("real-parts");
    std::env::var_os("TESSERA_REAL_PARTS").map_or(default, PathBuf::from)
}

/// A program of the tests', compiled once.
pub(crate) fn client() -> &'static Path {
    static CLIENT: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let made = CLIENT.get_or_init(|| {
        let dir = TempDir::with_prefix("cuda-sim-client").unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let program = dir.path().join("client");
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client.c");
        let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
        let mut command = Command::new("cc");
        command
            .args(["-Wall", "-Werror", include, here, "-pthread", "-o"])
            .arg(&program)
            .arg(library("cuda"));
        ok(&mut command);
        (dir, program)
    });
    &made.1
}
