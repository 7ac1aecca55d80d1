//! Refused submissions day by day, which slurmctld counts and `tessera history` reads: a page of numbers in memory like that
//! of [`crate::decisions`], with the last [`DAYS`] days on it. Reasons: docs/decisions/0029.
//!
//! The page is a row of 64-bit numbers in the machine's byte order: [`MARK`], the second since 1970 at which the page was made,
//! then a row of [`ROOM`] cells for each day. A day has the row of its number since 1970 modulo [`DAYS`]. A cell has the day's
//! number in its upper half and its count in its lower one. So a cell tells by itself whether it is of this day or of one long
//! ago, and whoever counts replaces it in a single atomic step: nothing is ever cleared, and two processes that count at
//! midnight cannot take each other's numbers away.

use crate::decisions::Reason;

/// The first number of a page, of this very arrangement. Its bytes are `days` and a version. A new [`Reason`] needs no new
/// arrangement: a row has room for more.
pub const MARK: u64 = 0x6461_7973_0000_0001;

/// Number of days that are kept.
pub const DAYS: usize = 62;

/// Cells of a day: accepted submissions, then refused ones by [`Reason`].
pub const ROOM: usize = 16;

/// Index of the second at which the page begins.
pub const SINCE: usize = 1;

const FIRST: usize = 2;

/// Numbers of a page.
pub const SLOTS: usize = FIRST + DAYS * ROOM;

const DAY_S: u64 = 86_400;

const _: () = assert!(Reason::ALL.len() < ROOM, "a row has room for every reason");

/// The name of the page of the slurmctld whose `StateSaveLocation` this is. No page of decisions has such a name.
#[must_use]
pub fn page_name(state_save_location: &str) -> String {
    crate::decisions::page_name(state_save_location).replacen("tessera", "tessera-days", 1)
}

/// The cell for an answer to a submission at this second since 1970, and the day's number that it then has.
#[must_use]
pub fn cell(answer: Result<(), Reason>, at_s: u64) -> (usize, u32) {
    let day = day_of(at_s);
    (slot(day, column(answer)), day)
}

/// A cell's value once one more was counted on this day. One of another day is replaced: an earlier one is long ago, and a
/// later one is a mistake of a clock that was set right since.
#[must_use]
pub fn raised(value: u64, day: u32) -> u64 {
    let before = if day_in(value) == day { count_in(value) } else { 0 };
    (u64::from(day) << 32) | u64::from(before.saturating_add(1))
}

fn day_of(at_s: u64) -> u32 {
    u32::try_from(at_s / DAY_S).unwrap_or(u32::MAX)
}

fn column(answer: Result<(), Reason>) -> usize {
    answer.err().map_or(0, |reason| 1 + reason as usize)
}

fn slot(day: u32, column: usize) -> usize {
    FIRST + (day as usize % DAYS) * ROOM + column
}

fn day_in(value: u64) -> u32 {
    u32::try_from(value >> 32).unwrap_or(u32::MAX)
}

fn count_in(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or(u32::MAX)
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

    use super::*;
    use proptest::prelude::*;

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
    fn a_count_stops_at_its_largest_number() {
        let full = (7 << 32) | u64::from(u32::MAX);
        assert_eq!(raised(full, 7), full);
        assert_eq!(raised(full, 8), (8 << 32) | 1);
    }

    #[test]
    fn another_arrangement_is_not_read_and_no_name_is_that_of_a_page_of_decisions() {
        assert_eq!(RefusalsByDay::of(vec![MARK; SLOTS - 1]), None);
        assert_eq!(RefusalsByDay::of(vec![0; SLOTS]), None);
        assert_eq!(page_name("/var/spool/slurmctld/"), "tessera-days.var.spool.slurmctld");
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
