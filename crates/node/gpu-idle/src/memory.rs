//! Memory of warnings, so that none is repeated and none is left out.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use site_config::IdleEnd;

use crate::held_job::HeldJob;
use crate::record::Stretch;

/// Most jobs that are remembered.
const MOST: usize = 10_000;
/// Most warnings in a minute.
const MOST_WARNINGS: u32 = 30;

/// End of a job that a warning announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// End of the job.
    #[serde(with = "end_word")]
    pub end: IdleEnd,
    /// The earliest time, seconds since 1970, unless the job is suspended meanwhile.
    pub at: u64,
}

mod end_word {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
    use site_config::IdleEnd;

    pub(super) fn serialize<S: Serializer>(end: &IdleEnd, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(IdleEnd::NAMED.iter().find(|(_, one)| one == end).map_or("", |(name, _)| name))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<IdleEnd, D::Error> {
        let word = String::deserialize(from)?;
        let named = IdleEnd::NAMED.iter().find(|(name, _)| *name == word);
        named.map(|(_, end)| *end).ok_or_else(|| D::Error::custom("not an end of an idle job"))
    }
}

/// A job that is warned, or about to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warned {
    /// Job number.
    pub job: u32,
    /// Since when it was idle.
    pub since: u64,
    /// Time of the warning.
    pub at: u64,
    /// Announcement, if there was one.
    pub promise: Option<Promise>,
    /// How long the job had been suspended then, seconds.
    pub suspended_s: u64,
    /// The user was told. If this process ends before that, he is told again.
    pub told: bool,
    /// Number of times that Slurm refused to end the job.
    pub refused: u32,
}

impl Warned {
    /// Tells whether this is the warning of a job in its present stretch. What is not known of a job's use ends no stretch.
    fn is_for(&self, job: &HeldJob) -> bool {
        self.job == job.job
            && match job.stretch {
                Stretch::InUse => false,
                Stretch::Unknown => true,
                Stretch::Since(since) => since == self.since,
            }
    }
}

/// Warnings that were given, and how many in this minute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleMemory {
    warned: Vec<Warned>,
    /// The minute of the last warning, and the warnings in it.
    minute: (u64, u32),
}

impl IdleMemory {
    /// Finds the warning of a job in its present stretch.
    #[must_use]
    pub fn of(&self, job: &HeldJob) -> Option<&Warned> {
        self.warned.iter().find(|warned| warned.is_for(job))
    }

    /// Number of warnings that may be given now.
    #[must_use]
    pub fn room(&self, now: u64) -> usize {
        let kept = MOST.saturating_sub(self.warned.len());
        kept.min(usize::try_from(MOST_WARNINGS.saturating_sub(self.given(now))).unwrap_or(0))
    }

    /// Number of warnings in this minute.
    fn given(&self, now: u64) -> u32 {
        if self.minute.0 == now / 60 { self.minute.1 } else { 0 }
    }

    /// Forgets jobs that are not in `jobs`, and those that have used a GPU since their warning.
    pub fn forget(&mut self, jobs: &[HeldJob]) {
        let by_number: HashMap<u32, &HeldJob> = jobs.iter().map(|job| (job.job, job)).collect();
        self.warned.retain(|warned| by_number.get(&warned.job).is_some_and(|job| warned.is_for(job)));
    }

    /// Notes that a job is about to be warned. What is announced comes `after_s` from now.
    pub fn warn(&mut self, job: &HeldJob, end: Option<(IdleEnd, u64)>, now: u64) -> Option<Promise> {
        let Stretch::Since(since) = job.stretch else { return None };
        let promise = end.map(|(end, after_s)| Promise { end, at: now.saturating_add(after_s) });
        self.minute = (now / 60, self.given(now).saturating_add(1));
        self.warned.retain(|warned| warned.job != job.job);
        self.warned.push(Warned {
            job: job.job,
            since,
            at: now,
            promise,
            suspended_s: job.suspended_s,
            told: false,
            refused: 0,
        });
        promise
    }

    /// Notes that its user was told.
    pub fn told(&mut self, job: u32) {
        self.change(job, |warned| warned.told = true);
    }

    /// Notes that Slurm refused to end a job.
    pub fn refused(&mut self, job: u32) {
        self.change(job, |warned| warned.refused = warned.refused.saturating_add(1));
    }

    fn change(&mut self, job: u32, change: impl FnOnce(&mut Warned)) {
        if let Some(warned) = self.warned.iter_mut().find(|warned| warned.job == job) {
            change(warned);
        }
    }
}
