//! `sdiag`'s counts of both schedulers.

/// slurmctld's counters since they were last set to zero. A scheduler that had no cycle yet has zeros.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counters {
    /// Messages to slurmds that wait.
    pub(super) agents: f64,
    /// Jobs that were started.
    pub(super) started: f64,
    pub(super) main_cycles: f64,
    /// Microseconds.
    pub(super) main_mean_us: f64,
    pub(super) backfill_cycles: f64,
    /// Microseconds of the last cycle.
    pub(super) backfill_last_us: f64,
    /// Jobs that the last cycle has tested.
    pub(super) backfill_tests: f64,
}

impl Counters {
    /// As `sdiag` prints them; `None` if the text is not of its kind.
    pub(super) fn read(sdiag: &str) -> Option<Self> {
        let main = section(sdiag, "Main schedule statistics");
        let backfill = section(sdiag, "Backfilling stats");
        let or_zero = |lines: &[&str], key: &str| number(lines, key).unwrap_or(0.0);
        let all: Vec<&str> = sdiag.lines().collect();
        Some(Self {
            agents: number(&all, "Agent queue size:")?,
            started: number(&all, "Jobs started:")?,
            main_cycles: number(&main, "Total cycles:")?,
            main_mean_us: or_zero(&main, "Mean cycle:"),
            backfill_cycles: number(&backfill, "Total cycles:")?,
            backfill_last_us: or_zero(&backfill, "Last cycle:"),
            backfill_tests: or_zero(&backfill, "Last depth cycle (try sched):"),
        })
    }
}

/// The lines below a heading.
fn section<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    lines.take_while(|line| line.starts_with(char::is_whitespace)).collect()
}

fn number(lines: &[&str], key: &str) -> Option<f64> {
    lines.iter().find_map(|line| line.trim().strip_prefix(key)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDIAG: &str = "\
Server thread count:  3
Agent queue size:     2
Agent count:          1

Jobs submitted: 30
Jobs started:   12

Main schedule statistics (microseconds):
\tLast cycle:   120
\tTotal cycles: 10
\tMean cycle:   200

Backfilling stats
\tTotal cycles: 2
\tLast cycle when: Mon Nov 23 07:00:00 2026 (1795417200)
\tLast cycle: 7000
\tMean cycle: 50
\tLast depth cycle: 90
\tLast depth cycle (try sched): 60

Latency for 1000 calls to gettimeofday(): 17 microseconds
";

    #[test]
    fn counters_of_both_schedulers_are_told_apart() {
        let expected = Counters {
            agents: 2.0,
            started: 12.0,
            main_cycles: 10.0,
            main_mean_us: 200.0,
            backfill_cycles: 2.0,
            backfill_last_us: 7000.0,
            backfill_tests: 60.0,
        };
        assert_eq!(Counters::read(SDIAG), Some(expected));
        let none = SDIAG.replace("\tMean cycle:   200\n", "").replace("\tLast cycle: 7000\n", "");
        let read = Counters::read(&none).unwrap();
        assert_eq!((read.main_mean_us, read.backfill_last_us), (0.0, 0.0));
        assert_eq!(Counters::read("sdiag: error\n"), None);
    }
}
