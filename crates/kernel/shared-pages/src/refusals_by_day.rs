//! Counts refused submissions day by day where `tessera history` sees them: on a page of memory beside that of
//! [`crate::decisions`], with a name and a version of its own. Counting opens nothing, waits for nothing and allocates nothing.
//! Reasons: docs/decisions/0029.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use decision_counts::decisions::Reason;
use decision_counts::refusals_by_day::{MARK, SINCE, SLOTS, cell, page_name, raised};

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
    PAGE.begin(
        &path(state_save_location),
        |path| open(path, now()),
        "refused submissions are not counted for `tessera history`",
    );
}

/// Counts the answer to one submission.
pub fn count(answer: Result<(), Reason>) {
    if let Some(page) = PAGE.page() {
        add(page, answer, now());
    }
}

fn now() -> u64 {
    // A clock before 1970 is as good as one that stands there.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn add(page: &SharedPage<SLOTS>, answer: Result<(), Reason>, at_s: u64) {
    let (slot, day) = cell(answer, at_s);
    // Tries again only if another process has counted in this very cell meanwhile.
    let _ = page.numbers()[slot].fetch_update(Relaxed, Relaxed, |value| Some(raised(value, day)));
}

fn open(path: &Path, at_s: u64) -> io::Result<SharedPage<SLOTS>> {
    let page = page::open(path, MARK)?;
    let _ = page.numbers()[SINCE].compare_exchange(0, at_s, Relaxed, Relaxed);
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use decision_pages::refusals_by_day::{RefusalsByDay, read_page};
    use rustix::process::geteuid;
    use std::fs;
    use std::thread;

    const NOON: u64 = 20_000 * 86_400 + 43_200;

    fn seen(path: &Path) -> RefusalsByDay {
        read_page(path, &[geteuid().as_raw()]).unwrap()
    }

    #[test]
    fn a_later_process_goes_on_with_the_page_and_its_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        let first = open(&path, NOON).unwrap();
        add(&first, Err(Reason::Limit), NOON + 1);
        let second = open(&path, NOON + 5).unwrap();
        add(&second, Err(Reason::Limit), NOON + 6);
        add(&first, Ok(()), NOON + 86_400);
        let seen = seen(&path);
        assert_eq!((seen.since(), seen.refused(Reason::Limit, NOON)), (NOON, 2));
        assert_eq!((seen.accepted(NOON), seen.accepted(NOON + 86_400)), (0, 1));
    }

    #[test]
    fn two_processes_that_count_at_once_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let page = open(&path, NOON).unwrap();
                    (0..2000).for_each(|_| add(&page, Err(Reason::Limit), NOON));
                });
            }
        });
        assert_eq!(seen(&path).refused(Reason::Limit, NOON), 4000);
    }

    #[test]
    fn another_versions_page_is_replaced_and_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page");
        fs::write(&path, vec![7; 8192]).unwrap();
        let why = read_page(&path, &[geteuid().as_raw()]).unwrap_err();
        assert!(why.to_string().contains("another version"));
        add(&open(&path, NOON).unwrap(), Ok(()), NOON);
        assert_eq!(seen(&path).accepted(NOON), 1);
    }

    #[test]
    fn without_a_page_nothing_is_counted_and_counting_opens_none() {
        count(Ok(()));
        assert!(PAGE.page().is_none(), "only `begin` opens one");
    }
}
