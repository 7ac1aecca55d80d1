//! Components of a heterogeneous job, which start together or not at all.
//!
//! # Problem
//! slurmctld submits each component as a job of its own. Each can be within a limit on running jobs that they exceed together. Slurm then
//! starts none of them, and the job waits for ever.
//!
//! # Approach
//! slurmctld asks about the components of a job one after the other, from the first on, in one thread. [`Components`] adds up, for each limit, what the
//! components so far take at the least. If another job comes between, the sum is forgotten, and nothing is said of that job.

use std::collections::BTreeMap;

use site_config::SiteConfig;
use site_limits::amounts::{Amount, together_over};
use site_limits::{Submission, limits_of};

/// Origin of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    /// The thread of slurmctld that asks.
    pub(crate) thread: u64,
    /// The user who submits.
    pub(crate) user: u32,
}

/// Components of the heterogeneous job that was seen last.
#[derive(Debug, Default)]
pub(crate) struct Components {
    of: Option<Sender>,
    /// Number of the component that comes next.
    next: u32,
    /// Sum of the components so far, by the number of the limit.
    taken: BTreeMap<usize, Amount>,
}

impl Components {
    /// Before the first job.
    pub(crate) const fn new() -> Self {
        Self { of: None, next: 0, taken: BTreeMap::new() }
    }

    /// Adds the component of this number, counted from 0, which takes so much at the least. Gives the reason why the job never starts; `None`: it
    /// may, or that is not known.
    pub(crate) fn add(
        &mut self,
        from: Sender,
        number: u32,
        takes: Amount,
        job: &Submission,
        config: &SiteConfig,
    ) -> Option<String> {
        if number == 0 {
            *self = Self { of: Some(from), ..Self::default() };
        }
        if (self.of, self.next) != (Some(from), number) {
            *self = Self::default();
            return None;
        }
        self.next = number.saturating_add(1);
        // A limit of several partitions of the job is one limit.
        let limits: BTreeMap<usize, _> =
            limits_of(job, config).into_iter().map(|limit| (limit.number, limit)).collect();
        limits.into_iter().find_map(|(number, limit)| {
            let sum = self.taken.entry(number).or_default();
            *sum = *sum + takes;
            together_over(*sum, limit)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Sender = Sender { thread: 7, user: 1001 };

    fn site() -> SiteConfig {
        let text = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 8\nmig = \"dynamic\"\n\
                    [[limits]]\npartition = \"gpu\"\nrunning_gpus = 3\n\
                    [[limits]]\neach_user = true\nrunning_slices = 40\n\
                    [[limits]]\naccount = \"art\"\nmax_gpus = 2\n";
        let (config, errors) = site_config::parse("t", text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        config.unwrap()
    }

    fn job(partitions: &[&str]) -> Submission {
        let partitions = partitions.iter().map(ToString::to_string).collect();
        Submission { partitions, user: Some(1001), ..Submission::default() }
    }

    fn gpus(n: u64) -> Amount {
        Amount { gpus: n, slices: 7 * n }
    }

    #[test]
    fn components_together_above_a_limit_never_start() {
        let (site, job, mut all) = (site(), job(&["gpu", "debug"]), Components::default());
        for _ in 0..2 {
            assert_eq!(all.add(ALICE, 0, gpus(2), &job, &site), None, "a new job begins a new sum");
            let why = all.add(ALICE, 1, gpus(2), &job, &site).unwrap();
            assert_eq!(
                why,
                "the components of this job start together and need 4 whole GPUs, and in partition gpu running jobs together may have at most \
                 3 (running_gpus, line 6 of tessera.toml)"
            );
        }
        assert_eq!(all.add(ALICE, 0, gpus(2), &job, &site), None);
        assert_eq!(all.add(ALICE, 1, gpus(1), &job, &site), None);
        assert_eq!(all.add(ALICE, 2, gpus(0), &job, &site), None, "exactly the limit");
    }

    #[test]
    fn a_limit_counts_the_components_that_it_is_for() {
        let (site, mut all) = (site(), Components::default());
        for (number, partition) in [(0, "gpu"), (1, "debug"), (2, "debug")] {
            let why = all.add(ALICE, number, gpus(2), &job(&[partition]), &site);
            assert_eq!(why.is_some(), number == 2, "{number}: {why:?}");
            assert!(why.is_none_or(|why| why.contains("42 slices") && why.contains("one user")));
        }
    }

    #[test]
    fn sums_of_different_jobs_are_not_mixed() {
        let (site, job, mut all) = (site(), job(&["gpu"]), Components::default());
        let bob = Sender { thread: 8, user: 1002 };
        assert_eq!(all.add(ALICE, 0, gpus(2), &job, &site), None);
        assert_eq!(all.add(bob, 0, gpus(2), &job, &site), None);
        assert_eq!(all.add(ALICE, 1, gpus(2), &job, &site), None, "not known any more");
        assert_eq!(all.add(bob, 1, gpus(2), &job, &site), None, "nor this one");
        assert_eq!(all.add(ALICE, 0, gpus(2), &job, &site), None);
        assert_eq!(all.add(ALICE, 2, gpus(2), &job, &site), None, "one is missing");
        let most = Amount { gpus: u64::MAX, slices: u64::MAX };
        assert!(
            all.add(ALICE, 0, most, &job, &site).is_some() && all.add(ALICE, 1, most, &job, &site).is_some()
        );
    }
}
