//! Reads the site's `tessera.toml`. `site-config` parses text and opens no file; this does.

use std::io;
use std::path::{Path, PathBuf};

use site_config::{ConfigError, SiteConfig};

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The site has no such file.
    #[error("{0} does not exist")]
    Missing(PathBuf),
    /// It is there and cannot be read.
    #[error("{path}")]
    Read {
        /// The file, as it was named to [`load`].
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// It has errors, at least one. Each shows its own line and column.
    #[error("{path} has {} errors", .errors.len())]
    Bad {
        /// The file, as it was named to [`load`].
        path: PathBuf,
        /// What is wrong with it, in the order of its lines.
        errors: Vec<ConfigError>,
    },
}

/// Where slurmctld's plugins look for it: beside slurm.conf.
#[must_use]
pub fn beside(slurm_conf: &Path) -> PathBuf {
    slurm_conf.with_file_name("tessera.toml")
}

/// Reads a file and those beside it that it names.
///
/// # Errors
///
/// It is not there, cannot be read, or has errors.
pub fn load(path: &Path) -> Result<SiteConfig, LoadError> {
    let text = std::fs::read_to_string(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => LoadError::Missing(path.to_owned()),
        _ => LoadError::Read { path: path.to_owned(), source },
    })?;
    let named = |name: &str| std::fs::read_to_string(path.with_file_name(name));
    let (config, errors) = site_config::parse(&path.to_string_lossy(), &text, &named);
    config.ok_or_else(|| LoadError::Bad { path: path.to_owned(), errors })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_told_from_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = beside(&dir.path().join("slurm.conf"));
        assert!(matches!(load(&path), Err(LoadError::Missing(missing)) if missing == path));
        std::fs::write(&path, "[[nodes]]\nnames = \"n1\"\n").unwrap();
        assert!(matches!(load(&path), Err(LoadError::Bad { errors, .. }) if !errors.is_empty()));
        std::fs::write(&path, "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n").unwrap();
        assert_eq!(load(&path).unwrap().nodes.len(), 1);
        std::fs::write(&path, [0xff]).unwrap();
        assert!(matches!(load(&path), Err(LoadError::Read { .. })));
    }
}
