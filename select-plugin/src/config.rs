//! Reads `tessera.toml`, at `init` and `reconfigure` only: nothing else of this plugin opens a file.

use std::io;
use std::path::{Path, PathBuf};

use site_config::{ConfigError, SiteConfig};

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The site has no such file.
    #[error("{0} does not exist")]
    Missing(PathBuf),
    /// It is there and cannot be read.
    #[error("{path}")]
    Read {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It has errors, at least one.
    #[error("tessera.toml has {} errors", .0.len())]
    Bad(Vec<ConfigError>),
}

/// Reads the file that lies beside slurm.conf.
pub(crate) fn load(slurm_conf: &Path) -> Result<SiteConfig, LoadError> {
    let path = slurm_conf.with_file_name("tessera.toml");
    let text = std::fs::read_to_string(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => LoadError::Missing(path.clone()),
        _ => LoadError::Read { path: path.clone(), source },
    })?;
    let beside = |name: &str| std::fs::read_to_string(path.with_file_name(name));
    let (config, errors) = site_config::parse(&path.to_string_lossy(), &text, &beside);
    config.ok_or(LoadError::Bad(errors))
}
