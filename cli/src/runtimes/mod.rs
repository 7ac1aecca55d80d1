//! How long jobs run: learnt from past jobs, and expected of running ones.

pub(crate) mod ends;
mod spread;

use std::collections::BTreeMap;

use far::Micros;
use geometry::Model;

pub(crate) use spread::Spread;

use crate::slurm::sacct::Past;

/// Times by job profile and MIG profile, seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Learnt {
    /// Each list ascends.
    times: BTreeMap<(String, String), Vec<u64>>,
}

impl Learnt {
    pub(crate) fn of(past: Vec<Past>) -> Self {
        let mut learnt = Self::default();
        for job in past {
            learnt.times.entry((job.job_profile, job.instance)).or_default().push(job.seconds);
        }
        learnt.times.values_mut().for_each(|times| times.sort_unstable());
        learnt
    }

    /// Forgets the other job profiles.
    pub(crate) fn retain(&mut self, job_profile: &str) {
        self.times.retain(|(name, _), _| name == job_profile);
    }

    /// Job profile, MIG profile and their times, in this order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&(String, String), Spread)> {
        self.times.iter().filter_map(|(key, times)| Some((key, Spread::of(times)?)))
    }

    /// Whether any job of this profile is known.
    pub(crate) fn knows(&self, job_profile: &str) -> bool {
        self.times.keys().any(|(name, _)| name == job_profile)
    }

    /// Median time of a job profile on a MIG profile, seconds.
    pub(crate) fn seconds(&self, job_profile: &str, instance: &str) -> Option<u64> {
        let found = self.times.get(&(job_profile.to_owned(), instance.to_owned()))?;
        Some(Spread::of(found)?.median.max(1))
    }

    /// Median time of a job profile on a model's plain instance of this many compute slices. Jobs count by the name of
    /// their MIG profile, which differs between A100 and H100.
    pub(crate) fn median(&self, job_profile: &str, model: &Model, slices: u8) -> Option<Micros> {
        let mut plain = model.profiles.iter().filter(|p| !p.is_variant() && p.compute_slices == slices);
        Some(plain.find_map(|p| self.seconds(job_profile, &p.name))? * 1_000_000)
    }
}
