//! Chooses the jobs that preemption ends, and makes the list for Slurm.

use geometry::JobId;

/// A way in which Slurm would preempt a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreemptMode {
    Requeue,
    Cancel,
    /// Another, such as suspension.
    Other,
}

impl PreemptMode {
    /// Tells whether the job gives back what it holds. A suspended job keeps its GPU memory.
    pub(crate) fn ends_the_job(self) -> bool {
        matches!(self, Self::Requeue | Self::Cancel)
    }
}

/// Makes the list of jobs that have to go: the `going` ones, behind those of `listed` whose end frees nothing. `victims` are the
/// candidates whose end frees what they hold; components of one job have one record, which is listed once.
pub(crate) fn jobs_to_list<T: Copy + PartialEq>(
    listed: Vec<T>,
    victims: &[(JobId, T)],
    going: &[JobId],
) -> Vec<T> {
    let others = listed.into_iter().filter(|job| victims.iter().all(|(_, victim)| victim != job));
    let chosen = going.iter().filter_map(|id| victims.iter().find(|(known, _)| known == id));
    // Few jobs go, of thousands that are listed.
    let chosen: Vec<T> = chosen.map(|(_, record)| *record).collect();
    let first = |(place, record): &(usize, &T)| !chosen[..*place].contains(record);
    others.chain(chosen.iter().enumerate().filter(first).map(|(_, record)| *record)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspended_job_keeps_its_memory() {
        let ends =
            [PreemptMode::Requeue, PreemptMode::Cancel, PreemptMode::Other].map(PreemptMode::ends_the_job);
        assert_eq!(ends, [true, true, false]);
    }

    #[test]
    fn the_components_of_a_job_go_by_one_record() {
        let victims = [(JobId(1), 'a'), (JobId(2), 'b'), (JobId(3), 'b')];
        assert_eq!(jobs_to_list(vec!['b'], &victims, &[JobId(3), JobId(2), JobId(1)]), ['b', 'a']);
    }

    #[test]
    fn jobs_whose_end_frees_nothing_stay_in_the_list() {
        let victims = [(JobId(1), 'a'), (JobId(2), 'b'), (JobId(3), 'c')];
        assert_eq!(jobs_to_list(vec!['a', 'x', 'b'], &victims, &[JobId(3)]), ['x', 'c']);
        assert_eq!(jobs_to_list(vec!['a'], &victims, &[JobId(2), JobId(1)]), ['b', 'a']);
        assert_eq!(jobs_to_list(vec![], &victims, &[JobId(9)]), [' '; 0], "not a candidate");
    }
}
