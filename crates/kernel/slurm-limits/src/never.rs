//! A job that its limits never let start.
//!
//! # Problem
//! Slurm accepts a job above its limits unless the QOS has the flag `DenyOnLimit`. The job then waits until an administrator raises the limit, and
//! its reason names neither the limit's value nor what would fit.
//!
//! # Approach
//! A limit that the job alone exceeds is never met, whatever other jobs do. Before a job starts, its amounts are lower bounds. So a job
//! that could start is never named here. A job that is not named may still wait for ever.

use crate::{LimitKind, Need, SlurmLimit, phrase, tres_amount};

impl LimitKind {
    /// Tells whether a job alone exceeds a limit of this kind, whatever others have.
    #[must_use]
    pub fn is_exceeded_by(self, need: &Need, tres: &str, most: u64) -> bool {
        let each = need.of(tres);
        let times = || need.minutes.is_some_and(|minutes| each.saturating_mul(minutes) > most);
        match self {
            Self::Together | Self::PerJob => each > most,
            Self::PerNode => each / need.nodes.max(1) > most,
            // Other amounts are the least that the job has: it may get more.
            Self::Least => each == 0 && most > 0 && ["gres/gpu", "gres/shard"].contains(&tres),
            // Without `safe`, slurmctld lets a job start that would use up more than there is.
            Self::Minutes { safe } => safe && times(),
            Self::RunMinutes | Self::MinutesPerJob => times(),
            Self::WallPerJob => need.minutes.is_some_and(|minutes| minutes > most),
            Self::Jobs | Self::MaxJobs => most == 0,
            Self::Wall => false,
        }
    }
}

impl SlurmLimit {
    /// Says what would fit.
    fn instead(&self, need: &Need) -> String {
        let other = "take another QOS or account";
        match self.kind {
            LimitKind::WallPerJob if self.most > 0 => format!("use --time={}, or {other}", self.most),
            LimitKind::Together | LimitKind::PerJob | LimitKind::PerNode if self.most > 0 => {
                let on_each = if self.kind == LimitKind::PerNode { " on each node" } else { "" };
                format!("ask for {}{on_each} or less, or {other}", tres_amount(self.most, &self.tres))
            }
            LimitKind::Least => format!("ask for {} or more, or {other}", tres_amount(self.most, &self.tres)),
            LimitKind::Minutes { .. } | LimitKind::RunMinutes | LimitKind::MinutesPerJob => {
                match self.most / need.of(&self.tres).max(1) {
                    0 => format!("ask for less, or {other}"),
                    most => format!("use --time={most}, or {other}"),
                }
            }
            _ => other.to_owned(),
        }
    }

    fn sentence(&self, need: &Need) -> String {
        let limit = phrase(self.kind, &self.holder.words(), self.most, &self.tres);
        let needs =
            need.words(self.kind, &self.tres).map(|needs| format!(", and {needs}")).unwrap_or_default();
        format!("a limit of Slurm never lets this job start: {limit}{needs}; {}", self.instead(need))
    }
}

