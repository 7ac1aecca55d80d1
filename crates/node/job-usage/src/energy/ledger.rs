//! Divides the energy between two readings of a GPU's counter among the jobs that were there. Pure.

use node_journal::JobEnergy;

/// A job on a GPU, and its part of it in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) job: u32,
    pub(super) part: u32,
}

/// Energy that a GPU has used between two readings, mJ. The counter begins anew when the driver is loaded.
pub(super) fn between(before_mj: u64, now_mj: u64) -> u64 {
    now_mj.checked_sub(before_mj).unwrap_or(now_mj)
}

/// Adds what a GPU has used since the last reading to its jobs: all of it to one that was alone, else to each as much as its
/// part is of all their parts.
pub(super) fn charge(jobs: &mut [JobEnergy], used_mj: u64) {
    if let [alone] = jobs {
        alone.exact_mj = alone.exact_mj.saturating_add(used_mj);
        return;
    }
    let all: u64 = jobs.iter().map(|job| u64::from(job.part.max(1))).sum();
    let (mut left, mut parts) = (used_mj, all);
    for job in jobs {
        // Of what is left, so that nothing is lost by rounding.
        let part = u64::from(job.part.max(1));
        let own = u128::from(left) * u128::from(part) / u128::from(parts.max(1));
        let own = u64::try_from(own).unwrap_or(left);
        job.estimated_mj = job.estimated_mj.saturating_add(own);
        (left, parts) = (left - own, parts - part);
    }
}

/// The jobs that have a GPU from now on, each with what it has used so far.
pub(super) fn held_by(jobs: &[JobEnergy], holders: &[Holder]) -> Vec<JobEnergy> {
    let of = |holder: &Holder| {
        let known = jobs.iter().find(|job| job.job == holder.job);
        let (exact_mj, estimated_mj) = known.map_or((0, 0), |job| (job.exact_mj, job.estimated_mj));
        JobEnergy { job: holder.job, part: holder.part, exact_mj, estimated_mj }
    };
    holders.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whoever comes and goes: what was used while somebody was there is charged, once and completely.
        #[test]
        fn nothing_is_lost_and_nothing_is_charged_twice(
            steps in prop::collection::vec((0..1_000_000_u64, 0..16_u32), 1..40),
        ) {
            let mut jobs: Vec<JobEnergy> = Vec::new();
            let (mut used_while_held, mut gone) = (0_u64, 0_u64);
            for (used, present) in steps {
                if !jobs.is_empty() {
                    used_while_held += used;
                }
                charge(&mut jobs, used);
                let sum = |job: &JobEnergy| job.exact_mj + job.estimated_mj;
                let is_there = |job: u32| present >> job & 1 == 1;
                gone += jobs.iter().filter(|job| !is_there(job.job)).map(sum).sum::<u64>();
                let holders: Vec<Holder> =
                    (0..4).filter(|job| is_there(*job)).map(|job| Holder { job, part: 100 * (job + 1) }).collect();
                jobs = held_by(&jobs, &holders);
                prop_assert_eq!(gone + jobs.iter().map(sum).sum::<u64>(), used_while_held);
            }
        }
    }

    #[test]
    fn who_is_alone_has_all_of_it_and_others_share_by_their_parts() {
        let mut jobs = held_by(&[], &[Holder { job: 1, part: 142 }]);
        charge(&mut jobs, 500);
        assert_eq!((jobs[0].exact_mj, jobs[0].estimated_mj), (500, 0));
        jobs = held_by(&jobs, &[Holder { job: 1, part: 250 }, Holder { job: 2, part: 750 }]);
        charge(&mut jobs, 1000);
        assert_eq!((jobs[0].exact_mj, jobs[0].estimated_mj), (500, 250));
        assert_eq!((jobs[1].exact_mj, jobs[1].estimated_mj), (0, 750));
        assert_eq!((between(100, 150), between(100, 30)), (50, 30));
    }
}
