//! Refused submissions day by day, at one moment.

use std::io;
use std::path::Path;

use decision_counts::decisions::Reason;
use decision_counts::refusals_by_day::{DAY_S, FIRST, MARK, SINCE, SLOTS, cell, count_in, day_in, day_of};
use shared_pages::refusals_by_day::path;

use crate::page;

/// Reads the counts of the slurmctld with this `StateSaveLocation`, which runs as `user`, on this machine.
///
/// # Errors
///
/// There is no such page here, this process may not read it, or another version of Tessera, or another user, wrote it.
pub fn read(state_save_location: &str, user: u32) -> io::Result<RefusalsByDay> {
    read_page(&path(state_save_location), &[user, 0])
}

/// Reads the page at `path`, which one of these users wrote.
///
/// # Errors
///
/// As [`read`].
pub fn read_page(path: &Path, users: &[u32]) -> io::Result<RefusalsByDay> {
    page::read::<SLOTS, _>(path, users, RefusalsByDay::of)
}

/// The numbers of a page at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalsByDay(Vec<u64>);

impl RefusalsByDay {
    /// From the numbers of a page; `None`: it is not one of this arrangement.
    #[must_use]
    pub fn of(numbers: Vec<u64>) -> Option<Self> {
        (numbers.len() == SLOTS && numbers[0] == MARK).then_some(Self(numbers))
    }

    /// From when on submissions were counted, seconds since 1970: the page's beginning, or midnight of an earlier day on which
    /// something was counted because the clock was set back.
    #[must_use]
    pub fn since(&self) -> u64 {
        let began = self.0[SINCE];
        let counted =
            self.0[FIRST..].iter().filter(|value| count_in(**value) > 0).map(|value| day_in(*value));
        counted.min().filter(|day| *day < day_of(began)).map_or(began, |day| u64::from(day) * DAY_S)
    }

    /// Submissions that Tessera accepted on the day of this second.
    #[must_use]
    pub fn accepted(&self, at_s: u64) -> u32 {
        self.counted(Ok(()), at_s)
    }

    /// Submissions that were refused for this reason on the day of this second.
    #[must_use]
    pub fn refused(&self, why: Reason, at_s: u64) -> u32 {
        self.counted(Err(why), at_s)
    }

    fn counted(&self, answer: Result<(), Reason>, at_s: u64) -> u32 {
        let (slot, day) = cell(answer, at_s);
        let value = self.0[slot];
        if day_in(value) == day { count_in(value) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use decision_counts::refusals_by_day::{DAYS, raised};
    use proptest::prelude::*;

    use super::*;

    fn page(since: u64) -> Vec<u64> {
        let mut numbers = vec![0; SLOTS];
        (numbers[0], numbers[SINCE]) = (MARK, since);
        numbers
    }

    fn count(numbers: &mut [u64], answer: Result<(), Reason>, at_s: u64) {
        let (slot, day) = cell(answer, at_s);
        numbers[slot] = raised(numbers[slot], day);
    }

    fn seen(numbers: &[u64]) -> RefusalsByDay {
        RefusalsByDay::of(numbers.to_vec()).unwrap()
    }

    const ANSWERS: [Result<(), Reason>; 4] =
        [Ok(()), Err(Reason::Options), Err(Reason::Limit), Err(Reason::Failure)];

    #[test]
    fn a_day_ends_at_midnight_and_is_gone_after_two_months() {
        let mut numbers = page(3 * DAY_S);
        let midnight = 20_000 * DAY_S;
        for at in [midnight - 1, midnight, midnight + 1] {
            count(&mut numbers, Err(Reason::Impossible), at);
        }
        let impossible = |numbers: &[u64], at| seen(numbers).refused(Reason::Impossible, at);
        assert_eq!([impossible(&numbers, midnight - 9), impossible(&numbers, midnight + 9)], [1, 2]);
        assert_eq!(seen(&numbers).refused(Reason::Limit, midnight), 0);
        assert_eq!(seen(&numbers).accepted(midnight), 0);
        let later = midnight + DAYS as u64 * DAY_S;
        assert_eq!(impossible(&numbers, later), 0, "those of two months ago are not today's");
        count(&mut numbers, Err(Reason::Impossible), later);
        assert_eq!([impossible(&numbers, midnight), impossible(&numbers, later)], [0, 1]);
    }

    #[test]
    fn the_beginning_is_the_pages_unless_the_clock_was_set_back() {
        let mut numbers = page(100 * DAY_S + 5000);
        count(&mut numbers, Ok(()), 100 * DAY_S + 6000);
        assert_eq!(seen(&numbers).since(), 100 * DAY_S + 5000);
        count(&mut numbers, Ok(()), 98 * DAY_S + 6000);
        assert_eq!(seen(&numbers).since(), 98 * DAY_S);
    }

    #[test]
    fn another_arrangement_is_not_read() {
        assert_eq!(RefusalsByDay::of(vec![MARK; SLOTS - 1]), None);
        assert_eq!(RefusalsByDay::of(vec![0; SLOTS]), None);
    }

    proptest! {
        /// Whatever the clock does: the days that no other day has pushed off the page have all that was counted on them since.
        #[test]
        fn days_are_counted_as_a_list_would(asked in proptest::collection::vec((0_u64..200, 0..ANSWERS.len()), 0..200)) {
            let mut numbers = page(0);
            let mut known: HashMap<(u64, usize), u32> = HashMap::new();
            for (day, answer) in asked {
                count(&mut numbers, ANSWERS[answer], day * DAY_S + 77);
                known.retain(|(other, a), _| *a != answer || *other == day || other % DAYS as u64 != day % DAYS as u64);
                *known.entry((day, answer)).or_default() += 1;
            }
            for day in 0..200 {
                for (i, answer) in ANSWERS.into_iter().enumerate() {
                    let counted = seen(&numbers).counted(answer, day * DAY_S);
                    prop_assert_eq!(counted, known.get(&(day, i)).copied().unwrap_or(0));
                }
            }
        }
    }
}
