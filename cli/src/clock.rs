//! The time of day, and times on the command line.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use protocol::time::parse_span;

/// Seconds since the epoch, as Slurm counts.
pub(crate) fn epoch_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())
}

/// `45 s`, `25 min`, `3 h 20 min`, `4 days`.
pub(crate) fn span(seconds: u64) -> String {
    let minutes = seconds.div_ceil(60);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{minutes} min"),
        7_200..172_800 if minutes.is_multiple_of(60) => format!("{} h", minutes / 60),
        7_200..172_800 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Longest time that an option takes.
const LONGEST: Duration = Duration::from_secs(3600);

/// A time on the command line: `50ms`, `2s`, `10m` or `1h`, or as for sbatch, where a number alone is minutes.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("{text:?} is not a time such as 50ms, 2s or 10m, at most 1h; a number alone is minutes");
    let time = Duration::from_millis(parse_span(text).ok_or_else(wrong)?);
    if time <= LONGEST { Ok(time) } else { Err(wrong()) }
}

const DAY_S: u64 = 86_400;

/// Longest time to look back, days.
const MOST_DAYS: u64 = 3660;

/// Reads how far to look back, in seconds: `90m`, `2h` or `7d`, or as for sbatch, where a number alone is minutes.
pub(crate) fn since(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "{text:?} is not a time such as 90m, 2h or 7d, at most {MOST_DAYS}d; a number alone is minutes"
        )
    };
    let seconds = parse_span(text).ok_or_else(wrong)? / 1000;
    if (1..=MOST_DAYS * DAY_S).contains(&seconds) { Ok(seconds) } else { Err(wrong()) }
}

/// How often Slurm is asked: as [`duration`], and not so often that slurmctld feels it.
pub(crate) fn often(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time < Duration::from_secs(1) { Err(format!("{text:?}: at least 1s")) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_hours_have_no_minutes() {
        let said = [119, 120, 3600, 7199, 7200, 7201, 90_000, 172_799, 172_800].map(span);
        let want = ["119 s", "2 min", "60 min", "120 min", "2 h", "2 h 1 min", "25 h", "48 h", "2 days"];
        assert_eq!(said, want);
    }

    #[test]
    fn every_command_looks_back_by_one_grammar() {
        let times = ["90m", "2h", "1d", "20", "3660d", "30s", "1-12"].map(|text| since(text).unwrap());
        assert_eq!(times, [5400, 7200, 86_400, 1200, 3660 * 86_400, 30, 129_600]);
        for bad in
            ["", "0", "0m", "h", "-2h", "+2h", "2w", "3661d", "99999999999999999999d", "2 h", "2\u{e4}"]
        {
            assert_eq!(
                since(bad).unwrap_err(),
                format!(
                    "{bad:?} is not a time such as 90m, 2h or 7d, at most 3660d; a number alone is minutes"
                )
            );
        }
    }

    #[test]
    fn times_are_bounded_and_have_units() {
        let times =
            ["0", "50", "50ms", "2s", "10m", "1h", "3600s", "2.5s"].map(|t| duration(t).unwrap().as_millis());
        assert_eq!(times, [0, 3_000_000, 50, 2000, 600_000, 3_600_000, 3_600_000, 2500]);
        for bad in ["", "s", "-5", "+5s", "61m", "61", "2h", "1d", "1e3", "99999999999999999999s", "1 s"] {
            assert_eq!(
                duration(bad).unwrap_err(),
                format!(
                    "{bad:?} is not a time such as 50ms, 2s or 10m, at most 1h; a number alone is minutes"
                )
            );
        }
    }
}
