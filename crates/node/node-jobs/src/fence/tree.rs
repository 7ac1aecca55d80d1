//! The tree of control groups: reads and writes, and nothing that decides.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Reads and changes a tree. Paths are relative to its root.
pub(super) trait Tree {
    /// Returns a file's text.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// Writes to a file that exists, all in one `write`.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;
    /// Makes a control group; one that exists is no error.
    fn make(&self, dir: &Path) -> io::Result<()>;
    /// Removes a control group that has no processes and no groups.
    fn remove(&self, dir: &Path) -> io::Result<()>;
    /// Returns the names of the groups in a group.
    fn groups(&self, dir: &Path) -> io::Result<Vec<String>>;
}

/// The tree in the file system.
pub(super) struct Mounted<'a>(pub(super) &'a Path);

impl Tree for Mounted<'_> {
    fn read(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(self.0.join(path))
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).truncate(true).open(self.0.join(path))?;
        file.write_all(text.as_bytes())
    }

    fn make(&self, dir: &Path) -> io::Result<()> {
        match fs::create_dir(self.0.join(dir)) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn remove(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(self.0.join(dir))
    }

    fn groups(&self, dir: &Path) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.0.join(dir))?.flatten();
        let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        Ok(dirs.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
    }
}

/// Returns the group in which slurmstepd makes those of jobs. `None` if there is none, or one for each of several nodes on
/// this machine.
pub(super) fn scope(tree: &dyn Tree) -> Option<PathBuf> {
    let is_scope = |name: &String| name == "slurmstepd.scope" || name.ends_with("_slurmstepd.scope");
    let mut found = Vec::new();
    for slice in tree.groups(Path::new("")).ok()?.into_iter().filter(|name| name.ends_with(".slice")) {
        let inside = tree.groups(Path::new(&slice)).unwrap_or_default();
        found.extend(inside.into_iter().filter(is_scope).map(|scope| Path::new(&slice).join(scope)));
    }
    if found.len() == 1 { found.pop() } else { None }
}

/// Gives the groups within a job's parents the files of the `dmem` controller. Slurm does not know the controller up to 25.11, so
/// nobody else enables it below the root.
pub(super) fn enable(tree: &dyn Tree, job_dir: &Path) -> io::Result<()> {
    let mut parents: Vec<&Path> = job_dir.ancestors().skip(1).collect();
    parents.reverse();
    for parent in parents {
        let control = parent.join("cgroup.subtree_control");
        if !tree.read(&control)?.split_whitespace().any(|name| name == "dmem") {
            tree.write(&control, "+dmem")?;
        }
    }
    Ok(())
}
