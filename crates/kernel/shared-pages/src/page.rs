//! Pages of numbers in memory that slurmctld's plugins write and other programs on its machine read: files in `/dev/shm` that
//! belong to slurmctld's user. Reasons: docs/decisions/0027.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::geteuid;

use decision_counts::decisions::DIR;

use crate::ffi::SharedPage;
use plugin_rt::log;

/// A file has whole pages of memory.
const BYTES: usize = 4096;

pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// The page that this process counts on: none before [`Counting::begin`], and none where it cannot be had.
pub(crate) struct Counting<const N: usize>(OnceLock<Option<SharedPage<N>>>);

impl<const N: usize> Counting<N> {
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Counts from now on, if `open` can open `path`; else the log says why `what` is lost, and nothing is counted.
    pub(crate) fn begin(
        &self,
        path: &Path,
        open: impl FnOnce(&Path) -> io::Result<SharedPage<N>>,
        what: &str,
    ) {
        self.0.get_or_init(|| {
            let lost = |e| log::error(format_args!("{what}: {}: {e}; jobs are not affected", path.display()));
            open(path).map_err(lost).ok()
        });
    }

    pub(crate) fn page(&self) -> Option<&SharedPage<N>> {
        self.0.get().and_then(Option::as_ref)
    }
}

/// The page at `path` whose first number is `mark`. It is made where there is none, and in place of one of another version.
pub(crate) fn open<const N: usize>(path: &Path, mark: u64) -> io::Result<SharedPage<N>> {
    let page = map_own::<N>(path)?;
    // Of a new page the mark is 0. Two processes may set it at once: to the same.
    let _ = page.numbers()[0].compare_exchange(0, mark, Relaxed, Relaxed);
    if page.numbers()[0].load(Relaxed) == mark {
        return Ok(page);
    }
    // Another version of Tessera made it. One that still runs goes on with its own.
    fs::remove_file(path)?;
    let page = map_own::<N>(path)?;
    page.numbers()[0].store(mark, Relaxed);
    Ok(page)
}

fn map_own<const N: usize>(path: &Path) -> io::Result<SharedPage<N>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let mut options = OpenOptions::new();
    // Anybody can put a file there: it must be there before, or be ours.
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o644)
        .custom_flags(flags)
        .open(path)?;
    is_of(&file, &[geteuid().as_raw()])?;
    // Whatever slurmctld's umask is: the reader is another user.
    file.set_permissions(Permissions::from_mode(0o644))?;
    // A write to memory that cannot be had would end slurmctld.
    let bytes = (N * size_of::<u64>()).next_multiple_of(BYTES);
    fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)?;
    SharedPage::map(&file, true)
}

/// Checks that only one of these users can have written the file of a page.
///
/// # Errors
///
/// Another user owns it, or others can write to it, or it is no file.
pub fn is_of(file: &File, users: &[u32]) -> io::Result<()> {
    let meta = file.metadata()?;
    let invalid = |what: String| Err(io::Error::new(ErrorKind::InvalidInput, what));
    if !meta.is_file() {
        return invalid("not a regular file".to_owned());
    }
    if !users.contains(&meta.uid()) {
        return invalid(format!("it belongs to the user with id {}, not to slurmctld's", meta.uid()));
    }
    if meta.mode() & 0o022 != 0 {
        return invalid("others can write to it".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: u64 = 7;

    #[test]
    fn a_page_that_cannot_be_had_is_not_tried_again_and_counts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("page");
        let counting = Counting::<4>::new();
        assert!(counting.page().is_none());
        counting.begin(&page, |_| Err(ErrorKind::StorageFull.into()), "nothing is counted");
        counting.begin(&page, |path| open(path, MARK), "nothing is counted");
        assert!(counting.page().is_none() && !page.exists());
    }

    #[test]
    fn a_page_that_can_be_had_is_counted_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        let counting = Counting::<4>::new();
        counting.begin(&path, |path| open(path, MARK), "nothing is counted");
        counting.page().unwrap().numbers()[1].fetch_add(3, Relaxed);
        let seen = SharedPage::<4>::map(&File::open(&path).unwrap(), false).unwrap();
        assert_eq!([0, 1].map(|at| seen.numbers()[at].load(Relaxed)), [MARK, 3]);
    }
}
