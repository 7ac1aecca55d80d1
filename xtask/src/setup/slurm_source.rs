//! Fetches and configures Slurm's source, so that bindgen can read its internal headers.

use std::fs;
use std::path::Path;
use std::process::Command;

use lab::paths;
use slurm_releases::{Debian, Release};

use super::apt::Apt;
use super::once;
use crate::command::{TaskError, at, output};

/// Debian's configure options for Slurm that change its headers.
const CONFIGURE: [&str; 3] = ["--enable-multiple-slurmd", "--sysconfdir=/etc/slurm", "--without-hdf5"];

/// Fetches the source of `release` and configures it.
pub(super) fn configure(release: Release, debian: Debian) -> Result<(), TaskError> {
    let dir = paths::slurm(release);
    at(&dir, fs::create_dir_all(&dir))?;
    let key = format!("slurm-wlm of {} {CONFIGURE:?}\n", debian.suite);
    once(&dir.join("src.done"), &key, &format!("Slurm {release}: fetch and configure the source"), || {
        let source = paths::slurm_source(release);
        let download = dir.join("download");
        for old in [&source, &download] {
            if old.exists() {
                at(old, fs::remove_dir_all(old))?;
            }
        }
        at(&download, fs::create_dir_all(&download))?;
        Apt::update(debian.suite)?.source_tar("slurm-wlm", &download)?;
        unpack(&download, &source)?;
        let mut configure = Command::new("./configure");
        output(configure.args(CONFIGURE).current_dir(&source))?;
        check(release, &source)
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

/// Checks that configure made the headers and that they are of the series that was asked for.
fn check(release: Release, source: &Path) -> Result<(), TaskError> {
    let meta_path = source.join("META");
    let meta = at(&meta_path, fs::read_to_string(&meta_path))?;
    let found =
        meta.lines().find_map(|line| line.trim().strip_prefix("Version:")).map(str::trim).unwrap_or_default();
    if !release.is_series_of(found) {
        return Err(TaskError::Other(format!("fetched Slurm {found}, expected {release}")));
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
