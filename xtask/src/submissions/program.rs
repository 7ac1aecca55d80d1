//! Programs of `tests/programs`, built against the library of a cluster's own Slurm: `submissions.c`, which submits, and others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::Cluster;
use lab::command::{Done, run};
use lab::paths::workspace;

use crate::command::{TaskError, at};

/// Compiles the program that submits.
pub(crate) fn build(cluster: &Cluster) -> Result<PathBuf, TaskError> {
    compile(cluster, "submissions")
}

/// Compiles a program of this name beside the cluster's jobs, where every user can run it.
pub(crate) fn compile(cluster: &Cluster, name: &str) -> Result<PathBuf, TaskError> {
    let program = cluster.layout().jobs().join(name);
    let mut cc = Command::new("cc");
    // From 26.05 on, functions that take a job's number want the id of a step instead, but for this.
    cc.arg("-DSLURM_BACKWARD_COMPAT");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-I"]).arg(cluster.slurm_headers());
    cc.arg("-o").arg(&program).arg(workspace().join("tests/programs").join(name).with_extension("c"));
    let library = library(&directories(cluster)?)?;
    // Its place is what finds a Slurm that was built by hand.
    let place = library.parent().unwrap_or(Path::new("/")).display().to_string();
    if cluster.prefix().is_some() {
        cc.arg(format!("-Wl,-rpath,{place}"));
    }
    // A chroot's libslurm needs the C library of its own Debian, which the machine's linker does not see.
    cc.arg(library).arg("-Wl,--allow-shlib-undefined");
    run(&mut cc).and_then(Done::ok)?;
    Ok(program)
}

/// Directories that may have the cluster's libslurm: of its prefix, or of its Debian, whatever the architecture.
fn directories(cluster: &Cluster) -> Result<Vec<PathBuf>, TaskError> {
    if let Some(prefix) = cluster.prefix() {
        return Ok(vec![prefix.join("lib")]);
    }
    let lib = cluster.chroot().unwrap_or(Path::new("/")).join("usr/lib");
    Ok(at(&lib, fs::read_dir(&lib))?.flatten().map(|entry| entry.path()).collect())
}

/// `libslurm.so.NUMBER` in one of these directories.
fn library(places: &[PathBuf]) -> Result<PathBuf, TaskError> {
    let files = places.iter().flat_map(|place| fs::read_dir(place).into_iter().flatten().flatten());
    let mut found: Vec<PathBuf> = files.map(|file| file.path()).filter(|path| is_library(path)).collect();
    found.sort();
    found.into_iter().next().ok_or_else(|| {
        TaskError::Other(format!("no libslurm.so.NUMBER in {places:?}: `cargo xtask setup` brings it"))
    })
}

fn is_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix("libslurm.so.").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Counts of one run of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) submitted: u64,
    pub(crate) accepted: u64,
    pub(crate) changed: u64,
    /// Accepted ones with several components.
    pub(crate) heterogeneous: u64,
}

/// Reads the program's last line: `submitted 500 accepted 321 changed 12 heterogeneous 3`. `None` if there is none.
pub(crate) fn sums(stdout: &str) -> Option<Sums> {
    let words: Vec<&str> = stdout.lines().last()?.split_whitespace().collect();
    let number =
        |at: usize, key: &str| (words.get(at) == Some(&key)).then(|| words.get(at + 1)?.parse().ok());
    Some(Sums {
        submitted: number(0, "submitted")??,
        accepted: number(2, "accepted")??,
        changed: number(4, "changed")??,
        heterogeneous: number(6, "heterogeneous")??,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_has_the_sums() {
        let text = "refused 3: 2014 Requested node configuration is not available\nsubmitted 5 accepted 2 changed 1 heterogeneous 1\n";
        assert_eq!(sums(text), Some(Sums { submitted: 5, accepted: 2, changed: 1, heterogeneous: 1 }));
        assert_eq!(sums("submitted 5 accepted 2\n"), None);
        assert_eq!(sums(""), None);
    }

    #[test]
    fn the_library_is_told_from_its_links() {
        assert!(is_library(Path::new("/usr/lib/x/libslurm.so.38")));
        assert!(!is_library(Path::new("/usr/lib/x/libslurm.so.38.0.0")));
        assert!(!is_library(Path::new("/usr/lib/x/libslurm.so")));
    }
}