/// Says which of the limits that hold for a job never lets it start, with what would fit; `None`: none does. Of several the first.
#[must_use]
pub fn never(limits: &[SlurmLimit], need: &Need) -> Option<String> {
    let exceeds = |limit: &&SlurmLimit| limit.kind.is_exceeded_by(need, &limit.tres, limit.most);
    limits.iter().find(exceeds).map(|limit| limit.sentence(need))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Holder, SLICES};

    const NEED: Need = Need { gpus: 4, shards: 0, slices: 28, nodes: 2, minutes: Some(100) };

    fn told(kind: LimitKind, tres: &str, most: u64) -> Option<String> {
        let holder = Holder::Qos("small".to_owned());
        let limit = SlurmLimit { kind, tres: tres.to_owned(), most, holder };
        never(&[limit], &NEED).map(|told| told.replace("a limit of Slurm never lets this job start: ", "…"))
    }

    #[test]
    fn a_limit_that_the_job_alone_exceeds_is_told_with_what_would_fit() {
        let other = "take another QOS or account";
        assert_eq!(
            told(LimitKind::PerJob, "gres/gpu", 2).unwrap(),
            format!(
                "…a job of QOS small may have at most 2 GPUs, and this job needs 4 GPUs; ask for 2 GPUs or less, or {other}"
            )
        );
        assert_eq!(
            told(LimitKind::Together, SLICES, 14).unwrap(),
            format!(
                "…QOS small may have 14 slices at once, and this job needs 28 slices; ask for 14 slices or less, or {other}"
            )
        );
        assert_eq!(
            told(LimitKind::PerNode, "gres/gpu", 1).unwrap(),
            format!(
                "…a job of QOS small may have at most 1 GPU on a node, and this job needs 4 GPUs; ask for 1 GPU on each node or less, or \
                 {other}"
            )
        );
        assert_eq!(
            told(LimitKind::MinutesPerJob, "gres/gpu", 200).unwrap(),
            format!(
                "…a job of QOS small may have at most 200 GPU minutes to its time limit, and this job needs 4 GPUs for up to 100 minutes; \
                 use --time=50, or {other}"
            )
        );
        assert_eq!(
            told(LimitKind::WallPerJob, "", 60).unwrap(),
            format!(
                "…a job of QOS small may have a time limit of at most 60 minutes, and this job asks for 100 minutes; use --time=60, or {other}"
            )
        );
        assert_eq!(
            told(LimitKind::Jobs, "", 0).unwrap(),
            format!("…QOS small may run 0 jobs at once; {other}")
        );
        assert_eq!(
            told(LimitKind::PerJob, "gres/gpu", 0).unwrap(),
            format!("…a job of QOS small may have at most 0 GPUs, and this job needs 4 GPUs; {other}")
        );
    }

    #[test]
    fn components_of_a_job_are_held_to_a_limit_together() {
        assert!(LimitKind::Together.is_exceeded_by(&Need { gpus: 5, ..NEED }, "gres/gpu", 4));
    }

    #[test]
    fn a_job_of_shards_is_told_that_its_qos_is_for_whole_gpus() {
        assert_eq!(
            told(LimitKind::Least, "gres/shard", 5).unwrap(),
            "…a job of QOS small must have at least 5 shards, and Slurm counts 0 shards for this job; ask for 5 shards or more, or take another \
             QOS or account"
        );
        assert_eq!(told(LimitKind::Least, "gres/gpu", 8), None, "it may get more than 4");
        assert_eq!(
            [told(LimitKind::Least, "gres/shard", 0), told(LimitKind::Least, "node", 9)],
            [None, None]
        );
    }

    #[test]
    fn a_job_that_could_start_is_not_told_anything() {
        for (kind, tres, most) in [
            (LimitKind::PerJob, "gres/gpu", 4),
            (LimitKind::PerNode, "gres/gpu", 2),
            (LimitKind::Together, "gres/shard", 0),
            (LimitKind::Together, "bb/cray", 0),
            (LimitKind::MinutesPerJob, "gres/gpu", 400),
            (LimitKind::Minutes { safe: false }, "gres/gpu", 1),
            (LimitKind::WallPerJob, "", 100),
            (LimitKind::Jobs, "", 1),
            (LimitKind::Wall, "", 0),
        ] {
            assert_eq!(told(kind, tres, most), None, "{kind:?} {tres}");
        }
        let endless = Need { minutes: Some(u32::MAX.into()), ..NEED };
        let holder = Holder::Qos("small".to_owned());
        let wall = SlurmLimit { kind: LimitKind::WallPerJob, tres: String::new(), most: 60, holder };
        assert!(never(&[wall], &endless).unwrap().contains("and this job asks for any time; use --time=60"));
        let unknown = Need { minutes: None, ..NEED };
        let holder = Holder::Account("bio".to_owned());
        let limit = |kind| SlurmLimit { kind, tres: "gres/gpu".to_owned(), most: 1, holder: holder.clone() };
        assert_eq!(never(&[limit(LimitKind::RunMinutes), limit(LimitKind::WallPerJob)], &unknown), None);
        assert!(never(&[limit(LimitKind::RunMinutes)], &NEED).is_some());
    }
}
