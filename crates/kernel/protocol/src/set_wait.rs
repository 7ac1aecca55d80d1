//! The wait of a job for a better set of whole GPUs than it could have now: `25GB/s,20:00`, for 20 minutes above 25 GB/s. In
//! requests it is `25:1200`, with seconds.

use std::fmt;

use crate::time::{parse_millis, parse_span};

/// Longest wait, in seconds: 30 days.
pub const MOST_SECONDS: u32 = 30 * 24 * 3600;
/// Largest threshold, GB/s.
const MOST_GBPS: u32 = 100_000;

/// For which bandwidth a job waits, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetWait {
    /// The job waits for a set with a predicted bandwidth above this, MB/s.
    pub above_mb_s: u32,
    /// Waits at most this long, in seconds; 0: it does not wait.
    pub seconds: u32,
}

impl SetWait {
    /// List of the values that a user may write, as the end of a message.
    pub const EXPECTED: &str = "expected a bandwidth and a time such as 25GB/s,20:00 for 20 minutes, or none";

    /// No wait: overrides the site's.
    pub const NONE: Self = Self { above_mb_s: 0, seconds: 0 };

    /// Reads what users write, `25GB/s,20:00` or `none`; `None` for anything else, see [`SetWait::EXPECTED`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::NONE);
        }
        let (gbps, time) = text.split_once("GB/s,")?;
        Self::of(gbps, parse_span(time)?)
    }

    /// Reads what requests have, and what users wrote before 0.1: `25:1200`, with seconds, MM:SS or H:MM:SS.
    #[must_use]
    pub fn parse_wire(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::NONE);
        }
        let (gbps, time) = text.split_once(':')?;
        Self::of(gbps, parse_millis(time)?)
    }

    /// Says how the text is written now, if it is the spelling from before 0.1, as the end of a sentence about it.
    #[must_use]
    pub fn renamed(text: &str) -> Option<String> {
        Some(format!("is now {}", Self::parse_wire(text)?))
    }

    fn of(gbps: &str, millis: u64) -> Option<Self> {
        let above_mb_s = thousandths(gbps).filter(|mb_s| *mb_s <= MOST_GBPS * 1000)?;
        let millis = Some(millis).filter(|millis| millis % 1000 == 0)?;
        let seconds = u32::try_from(millis / 1000).ok().filter(|s| (1..=MOST_SECONDS).contains(s))?;
        Some(Self { above_mb_s, seconds })
    }

    /// Writes what [`Self::parse_wire`] reads.
    #[must_use]
    pub fn wire(self) -> String {
        if self == Self::NONE { "none".to_owned() } else { format!("{}:{}", self.above_gbps(), self.seconds) }
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
            Self { seconds, .. } => {
                let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
                write!(f, "{}GB/s,", self.above_gbps())?;
                if h > 0 { write!(f, "{h}:{m:02}:{s:02}") } else { write!(f, "{m}:{s:02}") }
            }
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
    fn a_wait_reads_every_form_of_time() {
        let read = |text| SetWait::parse_wire(text).map(|w| (w.above_mb_s, w.seconds, w.wire()));
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
            assert_eq!(SetWait::parse_wire(bad), None, "{bad}");
        }
        for (typed, wire, shown) in [
            ("25GB/s,20:00", "25:1200", "25GB/s,20:00"),
            ("25GB/s,20", "25:1200", "25GB/s,20:00"),
            ("12.336GB/s,1h", "12.336:3600", "12.336GB/s,1:00:00"),
            ("0.5GB/s,1s", "0.5:1", "0.5GB/s,0:01"),
            ("none", "none", "none"),
        ] {
            let wait = SetWait::parse(typed).unwrap();
            assert_eq!((wait.wire().as_str(), wait.to_string().as_str()), (wire, shown), "{typed}");
            assert_eq!([SetWait::parse_wire(wire), SetWait::parse(shown)], [Some(wait); 2]);
        }
        for bad in [
            "",
            "25",
            "25GB/s",
            "25GB/s,",
            "25GB/s,0",
            "25GB/s,31d",
            "25,20:00",
            "25 GB/s,20:00",
            "25gb/s,20",
        ] {
            assert_eq!(SetWait::parse(bad), None, "{bad}");
        }
        assert_eq!(SetWait::renamed("25:20:00").as_deref(), Some("is now 25GB/s,20:00"));
        assert_eq!(SetWait::renamed("fast:60"), None);
    }
}
