//! The site's configuration, read anew when slurmctld has read its own.

use std::path::Path;

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
        let path = Path::new(slurm_conf).with_file_name("tessera.toml");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                self.config = None;
                return true;
            }
            Err(e) => {
                log::error(format_args!("job submit plugin: {}: {}", path.display(), Chain(&e)));
                return false;
            }
        };
        let beside = |name: &str| std::fs::read_to_string(path.with_file_name(name));
        let (config, errors) = site_config::parse(&path.to_string_lossy(), &text, &beside);
        match config {
            Some(config) => {
                self.config = Some(config);
                true
            }
            None => {
                errors.iter().for_each(log::error);
                false
            }
        }
    }

    /// The configuration in force.
    pub(crate) fn config(&self) -> Option<&SiteConfig> {
        self.config.as_ref()
    }
}
