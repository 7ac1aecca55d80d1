//! The program that submits: `tests/programs/submissions.c`, built against the library of a cluster's own Slurm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::Cluster;
use lab::command::{Done, run};
use lab::paths::workspace;

use crate::command::{TaskError, at};

/// Compiles it beside the cluster's jobs, where every user can run it.
pub(crate) fn build(cluster: &Cluster) -> Result<PathBuf, TaskError> {
    let program = cluster.layout().jobs().join("submissions");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-Wextra", "-Werror", "-I"]).arg(cluster.slurm_source());
    cc.arg("-o").arg(&program).arg(workspace().join("tests/programs/submissions.c"));
    // A chroot's libslurm needs the C library of its own Debian, which the machine's linker does not see.
    cc.arg(library(cluster.chroot().unwrap_or(Path::new("/")))?).arg("-Wl,--allow-shlib-undefined");
    run(&mut cc).and_then(Done::ok)?;
    Ok(program)
}

/// `libslurm.so.NUMBER` below the library directory of a Debian root, whatever its architecture.
fn library(root: &Path) -> Result<PathBuf, TaskError> {
    let lib = root.join("usr/lib");
    let mut found: Vec<PathBuf> = Vec::new();
    for dir in at(&lib, fs::read_dir(&lib))?.flatten() {
        let files = fs::read_dir(dir.path()).into_iter().flatten().flatten().map(|file| file.path());
        found.extend(files.filter(|path| is_library(path)));
    }
    found.sort();
    found.into_iter().next().ok_or_else(|| {
        TaskError::Other(format!(
            "no libslurm.so.NUMBER below {}: `cargo xtask setup` brings it",
            lib.display()
        ))
    })
}

fn is_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix("libslurm.so.").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// What one run of the program did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) submitted: u64,
    pub(crate) accepted: u64,
    pub(crate) changed: u64,
}

/// Its last line: `submitted 500 accepted 321 changed 12`. `None` if there is none.
pub(crate) fn sums(stdout: &str) -> Option<Sums> {
    let words: Vec<&str> = stdout.lines().last()?.split_whitespace().collect();
    let number =
        |at: usize, key: &str| (words.get(at) == Some(&key)).then(|| words.get(at + 1)?.parse().ok());
    Some(Sums {
        submitted: number(0, "submitted")??,
        accepted: number(2, "accepted")??,
        changed: number(4, "changed")??,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_has_the_sums() {
        let text = "refused 3: 2014 Requested node configuration is not available\nsubmitted 5 accepted 2 changed 1\n";
        assert_eq!(sums(text), Some(Sums { submitted: 5, accepted: 2, changed: 1 }));
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
