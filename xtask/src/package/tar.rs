//! Archives: all files of a package, or the `tessera` command alone as a static program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::paths::{target_dir, workspace};

use super::about::{About, NAME};
use crate::command::{TaskError, at, output, run};

/// Packs `work`/root: unpack it in `/`, then run `tessera setup`.
pub(super) fn build(about: &About, work: &Path, out: &Path) -> Result<PathBuf, TaskError> {
    let archive = out.join(format!("{NAME}-{}-{}.tar.gz", about.version, about.arch));
    pack(&work.join("root"), &archive)?;
    Ok(archive)
}

/// Packs a directory. The same files give the same archive.
fn pack(root: &Path, archive: &Path) -> Result<(), TaskError> {
    let mut tar = Command::new("tar");
    tar.args([
        "--create",
        "--gzip",
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mtime=@0",
    ]);
    // Directories are the machine's own: an archive with them would change their modes.
    tar.args(["--no-recursion", "--file"]).arg(archive);
    // The directory counts for what comes behind it.
    tar.arg("--directory").arg(root).args(["--null", "--files-from=-"]);
    let mut names = Vec::new();
    files(root, Path::new(""), &mut names)?;
    let list = archive.with_extension("list");
    at(&list, fs::write(&list, names.join("\0")))?;
    tar.stdin(at(&list, fs::File::open(&list))?);
    let packed = run(&mut tar);
    at(&list, fs::remove_file(&list))?;
    packed
}

/// Names of all files below a directory, in order.
fn files(root: &Path, below: &Path, names: &mut Vec<String>) -> Result<(), TaskError> {
    let dir = root.join(below);
    for entry in at(&dir, fs::read_dir(&dir))? {
        let name = below.join(at(&dir, entry)?.file_name());
        if root.join(&name).is_dir() {
            files(root, &name, names)?
        } else {
            names.push(name.display().to_string())
        }
    }
    names.sort();
    Ok(())
}

/// Builds the `tessera` command as a program that needs no library, and packs it alone.
///
/// The C library is glibc: a toolchain from a distribution has no other. Such a program loads no library either, so it asks no driver.
pub(super) fn build_static(
    version: &str,
    work: &Path,
    out: &Path,
    is_debug: bool,
) -> Result<PathBuf, TaskError> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(workspace()).args(["build", "-p", "tessera-cli", "--bin", NAME, "--target", &target]);
    build.arg("--target-dir").arg(target_dir()).env("RUSTFLAGS", "-C target-feature=+crt-static");
    if !is_debug {
        build.arg("--release");
    }
    run(&mut build)?;
    let program = work.join("root").join(NAME);
    let built = target_dir().join(&target).join(if is_debug { "debug" } else { "release" }).join(NAME);
    at(&built, fs::copy(&built, &program))?;
    output(Command::new("strip").arg(&program))?;
    let needs =
        output(Command::new("readelf").args(["--dynamic", "--program-headers", "--wide"]).arg(&program))?;
    if let Some(line) = needs.lines().find(|line| line.contains("(NEEDED)") || line.contains("INTERP")) {
        return Err(TaskError::Other(format!("{} is not static: {}", program.display(), line.trim())));
    }
    let archive = out.join(format!("{NAME}-static-{version}-{}.tar.gz", std::env::consts::ARCH));
    pack(&work.join("root"), &archive)?;
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_files_and_no_directories() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        fs::write(root.join("usr/bin/tessera"), "x").unwrap();
        fs::write(root.join("usr/a b"), "y").unwrap();
        let archive = dir.path().join("a.tar.gz");
        pack(&root, &archive).unwrap();
        let first = fs::read(&archive).unwrap();
        let listed = output(Command::new("tar").args(["--list", "--file"]).arg(&archive)).unwrap();
        assert_eq!(listed, "usr/a b\nusr/bin/tessera\n");
        pack(&root, &archive).unwrap();
        assert_eq!(fs::read(&archive).unwrap(), first, "the same files give the same archive");
    }
}
