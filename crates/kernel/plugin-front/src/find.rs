//! Finds the file of Slurm's own plugin.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use slurm_tables::Version;

/// Slurm's own plugin cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    /// The host has no `slurm_conf`, or it has no plugin directory.
    #[error("no PluginDir is known here")]
    NoPluginDir,
    /// No directory has one.
    #[error(
        "no {file} other than this plugin in PluginDir={dirs}; append Slurm's own plugin directory to it"
    )]
    NotFound {
        /// The name of the file, which both plugins have.
        file: &'static str,
        /// `PluginDir`.
        dirs: String,
    },
    /// Built for another Slurm than `ours`, by its version.
    #[error("built for Slurm {}, but {path} is of Slurm {}", Version(*.ours), Version(*.found))]
    OfAnother {
        /// The file.
        path: PathBuf,
        /// The version that this plugin is stamped with.
        ours: u32,
        /// The version that the file has; 0 for none.
        found: u32,
    },
    /// Built for another Slurm than `ours`, by the first symbol that it lacks.
    #[error("built for Slurm {}, but {path} has no {symbol}", Version(*.ours))]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// The version that this plugin is stamped with.
        ours: u32,
        /// The symbol.
        symbol: &'static str,
    },
    /// The dynamic linker cannot load it, and says why.
    #[error("{path}: {why}")]
    Load {
        /// The file.
        path: PathBuf,
        /// The linker's words.
        why: String,
    },
}

/// Finds Slurm's own plugin in the colon-separated `dirs`: the first of these files that `open` opens. `own` is this plugin's file.
///
/// # Errors
///
/// The last file that could not be opened, or that there is none.
pub(crate) fn find<T>(
    file: &'static str,
    dirs: &str,
    own: Option<&Path>,
    open: impl FnMut(PathBuf) -> Result<Option<T>, RealError>,
) -> Result<T, RealError> {
    let mut failed = RealError::NotFound { file, dirs: dirs.to_owned() };
    for opened in candidates(file, dirs, own).into_iter().map(open) {
        match opened {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            Err(e) => failed = e,
        }
    }
    Err(failed)
}

/// Files of that name in the colon-separated `dirs`, without the file `own` under any name.
fn candidates(file: &str, dirs: &str, own: Option<&Path>) -> Vec<PathBuf> {
    let identity = |p: &Path| p.metadata().ok().map(|m| (m.dev(), m.ino()));
    let own = own.and_then(identity);
    dirs.split(':')
        .filter(|d| !d.is_empty())
        .map(|d| Path::new(d).join(file))
        .filter(|p| identity(p).is_some_and(|id| Some(id) != own))
        .collect()
}

/// Checks an opened plugin by what it has.
///
/// # Errors
///
/// It is of another Slurm than `ours`: it lacks one of the `wanted` symbols, or has another version; 0 stands for none.
pub(crate) fn check(
    path: PathBuf,
    ours: u32,
    wanted: &[&'static str],
    has: impl Fn(&str) -> bool,
    version: impl FnOnce() -> Option<u32>,
) -> Result<(), RealError> {
    if let Some(symbol) = wanted.iter().copied().find(|symbol| !has(symbol)) {
        return Err(RealError::Incomplete { path, ours, symbol });
    }
    match version() {
        Some(found) if found == ours => Ok(()),
        found => Err(RealError::OfAnother { path, ours, found: found.unwrap_or_default() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "select_cons_tres.so";

    #[test]
    fn own_file_is_never_a_candidate_even_by_link() {
        let dir = std::env::temp_dir().join(format!("tessera-real-{}", std::process::id()));
        let (ours, theirs, alias) = (dir.join("ours"), dir.join("theirs"), dir.join("alias"));
        for d in [&ours, &theirs, &alias] {
            std::fs::create_dir_all(d).unwrap();
        }
        std::fs::write(ours.join(FILE), "a").unwrap();
        std::fs::write(theirs.join(FILE), "b").unwrap();
        std::os::unix::fs::symlink(ours.join(FILE), alias.join(FILE)).unwrap();
        let dirs = format!("{}:{}::{}:/nonexistent", ours.display(), alias.display(), theirs.display());
        let found = candidates(FILE, &dirs, Some(&ours.join(FILE)));
        let opened = find(FILE, &dirs, None, |path| Ok(path.starts_with(&theirs).then_some(path)));
        let why = find::<()>(FILE, &dirs, Some(&ours.join(FILE)), |path| {
            Err(RealError::Load { path, why: "not an ELF file".to_owned() })
        });
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(found, [theirs.join(FILE)]);
        assert_eq!(opened.unwrap(), theirs.join(FILE), "the first that opens");
        assert!(why.unwrap_err().to_string().ends_with("not an ELF file"));
        assert!(matches!(
            find::<()>(FILE, "/nonexistent", None, |_| Ok(None)),
            Err(RealError::NotFound { .. })
        ));
    }

    #[test]
    fn a_plugin_of_another_slurm_is_not_forwarded_to() {
        let said = |has: bool, found: Option<u32>| {
            let path = PathBuf::from("/lib/real.so");
            check(path, 0x16_0508, &["init", "fini"], |symbol| has || symbol != "fini", || found)
        };
        assert!(said(true, Some(0x16_0508)).is_ok());
        let other = said(true, Some(0x18_0b05)).unwrap_err().to_string();
        assert_eq!(other, "built for Slurm 22.05.8, but /lib/real.so is of Slurm 24.11.5");
        let lacking = said(false, Some(0x16_0508)).unwrap_err().to_string();
        assert_eq!(lacking, "built for Slurm 22.05.8, but /lib/real.so has no fini");
    }
}
