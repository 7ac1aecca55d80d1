//! Slurm's own limits of a user, those of associations, of QOS and of a partition's QOS, `[[limits]]` on what running jobs have
//! together, and the room that all of them leave.
//!
//! [`rule`] says which limits hold for a job, as slurmctld chooses among them (`acct_policy.c`), [`Bound::room`] how many more jobs one of
//! them leaves. Both are pure; [`ask`] asks Slurm.

mod ask;
mod need;
mod rule;
mod site;
mod text;
mod uses;

use std::collections::HashMap;

use slurm_limits::{Holder, Limited, SlurmLimit};
pub(crate) use slurm_limits::{LimitKind, Need, SLICES};

pub(crate) use ask::{Asker, ask, single};
pub(crate) use need::{need_on, slices_for, slices_of};
pub(crate) use text::json;
pub(crate) use uses::Use;

/// Whose use a limit adds up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Jobs that Slurm counts.
    Slurm(Holder),
    /// Jobs that one of `[[limits]]` adds up.
    Site {
        /// Jobs, in words.
        jobs: String,
        /// Place of the limit in the file.
        place: String,
        /// Users of it, those with most first.
        users: Vec<(String, u64)>,
    },
}

/// A limit that holds for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) kind: LimitKind,
    /// The TRES; empty for jobs and times.
    pub(crate) tres: String,
    pub(crate) most: u64,
    /// How much is in use, or used up.
    pub(crate) used: u64,
    /// Amount that running jobs will still use; 0 but for [`LimitKind::Minutes`].
    pub(crate) reserved: u64,
    pub(crate) whose: Whose,
}

/// How many more jobs may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// So many now; more when others have ended.
    Jobs(u64),
    /// The limit never lets such a job start.
    Never,
}

impl Limited for Bound {
    fn limit(&self) -> Option<SlurmLimit> {
        let Whose::Slurm(holder) = &self.whose else { return None };
        Some(SlurmLimit { kind: self.kind, tres: self.tres.clone(), most: self.most, holder: holder.clone() })
    }

    fn set_most(&mut self, most: u64) {
        self.most = most;
    }
}

impl Bound {
    /// How many more jobs with this need the limit leaves; `None`: it does not concern them.
    pub(crate) fn room(&self, need: &Need) -> Option<Room> {
        let left = self.most.saturating_sub(self.used);
        let each = need.of(&self.tres);
        if self.kind.is_exceeded_by(need, &self.tres, self.most) {
            return Some(Room::Never);
        }
        // The amount times minutes, if the time is known.
        let timed = need.minutes.map(|minutes| each.saturating_mul(minutes));
        let among = |each: u64, left: u64| Some(Room::Jobs(left / each.max(1)));
        match self.kind {
            LimitKind::Together | LimitKind::RunMinutes | LimitKind::Minutes { .. } if each == 0 => None,
            LimitKind::Together => among(each, left),
            LimitKind::RunMinutes => among(timed?, left),
            LimitKind::Minutes { .. } | LimitKind::Wall if left == 0 => Some(Room::Jobs(0)),
            LimitKind::Minutes { safe: true } => among(timed?, left.saturating_sub(self.reserved)),
            LimitKind::Jobs | LimitKind::MaxJobs => among(1, left),
            _ => None,
        }
    }

    /// Tells whether the limit concerns GPUs, or keeps any job now.
    pub(crate) fn matters(&self) -> bool {
        let of_gpus =
            self.tres.starts_with("gres/gpu") || self.tres.starts_with("gres/shard") || self.tres == SLICES;
        of_gpus
            || matches!(self.kind, LimitKind::Jobs | LimitKind::MaxJobs)
            || self.used >= self.most && !self.is_of_one_job()
    }

    /// Tells whether it holds for each job alone, whatever others have.
    pub(crate) fn is_of_one_job(&self) -> bool {
        matches!(
            self.kind,
            LimitKind::PerJob
                | LimitKind::PerNode
                | LimitKind::Least
                | LimitKind::MinutesPerJob
                | LimitKind::WallPerJob
        )
    }
}

/// The limits that hold for a user's jobs of an account, a partition and a QOS.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowance {
    pub(crate) bounds: Vec<Bound>,
    /// Why the partition takes no such jobs; `None`: it does.
    pub(crate) barred: Option<String>,
    /// The QOS that such a job has.
    pub(crate) qos: Option<String>,
    /// The account that it is charged to.
    pub(crate) account: Option<String>,
    /// Running jobs, for who uses what.
    uses: Vec<Use>,
    /// Each account's parent.
    parents: HashMap<String, String>,
}

