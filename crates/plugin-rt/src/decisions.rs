//! Counts slurmctld's decisions where `tessera exporter` sees them: on a page of memory that both processes share. Counting
//! opens nothing, waits for nothing and allocates nothing. Reasons: docs/decisions/0027.
//!
//! The page is a file in `/dev/shm` that belongs to slurmctld's user. A slurmctld that starts anew goes on with the page of the
//! one before, and so do two that overlap at `scontrol reconfigure`.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use protocol::decisions::{Ask, DIR, Decisions, MARK, Reason, SLOTS, page_name, raised};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::geteuid;

use crate::ffi::shared_page::SharedPage;
use crate::log;

/// The bytes of a file: one page of memory.
const BYTES: u64 = 4096;

static PAGE: OnceLock<Option<SharedPage<SLOTS>>> = OnceLock::new();

/// The page of the slurmctld with this `StateSaveLocation`.
#[must_use]
pub fn path(state_save_location: &str) -> PathBuf {
    Path::new(DIR).join(page_name(state_save_location))
}

/// Counts from now on, if the page can be had; else the log says why, and nothing is counted. For a plugin's `init`.
pub fn begin(state_save_location: &str) {
    PAGE.get_or_init(|| {
        let path = path(state_save_location);
        open(&path)
            .map_err(|e| {
                log::error(format_args!(
                    "decisions are not counted for `tessera exporter`: {}: {e}; jobs are not affected",
                    path.display()
                ));
            })
            .ok()
    });
}

/// Counts one decision and the time that it took.
pub fn count(ask: Ask, answer: Result<(), Reason>, took: Duration) {
    let Some(page) = PAGE.get().and_then(Option::as_ref) else { return };
    add(page, ask, answer, took);
}

fn add(page: &SharedPage<SLOTS>, ask: Ask, answer: Result<(), Reason>, took: Duration) {
    let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    for (slot, n) in raised(ask, answer, took_ns) {
        page.numbers()[slot].fetch_add(n, Relaxed);
    }
}

/// The page at `path`, which is made where there is none.
fn open(path: &Path) -> io::Result<SharedPage<SLOTS>> {
    let page = map_own(path)?;
    // Of a new page the mark is 0. Two processes may set it at once: to the same.
    let _ = page.numbers()[0].compare_exchange(0, MARK, Relaxed, Relaxed);
    if page.numbers()[0].load(Relaxed) == MARK {
        return Ok(page);
    }
    // Another version of Tessera made it. One that still runs goes on with its own.
    fs::remove_file(path)?;
    let page = map_own(path)?;
    page.numbers()[0].store(MARK, Relaxed);
    Ok(page)
}

fn map_own(path: &Path) -> io::Result<SharedPage<SLOTS>> {
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
    // Whatever slurmctld's umask is: the exporter is another user.
    file.set_permissions(Permissions::from_mode(0o644))?;
    // A write to memory that cannot be had would end slurmctld.
    fallocate(&file, FallocateFlags::empty(), 0, BYTES)?;
    SharedPage::map(&file, true)
}

/// That a file is a page which nobody but one of these users can have written.
fn is_of(file: &File, users: &[u32]) -> io::Result<()> {
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

/// What the slurmctld with this `StateSaveLocation`, which runs as `user`, has counted on this machine.
///
/// # Errors
///
/// There is no such page here, this process may not read it, or another version of Tessera, or another user, wrote it.
pub fn read(state_save_location: &str, user: u32) -> io::Result<Decisions> {
    read_page(&path(state_save_location), &[user, 0])
}

fn read_page(path: &Path, users: &[u32]) -> io::Result<Decisions> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    is_of(&file, users)?;
    let page = SharedPage::<SLOTS>::map(&file, false)?;
    let numbers = page.numbers().iter().map(|n| n.load(Relaxed)).collect();
    let other = || io::Error::new(ErrorKind::InvalidData, "another version of Tessera wrote it");
    Decisions::of(numbers).ok_or_else(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn me() -> u32 {
        geteuid().as_raw()
    }

    #[test]
    fn a_later_process_goes_on_counting_and_a_reader_sees_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        let first = open(&path).unwrap();
        add(&first, Ask::RunNow, Ok(()), Duration::from_micros(5));
        let second = open(&path).unwrap();
        add(&second, Ask::RunNow, Err(Reason::NoRoom), Duration::from_secs(2));
        add(&first, Ask::Submit, Err(Reason::Limit), Duration::from_micros(50));
        let seen = read_page(&path, &[me()]).unwrap();
        assert_eq!((seen.accepted(Ask::RunNow), seen.refused(Ask::RunNow, Reason::NoRoom)), (1, 1));
        assert_eq!(seen.refused(Ask::Submit, Reason::Limit), 1);
        assert_eq!(seen.total_ns(Ask::RunNow), 2_000_005_000);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
    }

    #[test]
    fn another_versions_page_is_replaced_and_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        fs::write(&path, vec![7; 8192]).unwrap();
        assert!(read_page(&path, &[me()]).unwrap_err().to_string().contains("another version"));
        add(&open(&path).unwrap(), Ask::Change, Ok(()), Duration::ZERO);
        assert_eq!(read_page(&path, &[me()]).unwrap().accepted(Ask::Change), 1);
    }

    #[test]
    fn only_slurmctlds_own_file_is_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        drop(open(&at("page")).unwrap());
        let why = |path: &Path, users: &[u32]| read_page(path, users).unwrap_err().to_string();
        assert!(why(&at("page"), &[me() + 1]).contains("belongs to the user with id"));
        symlink(at("page"), at("link")).unwrap();
        assert!(open(&at("link")).is_err() && read_page(&at("link"), &[me()]).is_err());
        fs::set_permissions(at("page"), Permissions::from_mode(0o666)).unwrap();
        assert_eq!(why(&at("page"), &[me()]), "others can write to it");
        assert_eq!(open(&at("page")).unwrap_err().to_string(), "others can write to it");
        fs::write(at("short"), "x").unwrap();
        assert_eq!(why(&at("short"), &[me()]), "it is too short");
        let fifo = std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap();
        assert!(fifo.success());
        assert_eq!(open(&at("fifo")).unwrap_err().to_string(), "not a regular file");
        assert_eq!(why(&at("fifo"), &[me()]), "not a regular file");
        assert_eq!(read_page(&at("none"), &[me()]).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn without_a_page_nothing_is_counted() {
        count(Ask::RunNow, Ok(()), Duration::ZERO);
    }
}
