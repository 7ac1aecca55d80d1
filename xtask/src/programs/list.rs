//! The list of programs: where each has its sources and how it is compiled.

use std::fs;
use std::path::{Path, PathBuf};

use lab::case_pass::source;
use serde::Deserialize;

use crate::command::{TaskError, at};

/// The deepest directory that is looked at below a directory with sources.
const DEPTH: usize = 8;

/// A program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    /// Name here, and family in `rodinia.csv`.
    pub(crate) name: String,
    /// The end of its directory's path.
    pub(crate) directory: String,
    /// CUDA sources. In this and the next two lists, places are below the directory.
    pub(crate) cuda: Vec<String>,
    /// C sources that call CUDA.
    #[serde(default)]
    pub(crate) calls: Vec<String>,
    /// C sources that do not, compiled by the machine's C compiler.
    #[serde(default)]
    pub(crate) host: Vec<String>,
    /// Compiler options for all sources; `DIR` stands for the directory.
    #[serde(default)]
    pub(crate) flags: Vec<String>,
    /// Compiler options for the C sources alone.
    #[serde(default)]
    pub(crate) c_flags: Vec<String>,
    /// It calls cuBLAS or cuRAND. The simulated device has a stand-in for both.
    #[serde(default)]
    pub(crate) libraries: bool,
    /// How CASE's artefact binds its tasks.
    pub(crate) artefact: String,
    /// Arguments of the runs that are compared.
    #[serde(default)]
    pub(crate) runs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    program: Vec<Program>,
}

/// Reads a list; without a file, that of CASE's artefact.
pub(crate) fn read(file: Option<&Path>) -> Result<Vec<Program>, TaskError> {
    let own = source().join("tests/programs/case.toml");
    let path = file.unwrap_or(&own);
    let text = at(path, fs::read_to_string(path))?;
    let list: List =
        toml::from_str(&text).map_err(|why| TaskError::Other(format!("{}: {why}", path.display())))?;
    Ok(list.program)
}

/// The program's directory below the first of `sources` that has it with all its CUDA sources.
pub(crate) fn root(program: &Program, sources: &[PathBuf]) -> Result<Option<PathBuf>, TaskError> {
    let mut todo: Vec<(PathBuf, usize)> = sources.iter().rev().map(|dir| (dir.clone(), 0)).collect();
    while let Some((dir, depth)) = todo.pop() {
        if dir.ends_with(&program.directory) && program.cuda.iter().all(|file| dir.join(file).is_file()) {
            return Ok(Some(dir));
        }
        if depth == DEPTH {
            continue;
        }
        let mut below = Vec::new();
        for entry in at(&dir, fs::read_dir(&dir))? {
            let entry = at(&dir, entry)?;
            if at(&dir, entry.file_type())?.is_dir() {
                below.push(entry.path());
            }
        }
        below.sort();
        todo.extend(below.into_iter().rev().map(|dir| (dir, depth + 1)));
    }
    Ok(None)
}
