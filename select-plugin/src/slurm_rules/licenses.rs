//! The license `slice` among a job's licenses.

use protocol::slices::{LICENSE, names_slices};

/// Lists of licenses that Slurm is to count for a job, one after the other, so that its counts are those of `licenses`, the last one:
/// 22.05 writes the counts of those that a list names, and leaves what an earlier test has counted.
pub(crate) fn lists_to_count(licenses: &str) -> Vec<String> {
    let none = (!names_slices(licenses)).then(|| format!("{LICENSE}:0"));
    none.into_iter().chain([licenses.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::slices::slices_in;

    #[test]
    fn a_job_without_slices_is_not_held_to_those_of_an_earlier_test() {
        // As 22.05 does it.
        let count = |counts: u64, list: &String| if names_slices(list) { slices_in(list) } else { counts };
        let counted = |licenses: &str| lists_to_count(licenses).iter().fold(14, count);
        assert_eq!(["", "matlab:2", "matlab:2,slice:7"].map(counted), [0, 0, 7]);
    }
}
