//! The license `slice` among a job's licenses.

use std::ffi::CString;

use site_limits::slices::{LICENSE, names_slices, with_slices};

/// A change of a job's licenses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LicenseChange {
    /// The licenses after it.
    pub(crate) after: String,
    /// Lists of licenses that Slurm is to count for the job, one after the other, so that its counts are those of `after`, the last
    /// one: 22.05 writes the counts of those that a list names, and leaves what an earlier test has counted.
    pub(crate) to_count: Vec<CString>,
}

impl LicenseChange {
    /// Gives a job with the licenses `before` this many slices; `None`: the licenses stay as they are.
    pub(crate) fn to_slices(before: &str, count: u64) -> Option<Self> {
        let after = with_slices(before, count).filter(|after| after != before)?;
        let none = (!names_slices(&after)).then(|| format!("{LICENSE}:0"));
        let to_count = none.into_iter().chain([after.clone()]).map(CString::new);
        // No list of Slurm's has a NUL in it.
        Some(Self { to_count: to_count.collect::<Result<_, _>>().ok()?, after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use site_limits::slices::slices_in;

    #[test]
    fn a_job_without_slices_is_not_held_to_those_of_an_earlier_test() {
        // As 22.05 does it.
        let count = |counts: u64, list: &str| if names_slices(list) { slices_in(list) } else { counts };
        let counted = |before: &str, slices| {
            let change = LicenseChange::to_slices(before, slices).unwrap();
            change.to_count.iter().fold(14, |counts, list| count(counts, list.to_str().unwrap()))
        };
        let counts = [counted("slice:7", 0), counted("matlab:2,slice:7", 0), counted("matlab:2", 7)];
        assert_eq!(counts, [0, 0, 7]);
    }

    #[test]
    fn licenses_that_stay_are_not_written() {
        assert_eq!(LicenseChange::to_slices("matlab:2,slice:7", 7), None);
        assert_eq!(LicenseChange::to_slices("", 0), None);
        assert_eq!(LicenseChange::to_slices("a:1|b:1", 7), None, "nobody can tell which Slurm takes");
    }
}
