//! A simulated node of GPUs, without a Slurm, on which programs run that the compiler pass has compiled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::artefacts::BUILT;
use crate::case_pass::source;
use crate::command::run;
use crate::error::{HarnessError, at};
use crate::paths::{target_dir, workspace};

/// Packages of the node's programs and libraries.
const PACKAGES: [&str; 5] = ["nvml-sim", "cuda-sim", "cudart-sim", "task-client", "task-broker"];
/// The simulator's libraries, each with the name that programs look for.
const LIBRARIES: [(&str, &str); 3] = [
    ("libnvidia_ml.so", "libnvidia-ml.so.1"),
    ("libcuda.so", "libcuda.so.1"),
    ("libcudart.so", "libcudart.so.12"),
];

/// Choice of the `libtessera_task.so` that programs find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskLibrary {
    /// A test double that grants everything and keeps book.
    Double,
    /// A stand-in that writes what the first task asks for and ends the program there.
    Asks,
    /// The one that speaks to the broker.
    Real,
}

/// A node of two simulated V100 and the libraries that programs find there.
#[derive(Debug)]
pub struct CaseNode {
    dir: tempfile::TempDir,
}

impl CaseNode {
    /// Creates a node with the named task library. [`build_simulator`] must have run.
    ///
    /// # Errors
    ///
    /// A file that cannot be written, or what a program says that fails.
    pub fn create(library: TaskLibrary) -> Result<Self, HarnessError> {
        let here = std::env::temp_dir();
        let node = Self { dir: at(&here, tempfile::tempdir())? };
        let built = target_dir().join("debug");
        at(node.dir(), fs::create_dir(node.libraries()))?;
        for (from, to) in LIBRARIES {
            let from = built.join(from);
            at(&from, fs::copy(&from, node.libraries().join(to)))?;
        }
        let description = node.dir().join("node.toml");
        at(&description, fs::write(&description, "[[gpus]]\nmodel = \"v100-16gb\"\ncount = 2\n"))?;
        let mut create = Command::new(built.join("nvml-sim"));
        create.arg("create").arg("--node").arg(&description).args(["--name", "n1", "--state"]);
        run(create.arg(node.state()).arg("--root").arg(node.dir().join("root")))?.ok()?;
        let name = "libtessera_task.so";
        match library {
            TaskLibrary::Double => node.add("task.cpp", name)?,
            TaskLibrary::Asks => node.add("ask.cpp", name)?,
            TaskLibrary::Real => {
                let from = built.join(name);
                at(&from, fs::copy(&from, node.libraries().join(name)))?;
            }
        }
        Ok(node)
    }

    /// The node's directory, which goes with it.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Gives the directory in which programs find their libraries.
    #[must_use]
    pub fn libraries(&self) -> PathBuf {
        self.dir().join("lib")
    }

    fn state(&self) -> PathBuf {
        self.dir().join("state")
    }

    /// Compiles a source of `contrib/case-pass/tests/double` to a library of the node.
    ///
    /// # Errors
    ///
    /// What the compiler says if it fails.
    pub fn add(&self, double: &str, name: &str) -> Result<(), HarnessError> {
        let mut clang = Command::new("clang++-19");
        clang.args(["-O1", "-std=c++17", "-shared", "-fPIC", "-I"]);
        clang.arg(workspace().join("crates/sim/cuda-sim/include"));
        clang.arg(source().join("tests/double").join(double)).arg("-o").arg(self.libraries().join(name));
        run(clang.arg("-L").arg(self.libraries()).args(["-l:libcudart.so.12", "-ldl"]))?.ok().map(drop)
    }

    /// A command that runs a program on the node.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("NVML_SIM_STATE", self.state()).env("LD_LIBRARY_PATH", self.libraries());
        command
    }
}

/// Builds the simulator and the task library for debugging, unless `cargo xtask test` has done so.
///
/// # Errors
///
/// What cargo says if it fails.
pub fn build_simulator() -> Result<(), HarnessError> {
    if std::env::var_os(BUILT).is_some() {
        return Ok(());
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet"]).args(PACKAGES.map(|package| format!("-p{package}")));
    run(cargo.arg("--target-dir").arg(target_dir()).current_dir(workspace()))?.ok().map(drop)
}
