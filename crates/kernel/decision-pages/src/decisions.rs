//! The counts of slurmctld's decisions at one moment.

use std::io;
use std::path::Path;

use decision_counts::decisions::{
    ANSWERS, Ask, BUCKETS, Cached, Hook, MARK, PLACING, Placing, Reason, SLOTS, hook_row, row,
};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use shared_pages::decisions::path;

use crate::page;

const ALL_PLACING: [Placing; 4] = [Placing::On, Placing::NoFile, Placing::BadFile, Placing::OtherSlurm];

/// Reads the counts of the slurmctld with this `StateSaveLocation`, which runs as `user`, on this machine.
///
/// # Errors
///
/// There is no such page here, this process may not read it, or another version of Tessera, or another user, wrote it.
pub fn read(state_save_location: &str, user: u32) -> io::Result<Decisions> {
    read_page(&path(state_save_location), &[user, 0])
}

/// Reads the page at `path`, which one of these users wrote.
///
/// # Errors
///
/// As [`read`].
pub fn read_page(path: &Path, users: &[u32]) -> io::Result<Decisions> {
    let mut page = page::read::<SLOTS, _>(path, users, Decisions::of)?;
    // The slurmctld that runs now may not have loaded the select plugin, which says it.
    if !page.placer_runs() {
        page.0[PLACING] = 0;
    }
    Ok(page)
}

/// The numbers of a page at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decisions(Vec<u64>);

impl Decisions {
    /// From the numbers of a page; `None`: it is not one of this arrangement.
    #[must_use]
    pub fn of(numbers: Vec<u64>) -> Option<Self> {
        (numbers.len() == SLOTS && numbers[0] == MARK).then_some(Self(numbers))
    }

    /// Tells whether slurmctld places GPUs; `None`: no slurmctld that runs has said so.
    #[must_use]
    pub fn placing(&self) -> Option<Placing> {
        ALL_PLACING.into_iter().find(|placing| *placing as u64 == self.0[PLACING] & 0xff)
    }

    /// Tells whether the process runs that has said so. One that the caller may not signal runs, too.
    fn placer_runs(&self) -> bool {
        let process = i32::try_from(self.0[PLACING] >> 8).ok().and_then(Pid::from_raw);
        process.is_some_and(|process| test_kill_process(process) != Err(Errno::SRCH))
    }

    /// How many of these the plugins keep, and how many they may keep at most; 0 and 0: they have not said so yet.
    #[must_use]
    pub fn kept(&self, what: Cached) -> [u64; 2] {
        what.slots().map(|slot| self.0[slot])
    }

    /// Questions that were answered with yes.
    #[must_use]
    pub fn accepted(&self, ask: Ask) -> u64 {
        self.0[row(ask)]
    }

    /// Questions that were answered with no, for this reason.
    #[must_use]
    pub fn refused(&self, ask: Ask, why: Reason) -> u64 {
        self.0[row(ask) + 1 + why as usize]
    }

    /// Number of decisions that took at most each of [`decision_counts::decisions::BOUNDS_NS`] and longer than the one before, and last of those that
    /// took longer than all.
    #[must_use]
    pub fn times(&self, ask: Ask) -> &[u64] {
        &self.0[row(ask) + ANSWERS..][..BUCKETS]
    }

    /// The time that all of them took, ns.
    #[must_use]
    pub fn total_ns(&self, ask: Ask) -> u64 {
        self.0[row(ask) + ANSWERS + BUCKETS]
    }

    /// Number of calls that lasted as [`Self::times`] tells it, and the time of all, ns: of Tessera's part, without Slurm's own.
    #[must_use]
    pub fn hook(&self, hook: Hook) -> (&[u64], u64) {
        let row = hook_row(hook);
        (&self.0[row..][..BUCKETS], self.0[row + BUCKETS])
    }
}

#[cfg(test)]
mod tests {
    use decision_counts::decisions::{BOUNDS_NS, placed_by, raised, raised_by_hook};

    use super::*;

    /// A page on which these numbers were raised.
    fn page(raised: impl IntoIterator<Item = (usize, u64)>) -> Decisions {
        let mut numbers = vec![0; SLOTS];
        numbers[0] = MARK;
        raised.into_iter().for_each(|(slot, n)| numbers[slot] += n);
        Decisions::of(numbers).unwrap()
    }

    /// A page after these decisions.
    fn after(decisions: &[(Ask, Result<(), Reason>, u64)]) -> Decisions {
        page(decisions.iter().flat_map(|(ask, answer, took_ns)| raised(*ask, *answer, *took_ns)))
    }

    #[test]
    fn each_decision_is_found_where_it_was_counted_and_nowhere_else() {
        for (i, ask) in Ask::ALL.into_iter().enumerate() {
            assert_eq!(ask as usize, i);
            for answer in [Ok(())].into_iter().chain(Reason::ALL.into_iter().map(Err)) {
                let page = after(&[(ask, answer, 7)]);
                for other in Ask::ALL {
                    let here = u64::from(other == ask);
                    assert_eq!(page.accepted(other), if answer.is_ok() { here } else { 0 });
                    for why in Reason::ALL {
                        assert_eq!(page.refused(other, why), if answer == Err(why) { here } else { 0 });
                    }
                    assert_eq!((page.times(other)[0], page.total_ns(other)), (here, 7 * here));
                }
            }
        }
        assert_eq!(Reason::ALL.map(|why| why as usize), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn times_fall_into_their_buckets() {
        let took = [0, 10_000, 10_001, 1_000_000_000, 1_000_000_001, u64::MAX / 2];
        let page = after(&took.map(|ns| (Ask::RunNow, Ok(()), ns)));
        assert_eq!(page.times(Ask::RunNow), [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(page.times(Ask::RunNow).iter().sum::<u64>(), 6);
    }

    #[test]
    fn each_call_is_found_where_it_was_counted_and_nowhere_else() {
        for (i, hook) in Hook::ALL.into_iter().enumerate() {
            assert_eq!(hook as usize, i);
            let page = page(raised_by_hook(hook, 5_000_000));
            assert_eq!((page.placing(), page.times(Ask::ALL[4])[12]), (None, 0));
            for other in Hook::ALL {
                let here = u64::from(other == hook);
                let (times, total_ns) = page.hook(other);
                assert_eq!((times[6], times.iter().sum(), total_ns), (here, here, 5_000_000 * here));
            }
        }
        assert_eq!(BOUNDS_NS[6], 5_000_000);
    }

    #[test]
    fn a_page_says_whether_gpus_are_placed() {
        assert_eq!(page([]).placing(), None);
        for placing in ALL_PLACING {
            assert_eq!(page([(PLACING, placed_by(placing, 4_194_303))]).placing(), Some(placing));
            assert_eq!(crate::words::off(placing).is_none(), placing == Placing::On);
        }
    }

    #[test]
    fn what_is_kept_stands_where_nothing_else_does() {
        for (i, kept) in Cached::ALL.into_iter().enumerate() {
            assert_eq!(kept as usize, i);
            let [now, most] = kept.slots();
            let page = page([(now, 3), (most, 9)]);
            for other in Cached::ALL {
                assert_eq!(page.kept(other), if other == kept { [3, 9] } else { [0, 0] });
            }
            let hooks = Hook::ALL.iter().all(|hook| page.hook(*hook).0.iter().all(|n| *n == 0));
            assert!(hooks && page.placing().is_none());
        }
    }

    #[test]
    fn another_arrangement_is_not_read() {
        assert_eq!(Decisions::of(vec![MARK; SLOTS - 1]), None);
        assert_eq!(Decisions::of(vec![0; SLOTS]), None);
    }
}
