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

/// Index of the first cell.
pub const FIRST: usize = 2;

/// Numbers of a page.
pub const SLOTS: usize = FIRST + DAYS * ROOM;

/// Seconds of a day.
pub const DAY_S: u64 = 86_400;

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

/// The number of this second's day since 1970.
#[must_use]
pub fn day_of(at_s: u64) -> u32 {
    u32::try_from(at_s / DAY_S).unwrap_or(u32::MAX)
}

fn column(answer: Result<(), Reason>) -> usize {
    answer.err().map_or(0, |reason| 1 + reason as usize)
}

fn slot(day: u32, column: usize) -> usize {
    FIRST + (day as usize % DAYS) * ROOM + column
}

/// The number of the day that a cell with this value is of.
#[must_use]
pub fn day_in(value: u64) -> u32 {
    u32::try_from(value >> 32).unwrap_or(u32::MAX)
}

/// The count in a cell with this value.
#[must_use]
pub fn count_in(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_stops_at_its_largest_number() {
        let full = (7 << 32) | u64::from(u32::MAX);
        assert_eq!(raised(full, 7), full);
        assert_eq!(raised(full, 8), (8 << 32) | 1);
    }

    #[test]
    fn no_name_is_that_of_a_page_of_decisions() {
        assert_eq!(page_name("/var/spool/slurmctld/"), "tessera-days.var.spool.slurmctld");
    }
}
