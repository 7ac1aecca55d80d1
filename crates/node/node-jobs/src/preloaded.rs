//! Checks that only root can change the library that users' programs preload: it runs in every program of a job.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file name of the library. The library finds itself in `LD_PRELOAD` by it.
pub(crate) const LIBRARY: &str = "libtessera_task.so";

/// A library that is not preloaded.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum LibraryError {
    /// ld.so would say so in each program and go on without it.
    #[error(
        "{path}: cannot be preloaded to the job's programs; install it, or correct task_library in tessera.toml"
    )]
    Missing {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// Programs would load it, and it would do nothing.
    #[error("{path}: must be named {LIBRARY}; correct task_library in tessera.toml")]
    Named { path: PathBuf },
    /// Another user's code would run in users' programs.
    #[error("{path}: users other than root can change it: run chown root and chmod go-w on it")]
    Unsafe { path: PathBuf },
}

/// Checks the library and every directory on the way to it, also behind a link.
///
/// # Errors
///
/// It is missing or has another name, or others than root can change or replace it.
pub(crate) fn check(library: &Path) -> Result<(), LibraryError> {
    if library.file_name().is_none_or(|name| name != LIBRARY) {
        return Err(LibraryError::Named { path: library.to_owned() });
    }
    let missing = |source| LibraryError::Missing { path: library.to_owned(), source };
    let target = library.canonicalize().map_err(missing)?;
    for path in library.ancestors().chain(target.ancestors()).filter(|path| !path.as_os_str().is_empty()) {
        let meta = std::fs::metadata(path).map_err(missing)?;
        if !is_roots(&meta) {
            return Err(LibraryError::Unsafe { path: path.to_owned() });
        }
    }
    Ok(())
}

/// In a directory like `/tmp`, users cannot replace what is root's.
fn is_roots(meta: &Metadata) -> bool {
    const STICKY: u32 = 0o1000;
    let is_sticky = meta.is_dir() && meta.mode() & STICKY != 0;
    meta.uid() == rustix::process::geteuid().as_raw() && (meta.mode() & 0o022 == 0 || is_sticky)
}
