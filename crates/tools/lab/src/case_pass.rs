//! The compiler pass in `contrib/case-pass` and the CUDA programs that it is tested with, built. Test programs, `cargo xtask
//! install` and the benchmarks use the same files: make builds what is not there yet, for one of them at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::run;
use crate::error::{HarnessError, at};
use crate::paths::{target_dir, workspace};

/// The directory of the pass's source.
#[must_use]
pub fn source() -> PathBuf {
    workspace().join("contrib/case-pass")
}

/// Builds the pass, and returns the directory with `tessera-case-pass.so` and `tessera-clang++`.
///
/// # Errors
///
/// What make says if it fails.
pub fn build() -> Result<PathBuf, HarnessError> {
    let dir = target_dir().join("case-pass");
    make(&dir, &source(), &[])?;
    Ok(dir)
}

/// The programs in `contrib/case-pass/tests/shapes`, compiled.
#[derive(Debug, Clone)]
pub struct Shapes {
    dir: PathBuf,
    /// Their names, in order.
    pub names: Vec<String>,
}

impl Shapes {
    /// Compiles what has changed. The simulator's programs and libraries must have been built for debugging.
    ///
    /// # Errors
    ///
    /// What make says if it fails.
    pub fn build() -> Result<Self, HarnessError> {
        let dir = build()?;
        let tests = source().join("tests");
        make(&dir, &tests, &[format!("SIMULATOR={}", target_dir().join("debug").display())])?;
        let shapes = tests.join("shapes");
        let mut names = Vec::new();
        for entry in at(&shapes, fs::read_dir(&shapes))? {
            let path = at(&shapes, entry)?.path();
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
        names.sort();
        Ok(Self { dir: dir.join("shapes"), names })
    }

    /// A shape compiled by clang alone, at `-O2`.
    #[must_use]
    pub fn plain(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.plain"))
    }

    /// A shape compiled with the pass, at `-O0` or `-O2`.
    #[must_use]
    pub fn with_pass(&self, name: &str, level: &str) -> PathBuf {
        self.dir.join(format!("{name}{level}"))
    }

    /// Returns the pass's report on a shape at that level: a line of JSON per function, none if there is nothing to say.
    ///
    /// # Errors
    ///
    /// If there is a report that cannot be read.
    pub fn report(&self, name: &str, level: &str) -> Result<String, HarnessError> {
        let path = self.dir.join(format!("{name}{level}.json"));
        if path.exists() { at(&path, fs::read_to_string(&path)) } else { Ok(String::new()) }
    }
}

fn make(build: &Path, directory: &Path, variables: &[String]) -> Result<(), HarnessError> {
    at(build, fs::create_dir_all(build))?;
    let lock_path = build.join("lock");
    let lock = at(&lock_path, fs::File::create(&lock_path))?;
    at(&lock_path, lock.lock())?;
    let mut make = Command::new("make");
    make.args(["--silent", "-j2", "-C"]).arg(directory).arg(format!("BUILD={}", build.display()));
    run(make.args(variables))?.ok().map(drop)
}
