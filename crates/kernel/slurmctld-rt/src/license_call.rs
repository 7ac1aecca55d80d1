//! How slurmctld reads a list of licenses: its `license_validate` has other arguments in some series.

use slurm_tables::Version;

/// The arguments of `license_validate` [src/slurmctld/licenses.h], and what slurmctld keeps of a job's licenses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LicenseCall {
    /// 22.05 to 24.11. What a job asks for and what it has are one list.
    OneList,
    /// 25.05 and 25.11, with one more argument for hierarchical resources. The text of the request stays as it is, and
    /// `licenses_allocated` has what the job got.
    Apart,
    /// 26.05: as [`Self::Apart`], with a last argument for names that match in part.
    ApartFuzzy,
}

impl LicenseCall {
    /// Gives those of a release; `None` for a series that nobody has looked at.
    #[must_use]
    pub fn of(slurm: Version) -> Option<Self> {
        let last = if slurm.since(26, 5) { Self::ApartFuzzy } else { Self::Apart };
        let known = slurm.since(22, 5) && !slurm.since(26, 6);
        known.then_some(if slurm.since(25, 5) { last } else { Self::OneList })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_that_nobody_has_looked_at_has_no_call() {
        let of = |major, minor, micro| LicenseCall::of(Version::new(major, minor, micro));
        assert_eq!([of(22, 5, 0), of(24, 11, 7)], [Some(LicenseCall::OneList); 2]);
        assert_eq!([of(25, 5, 0), of(25, 11, 7)], [Some(LicenseCall::Apart); 2]);
        assert_eq!([of(26, 5, 0), of(26, 5, 5)], [Some(LicenseCall::ApartFuzzy); 2]);
        assert_eq!([of(26, 11, 0), of(21, 8, 8), LicenseCall::of(Version(0))], [None; 3]);
    }
}
