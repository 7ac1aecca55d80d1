//! Jobs of one standing in the planned order, by Nice.
//!
//! Nice only grows above what it was without the planner, so no priority is raised. No job passes another user's: if one
//! stands between, even one that came later, all jobs get their own Nice back and Slurm's order holds.

/// Sort key of a pending job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    pub(super) job: u32,
    pub(super) priority: u64,
    pub(super) nice: i64,
    /// Nice without the planner.
    pub(super) own_nice: i64,
}

impl Rank {
    /// Returns the priority that the job would have without the planner.
    fn base(&self) -> i128 {
        i128::from(self.priority) + i128::from(self.nice) - i128::from(self.own_nice)
    }
}

/// The greatest Nice that is set: beyond it a job would be as good as held.
const MOST: i64 = 100_000;

/// New Nice values for jobs in the planned order; empty if nothing has to change. `others` are the priorities of all other
/// pending jobs.
pub(super) fn nices(planned: &[Rank], others: &[u64]) -> Vec<(u32, i64)> {
    let own = || planned.iter().map(|rank| rank.own_nice).collect();
    let wanted = ordered(planned, others).unwrap_or_else(own);
    let changed = |(rank, nice): &(&Rank, i64)| rank.nice != *nice;
    planned.iter().zip(wanted).filter(changed).map(|(rank, nice)| (rank.job, nice)).collect()
}

/// Nice for each job of the planned order; `None` if that order is not allowed.
fn ordered(planned: &[Rank], others: &[u64]) -> Option<Vec<i64>> {
    let mut wanted = Vec::new();
    let mut before = i128::MAX;
    for rank in planned {
        let target = rank.base().min(before - 1);
        let passed = |p: &&u64| (target..=rank.base()).contains(&i128::from(**p));
        // 1 is the lowest priority of a job that is not held.
        if target < 1 || others.iter().any(|p| passed(&p)) {
            return None;
        }
        let nice = i128::from(rank.own_nice) + rank.base() - target;
        wanted.push(i64::try_from(nice).ok().filter(|nice| *nice <= MOST)?);
        before = target;
    }
    Some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(job: u32, priority: u64, nice: i64, own_nice: i64) -> Rank {
        Rank { job, priority, nice, own_nice }
    }

    #[test]
    fn later_jobs_go_below_earlier_ones() {
        let planned = [rank(2, 90, 0, 0), rank(1, 100, 0, 0), rank(3, 80, 0, 0)];
        assert_eq!(nices(&planned, &[]), [(1, 11)]);
    }

    #[test]
    fn an_order_that_is_right_already_is_left() {
        let planned = [rank(1, 100, 0, 0), rank(2, 90, 0, 0), rank(3, 90, 1, 1)];
        assert_eq!(nices(&planned, &[]), [(3, 2)]);
        assert_eq!(nices(&planned[..2], &[]), []);
    }

    #[test]
    fn what_the_planner_added_is_taken_away_but_never_more() {
        // Job 1 was put behind job 2 earlier, and its user gave it 5 before that.
        assert_eq!(nices(&[rank(1, 84, 11, 5), rank(2, 85, 0, 0)], &[]), [(1, 5)]);
    }

    #[test]
    fn nobody_elses_job_is_passed() {
        let planned = [rank(2, 90, 0, 0), rank(1, 100, 0, 0)];
        assert_eq!(nices(&planned, &[95]), []);
        assert_eq!(nices(&planned, &[101, 80]), [(1, 11)]);
        // Bob's job came between after job 1 had been put behind job 2: it would have been behind job 1.
        assert_eq!(nices(&[rank(2, 90, 0, 0), rank(1, 89, 11, 0)], &[95]), [(1, 0)]);
        assert_eq!(nices(&[rank(2, 1, 0, 0), rank(1, 5, 0, 0)], &[]), [], "0 is held");
    }
}
