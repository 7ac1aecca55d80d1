//! Slurm's source, configured, so that its internal headers can be read by bindgen.

use std::fs;
use std::path::Path;
use std::process::Command;

use lab::paths::SlurmVersion;

use super::apt::Apt;
use super::once;
use crate::command::{TaskError, at, output};

/// What Debian configures Slurm with, as far as it shows in headers.
const CONFIGURE: [&str; 3] = ["--enable-multiple-slurmd", "--sysconfdir=/etc/slurm", "--without-hdf5"];

/// Fetches the source of `version` and configures it.
pub(super) fn configure(version: SlurmVersion) -> Result<(), TaskError> {
    let dir = version.dir();
    at(&dir, fs::create_dir_all(&dir))?;
    let key = format!("slurm-wlm of {} {CONFIGURE:?}\n", version.suite());
    once(&dir.join("src.done"), &key, &format!("Slurm {version}: fetch and configure the source"), || {
        let source = version.source();
        let download = dir.join("download");
        for old in [&source, &download] {
            if old.exists() {
                at(old, fs::remove_dir_all(old))?;
            }
        }
        at(&download, fs::create_dir_all(&download))?;
        Apt::update(version.suite())?.source_tar("slurm-wlm", &download)?;
        unpack(&download, &source)?;
        let mut configure = Command::new("./configure");
        output(configure.args(CONFIGURE).current_dir(&source))?;
        check(version, &source)
    })
}

/// Unpacks the one tar file in `download` as `source`.
fn unpack(download: &Path, source: &Path) -> Result<(), TaskError> {
    let mut entries = at(download, fs::read_dir(download))?.filter_map(Result::ok).map(|entry| entry.path());
    let tar = entries.find(|path| path.to_string_lossy().contains(".orig.tar")).ok_or_else(|| {
        TaskError::Other(format!("apt-get source left no tar file in {}", download.display()))
    })?;
    at(source, fs::create_dir_all(source))?;
    output(Command::new("tar").arg("-xf").arg(tar).args(["--strip-components=1", "-C"]).arg(source)).map(drop)
}

/// Makes sure the headers are there and of the version that was asked for.
fn check(version: SlurmVersion, source: &Path) -> Result<(), TaskError> {
    let meta_path = source.join("META");
    let meta = at(&meta_path, fs::read_to_string(&meta_path))?;
    let found =
        meta.lines().find_map(|line| line.trim().strip_prefix("Version:")).map(str::trim).unwrap_or_default();
    if !found.starts_with(version.as_str()) {
        return Err(TaskError::Other(format!("fetched Slurm {found}, expected {version}")));
    }
    for header in ["config.h", "slurm/slurm.h", "slurm/spank.h"] {
        if !source.join(header).is_file() {
            return Err(TaskError::Other(format!(
                "{} was not made by configure",
                source.join(header).display()
            )));
        }
    }
    Ok(())
}
