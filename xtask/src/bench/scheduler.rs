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

/// Microseconds of processor time that a process and its threads have had, of those too that have ended: fields 14 and 15 of
/// `/proc/PID/stat`, in Linux's ticks of 10 ms. `None` if there is no such process.
pub(super) fn processor_us(pid: i32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name stands in brackets and may have blanks.
    let (_, fields) = text.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(|field| field.parse::<f64>().ok());
    Some((ticks.next()?? + ticks.next()??) * 10_000.0)
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
    fn a_process_that_runs_has_had_some_time() {
        let own = i32::try_from(std::process::id()).expect("a process's id");
        assert!(processor_us(own).is_some_and(|us| us >= 0.0));
        assert_eq!(processor_us(i32::MAX), None);
    }

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
