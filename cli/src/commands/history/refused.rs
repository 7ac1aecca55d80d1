//! Submissions that Tessera refused, as slurmctld has counted them on this machine. Reasons: docs/decisions/0029.

use std::io::ErrorKind;

use decision_counts::decisions::{Ask, Reason};
use decision_counts::refusals_by_day::DAYS;
use decision_pages::refusals_by_day::{RefusalsByDay, read};
use decision_pages::words::reasons;

use super::days::{DAY_S, Day};
use crate::slurm::command::run;
use crate::slurm::scontrol::state_and_user;

/// Counts of refused submissions, as far as they are known.
pub(super) enum Refused {
    Counted {
        by_day: RefusalsByDay,
        /// Seconds since 1970.
        now: u64,
    },
    /// A sentence that says why nothing is.
    Unknown(String),
}

impl Refused {
    /// Reads the counts of this machine.
    pub(super) fn here(now: u64) -> Self {
        let whose = run("scontrol", &["show", "config"]).ok().as_deref().and_then(state_and_user);
        let Some((state, user)) = whose else {
            return Self::Unknown("slurmctld does not answer".to_owned());
        };
        match read(&state, user) {
            Ok(by_day) => Self::Counted { by_day, now },
            Err(e) if e.kind() == ErrorKind::NotFound => Self::Unknown(
                "slurmctld counts refused submissions on its own machine: run this command there to see them"
                    .to_owned(),
            ),
            Err(e) => Self::Unknown(format!("the counts of refused submissions cannot be read: {e}")),
        }
    }

    /// From when on they are counted, seconds since 1970; `None`: nothing is known.
    pub(super) fn since(&self) -> Option<u64> {
        match self {
            Self::Counted { by_day, .. } => Some(by_day.since()),
            Self::Unknown(_) => None,
        }
    }

    /// The refused submissions of a whole day, by each reason that there is; `None`: nothing is known of that day.
    pub(super) fn on(&self, day: &Day) -> Option<Vec<(Reason, u32)>> {
        let Self::Counted { by_day, now } = self else { return None };
        let [this, first, today] = [day.from, by_day.since(), *now].map(|seconds| seconds / DAY_S);
        let count = |why: &Reason| (*why, by_day.refused(*why, day.from));
        let known = this >= first && this + DAYS as u64 > today;
        known.then(|| reasons(Ask::Submit).iter().map(count).collect())
    }
}