impl Allowance {
    /// The tightest limit for jobs with this need, and the room that it leaves; `None`: none concerns them.
    pub(crate) fn tightest(&self, need: &Need) -> Option<(Room, &Bound)> {
        let rank = |room: &Room| match room {
            Room::Never => (0, 0),
            Room::Jobs(n) => (1, *n),
        };
        let all = self.bounds.iter().filter_map(|bound| Some((bound.room(need)?, bound)));
        all.min_by_key(|(room, _)| rank(room))
    }

    /// How many more such jobs may start; `None`: any number.
    pub(crate) fn most(&self, need: &Need) -> Option<u64> {
        if self.barred.is_some() {
            return Some(0);
        }
        self.tightest(need).map(|(room, _)| match room {
            Room::Jobs(n) => n,
            Room::Never => 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(kind: LimitKind, tres: &str, most: u64, used: u64) -> Bound {
        let whose = Whose::Slurm(Holder::Account("bio".to_owned()));
        Bound { kind, tres: tres.to_owned(), most, used, reserved: 0, whose }
    }

    const THREE: Need = Need { gpus: 0, shards: 20, slices: 3, nodes: 1, minutes: Some(60) };

    #[test]
    fn a_limit_on_what_runs_together_leaves_whole_jobs() {
        let together = |most, used| bound(LimitKind::Together, SLICES, most, used).room(&THREE);
        assert_eq!(together(14, 7), Some(Room::Jobs(2)));
        assert_eq!([together(14, 12), together(14, 20)], [Some(Room::Jobs(0)); 2]);
        assert_eq!(together(2, 0), Some(Room::Never));
        assert_eq!(bound(LimitKind::Together, "gres/gpu", 0, 0).room(&THREE), None, "it has no whole GPU");
        assert_eq!(
            bound(LimitKind::Together, "gres/gpu:a100", 0, 0).room(&THREE),
            None,
            "Slurm counts a type only where a job names it"
        );
    }

    #[test]
    fn limits_of_one_job_forbid_it_or_do_not_concern_it() {
        let room = |kind, tres, most| bound(kind, tres, most, 0).room(&THREE);
        assert_eq!(
            [room(LimitKind::PerJob, SLICES, 3), room(LimitKind::PerJob, SLICES, 2)],
            [None, Some(Room::Never)]
        );
        assert_eq!(
            [room(LimitKind::WallPerJob, "", 60), room(LimitKind::WallPerJob, "", 59)],
            [None, Some(Room::Never)]
        );
        assert_eq!(
            [room(LimitKind::MinutesPerJob, SLICES, 180), room(LimitKind::MinutesPerJob, SLICES, 179)],
            [None, Some(Room::Never)]
        );
        let two = Need { slices: 6, nodes: 2, ..THREE };
        assert_eq!(bound(LimitKind::PerNode, SLICES, 3, 0).room(&two), None);
        assert_eq!(
            [room(LimitKind::Least, "gres/gpu", 2), room(LimitKind::Least, "gres/shard", 30)],
            [Some(Room::Never), None],
            "it has shards and no whole GPU"
        );
        let no_limit = Need { minutes: None, ..THREE };
        assert_eq!(
            bound(LimitKind::WallPerJob, "", 1, 0).room(&no_limit),
            None,
            "Slurm gives it the limit's time"
        );
    }

    #[test]
    fn minutes_are_used_up() {
        let minutes = |safe, used| {
            Bound { reserved: 100, ..bound(LimitKind::Minutes { safe }, SLICES, 1000, used) }.room(&THREE)
        };
        assert_eq!([minutes(false, 1000), minutes(true, 1500)], [Some(Room::Jobs(0)); 2]);
        assert_eq!(minutes(false, 999), None);
        assert_eq!([minutes(true, 500), minutes(true, 800)], [Some(Room::Jobs(2)), Some(Room::Jobs(0))]);
        assert_eq!(bound(LimitKind::Minutes { safe: false }, SLICES, 100, 0).room(&THREE), None);
        assert_eq!(bound(LimitKind::Minutes { safe: true }, SLICES, 100, 0).room(&THREE), Some(Room::Never));
        assert_eq!(bound(LimitKind::RunMinutes, SLICES, 400, 40).room(&THREE), Some(Room::Jobs(2)));
        assert_eq!(bound(LimitKind::Wall, "", 100, 100).room(&THREE), Some(Room::Jobs(0)));
    }

    #[test]
    fn the_tightest_limit_counts() {
        let bounds = vec![
            bound(LimitKind::Jobs, "", 9, 4),
            bound(LimitKind::Together, SLICES, 14, 7),
            bound(LimitKind::PerJob, SLICES, 9, 0),
        ];
        let allowance = Allowance { bounds, ..Allowance::default() };
        assert_eq!(allowance.most(&THREE), Some(2));
        assert_eq!(
            allowance.tightest(&Need { slices: 14, ..THREE }).map(|(room, _)| room),
            Some(Room::Never)
        );
        assert_eq!(Allowance::default().most(&THREE), None);
    }
}
