//! Limits that Slurm keeps of jobs, those of associations and QOS: which of them hold for a job, and which never let it start.
//!
//! Pure. slurmctld's job submit plugin reads the limits from slurmctld's memory, the command line from what `scontrol` prints; both ask
//! here, so that they agree.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod never;
mod words;

use std::collections::BTreeSet;

pub use never::never;
pub use words::{phrase, tres_amount};

/// The TRES by which Tessera counts slices.
pub const SLICES: &str = "license/slice";

/// Owner of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The jobs of an account and of the accounts below.
    Account(String),
    /// The jobs of a user in an account.
    User(String, String),
    /// All jobs of a QOS.
    Qos(String),
    /// A user's jobs of a QOS.
    UserOfQos(String, String),
    /// An account's jobs of a QOS.
    AccountOfQos(String, String),
    /// The jobs of a partition.
    Partition(String),
}

/// Subject of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitKind {
    /// An amount that running jobs have together.
    Together,
    /// An amount of one job.
    PerJob,
    /// An amount of one job on each of its nodes.
    PerNode,
    /// An amount times minutes, used up as jobs run. `safe`: a job starts only if the rest is enough to its time limit.
    Minutes {
        /// `AccountingStorageEnforce` has `safe`.
        safe: bool,
    },
    /// An amount times the minutes that running jobs still have.
    RunMinutes,
    /// An amount of one job times its time limit.
    MinutesPerJob,
    /// Jobs that run together.
    Jobs,
    /// Minutes that jobs have run.
    Wall,
    /// The time limit of a job, minutes.
    WallPerJob,
}

/// A limit that slurmctld keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmLimit {
    /// Subject of the limit.
    pub kind: LimitKind,
    /// The TRES; empty for jobs and times.
    pub tres: String,
    /// The most that there may be.
    pub most: u64,
    /// Owner of the limit.
    pub holder: Holder,
}

/// Amounts that Slurm counts for a job, on all nodes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Whole GPUs.
    pub gpus: u64,
    /// Shards.
    pub shards: u64,
    /// Compute slices.
    pub slices: u64,
    /// Nodes of the job, at least 1.
    pub nodes: u64,
    /// Time limit of the job; `None`: not known.
    pub minutes: Option<u64>,
}

impl Need {
    /// The amount of a TRES. A job has at least a core and some memory.
    #[must_use]
    pub fn of(&self, tres: &str) -> u64 {
        match tres {
            "gres/gpu" => self.gpus,
            "gres/shard" => self.shards,
            SLICES => self.slices,
            "node" => self.nodes.max(1),
            "cpu" | "mem" => 1,
            _ => 0,
        }
    }
}

/// Limits of which the first that is set counts alone: those of a user of a QOS are no limits of its group.
type SlotOfLimit = (LimitKind, u8, String);

/// Takes of limits that several records set those of the first record, as slurmctld does (`acct_policy.c`): the partition's QOS comes
/// before the job's, and a QOS before associations. A QOS with the flag `OverPartQOS` comes before the partition's; the caller puts the
/// records into that order.
#[derive(Clone, Debug, Default)]
pub struct FirstSet(BTreeSet<SlotOfLimit>);

impl FirstSet {
    /// Keeps of the limits of one record those that no earlier record has set.
    pub fn keep(&mut self, here: Vec<SlurmLimit>) -> Vec<SlurmLimit> {
        let key = |limit: &SlurmLimit| {
            let group = match limit.holder {
                Holder::Account(_) | Holder::User(..) | Holder::Qos(_) => 0,
                Holder::UserOfQos(..) => 1,
                Holder::AccountOfQos(..) => 2,
                // It holds beside those of the accounting.
                Holder::Partition(_) => 3,
            };
            (limit.kind, group, limit.tres.clone())
        };
        let new: Vec<SlurmLimit> = here.into_iter().filter(|limit| !self.0.contains(&key(limit))).collect();
        self.0.extend(new.iter().map(key));
        new
    }
}

/// Scales a limit of an association by the `LimitFactor` of a QOS.
#[must_use]
pub fn scaled(limit: SlurmLimit, factor: f64) -> SlurmLimit {
    let is_scaled = matches!(limit.kind, LimitKind::Together | LimitKind::PerJob);
    if !is_scaled || factor <= 0.0 || (factor - 1.0).abs() < f64::EPSILON {
        return limit;
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "as slurmctld does it"
    )]
    let most = (limit.most as f64 * factor) as u64;
    SlurmLimit { most, ..limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(kind: LimitKind, most: u64, holder: Holder) -> SlurmLimit {
        SlurmLimit { kind, tres: "gres/gpu".to_owned(), most, holder }
    }

    #[test]
    fn the_first_record_that_sets_a_limit_counts() {
        let qos = |name: &str| Holder::Qos(name.to_owned());
        let mut first = FirstSet::default();
        let job = limit(LimitKind::PerJob, 2, qos("part"));
        assert_eq!(first.keep(vec![job.clone()]), [job]);
        let together = limit(LimitKind::Together, 8, qos("normal"));
        assert_eq!(
            first.keep(vec![limit(LimitKind::PerJob, 4, qos("normal")), together.clone()]),
            [together]
        );
        // All accounts up to the root are one record.
        let account = |name: &str| limit(LimitKind::MinutesPerJob, 1, Holder::Account(name.to_owned()));
        assert_eq!(first.keep(vec![account("bio"), account("root")]).len(), 2);
        let own = limit(LimitKind::Together, 1, Holder::UserOfQos("alice".to_owned(), "normal".to_owned()));
        assert_eq!(first.keep(vec![own.clone()]), [own]);
    }

    #[test]
    fn a_qos_scales_amounts_and_no_times() {
        let of = |kind, factor| scaled(limit(kind, 5, Holder::Account(String::new())), factor).most;
        assert_eq!([of(LimitKind::Together, 0.5), of(LimitKind::PerJob, 2.0)], [2, 10]);
        assert_eq!([of(LimitKind::Together, -1.0), of(LimitKind::WallPerJob, 2.0)], [5, 5]);
    }
}
