//! A shape's programs: with the pass at two levels, and without it. Compiling takes longer than all that is looked at, so each
//! is compiled once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::node::Node;
use crate::tools::{built, host, shape, succeeds};

/// The programs of a shape.
pub(crate) struct Compiled {
    dir: tempfile::TempDir,
    /// The shape's name.
    pub(crate) name: &'static str,
    /// What the program prints without the pass.
    pub(crate) plain: String,
}

impl Compiled {
    /// Compiles a shape, and runs it without the pass.
    pub(crate) fn create(name: &'static str) -> Self {
        let mut compiled = Self { dir: tempfile::tempdir().unwrap(), name, plain: String::new() };
        let mut kernels = Command::new(lab::paths::target_dir().join("debug/cuda-sim-cc"));
        succeeds(kernels.args(["--kernels", "-O1"]).arg(shape(name)).arg("-o").arg(compiled.at("kernels")));
        compiled.compile(Path::new("clang++-19"), "-O1", "plain");
        for level in ["-O0", "-O2"] {
            compiled.compile(&built().join("tessera-clang++"), level, level);
        }
        compiled.plain = String::from_utf8(Node::shared().run(&compiled.at("plain"), &[]).stdout).unwrap();
        assert!(!compiled.plain.is_empty());
        compiled
    }

    /// The program with the pass, compiled at `-O0` or `-O2`.
    pub(crate) fn with_pass(&self, level: &str) -> PathBuf {
        self.at(level)
    }

    /// What the pass reports at `-O2`: a line of JSON per function.
    pub(crate) fn report(&self) -> String {
        fs::read_to_string(self.at("-O2.json")).unwrap_or_default()
    }

    fn at(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    /// Compiles the host side with the kernels.
    fn compile(&self, compiler: &Path, level: &str, to: &str) {
        let libraries = Node::shared().libraries();
        let mut command = host(compiler);
        command.arg(level).args(["-Xclang", "-fcuda-include-gpubinary", "-Xclang"]).arg(self.at("kernels"));
        command.arg(shape(self.name)).arg("-o").arg(self.at(to)).arg("-L").arg(&libraries);
        command
            .arg(format!("-Wl,-rpath-link,{}", libraries.display()))
            .args(["-l:libcudart.so.12", "-pthread"]);
        command.env("TESSERA_TASK_LIB_DIR", &libraries);
        command.env("TESSERA_PASS_REPORT", self.at(&format!("{to}.json")));
        succeeds(&mut command);
    }
}
