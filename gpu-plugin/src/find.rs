//! Which files may be Slurm's own gpu_nvml.so.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The name of the file, which both plugins have.
const FILE: &str = "gpu_nvml.so";

/// Why Slurm's own plugin cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RealError {
    /// The host has no `slurm_conf`, or it does not name this plugin's directory.
    #[error("no PluginDir is known here")]
    NoPluginDir,
    /// No directory has one.
    #[error(
        "no {FILE} of Slurm's own in PluginDir={dirs}; install Slurm's NVML plugin, or write AutoDetect=off in gres.conf"
    )]
    NotFound { dirs: String },
    /// The dynamic linker cannot load it, and says why.
    #[error("{path}: {why}")]
    Load { path: PathBuf, why: String },
    /// It is of another Slurm.
    #[error("{path} is of another Slurm than this plugin is stamped for")]
    OfAnother { path: PathBuf },
    /// Its init function refused.
    #[error("Slurm's own {FILE} does not start")]
    Init,
}

/// Lists the files of that name in the colon-separated `dirs`, without the file `own` under any name.
pub(crate) fn candidates(dirs: &str, own: &Path) -> Vec<PathBuf> {
    let identity = |p: &Path| p.metadata().ok().map(|m| (m.dev(), m.ino()));
    let own = identity(own);
    dirs.split(':')
        .filter(|d| !d.is_empty())
        .map(|d| Path::new(d).join(FILE))
        .filter(|p| identity(p).is_some_and(|id| Some(id) != own))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_file_is_never_a_candidate_even_by_link() {
        let dir = tempfile::tempdir().unwrap();
        let [ours, theirs, alias] = ["ours", "theirs", "alias"].map(|name| dir.path().join(name));
        for d in [&ours, &theirs, &alias] {
            std::fs::create_dir_all(d).unwrap();
        }
        std::fs::write(ours.join(FILE), "a").unwrap();
        std::fs::write(theirs.join(FILE), "b").unwrap();
        std::os::unix::fs::symlink(ours.join(FILE), alias.join(FILE)).unwrap();
        let dirs = format!("{}:{}::{}:/nonexistent", ours.display(), alias.display(), theirs.display());
        assert_eq!(candidates(&dirs, &ours.join(FILE)), [theirs.join(FILE)]);
    }
}
