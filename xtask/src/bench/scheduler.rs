//! The time that slurmctld's schedulers have taken, as `sdiag` tells it.

/// Time of the main scheduler and backfill under slurmctld's locks, since the counters were set to zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spent {
    /// Microseconds in their cycles.
    pub(super) us: f64,
    /// How many cycles they had. A cycle looks at waiting jobs, so jobs that wait longer are looked at more often.
    pub(super) cycles: f64,
}

impl Spent {
    /// As `sdiag` tells it; `None` if the text has neither scheduler's counters.
    pub(super) fn read(sdiag: &str) -> Option<Self> {
        let sections = ["Main schedule statistics", "Backfilling stats"];
        let found = sections.iter().filter_map(|name| Self::section(sdiag, name));
        found.reduce(|a, b| Self { us: a.us + b.us, cycles: a.cycles + b.cycles })
    }

    /// Reads a section's cycles and their mean length; a scheduler that had no cycle yet shows no mean.
    fn section(sdiag: &str, name: &str) -> Option<Self> {
        let lines = sdiag.lines().skip_while(|line| !line.starts_with(name)).skip(1);
        let lines: Vec<&str> = lines.take_while(|line| line.starts_with(char::is_whitespace)).collect();
        let number = |key: &str| {
            lines.iter().find_map(|line| line.trim().strip_prefix(key)?.trim().parse::<f64>().ok())
        };
        let cycles = number("Total cycles:")?;
        Some(Self { us: cycles * number("Mean cycle:").unwrap_or(0.0), cycles })
    }
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

/// Microseconds of processor time that the living threads of one name have had: the first field of their `schedstat`, nanoseconds.
/// `None` if there is no such process. A machine's other work does not count, as it does in a cycle's length.
pub(super) fn thread_us(pid: i32, name: &str) -> Option<f64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let ns = |thread: std::fs::DirEntry| {
        let read = |file: &str| std::fs::read_to_string(thread.path().join(file)).ok();
        let is_named = read("comm")?.trim() == name;
        read("schedstat").filter(|_| is_named)?.split_whitespace().next()?.parse::<f64>().ok()
    };
    Some(threads.filter_map(|thread| ns(thread.ok()?)).sum::<f64>() / 1000.0)
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
    fn threads_are_told_apart_by_their_names() {
        let own = i32::try_from(std::process::id()).expect("a process's id");
        let named = std::thread::Builder::new().name("bckfl".to_owned());
        let spin = || (0..1_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
        let seen = named.spawn(move || (spin(), thread_us(own, "bckfl"))).expect("a thread").join();
        assert!(seen.expect("no panic").1.is_some_and(|us| us > 0.0));
        assert_eq!(thread_us(own, "no such"), Some(0.0));
        assert_eq!(thread_us(i32::MAX, "bckfl"), None);
    }

    #[test]
    fn both_schedulers_cycles_are_added() {
        assert_eq!(Spent::read(SDIAG), Some(Spent { us: 2100.0, cycles: 12.0 }));
        let no_backfill = SDIAG.replace("\tMean cycle: 50\n", "").replace("cycles: 2", "cycles: 0");
        assert_eq!(Spent::read(&no_backfill), Some(Spent { us: 2000.0, cycles: 10.0 }));
        assert_eq!(Spent::read("sdiag: error\n"), None);
    }
}
