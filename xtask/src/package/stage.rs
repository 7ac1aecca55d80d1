//! Files that `cargo xtask install` has staged, as packages have them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{TaskError, at, output};

/// The files of a package.
pub(super) struct Files {
    /// Every file, as an absolute path of the machine that it is installed on.
    pub(super) all: Vec<PathBuf>,
    /// Files that the dynamic linker loads, as paths below the staging directory.
    pub(super) linked: Vec<PathBuf>,
}

/// Sets modes and compresses man pages; with `strip`, takes away symbols that only a debugger reads.
pub(super) fn finish(root: &Path, strip: bool) -> Result<Files, TaskError> {
    let mut staged = Vec::new();
    walk(root, &mut staged)?;
    let mut files = Files { all: Vec::new(), linked: Vec::new() };
    for file in staged {
        let file = if file.components().any(|part| part.as_os_str() == "man") {
            output(Command::new("gzip").args(["-9", "--no-name"]).arg(&file))?;
            PathBuf::from(format!("{}.gz", file.display()))
        } else {
            file
        };
        let elf = at(&file, fs::read(&file))?.starts_with(b"\x7fELF");
        if elf && strip {
            output(Command::new("strip").arg("--strip-unneeded").arg(&file))?;
        }
        let mode = at(&file, fs::metadata(&file))?.permissions().mode();
        let mode = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
        at(&file, fs::set_permissions(&file, fs::Permissions::from_mode(mode)))?;
        files.all.push(Path::new("/").join(file.strip_prefix(root).unwrap_or(&file)));
        if elf {
            files.linked.push(file);
        }
    }
    Ok(files)
}

/// All files below a directory, in order. Directories get the mode that packages give them.
fn walk(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), TaskError> {
    at(dir, fs::set_permissions(dir, fs::Permissions::from_mode(0o755)))?;
    let mut entries = Vec::new();
    for entry in at(dir, fs::read_dir(dir))? {
        entries.push(at(dir, entry)?.path());
    }
    entries.sort();
    for path in entries {
        if path.is_dir() { walk(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
