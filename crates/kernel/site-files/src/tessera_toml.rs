//! Reads the site's `tessera.toml`: the one reader for all plugins and the CLI. `site-config` parses text and opens no
//! file; this does. What holds while the file is bad: [`crate::last_good`].

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use error_chain::with_causes;
use geometry::counted;
use site_config::{ConfigError, SiteConfig};

use plugin_rt::read_file::{CONFIG, read_small};

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The site has no such file.
    #[error("{0} does not exist")]
    Missing(PathBuf),
    /// Present, but unreadable.
    #[error("{path}")]
    Read {
        /// The file, as it was named to [`load`].
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Has errors, at least one. Each shows its own line and column.
    #[error("{path} has {}", counted(.errors.len(), "error"))]
    Bad {
        /// The file, as it was named to [`load`].
        path: PathBuf,
        /// The file's errors, in the order of its lines.
        errors: Vec<ConfigError>,
    },
}

impl LoadError {
    /// A line for each thing that is wrong.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::Bad { errors, .. } if !errors.is_empty() => {
                errors.iter().map(ToString::to_string).collect()
            }
            other => vec![with_causes(other)],
        }
    }

    /// The first of these lines, and how many follow.
    #[must_use]
    pub fn first_line(&self) -> String {
        let lines = self.lines();
        match lines.len() {
            0 | 1 => lines.into_iter().next().unwrap_or_default(),
            n => format!("{} (and {} more)", lines[0], n - 1),
        }
    }
}

/// Path where slurmctld's plugins look for it: beside slurm.conf.
#[must_use]
pub fn beside(slurm_conf: &Path) -> PathBuf {
    slurm_conf.with_file_name("tessera.toml")
}

/// A `tessera.toml` and the files beside it that it names, as they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texts {
    /// The text of the file itself.
    pub main: String,
    /// Names as the file has them, with the texts, in the order of the file.
    pub named: Vec<(String, String)>,
}

/// Reads a file and those beside it that it names: a configuration if there is no error, and the errors.
///
/// # Errors
///
/// The file itself cannot be read. One beside it that cannot is an error of the line that names it.
pub fn read(path: &Path) -> io::Result<(Option<SiteConfig>, Vec<ConfigError>)> {
    read_texts(path).map(|(_, config, errors)| (config, errors))
}

type Read = (Texts, Option<SiteConfig>, Vec<ConfigError>);

fn read_texts(path: &Path) -> io::Result<Read> {
    let main = read_small(path, CONFIG)?;
    let named = RefCell::new(Vec::new());
    let read = |name: &str| {
        let text = read_small(&path.with_file_name(name), CONFIG)?;
        let mut named = named.borrow_mut();
        if !named.iter().any(|(known, _)| known == name) {
            named.push((name.to_owned(), text.clone()));
        }
        Ok(text)
    };
    let (config, errors) = site_config::parse(&path.to_string_lossy(), &main, &read);
    Ok((Texts { main, named: named.into_inner() }, config, errors))
}

/// The configuration of a site, from its file and those beside it, with their texts.
///
/// # Errors
///
/// It is not there, cannot be read, or has errors.
pub fn load(path: &Path) -> Result<(SiteConfig, Texts), LoadError> {
    let (texts, config, errors) = read_texts(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => LoadError::Missing(path.to_owned()),
        _ => LoadError::Read { path: path.to_owned(), source },
    })?;
    config.map(|config| (config, texts)).ok_or_else(|| LoadError::Bad { path: path.to_owned(), errors })
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
        assert_eq!(load(&path).unwrap().0.nodes.len(), 1);
        std::fs::write(&path, [0xff]).unwrap();
        assert!(matches!(load(&path), Err(LoadError::Read { .. })));
    }

    #[test]
    fn several_errors_are_one_line_where_there_is_room_for_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tessera.toml");
        std::fs::write(&path, "[mps]\nx = 1\n[[nodes]]\nnames = \"n1\"\n").unwrap();
        let error = load(&path).unwrap_err();
        let lines = error.lines();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(error.first_line(), format!("{} (and 1 more)", lines[0]));
        assert!(lines[0].contains("tessera.toml:2:1: unknown key x"), "{lines:?}");
    }
}
