//! Directories of our own, opened so that no other user can redirect us.
//!
//! Every file below such a directory is reached by `*at` calls relative to its handle, never through a link.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use node_driver::scarce::users_can_cause;

/// A directory or file of ours that cannot be used: not safe, not readable, or of another Tessera.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum StateError {
    /// A system call failed.
    #[error("{path}: cannot {what}")]
    Io {
        path: PathBuf,
        what: &'static str,
        #[source]
        source: std::io::Error,
    },
    /// Belongs to another user, or others may write to it.
    #[error(
        "{path}: belongs to uid {uid} with mode {mode:04o}: it must belong to uid {want} and no other user may write to it"
    )]
    Unsafe {
        path: PathBuf,
        uid: u32,
        mode: u32,
        /// User that it should belong to.
        want: u32,
    },
    /// A newer Tessera wrote this journal file.
    #[error(
        "{path}: is of format {format}, this Tessera reads {oldest} to {newest}: install the newer one again, or let \
         the jobs on this node end and remove the file"
    )]
    NewerFormat {
        path: PathBuf,
        format: u64,
        /// The oldest format that is read.
        oldest: u32,
        newest: u32,
    },
}

impl StateError {
    /// True for an error that users can cause; see [`users_can_cause`].
    pub fn users_can_cause(&self) -> bool {
        matches!(self, Self::Io { source, .. } if users_can_cause(source))
    }
}

/// The error of a system call on this path.
pub fn io(path: &Path, what: &'static str) -> impl Fn(Errno) -> StateError {
    move |e| StateError::Io { path: path.to_owned(), what, source: e.into() }
}

/// Opens a directory of ours, making it with `mode` (and its parents with 0755) where it is missing.
///
/// # Errors
///
/// It is a link, belongs to another user or may be written by others.
pub fn own(path: &Path, mode: Mode) -> Result<OwnedFd, StateError> {
    match rustix::fs::mkdir(path, mode) {
        Err(Errno::NOENT) => {
            let parent = path.parent().unwrap_or(Path::new("/"));
            std::fs::create_dir_all(parent).map_err(|source| StateError::Io {
                path: parent.to_owned(),
                what: "create it",
                source,
            })?;
            ignore_exists(rustix::fs::mkdir(path, mode)).map_err(io(path, "create it"))?;
        }
        other => ignore_exists(other).map_err(io(path, "create it"))?,
    }
    open_own(CWD, path, path)
}

/// Makes and opens a directory of this name within a directory of ours.
pub fn own_at(dir: impl AsFd, base: &Path, name: &str, mode: Mode) -> Result<OwnedFd, StateError> {
    let path = base.join(name);
    ignore_exists(rustix::fs::mkdirat(&dir, name, mode)).map_err(io(&path, "create it"))?;
    open_own(dir, Path::new(name), &path)
}

fn open_own(dir: impl AsFd, name: &Path, path: &Path) -> Result<OwnedFd, StateError> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let fd =
        rustix::fs::openat(dir, name, flags, Mode::empty()).map_err(io(path, "open it as a directory"))?;
    let stat = rustix::fs::fstat(&fd).map_err(io(path, "look at it"))?;
    let want = rustix::process::geteuid().as_raw();
    if stat.st_uid != want || stat.st_mode & 0o022 != 0 {
        let mode = stat.st_mode & 0o7777;
        return Err(StateError::Unsafe { path: path.to_owned(), uid: stat.st_uid, mode, want });
    }
    Ok(fd)
}

fn ignore_exists(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}

/// Names in a directory, without `.` and `..`, sorted.
pub fn names(dir: impl AsFd) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Removes a file; one that is gone is no error.
pub fn unlink(dir: impl AsFd, name: &str) -> Result<(), Errno> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}
