//! The time of day, and times on the command line.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
        7_200..172_800 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Longest time that an option takes.
const LONGEST: Duration = Duration::from_secs(3600);

/// A time on the command line: `50ms`, `2s`, `10m` or `1h`; a number alone is milliseconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time such as 50ms, 2s or 10m, at most 1h");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    // `parse` would take a sign.
    let number: u64 = digits
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| digits.parse().ok())
        .flatten()
        .ok_or_else(wrong)?;
    let milliseconds = match &text[digits.len()..] {
        "ms" | "" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let time = Duration::from_millis(number.saturating_mul(milliseconds));
    if time <= LONGEST { Ok(time) } else { Err(wrong()) }
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
    fn times_are_bounded_and_have_units() {
        let times = ["0", "50", "50ms", "2s", "10m", "1h", "3600s"].map(|t| duration(t).unwrap().as_millis());
        assert_eq!(times, [0, 50, 50, 2000, 600_000, 3_600_000, 3_600_000]);
        for bad in ["", "s", "-5", "+5s", "2.5s", "61m", "2h", "1d", "1e3", "99999999999999999999s", "1 s"] {
            assert_eq!(
                duration(bad).unwrap_err(),
                format!("{bad:?} is not a time such as 50ms, 2s or 10m, at most 1h")
            );
        }
    }
}
