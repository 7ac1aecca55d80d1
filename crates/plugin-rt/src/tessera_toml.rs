//! Reads the site's `tessera.toml`: the one reader for all plugins and the CLI. `site-config` parses text and opens no
//! file; this does.

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

/// What a file and those beside it that it names say: a configuration if there is no error, and the errors.
///
/// # Errors
///
/// The file itself cannot be read. One beside it that cannot is an error of the line that names it.
pub fn read(path: &Path) -> io::Result<(Option<SiteConfig>, Vec<ConfigError>)> {
    let text = std::fs::read_to_string(path)?;
    let named = |name: &str| std::fs::read_to_string(path.with_file_name(name));
    Ok(site_config::parse(&path.to_string_lossy(), &text, &named))
}

/// The configuration of a site, from its file and those beside it.
///
/// # Errors
///
/// It is not there, cannot be read, or has errors.
pub fn load(path: &Path) -> Result<SiteConfig, LoadError> {
    let (config, errors) = read(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => LoadError::Missing(path.to_owned()),
        _ => LoadError::Read { path: path.to_owned(), source },
    })?;
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
