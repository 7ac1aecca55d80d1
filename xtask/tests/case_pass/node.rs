//! A simulated node on which compiled shapes run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Once, OnceLock};

use crate::tools::{succeeds, workspace};

/// What makes the node's programs and libraries.
const PACKAGES: [&str; 5] = ["nvml-sim", "cuda-sim", "cudart-sim", "task-client", "task-broker"];

fn make() {
    if std::env::var_os(lab::artefacts::BUILT).is_none() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet"]).args(PACKAGES.map(|package| format!("-p{package}")));
        succeeds(cargo.current_dir(workspace()));
    }
}

/// Which `libtessera_task.so` programs find.
#[derive(Clone, Copy)]
pub(crate) enum Library {
    /// A test double that grants everything and keeps book: `contrib/case-pass/tests/double`.
    Double,
    /// The one that speaks to the broker.
    Real,
}

/// A node of two simulated GPUs and the libraries that programs find there, for the life of the tests.
pub(crate) struct Node {
    pub(crate) dir: tempfile::TempDir,
}

impl Node {
    pub(crate) fn libraries(&self) -> PathBuf {
        self.dir.path().join("lib")
    }

    /// The node that all tests of a program share. Its library is the double.
    pub(crate) fn shared() -> &'static Node {
        static NODE: OnceLock<Node> = OnceLock::new();
        NODE.get_or_init(|| Node::create(Library::Double))
    }

    /// A node with the named task library.
    pub(crate) fn create(library: Library) -> Self {
        let node = Self { dir: tempfile::tempdir().unwrap() };
        let (root, built) = (node.dir.path(), lab::paths::target_dir().join("debug"));
        static MADE: Once = Once::new();
        MADE.call_once(make);
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
        match library {
            Library::Double => node.compile_double(),
            Library::Real => {
                fs::copy(built.join("libtessera_task.so"), node.libraries().join("libtessera_task.so"))
                    .unwrap();
            }
        }
        node
    }

    fn compile_double(&self) {
        let mut double = Command::new("clang++-19");
        double
            .args(["-O1", "-std=c++17", "-shared", "-fPIC", "-I"])
            .arg(workspace().join("crates/sim/cuda-sim/include"));
        double
            .arg(lab::case_pass::source().join("tests/double/task.cpp"))
            .arg("-o")
            .arg(self.libraries().join("libtessera_task.so"));
        succeeds(double.arg("-L").arg(self.libraries()).args(["-l:libcudart.so.12", "-ldl"]));
    }

    /// Runs a program on the node.
    pub(crate) fn run(&self, program: &Path, environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(program);
        command.env("NVML_SIM_STATE", self.dir.path().join("state")).env("LD_LIBRARY_PATH", self.libraries());
        succeeds(command.envs(environment.iter().copied()))
    }
}
