//! Days, and what happened on each.

use replay::history::{Interval, history};

use super::placed::Past;
use crate::slurm::sacct::jobs::Accounted;

pub(super) const DAY_S: u64 = 86_400;

/// A day, or the part of it that is asked about.
pub(super) struct Day {
    /// Seconds since 1970.
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) what: Interval,
    /// Mean wait of the jobs that started, s; `None`: none started.
    pub(super) mean_wait_s: Option<u64>,
    /// Jobs that were submitted then and ended without a start.
    pub(super) never_started: usize,
}

/// The days, and how many placements did not fit the others.
pub(super) struct Days {
    pub(super) all: Vec<Day>,
    pub(super) misfits: usize,
}

/// From the first submission or start in a file to its last end; `None` if it has neither.
pub(super) fn span(jobs: &[Accounted]) -> Option<(u64, u64)> {
    let from = jobs.iter().map(|job| job.eligible.min(job.start.unwrap_or(u64::MAX))).min()?;
    let to = jobs.iter().map(|job| job.start.unwrap_or(job.eligible).saturating_add(job.ran_s)).max()?;
    Some((from, to.max(from) + 1))
}

/// Each day from the one instant to the other.
pub(super) fn of(jobs: &[Accounted], past: &Past, (from, to): (u64, u64)) -> Days {
    let edges = edges(from, to);
    let found = history(&past.nodes, &past.placed, &edges);
    let day = |(ends, what): (&[u64], Interval)| {
        let (from, to) = (ends[0], ends[1]);
        let within = |time: u64| (from..to).contains(&time);
        let wait = |at: &usize| {
            let start = jobs[*at].start.filter(|start| within(*start))?;
            Some(start.saturating_sub(jobs[*at].eligible))
        };
        let waits: Vec<u64> = past.jobs.iter().filter_map(wait).collect();
        let never_started = past.never_started.iter().filter(|at| within(jobs[**at].eligible)).count();
        let mean_wait_s = waits.iter().sum::<u64>().checked_div(waits.len() as u64);
        Day { from, to, what, mean_wait_s, never_started }
    };
    Days { all: edges.windows(2).zip(found.intervals).map(day).collect(), misfits: found.misfits }
}

/// Most days that are told apart. A file may have any times: of more days only the last are shown.
const MOST_DAYS: u64 = 4000;

/// The two instants, and each midnight between them.
fn edges(from: u64, to: u64) -> Vec<u64> {
    let from = from.max(to.saturating_sub(MOST_DAYS * DAY_S));
    let midnights = (from / DAY_S + 1..).map(|day| day * DAY_S).take_while(|midnight| *midnight < to);
    std::iter::once(from).chain(midnights).chain([to]).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn days_end_at_midnight() {
        assert_eq!(super::edges(100, 200), [100, 200]);
        assert_eq!(super::edges(100, 86_400), [100, 86_400]);
        assert_eq!(super::edges(86_400, 200_000), [86_400, 172_800, 200_000]);
        assert_eq!(super::edges(0, 1 << 40).len(), 4002);
    }
}
