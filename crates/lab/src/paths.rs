//! Where things lie in the workspace.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A Slurm release the suite is tested with: the one of a Debian release, by major.minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlurmVersion {
    /// 22.05.8, from Debian 12: installed on the machine itself.
    V22_05,
    /// 24.11.5, from Debian 13: in a chroot under `target/`.
    V24_11,
}

impl SlurmVersion {
    /// Every version, oldest first.
    pub const ALL: [Self; 2] = [Self::V22_05, Self::V24_11];

    /// Major and minor number, as in directory names and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V22_05 => "22.05",
            Self::V24_11 => "24.11",
        }
    }

    /// Code name of the Debian release that ships it.
    #[must_use]
    pub fn suite(self) -> &'static str {
        match self {
            Self::V22_05 => "bookworm",
            Self::V24_11 => "trixie",
        }
    }

    /// `target/slurm/VERSION`: source, and the chroot where there is one.
    #[must_use]
    pub fn dir(self) -> PathBuf {
        target_dir().join("slurm").join(self.as_str())
    }

    /// Slurm's source tree, configured: `config.h` and `slurm/slurm.h` stand in it.
    #[must_use]
    pub fn source(self) -> PathBuf {
        self.dir().join("src")
    }

    /// Root of the chroot the daemons run in; `None` where they run on the machine itself.
    #[must_use]
    pub fn chroot(self) -> Option<PathBuf> {
        match self {
            Self::V22_05 => None,
            Self::V24_11 => Some(self.dir().join("chroot")),
        }
    }
}

impl fmt::Display for SlurmVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SlurmVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|v| v.as_str() == text)
            .ok_or_else(|| format!("`{text}` is not a tested Slurm: 22.05 or 24.11"))
    }
}

/// The two users whose jobs the demo and the tests run; `cargo xtask setup` creates them.
pub const TEST_USERS: [&str; 2] = ["tessera-alice", "tessera-bob"];

/// Root of the workspace this was built from.
#[must_use]
pub fn workspace() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.ancestors().nth(2).unwrap_or(crate_dir).to_path_buf()
}

/// Cargo's target directory.
#[must_use]
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace().join("target"), |dir| workspace().join(dir))
}

/// Programs and libraries of NVIDIA's and Slurm's, unpacked from Debian packages: a file-system root.
#[must_use]
pub fn real_parts() -> PathBuf {
    target_dir().join("real-parts").join("root")
}

/// Python modules installed beside the system's (`nvidia-ml-py`).
#[must_use]
pub fn real_python() -> PathBuf {
    target_dir().join("real-parts").join("python")
}
