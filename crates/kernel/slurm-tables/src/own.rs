//! The table of the Slurm that loads a plugin.

use std::path::{Path, PathBuf};

use plugin_rt::own_file;
use plugin_rt::read_file::read_small;

use crate::table::{BadRow, BadTable};
use crate::{Layout, Tables, Version};

/// Name of a table that a site has made for a Slurm that it has changed. It lies in the directory of the plugin.
pub const OWN_TABLE: &str = "tessera-slurm-table.txt";
/// Most bytes of such a table.
const MAX_BYTES: u64 = 1 << 20;

/// There is no table that can be used.
#[derive(Debug, thiserror::Error)]
pub enum NoTable {
    /// Tessera's own cannot be used.
    #[error(transparent)]
    Known(#[from] BadTable),
    /// Tessera's own cannot be read.
    #[error(transparent)]
    Text(#[from] BadRow),
    /// The site's cannot be opened.
    #[error("{file}")]
    Open {
        /// Path of the file.
        file: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The site's cannot be read.
    #[error("{file}")]
    Row {
        /// Path of the file.
        file: PathBuf,
        /// The line.
        source: BadRow,
    },
    /// The site's cannot be used.
    #[error("{file}")]
    Site {
        /// Path of the file.
        file: PathBuf,
        /// Error in the table.
        source: BadTable,
    },
}

/// Gives the layout of the release that loads this plugin.
///
/// # Errors
///
/// No table has the release, or the one that has it cannot be right.
pub fn own_layout(version: Version) -> Result<Layout, NoTable> {
    layout(version, own_file().as_deref().and_then(Path::parent))
}

/// Gives the layout of a release: by the site's own table in `dir`, if that has the release, else by Tessera's.
///
/// # Errors
///
/// No table has the release, or the one that has it cannot be right.
fn layout(version: Version, dir: Option<&Path>) -> Result<Layout, NoTable> {
    if let Some(file) = dir.map(|dir| dir.join(OWN_TABLE)).filter(|file| file.exists()) {
        let text = match read_small(&file, MAX_BYTES) {
            Ok(text) => text,
            Err(source) => return Err(NoTable::Open { file, source }),
        };
        let table = match Tables::parse(&text) {
            Ok(table) => table,
            Err(source) => return Err(NoTable::Row { file, source }),
        };
        if table.releases.contains(&version) {
            return table.layout(version).map_err(|source| NoTable::Site { file, source });
        }
    }
    Ok(Tables::known(std::env::consts::ARCH)?.layout(version)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(own: &str) -> Result<Option<u64>, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(OWN_TABLE), own).unwrap();
        let found = layout(Version::new(22, 5, 8), Some(dir.path()));
        let found = found.map(|layout| layout.value("JOB_MAGIC").unwrap_or_default());
        found.map_err(|why| {
            plugin_rt::Chain(&why).to_string().replace(&dir.path().display().to_string(), "DIR")
        })
    }

    #[test]
    fn a_sites_own_table_comes_first() {
        assert_eq!(with("releases 22.05.8\nJOB_MAGIC 22.05.8=7\n"), Ok(Some(7)));
        let ours = with("releases 24.11.5\nJOB_MAGIC 24.11.5=7\n");
        assert_eq!(ours, Ok(Some(0xf0b7_392c)));
    }

    #[test]
    fn a_sites_table_that_is_damaged_is_not_passed_over() {
        for (own, why) in [
            (
                "releases 22.05.8\nJOB_MAGIC 22.05.8=x\n",
                "line 2 of the table: `22.05.8=x` is no entry: it looks like 24.11.5=216:8",
            ),
            (
                "releases 22.05.8\njob 22.05.8=4\njob.id 22.05.8=4:4\n",
                "the table for Slurm 22.05.8 cannot be right: job.id lies outside of job",
            ),
        ] {
            assert_eq!(with(own), Err(format!("DIR/{OWN_TABLE}: {why}")));
        }
    }

    #[test]
    fn a_release_without_a_table_is_named() {
        let why = layout(Version::new(21, 8, 8), None).unwrap_err();
        assert_eq!(why.to_string(), "no table for Slurm 21.08.8");
    }
}
