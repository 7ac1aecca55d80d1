//! Jobs that may run on instances of several sizes: their run times per size and their planned place, as text.

use std::fmt;

use crate::strict::is_word;
use crate::time::{digits, parse_millis};

use geometry::{GpuIndex, Slice};

/// Most sizes that one job may list; no GPU has so many.
pub const MAX_SIZES: usize = 16;
/// Longest run time, one year, in milliseconds.
pub const MAX_MILLIS: u64 = 366 * 24 * 3600 * 1000;
/// Longest name of a job's profile, in characters.
pub const MAX_PROFILE_NAME: usize = 64;

/// Run time of a job on an instance of one size (FAR section 2.1, t_i(s)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeTime {
    /// Compute slices of the instance, from 1.
    pub slices: u8,
    /// Run time in milliseconds, from 1 to [`MAX_MILLIS`].
    pub millis: u64,
}

impl fmt::Display for SizeTime {
    /// `2g:35`, or `2g:0.25` if the time is not a whole number of seconds, as on the wire.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}g:{}", self.slices, self.millis / 1000)?;
        match self.millis % 1000 {
            0 => Ok(()),
            rest => write!(f, ".{}", format!("{rest:03}").trim_end_matches('0')),
        }
    }
}

/// A list of times that cannot be read. The message is the end of a line that names the option and its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}: expected sizes with their run time, such as 1g:60s,2g:35s or 1g:20:00 (MM:SS); a time without a unit is minutes"
)]
pub struct BadTimes(String);

/// Reads what requests have: `1g:60,2g:35`, in seconds; the result ascends by size.
///
/// # Errors
///
/// As [`times`].
pub fn parse_times(text: &str) -> Result<Vec<SizeTime>, BadTimes> {
    times(text, parse_millis)
}

/// Reads a list of sizes with run times that `millis` reads; the result ascends by size.
///
/// # Errors
///
/// A part is not a size with its time, a size is listed twice, or there are more than [`MAX_SIZES`].
pub fn times(text: &str, millis: fn(&str) -> Option<u64>) -> Result<Vec<SizeTime>, BadTimes> {
    let mut times: Vec<SizeTime> = Vec::new();
    for part in text.split(',') {
        let shown: String = part.chars().take(20).collect();
        let time = parse_time(part, millis)
            .ok_or_else(|| BadTimes(format!("{shown:?} is not a size with a run time")))?;
        if times.iter().any(|t| t.slices == time.slices) {
            return Err(BadTimes(format!("{}g is listed twice", time.slices)));
        }
        if times.len() == MAX_SIZES {
            return Err(BadTimes(format!("more than {MAX_SIZES} sizes")));
        }
        times.push(time);
    }
    times.sort_unstable();
    Ok(times)
}

fn parse_time(part: &str, millis: fn(&str) -> Option<u64>) -> Option<SizeTime> {
    let (size, time) = part.split_once(':')?;
    let slices = digits(size.strip_suffix('g')?, 2)?;
    let slices = u8::try_from(slices).ok().filter(|s| *s >= 1)?;
    let millis = millis(time).filter(|m| (1..=MAX_MILLIS).contains(m))?;
    Some(SizeTime { slices, millis })
}

/// Place of a job's instance in a plan: `3@4` for GPU 3 from slice 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlannedStart {
    /// Slurm's number of the GPU, below 64.
    pub gpu: GpuIndex,
    /// First memory slice of the instance, below 16.
    pub start: Slice,
}

impl PlannedStart {
    /// Reads `GPU@START`; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (gpu, start) = text.split_once('@')?;
        let gpu = u16::try_from(digits(gpu, 2)?).ok().filter(|g| *g < 64)?;
        let start = u8::try_from(digits(start, 2)?).ok().filter(|s| *s < 16)?;
        Some(Self { gpu: GpuIndex(gpu), start: Slice(start) })
    }
}

impl fmt::Display for PlannedStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.gpu, self.start)
    }
}

/// Tells whether a job profile may have this name: 1 to [`MAX_PROFILE_NAME`] letters, digits, `.`, `_` and `-`.
#[must_use]
pub fn is_job_profile_name(text: &str) -> bool {
    is_word(text, MAX_PROFILE_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_all_their_forms() {
        let shown =
            |text| parse_times(text).map(|t| t.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
        assert_eq!(shown("7g:10,1g:60").unwrap(), "1g:60,7g:10");
        assert_eq!(shown("1g:1:30,2g:1:00:05,3g:0.25,4g:1.5").unwrap(), "1g:90,2g:3605,3g:0.25,4g:1.5");
        let typed = times("1g:1:30,2g:1h,3g:0.25s,4g:2", crate::time::parse_span).unwrap();
        assert_eq!(typed.iter().map(|t| t.millis).collect::<Vec<_>>(), [90_000, 3_600_000, 250, 120_000]);
    }

    #[test]
    fn bad_times_name_the_part() {
        let end = ": expected sizes with their run time, such as 1g:60s,2g:35s or 1g:20:00 (MM:SS); a time without a unit is \
                   minutes";
        for (text, why) in [
            ("", "\"\" is not a size with a run time"),
            ("1g", "\"1g\" is not a size with a run time"),
            ("0g:1", "\"0g:1\" is not a size with a run time"),
            ("1g:0", "\"1g:0\" is not a size with a run time"),
            ("1g:-5", "\"1g:-5\" is not a size with a run time"),
            ("1g:1e3", "\"1g:1e3\" is not a size with a run time"),
            ("1g:1.2345", "\"1g:1.2345\" is not a size with a run time"),
            ("1g:1:60", "\"1g:1:60\" is not a size with a run time"),
            ("1g:5,1g:6", "1g is listed twice"),
        ] {
            assert_eq!(parse_times(text).unwrap_err().to_string(), format!("{why}{end}"), "{text}");
        }
    }

    #[test]
    fn a_planned_start_reads_back() {
        assert_eq!(PlannedStart::parse("3@4").unwrap().to_string(), "3@4");
        for bad in ["", "3", "@4", "3@", "64@0", "0@16", "-1@0", "0@+1"] {
            assert_eq!(PlannedStart::parse(bad), None, "{bad}");
        }
    }
}
