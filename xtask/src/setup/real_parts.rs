//! Unpacks programs of NVIDIA and Slurm below `target/`: they run against the simulator. For the tests of accounting it
//! also unpacks slurmdbd and its database, 12 MB to fetch. Nothing is installed.
//!
//! `libnvidia-ml1` is left out on purpose: the simulator takes its place.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use lab::paths::{real_parts, real_python};
use slurm_releases::Debian;

use super::apt::Apt;
use super::once;
use crate::command::{TaskError, at, output};

/// Debian packages, unpacked only.
const PACKAGES: [&str; 9] = [
    "nvidia-smi",
    "nvidia-cuda-mps",
    "slurm-wlm-nvml-plugin",
    "slurmdbd",
    "slurm-wlm-mysql-plugin",
    "mariadb-server-core",
    "libmariadb3",
    // libraries that mariadbd needs and a bare machine may lack
    "libaio1",
    "liburing2",
];
/// NVIDIA's Python bindings for NVML, on PyPI.
const PYTHON: &str = "nvidia-ml-py";

/// Unpacks the real parts into `target/real-parts`.
pub(super) fn unpack() -> Result<(), TaskError> {
    let root = real_parts();
    let dir = root.parent().unwrap_or(&root).to_path_buf();
    at(&dir, fs::create_dir_all(&dir))?;
    once(
        &dir.join("root.done"),
        &format!("{PACKAGES:?}\n"),
        "nvidia-smi, nvidia-cuda-mps, gpu_nvml.so, slurmdbd and mariadbd",
        || {
            let debs = dir.join("debs");
            for old in [&root, &debs] {
                if old.exists() {
                    at(old, fs::remove_dir_all(old))?;
                }
            }
            at(&debs, fs::create_dir_all(&debs))?;
            Apt::update(Debian::MACHINE.suite)?.download(&PACKAGES, &debs)?;
            for entry in at(&debs, fs::read_dir(&debs))?.filter_map(Result::ok) {
                output(Command::new("dpkg").arg("-x").arg(entry.path()).arg(&root))?;
            }
            // Debian reaches it through its alternatives; here it is the only one.
            let link = root.join("usr/bin/nvidia-smi");
            at(&link, symlink("../lib/nvidia/current/nvidia-smi", &link))
        },
    )
}

/// Installs NVIDIA's Python bindings beside the real parts.
pub(super) fn bindings() -> Result<(), TaskError> {
    let python = real_python();
    let dir = python.parent().unwrap_or(&python).to_path_buf();
    once(&dir.join("python.done"), &format!("{PYTHON}\n"), PYTHON, || {
        let mut pip = Command::new("/usr/bin/pip3");
        pip.args(["install", "--quiet", "--upgrade", "--no-deps", "--target"]).arg(&python).arg(PYTHON);
        output(&mut pip).map(drop)
    })
}
