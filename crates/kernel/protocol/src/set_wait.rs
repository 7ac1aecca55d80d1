//! How long a job waits for a better set of whole GPUs than it could have now: `25:1200`, for 1200 s above 25 GB/s.

use std::fmt;

use crate::time::parse_millis;

/// Longest wait, in seconds: 30 days.
pub const MOST_SECONDS: u32 = 30 * 24 * 3600;
/// Largest threshold, GB/s.
const MOST_GBPS: u32 = 100_000;

/// For which bandwidth a job waits, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetWait {
    /// The job waits for a set with a predicted bandwidth above this, MB/s.
    pub above_mb_s: u32,
    /// It waits at most this long, in seconds; 0: it does not wait.
    pub seconds: u32,
}

impl SetWait {
    /// List of the values that a user may write, as the end of a message.
    pub const EXPECTED: &str =
        "expected GBPS:TIME, a bandwidth and seconds or H:MM:SS, such as 25:20:00, or none";

    /// No wait: overrides the site's.
    pub const NONE: Self = Self { above_mb_s: 0, seconds: 0 };

    /// Reads `GBPS:TIME` or `none`; `None` for anything else, see [`SetWait::EXPECTED`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::NONE);
        }
        let (gbps, time) = text.split_once(':')?;
        let above_mb_s = thousandths(gbps).filter(|mb_s| *mb_s <= MOST_GBPS * 1000)?;
        let millis = parse_millis(time).filter(|millis| millis % 1000 == 0)?;
        let seconds = u32::try_from(millis / 1000).ok().filter(|s| (1..=MOST_SECONDS).contains(s))?;
        Some(Self { above_mb_s, seconds })
    }

    /// The threshold in GB/s.
    #[must_use]
    pub fn above_gbps(self) -> f64 {
        f64::from(self.above_mb_s) / 1000.0
    }

    /// Tells whether a set with this predicted bandwidth, GB/s, ends the job's wait.
    #[must_use]
    pub fn is_met_by(self, gbps: f64) -> bool {
        gbps > self.above_gbps()
    }
}

impl fmt::Display for SetWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { seconds: 0, .. } => f.write_str("none"),
            Self { seconds, .. } => write!(f, "{}:{seconds}", self.above_gbps()),
        }
    }
}

/// Reads a number with up to three digits after the point, in thousandths.
fn thousandths(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| (1..=6).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let scale = [1, 100, 10, 1].get(fraction.len())?;
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let (whole, fraction): (u32, u32) = (whole.parse().ok()?, fraction.parse().ok()?);
    whole.checked_mul(1000)?.checked_add(fraction * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_write() {
        let read = |text| SetWait::parse(text).map(|w| (w.above_mb_s, w.seconds, w.to_string()));
        assert_eq!(read("25:1200"), Some((25_000, 1200, "25:1200".to_owned())));
        assert_eq!(read("25:20:00"), Some((25_000, 1200, "25:1200".to_owned())));
        assert_eq!(read("12.336:1:00:00"), Some((12_336, 3600, "12.336:3600".to_owned())));
        assert_eq!(read("0.5:1"), Some((500, 1, "0.5:1".to_owned())));
        assert_eq!(read("none"), Some((0, 0, "none".to_owned())));
        for bad in [
            "",
            ":",
            "25",
            "25:",
            ":20",
            "25:0",
            "25:0.5",
            "-1:20",
            "1e3:20",
            "25.:20",
            ".5:20",
            "25.1234:1",
            "nan:1",
            "25:2592001",
            "100001:1",
            "9999999:1",
            "25:20 ",
            "None",
        ] {
            assert_eq!(SetWait::parse(bad), None, "{bad}");
        }
    }
}
