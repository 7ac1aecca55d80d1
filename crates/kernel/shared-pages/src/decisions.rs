//! Counts slurmctld's decisions where `tessera exporter` sees them: on a page of memory that both processes share. Counting
//! opens nothing, waits for nothing and allocates nothing. Reasons: docs/decisions/0027.
//!
//! The page is a file in `/dev/shm` that belongs to slurmctld's user. A slurmctld that starts anew goes on with the page of the
//! one before, and so do two that overlap at `scontrol reconfigure`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use decision_counts::decisions::{
    Ask, Cached, Hook, MARK, PLACING, Placing, Reason, SLOTS, page_name, placed_by, raised, raised_by_hook,
};

use crate::ffi::SharedPage;
use crate::page::{self, Counting};

static PAGE: Counting<SLOTS> = Counting::new();

/// The page of the slurmctld with this `StateSaveLocation`.
#[must_use]
pub fn path(state_save_location: &str) -> PathBuf {
    page::path(&page_name(state_save_location))
}

/// Counts from now on, if the page can be had; else the log says why, and nothing is counted. For a plugin's `init`.
pub fn begin(state_save_location: &str) {
    PAGE.begin(&path(state_save_location), take_over, "decisions are not counted for `tessera exporter`");
}

/// Opens the page of a process before, which has taken with it what it kept.
fn take_over(path: &Path) -> io::Result<SharedPage<SLOTS>> {
    let page = open(path)?;
    Cached::ALL.iter().flat_map(|what| what.slots()).for_each(|slot| page.numbers()[slot].store(0, Relaxed));
    Ok(page)
}

/// Says whether this slurmctld places GPUs, for `tessera doctor` and the exporter.
pub fn say_placing(placing: Placing) {
    if let Some(page) = PAGE.page() {
        page.numbers()[PLACING].store(placed_by(placing, std::process::id()), Relaxed);
    }
}

/// Says how many of these are kept, and how many may be at most, for `tessera doctor`.
pub fn say_kept(what: Cached, counts: [usize; 2]) {
    if let Some(page) = PAGE.page() {
        for (slot, count) in what.slots().into_iter().zip(counts) {
            page.numbers()[slot].store(count as u64, Relaxed);
        }
    }
}

/// Counts one decision and the time that it took.
pub fn count(ask: Ask, answer: Result<(), Reason>, took: Duration) {
    let Some(page) = PAGE.page() else { return };
    add(page, ask, answer, took);
}

/// Does what a call of Slurm's wants of Tessera, and counts how long that takes.
pub fn timed<T>(hook: Hook, body: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = body();
    count_hook(hook, began.elapsed());
    done
}

/// Counts one call of Slurm's and the time that it took.
pub fn count_hook(hook: Hook, took: Duration) {
    let Some(page) = PAGE.page() else { return };
    for (slot, n) in raised_by_hook(hook, nanoseconds(took)) {
        page.numbers()[slot].fetch_add(n, Relaxed);
    }
}

fn nanoseconds(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

fn add(page: &SharedPage<SLOTS>, ask: Ask, answer: Result<(), Reason>, took: Duration) {
    for (slot, n) in raised(ask, answer, nanoseconds(took)) {
        page.numbers()[slot].fetch_add(n, Relaxed);
    }
}

fn open(path: &Path) -> io::Result<SharedPage<SLOTS>> {
    page::open(path, MARK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use decision_pages::decisions::read_page;
    use std::fs::{self, Permissions};
    use std::io::ErrorKind;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use rustix::process::geteuid;

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
    fn a_later_process_keeps_nothing_yet() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        let first = open(&path).unwrap();
        add(&first, Ask::RunNow, Ok(()), Duration::ZERO);
        let all = || Cached::ALL.map(|what| read_page(&path, &[me()]).unwrap().kept(what));
        let slots = Cached::ALL.iter().flat_map(|what| what.slots());
        slots.for_each(|slot| first.numbers()[slot].store(7, Relaxed));
        assert_eq!(all(), [[7, 7]; Cached::ALL.len()]);
        drop(take_over(&path).unwrap());
        assert_eq!(all(), [[0, 0]; Cached::ALL.len()]);
        assert_eq!(read_page(&path, &[me()]).unwrap().accepted(Ask::RunNow), 1);
    }

    #[test]
    fn whether_gpus_are_placed_is_unknown_once_the_process_has_ended_that_said_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        let mut placer = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let page = open(&path).unwrap();
        page.numbers()[PLACING].store(placed_by(Placing::On, placer.id()), Relaxed);
        let placing = || read_page(&path, &[me()]).unwrap().placing();
        assert_eq!(placing(), Some(Placing::On));
        placer.kill().unwrap();
        placer.wait().unwrap();
        assert_eq!(placing(), None);
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
    fn without_a_page_nothing_is_counted_and_counting_opens_none() {
        count(Ask::RunNow, Ok(()), Duration::ZERO);
        count_hook(Hook::JobTest, Duration::ZERO);
        say_placing(Placing::On);
        say_kept(Cached::Answers, [1, 2]);
        assert!(PAGE.page().is_none(), "only `begin` opens one");
    }
}
