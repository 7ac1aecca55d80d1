//! Compiles a program twice: by clang alone, and with the pass.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::case_node::CaseNode;
use lab::case_pass::source;
use lab::paths::{target_dir, workspace};

use super::headers;
use super::list::Program;
use crate::command::{TaskError, at, output};

/// Compilers, and where they find headers and libraries.
pub(crate) struct Tools {
    pass: PathBuf,
    /// NVIDIA's headers; the simulator's if absent.
    cuda: Option<PathBuf>,
    libraries: PathBuf,
}

/// A compiled program.
pub(crate) struct Built {
    pub(crate) plain: PathBuf,
    pub(crate) with_pass: PathBuf,
    /// The pass's report, a line of JSON per function.
    pub(crate) report: String,
    /// Why the simulated device cannot run it.
    pub(crate) kernels_missing: Option<String>,
    /// For files of its runs.
    pub(crate) dir: PathBuf,
}

/// How sources become objects.
#[derive(Clone, Copy)]
enum Language {
    Cuda,
    Calls,
    Host,
}

impl Tools {
    /// Builds the pass, and arranges NVIDIA's headers in `dir` if there are any.
    pub(crate) fn new(cuda: Option<&Path>, dir: &Path, node: &CaseNode) -> Result<Self, TaskError> {
        let cuda = cuda.map(|from| headers::assemble(from, dir)).transpose()?;
        Ok(Self { pass: lab::case_pass::build()?, cuda, libraries: node.libraries() })
    }

    /// Compiles a program whose sources are in `root`.
    pub(crate) fn build(&self, program: &Program, root: &Path, dir: &Path) -> Result<Built, TaskError> {
        let _ = fs::remove_dir_all(dir);
        at(dir, fs::create_dir_all(dir))?;
        let mut kernels_missing = None;
        for file in &program.cuda {
            if let Err(why) = Self::kernels(program, root, file, &dir.join(object(file, "kern"))) {
                kernels_missing = kernels_missing.or(why);
            }
        }
        let report = dir.join("report.json");
        let plain = self.link(program, root, dir, false)?;
        let with_pass = self.link(program, root, dir, true)?;
        let report = if report.exists() { at(&report, fs::read_to_string(&report))? } else { String::new() };
        Ok(Built { plain, with_pass, report, kernels_missing, dir: dir.to_owned() })
    }

    /// Compiles the kernels of a file for the simulated device. An error without a reason: the file has none.
    fn kernels(program: &Program, root: &Path, file: &str, to: &Path) -> Result<(), Option<String>> {
        let mut compiler = Command::new(target_dir().join("debug/cuda-sim-cc"));
        compiler.args(["--kernels", "-O1", "-w", "-include", "cuda_runtime.h"]).args(flags(program, root));
        if program.libraries {
            compiler.arg("-I").arg(stand_ins());
        }
        compiler.arg(root.join(file)).arg("-o").arg(to).current_dir(root);
        output(&mut compiler).map(drop).map_err(|why| {
            let text = why.to_string();
            let first = text.lines().find(|line| line.contains("error:")).map(str::to_owned);
            if text.contains("has no kernel") { None } else { Some(first.unwrap_or(text)) }
        })
    }

    /// Compiles and links one of the two programs.
    fn link(
        &self,
        program: &Program,
        root: &Path,
        dir: &Path,
        with_pass: bool,
    ) -> Result<PathBuf, TaskError> {
        let name = dir.join(if with_pass { "with-pass" } else { "plain" });
        let mut objects = Vec::new();
        for (kind, sources) in [
            (Language::Cuda, &program.cuda),
            (Language::Calls, &program.calls),
            (Language::Host, &program.host),
        ] {
            for file in sources {
                let to = dir.join(object(file, if with_pass { "pass.o" } else { "plain.o" }));
                let mut compiler = self.compiler(kind, with_pass, dir);
                self.headers(kind, &mut compiler);
                if program.libraries && self.cuda.is_none() {
                    compiler.arg("-I").arg(stand_ins());
                }
                let kernels = dir.join(object(file, "kern"));
                if kernels.exists() {
                    compiler.args(["-Xclang", "-fcuda-include-gpubinary", "-Xclang"]).arg(kernels);
                }
                compiler.args(flags(program, root)).args(["-w", "-O2", "-c", file]).arg("-o").arg(&to);
                if !matches!(kind, Language::Cuda) {
                    compiler.args(expanded(&program.c_flags, root));
                }
                output(compiler.current_dir(root))?;
                objects.push(to);
            }
        }
        let mut linker = self.compiler(Language::Cuda, with_pass, dir);
        linker.args(objects).arg("-o").arg(&name).arg("-L").arg(&self.libraries).arg("-Wl,-rpath-link");
        linker.arg(&self.libraries).args(["-l:libcudart.so.12", "-lm", "-pthread"]);
        linker.args(program.libraries.then_some("-l:libraries.so"));
        output(&mut linker)?;
        Ok(name)
    }

    fn compiler(&self, kind: Language, with_pass: bool, dir: &Path) -> Command {
        if matches!(kind, Language::Host) {
            return Command::new("cc");
        }
        if !with_pass {
            return Command::new("clang++-19");
        }
        let mut compiler = Command::new(self.pass.join("tessera-clang++"));
        compiler.env("TESSERA_TASK_LIB_DIR", &self.libraries);
        compiler.env("TESSERA_PASS_REPORT", dir.join("report.json"));
        compiler
    }

    fn headers(&self, kind: Language, compiler: &mut Command) {
        let simulator = workspace().join("crates/sim/cuda-sim/include");
        match (kind, &self.cuda) {
            (Language::Host, _) => (),
            (Language::Cuda, Some(cuda)) => {
                compiler.args(["-x", "cuda", "--cuda-host-only", "-Wno-unknown-cuda-version"]);
                compiler.arg(format!("--cuda-path={}", cuda.display()));
            }
            (Language::Cuda, None) => {
                compiler.args(["-x", "cuda", "--cuda-host-only", "-nocudainc", "-nocudalib", "-Xclang"]);
                compiler.arg("-target-sdk-version=12.5").arg("-I").arg(simulator);
                compiler.args(["-include", "cuda_runtime.h"]);
            }
            (Language::Calls, Some(cuda)) => _ = compiler.args(["-x", "c", "-I"]).arg(cuda.join("include")),
            (Language::Calls, None) => _ = compiler.args(["-x", "c", "-I"]).arg(simulator),
        }
    }
}

/// Headers of the libraries that the simulated device has a stand-in for.
fn stand_ins() -> PathBuf {
    source().join("tests/programs/include")
}

/// The options of a program's sources.
fn flags(program: &Program, root: &Path) -> Vec<String> {
    expanded(&program.flags, root)
}

fn expanded(flags: &[String], root: &Path) -> Vec<String> {
    flags.iter().map(|flag| flag.replace("DIR", &root.display().to_string())).collect()
}

/// The name of a file that a source becomes.
fn object(source: &str, end: &str) -> String {
    format!("{}.{end}", source.replace('/', "_"))
}
