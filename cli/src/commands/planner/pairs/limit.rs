//! Decides if a job that runs slower still ends before its time limit.

/// The time limit of a pending job, and how far the planner may raise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct TimeLimit {
    /// The job's own, seconds; `None`: it has none.
    pub(in super::super) own_s: Option<u64>,
    /// The planner may raise it to this, seconds; `None`: to anything. Where the site does not allow that, the job's own.
    pub(in super::super) most_s: Option<u64>,
    /// The longest time that the application took at full speed, seconds.
    pub(in super::super) takes_s: Option<u64>,
}

impl TimeLimit {
    /// The limit that a job needs which keeps only this part of its speed, seconds; `None` in the answer: it needs none.
    /// `Err`: its limit could end it.
    ///
    /// A user chose the limit for the full speed, so it grows as the time does. If it may not grow so far, the
    /// longest run that is known must fit.
    pub(super) fn for_speed(self, speed: f64) -> Result<Option<u64>, ()> {
        let Some(own) = self.own_s else { return Ok(None) };
        let needs = longer(own, speed).ok_or(())?;
        let most = self.most_s.map_or(u64::MAX, |most| most.max(own));
        if needs <= most {
            return Ok(Some(needs.max(own)));
        }
        let fits = self.takes_s.and_then(|takes| longer(takes, speed)).is_some_and(|takes| takes <= most);
        if fits { Ok(Some(most)) } else { Err(()) }
    }
}

/// How long something takes at a part of its speed, seconds, rounded up; `None`: for ever.
fn longer(seconds: u64, speed: f64) -> Option<u64> {
    #[expect(clippy::cast_precision_loss, reason = "a year has 2^25 seconds")]
    let long = (seconds as f64 / speed).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
    (speed > 0.0 && long.is_finite() && long < 1e15).then_some(long as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_grows_with_the_time_or_the_job_is_known_to_be_shorter() {
        let of = |own_s, most_s, takes_s, speed| TimeLimit { own_s, most_s, takes_s }.for_speed(speed);
        assert_eq!(of(None, Some(1), None, 0.1), Ok(None));
        assert_eq!(of(Some(600), None, None, 0.8), Ok(Some(750)));
        assert_eq!(of(Some(600), Some(750), None, 0.8), Ok(Some(750)));
        assert_eq!(of(Some(600), Some(749), None, 0.8), Err(()));
        assert_eq!(of(Some(600), Some(700), Some(500), 0.8), Ok(Some(700)), "625 s");
        assert_eq!(of(Some(600), Some(600), Some(480), 0.8), Ok(Some(600)));
        assert_eq!(of(Some(600), Some(600), Some(481), 0.8), Err(()));
        assert_eq!(of(Some(600), Some(60), None, 1.2), Ok(Some(600)), "never lower");
        for speed in [0.0, -1.0, f64::NAN] {
            assert_eq!(of(Some(600), None, None, speed), Err(()), "{speed}");
        }
    }
}
