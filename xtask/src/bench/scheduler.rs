//! The time that slurmctld's schedulers have taken, as `sdiag` tells it.

/// Microseconds that the main scheduler and backfill have spent in their cycles, under slurmctld's locks, since the counters were
/// set to zero. `None` if the text has neither scheduler's counters.
pub(super) fn spent_us(sdiag: &str) -> Option<f64> {
    let sections = ["Main schedule statistics", "Backfilling stats"];
    let found: Vec<f64> = sections.iter().filter_map(|name| section_us(sdiag, name)).collect();
    (!found.is_empty()).then(|| found.iter().sum())
}

/// The cycles of one section times their mean length; a scheduler that had no cycle yet shows no mean.
fn section_us(sdiag: &str, name: &str) -> Option<f64> {
    let lines = sdiag.lines().skip_while(|line| !line.starts_with(name)).skip(1);
    let lines: Vec<&str> = lines.take_while(|line| line.starts_with(char::is_whitespace)).collect();
    let number =
        |key: &str| lines.iter().find_map(|line| line.trim().strip_prefix(key)?.trim().parse::<f64>().ok());
    Some(number("Total cycles:")? * number("Mean cycle:").unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDIAG: &str = "\
Jobs submitted: 3

Main schedule statistics (microseconds):
\tLast cycle:   120
\tMax cycle:    900
\tTotal cycles: 10
\tMean cycle:   200
\tMean depth cycle:  1
\tCycles per minute: 1
\tLast queue length: 0

Backfilling stats
\tTotal backfilled jobs (since last slurm start): 0
\tTotal cycles: 2
\tLast cycle when: Mon Nov 23 07:00:00 2026 (1795417200)
\tMean cycle: 50
\tLast depth cycle: 3

Latency for 1000 calls to gettimeofday(): 17 microseconds
";

    #[test]
    fn both_schedulers_cycles_are_added() {
        assert_eq!(spent_us(SDIAG), Some(2100.0));
        assert_eq!(
            spent_us(&SDIAG.replace("\tMean cycle: 50\n", "")),
            Some(2000.0),
            "no cycle of backfill yet"
        );
        assert_eq!(spent_us("sdiag: error\n"), None);
    }
}
