//! A Debian release beside the machine's, for the Slurm it ships.

use std::fs;
use std::path::Path;
use std::process::Command;

use lab::paths::SlurmVersion;

use super::apt::Apt;
use super::once;
use super::sources::KEYRING;
use crate::command::{TaskError, at, output};

/// What the chroot holds beyond a minimal Debian.
const PACKAGES: &str = "slurmctld,slurmd,slurm-client,slurm-wlm-basic-plugins,munge";

/// Makes the chroot of `version` with debootstrap, checked against Debian's archive keys.
pub(super) fn create(version: SlurmVersion, root: &Path) -> Result<(), TaskError> {
    let suite = version.suite();
    let stamp = version.dir().join("chroot.done");
    once(
        &stamp,
        &format!("{suite} {PACKAGES}\n"),
        &format!("Slurm {version}: chroot of Debian `{suite}`"),
        || {
            if root.exists() {
                at(root, fs::remove_dir_all(root))?;
            }
            let mut debootstrap = Command::new("debootstrap");
            debootstrap
                .env("DEBIAN_FRONTEND", "noninteractive")
                .args(["--variant=minbase", "--merged-usr"])
                .arg(format!("--include={PACKAGES}"))
                .arg(format!("--keyring={KEYRING}"))
                .args([suite, &root.to_string_lossy(), &Apt::main_mirror()?]);
            output(&mut debootstrap)?;
            let version_line = output(Command::new("chroot").arg(root).args(["slurmctld", "-V"]))?;
            let found = version_line.trim().trim_start_matches("slurm-wlm ").to_owned();
            if found.starts_with(version.as_str()) {
                return Ok(());
            }
            Err(TaskError::Other(format!("the chroot has Slurm {found}, expected {version}")))
        },
    )
}
