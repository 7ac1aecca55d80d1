//! Stamps the version of a Slurm into a plugin.
//!
//! Slurm loads a plugin only if its `plugin_version` is Slurm's own version number, of a SPANK plugin the major and minor part. Tessera's
//! plugins serve every release by tables, and a build leaves that number 0. Their installation stamps the number of the Slurm that is
//! there into a copy.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

pub mod said;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use slurm_tables::{TABLES, Tables, Version};

/// The exported variable that Slurm reads.
const SYMBOL: &str = "plugin_version";

/// Tessera does not know where the fields of a Slurm's structures lie. Its plugins leave all to such a Slurm.
#[derive(Debug, thiserror::Error)]
#[error("Slurm {version} has no table; those that have: {known}")]
pub struct NoTable {
    /// The version.
    pub version: Version,
    /// The releases that have one, by series.
    pub known: String,
}

/// A plugin cannot be stamped.
#[derive(Debug, thiserror::Error)]
pub enum NotStamped {
    /// The file is no plugin.
    #[error("{0} is no plugin of Slurm's: it has no plugin_version")]
    NoPlugin(PathBuf),
    /// The file could not be read or written.
    #[error("{path}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Tells for which Slurm a plugin is stamped; 0.0.0 for none.
///
/// # Errors
///
/// The bytes are no plugin: the `path` is named.
pub fn stamped(path: &Path, bytes: &[u8]) -> Result<Version, NotStamped> {
    let at = place(bytes).ok_or_else(|| NotStamped::NoPlugin(path.to_path_buf()))?;
    let number = bytes[at..].first_chunk().map_or(0, |number| u32::from_le_bytes(*number));
    Ok(Version(number))
}

/// Gives the bytes of a plugin with the stamp of a Slurm.
///
/// # Errors
///
/// `from` is no plugin, or cannot be read.
pub fn with_stamp(from: &Path, version: Version) -> Result<Vec<u8>, NotStamped> {
    let mut bytes = at(from, fs::read(from))?;
    let place = place(&bytes).ok_or_else(|| NotStamped::NoPlugin(from.to_path_buf()))?;
    bytes[place..place + 4].copy_from_slice(&version.0.to_le_bytes());
    Ok(bytes)
}

/// Copies a plugin and stamps the copy. The new file takes the place of an old one as a whole: a daemon that has the old one in its memory
/// keeps it. A Slurm without a table gets its stamp, too: it would not start without a plugin that it names, and such a plugin leaves all to
/// Slurm.
///
/// # Errors
///
/// `from` is no plugin, or a file cannot be read or written.
pub fn stamp(from: &Path, to: &Path, version: Version) -> Result<(), NotStamped> {
    let bytes = with_stamp(from, version)?;
    let fresh = to.with_extension("new");
    at(&fresh, fs::write(&fresh, bytes))?;
    let mode = at(from, fs::metadata(from))?.permissions().mode();
    at(&fresh, fs::set_permissions(&fresh, fs::Permissions::from_mode(mode)))?;
    at(to, fs::rename(&fresh, to))
}

/// Checks that a Slurm has a table.
///
/// # Errors
///
/// It has none; those that have are named.
pub fn check(version: Version) -> Result<(), NoTable> {
    let releases = Tables::parse(TABLES).map(|table| table.releases).unwrap_or_default();
    if releases.contains(&version) { Ok(()) } else { Err(NoTable { version, known: by_series(&releases) }) }
}

/// `22.05.0 to 22.05.11, 26.05.0 to 26.05.3, 26.05.5`.
fn by_series(releases: &[Version]) -> String {
    let groups = releases.chunk_by(|a, b| a.0 + 1 == b.0);
    let shown = groups.map(|group| match group {
        [only] => only.to_string(),
        [first, .., last] => format!("{first} to {last}"),
        [] => String::new(),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Finds the number in the file.
fn place(bytes: &[u8]) -> Option<usize> {
    let file = object::File::parse(bytes).ok()?;
    let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(SYMBOL))?;
    let section = file.section_by_index(symbol.section_index()?).ok()?;
    let (begin, _) = section.file_range()?;
    let place = usize::try_from(begin + symbol.address().checked_sub(section.address())?).ok()?;
    (symbol.size() == 4 && place.checked_add(4)? <= bytes.len()).then_some(place)
}

fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, NotStamped> {
    result.map_err(|source| NotStamped::File { path: path.to_path_buf(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plugin_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("x.so"), dir.path().join("y.so"));
        let version = Version::new(22, 5, 8);
        let said = |from: &Path| stamp(from, &to, version).unwrap_err().to_string();
        assert_eq!(said(&from), from.display().to_string());
        let own = std::env::current_exe().unwrap();
        for other in [&b""[..], b"\x7fELF", &fs::read(own).unwrap()] {
            fs::write(&from, other).unwrap();
            assert!(said(&from).ends_with("x.so is no plugin of Slurm's: it has no plugin_version"));
        }
        assert!(!to.exists());
    }

    #[test]
    fn a_slurm_without_a_table_is_refused_with_those_that_have_one() {
        let said = check(Version::new(21, 8, 8)).unwrap_err().to_string();
        assert!(
            said.starts_with("Slurm 21.08.8 has no table; those that have: 22.05.0 to 22.05.11, 23.02.0 to"),
            "{said}"
        );
        assert!(check(Version::new(22, 5, 8)).is_ok());
    }
}
