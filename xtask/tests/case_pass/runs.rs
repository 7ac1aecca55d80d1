//! Shapes run on simulated GPUs: with the pass, a program prints what it prints without it, its tasks begin and end in
//! balance, and at every moment what it has allocated is covered by what it asked for.
//!
//! The library is a test double (`contrib/case-pass/tests/double`) that grants everything and keeps book.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;

use crate::tools::{built, host, shape, shapes, source, succeeds, workspace};

/// A node of two simulated GPUs and the libraries that programs find there, for the life of the tests.
struct Node {
    dir: tempfile::TempDir,
}

impl Node {
    fn libraries(&self) -> PathBuf {
        self.dir.path().join("lib")
    }

    /// The node that all tests share.
    fn shared() -> &'static Self {
        static NODE: OnceLock<Node> = OnceLock::new();
        NODE.get_or_init(Self::create)
    }

    fn create() -> Self {
        let node = Self { dir: tempfile::tempdir().unwrap() };
        let (root, built) = (node.dir.path(), lab::paths::target_dir().join("debug"));
        if std::env::var_os(lab::artefacts::BUILT).is_none() {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--quiet", "-p", "nvml-sim", "-p", "cuda-sim", "-p", "cudart-sim"]);
            succeeds(cargo.current_dir(workspace()));
        }
        fs::create_dir(node.libraries()).unwrap();
        for (from, to) in [
            ("libnvidia_ml.so", "libnvidia-ml.so.1"),
            ("libcuda.so", "libcuda.so.1"),
            ("libcudart.so", "libcudart.so.12"),
        ] {
            fs::copy(built.join(from), node.libraries().join(to)).unwrap();
        }
        let description = root.join("node.toml");
        fs::write(&description, "[[gpus]]\nmodel = \"v100-16gb\"\ncount = 2\n").unwrap();
        let mut create = Command::new(built.join("nvml-sim"));
        create.arg("create").arg("--node").arg(&description).args(["--name", "n1"]);
        succeeds(create.arg("--state").arg(root.join("state")).arg("--root").arg(root.join("root")));
        let mut double = Command::new("clang++-19");
        double
            .args(["-O1", "-std=c++17", "-shared", "-fPIC", "-I"])
            .arg(workspace().join("crates/cuda-sim/include"));
        double
            .arg(source().join("tests/double/task.cpp"))
            .arg("-o")
            .arg(node.libraries().join("libtessera_task.so"));
        succeeds(double.arg("-L").arg(node.libraries()).args(["-l:libcudart.so.12", "-ldl"]));
        node
    }

    /// Runs a program on the node.
    fn run(&self, program: &Path, environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(program);
        command.env("NVML_SIM_STATE", self.dir.path().join("state")).env("LD_LIBRARY_PATH", self.libraries());
        succeeds(command.envs(environment.iter().copied()))
    }

    /// Compiles a shape with kernels to `DIR/NAME`, its host side by `compiler`.
    fn compile(&self, compiler: &Path, level: &str, name: &str, kernels: &Path, to: &Path) {
        let mut command = host(compiler);
        command
            .arg(level)
            .args(["-Xclang", "-fcuda-include-gpubinary", "-Xclang"])
            .arg(kernels)
            .arg(shape(name));
        command
            .env("TESSERA_TASK_LIB_DIR", self.libraries())
            .arg("-o")
            .arg(to)
            .arg("-L")
            .arg(self.libraries());
        command.arg(format!("-Wl,-rpath-link,{}", self.libraries().display()));
        succeeds(command.args(["-l:libcudart.so.12", "-pthread"]));
    }
}

/// What a program printed, and what the double's book says.
fn run_with_book(node: &Node, program: &Path, lazy: &str) -> (String, Value) {
    let log = program.with_extension("log");
    let log = log.to_str().unwrap();
    let done = node.run(program, &[("TASK_DOUBLE_LOG", log), ("TASK_DOUBLE_LAZY", lazy)]);
    let book = serde_json::from_str(&fs::read_to_string(log).unwrap()).unwrap();
    (String::from_utf8(done.stdout).unwrap(), book)
}

/// Shapes that leave memory allocated until the process ends, or launch without waiting: their last tasks stay open.
const HELD: [&str; 2] = ["no_free", "unwaited"];

fn check(name: &str) {
    let node = Node::shared();
    let dir = tempfile::tempdir().unwrap();
    let at = |file: &str| dir.path().join(file);
    let mut kernels = Command::new(lab::paths::target_dir().join("debug/cuda-sim-cc"));
    succeeds(kernels.args(["--kernels", "-O1"]).arg(shape(name)).arg("-o").arg(at("kernels")));
    node.compile(Path::new("clang++-19"), "-O1", name, &at("kernels"), &at("plain"));
    let plain = String::from_utf8(node.run(&at("plain"), &[]).stdout).unwrap();
    assert!(!plain.is_empty());
    for level in ["-O0", "-O2"] {
        node.compile(&built().join("tessera-clang++"), level, name, &at("kernels"), &at("tasks"));
        for lazy in ["0", "1"] {
            let (printed, book) = run_with_book(node, &at("tasks"), lazy);
            assert_eq!(printed, plain, "{name} {level} lazy={lazy}: {book}");
            assert_eq!(book["complaints"], Value::Array(Vec::new()), "{name} {level} lazy={lazy}: {book}");
            if !HELD.contains(&name) {
                assert_eq!(book["begins"], book["frees"], "{name} {level} lazy={lazy}: {book}");
                assert_eq!(book["live"], 0, "{name} {level} lazy={lazy}: {book}");
            }
            assert_ne!(
                (book["begins"].as_u64(), book["prepares"].as_u64()),
                (Some(0), Some(0)),
                "{name}: {book}"
            );
        }
    }
}

macro_rules! shapes {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*

        #[test]
        fn every_shape_is_run() {
            assert_eq!([$(stringify!($name)),*].as_slice(), shapes());
        }
    };
}

shapes! {
    again
    aliases
    array
    behind_calls
    branches
    chain
    checked_helper
    checked_loop
    closure
    early_return
    errors
    exceptions
    growth
    heap_helper
    heap_late
    heap_limit
    helpers
    independent
    later
    loops
    managed
    no_free
    pitched
    pointer_array
    straight
    stream_ordered
    streams
    structs
    symbols
    threads
    too_large
    unwaited
    volume
}
