//! The site's configuration, read anew when slurmctld has read its own.

use std::path::Path;

use plugin_rt::tessera_toml::{self, LoadError};
use plugin_rt::{Chain, log};
use site_config::SiteConfig;

/// The configuration in force.
#[derive(Default)]
pub(crate) struct Site {
    config: Option<SiteConfig>,
    /// slurmctld's time of its last reading, when ours was made.
    read_at: Option<i64>,
}

impl Site {
    /// Reads the file beside slurm.conf if slurmctld has read its configuration since; false: it is bad, and the one
    /// before stays. Without such a file there is no configuration.
    pub(crate) fn refresh(&mut self, slurm_conf: &str, slurm_read_at: i64) -> bool {
        if self.read_at == Some(slurm_read_at) {
            return true;
        }
        self.read_at = Some(slurm_read_at);
        match tessera_toml::load(&tessera_toml::beside(Path::new(slurm_conf))) {
            Ok(config) => self.config = Some(config),
            Err(LoadError::Missing(_)) => self.config = None,
            Err(LoadError::Bad { errors, .. }) => {
                errors.iter().for_each(log::error);
                return false;
            }
            Err(e @ LoadError::Read { .. }) => {
                log::error(format_args!("job submit plugin: {}", Chain(&e)));
                return false;
            }
        }
        true
    }

    /// The configuration in force.
    pub(crate) fn config(&self) -> Option<&SiteConfig> {
        self.config.as_ref()
    }
}
