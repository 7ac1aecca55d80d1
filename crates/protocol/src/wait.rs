//! A job that lets worse GPUs pass: how long it waits for a better set than it could have now, and how that is kept.
//!
//! A sensitive job for several whole GPUs of a node may say, or its site for it, that it rather waits for a set whose
//! predicted bandwidth is above a threshold. The wait begins when the job could first have started, on a set that is
//! not; others pass it meanwhile. When the time is over it takes what there is. It never waits for what none of the
//! nodes could give even with nothing on them.
//!
//! When the wait ends stands in the job's AdminComment, which Slurm saves and shows, so that a restarted slurmctld
//! knows it: `tessera: waits until 2026-11-21T10:20:00Z for GPUs above 25 GB/s: 20.0 GB/s on n1 now`. A job whose
//! AdminComment somebody else has written does not wait. One that is requeued waits anew; the tasks of an array wait
//! together.

use std::fmt;

use crate::admin_comment::{AdminComment, Waits};
use crate::time::parse_millis;

/// Longest wait, in seconds: 30 days.
pub const MOST_SECONDS: u32 = 30 * 24 * 3600;
/// Largest threshold, GB/s.
const MOST_GBPS: u32 = 100_000;

/// Up to when a job waits for a set with more bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetWait {
    /// It waits for a set that is predicted above this, in thousandths of GB/s.
    pub above_mb_s: u32,
    /// At most so long, in seconds. 0: it does not wait.
    pub seconds: u32,
}

impl SetWait {
    /// What a user may write.
    pub const EXPECTED: &str =
        "expected GBPS:TIME, a bandwidth and seconds or H:MM:SS, such as 25:20:00, or none";

    /// No wait, for a job whose site would have it wait.
    pub const NONE: Self = Self { above_mb_s: 0, seconds: 0 };

    /// Reads `GBPS:TIME` or `none`.
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

    /// The threshold, GB/s.
    #[must_use]
    pub fn above_gbps(self) -> f64 {
        f64::from(self.above_mb_s) / 1000.0
    }

    /// Whether a set that is predicted so is what the job waits for.
    #[must_use]
    pub fn is_met_by(self, gbps: f64) -> bool {
        gbps > self.above_gbps()
    }

    /// What a job does at `now` (seconds since 1970) that could start on a set predicted `gbps`, on a node of which
    /// nothing better than `best_gbps` can ever be had. `comment` is its AdminComment.
    #[must_use]
    pub fn turn(self, gbps: f64, best_gbps: f64, comment: &AdminComment, now: u64) -> Turn {
        if self.seconds == 0 || self.is_met_by(gbps) || !self.is_met_by(best_gbps) || !comment.is_ours() {
            return Turn::Take;
        }
        match comment.waits_until() {
            None => Turn::Wait { until: now + u64::from(self.seconds), begins: true },
            Some(until) if now < until => Turn::Wait { until, begins: false },
            Some(_) => Turn::Take,
        }
    }

    /// Why a job takes a set that is not above what it waits for, for its user. `best_gbps` and `comment` as for
    /// [`Self::turn`].
    #[must_use]
    pub fn why_taken(self, best_gbps: f64, comment: &AdminComment) -> String {
        let above = self.above_gbps();
        if !self.is_met_by(best_gbps) {
            format!("no set in its reach is above {above} GB/s")
        } else if comment.waits_until().is_some() {
            format!("its wait for more than {above} GB/s is over")
        } else {
            format!("it could not wait for more than {above} GB/s")
        }
    }

    /// What the AdminComment says of a job that begins to wait, which could now have `gbps` on `node`.
    #[must_use]
    pub fn begins(self, until: u64, gbps: f64, node: &str) -> Waits {
        let what = format!("for GPUs above {} GB/s: {gbps:.1} GB/s on {node} now", self.above_gbps());
        Waits { until, what }
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

/// What a job does about a set that it could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It starts.
    Take,
    /// It waits for a better one.
    Wait {
        /// At most until then, seconds since 1970.
        until: u64,
        /// From now on.
        begins: bool,
    },
}

/// Digits, and up to three after a point, in thousandths.
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
    use crate::admin_comment::Says;

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

    #[test]
    fn a_job_waits_once_and_only_for_what_there_can_be() {
        let wait = SetWait::parse("25:60").unwrap();
        let began = AdminComment::from(Says::Waits(wait.begins(1060, 10.0, "n1")));
        let (empty, foreign) = (AdminComment::parse(""), AdminComment::parse("by the site"));
        assert_eq!(
            began.to_string(),
            "tessera: waits until 1970-01-01T00:17:40Z for GPUs above 25 GB/s: 10.0 GB/s on n1 now"
        );
        assert_eq!(began.waits_until(), Some(1060));
        assert_eq!(wait.turn(10.0, 50.0, &empty, 1000), Turn::Wait { until: 1060, begins: true });
        assert_eq!(wait.turn(25.0, 50.0, &began, 1059), Turn::Wait { until: 1060, begins: false });
        assert_eq!(wait.turn(10.0, 50.0, &began, 1060), Turn::Take, "the time is over");
        assert_eq!(wait.turn(25.001, 50.0, &began, 1001), Turn::Take, "a better set");
        assert_eq!(wait.turn(10.0, 25.0, &empty, 1000), Turn::Take, "no set is above");
        assert_eq!(wait.turn(10.0, 50.0, &foreign, 1000), Turn::Take, "nowhere to keep it");
        assert_eq!(SetWait::NONE.turn(0.0, 50.0, &empty, 1000), Turn::Take);
        assert_eq!(wait.why_taken(50.0, &began), "its wait for more than 25 GB/s is over");
        assert_eq!(wait.why_taken(25.0, &empty), "no set in its reach is above 25 GB/s");
        assert_eq!(wait.why_taken(50.0, &foreign), "it could not wait for more than 25 GB/s");
        let ran_before = AdminComment::parse("tessera: n1=whole:0,1: ring of 2");
        assert_eq!(wait.turn(10.0, 50.0, &ran_before, 5), Turn::Wait { until: 65, begins: true });
    }
}
