//! Number of nodes of a job.

use crate::slurm::squeue::QueuedJob;

/// The fewest nodes that a job starts on: 2 of `2-4`.
pub(super) fn fewest(job: &QueuedJob) -> usize {
    job.n_nodes.split('-').next().and_then(|n| n.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_counts_by_its_fewest() {
        let of = |n: &str| fewest(&QueuedJob { n_nodes: n.to_owned(), ..QueuedJob::default() });
        assert_eq!([of("2-4"), of("3"), of("")], [2, 3, 1]);
    }
}
