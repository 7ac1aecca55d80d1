//! How long jobs run: learnt from past jobs, and expected of running ones.

pub(crate) mod ends;
mod spread;

use std::collections::BTreeMap;

use far::Micros;
use geometry::Model;
use site_config::LearnFrom;

pub(crate) use spread::Spread;

use crate::slurm::sacct::Past;
use crate::slurm::squeue::QueuedJob;

/// Times by whose jobs they are, job profile and MIG profile, seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Learnt {
    from: LearnFrom,
    /// Each list ascends.
    times: BTreeMap<Key, Vec<u64>>,
}

/// Key of a run time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// The user or the account.
    pub(crate) owner: String,
    pub(crate) job_profile: String,
    /// The MIG profile.
    pub(crate) instance: String,
}

impl Learnt {
    pub(crate) fn of(past: Vec<Past>, from: LearnFrom) -> Self {
        let mut times: BTreeMap<Key, Vec<u64>> = BTreeMap::new();
        for Past { user, account, job_profile, instance, seconds } in past {
            let owner = if from == LearnFrom::User { user } else { account };
            times.entry(Key { owner, job_profile, instance }).or_default().push(seconds);
        }
        times.values_mut().for_each(|times| times.sort_unstable());
        Self { from, times }
    }

    /// Nothing is known yet.
    pub(crate) fn nothing(from: LearnFrom) -> Self {
        Self::of(Vec::new(), from)
    }

    /// Forgets the other job profiles.
    pub(crate) fn retain(&mut self, job_profile: &str) {
        self.times.retain(|key, _| key.job_profile == job_profile);
    }

    /// True if nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Keys and their times, in the order of the keys.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Key, Spread)> {
        self.times.iter().filter_map(|(key, times)| Some((key, Spread::of(times)?)))
    }

    /// Whose past jobs count for this one.
    fn owner<'a>(&self, job: &'a QueuedJob) -> &'a str {
        if self.from == LearnFrom::User { &job.user } else { &job.account }
    }

    /// True if any job of this profile is known that counts for `job`.
    pub(crate) fn knows(&self, job: &QueuedJob, job_profile: &str) -> bool {
        let owner = self.owner(job);
        self.times.keys().any(|key| key.owner == owner && key.job_profile == job_profile)
    }

    /// Median time of a job profile on a MIG profile, as far as past jobs count for `job`, seconds.
    pub(crate) fn seconds(&self, job: &QueuedJob, job_profile: &str, instance: &str) -> Option<u64> {
        let [owner, job_profile, instance] = [self.owner(job), job_profile, instance].map(str::to_owned);
        Some(Spread::of(self.times.get(&Key { owner, job_profile, instance })?)?.median.max(1))
    }

    /// The longest that a job profile has taken on a MIG profile, as far as past jobs count for `job`, seconds.
    pub(crate) fn longest(&self, job: &QueuedJob, job_profile: &str, instance: &str) -> Option<u64> {
        let [owner, job_profile, instance] = [self.owner(job), job_profile, instance].map(str::to_owned);
        Some(Spread::of(self.times.get(&Key { owner, job_profile, instance })?)?.most.max(1))
    }

    /// Median time of a job profile on a model's plain instance of this many compute slices. Jobs count by the name of
    /// their MIG profile, which differs between A100 and H100.
    pub(crate) fn median(
        &self,
        job: &QueuedJob,
        job_profile: &str,
        model: &Model,
        slices: u8,
    ) -> Option<Micros> {
        let mut plain = model.profiles.iter().filter(|p| !p.is_variant() && p.compute_slices == slices);
        Some(plain.find_map(|p| self.seconds(job, job_profile, &p.name))? * 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_user_or_of_the_account() {
        let past = |user: &str, account: &str, seconds| Past {
            user: user.to_owned(),
            account: account.to_owned(),
            job_profile: "bert".to_owned(),
            instance: "1g.5gb".to_owned(),
            seconds,
        };
        let all = [
            past("alice", "lab", 60),
            past("bob", "lab", 6),
            past("bob", "lab", 30),
            past("eve", "other", 1),
        ];
        let of = |from, user: &str, account: &str| {
            let job =
                QueuedJob { user: user.to_owned(), account: account.to_owned(), ..QueuedJob::default() };
            let learnt = Learnt::of(all.to_vec(), from);
            let seconds = learnt.seconds(&job, "bert", "1g.5gb");
            assert_eq!(learnt.knows(&job, "bert"), seconds.is_some());
            seconds
        };
        assert_eq!(of(LearnFrom::User, "alice", "other"), Some(60));
        assert_eq!(of(LearnFrom::User, "carol", "lab"), None, "nobody else's name for a profile counts");
        assert_eq!(of(LearnFrom::Account, "carol", "lab"), Some(30));
        assert_eq!(of(LearnFrom::Account, "alice", ""), None);
    }
}
