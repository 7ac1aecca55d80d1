//! Directories of the workspace.

use std::path::{Path, PathBuf};

use slurm_releases::{Home, Release};

/// Directory of a Slurm series: its source, and its chroot if there is one.
#[must_use]
pub fn slurm(release: Release) -> PathBuf {
    target_dir().join(release.dir())
}

/// Slurm's configured source tree: it holds `config.h` and `slurm/slurm.h`.
#[must_use]
pub fn slurm_source(release: Release) -> PathBuf {
    target_dir().join(release.source())
}

/// Root of the chroot that the daemons run in; `None` if they run on the machine itself.
#[must_use]
pub fn chroot(release: Release) -> Option<PathBuf> {
    match release.home {
        Home::Machine | Home::Prefix => None,
        Home::Chroot(_) => Some(slurm(release).join("chroot")),
    }
}

/// Root of the Debian that ships a series, with that Slurm and nothing of the machine. Tests of packages copy it.
#[must_use]
pub fn debian_root(release: Release) -> PathBuf {
    chroot(release).unwrap_or_else(|| slurm(release).join("debian"))
}

/// The two users whose jobs the demo and the tests run; `cargo xtask setup` creates them.
pub const TEST_USERS: [&str; 2] = ["tessera-alice", "tessera-bob"];

/// Root of the workspace this was built from.
#[must_use]
pub fn workspace() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.ancestors().nth(3).unwrap_or(crate_dir).to_path_buf()
}

/// Cargo's target directory.
#[must_use]
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace().join("target"), |dir| workspace().join(dir))
}

/// A file-system root with programs and libraries of NVIDIA and Slurm, unpacked from Debian packages.
#[must_use]
pub fn real_parts() -> PathBuf {
    target_dir().join("real-parts").join("root")
}

/// Python modules installed beside the system's (`nvidia-ml-py`).
#[must_use]
pub fn real_python() -> PathBuf {
    target_dir().join("real-parts").join("python")
}
