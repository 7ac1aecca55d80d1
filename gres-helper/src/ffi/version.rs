//! Differences between series of Slurm, other than the places of fields.

use slurm_numbers as numbers;
use slurm_tables::Version;
use slurmctld_rt::{LicenseCall, is_exclusive};

use crate::harm::Faults;

plugin_rt::stamped_version!(fn stamped);

/// Gives the version of the Slurm that loads this plugin: the loader refuses a plugin with another.
pub(super) fn slurm() -> Version {
    Version(stamped())
}

/// Gives the faults of this slurmctld. The sources of all releases of 24.05 and 24.11 have the second, and none of another series.
pub(super) fn faults() -> Faults {
    faults_of(slurm())
}

fn faults_of(slurm: Version) -> Faults {
    Faults {
        frees_extra_twice: !slurm.since(23, 2),
        spreads_no_gres: slurm.since(24, 5) && !slurm.since(25, 5),
    }
}

/// Tells whether slurmctld hands `job_modify` a place for a message to the user.
pub(super) fn has_message_of_changes() -> bool {
    slurm().since(23, 2)
}

/// Tells whether the select plugin counts slices on this Slurm.
pub(super) fn counts_slices() -> bool {
    LicenseCall::of(slurm()).is_some()
}

/// Gives one entry of `tres_per_node`.
pub(super) fn gres(name: &str, count: u32) -> String {
    let kind = if slurm().since(23, 11) { "gres/" } else { "gres:" };
    format!("{kind}{name}:{count}")
}

/// Tells whether slurmctld adds the GRES of a change to those that a job has: `_update_job` begins with a copy of the job's list.
pub(super) fn adds_gres() -> bool {
    !slurm().since(23, 11)
}

/// Tells whether a job is `--exclusive`.
pub(super) fn exclusive(whole_node: u8) -> bool {
    is_exclusive(whole_node, numbers::WHOLE_NODE_REQUIRED, slurm().since(24, 5))
}

/// Gives the flags with which slurmctld itself notes that a change takes licenses from a job. Clients' bits come through.
pub(super) fn reset_licenses(slurm: Version) -> u64 {
    if slurm.since(23, 2) { numbers::RESET_LIC_JOB | numbers::RESET_LIC_TASK } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_those_of_the_release() {
        let of = |a, b, c| {
            let faults = faults_of(Version::new(a, b, c));
            [faults.frees_extra_twice, faults.spreads_no_gres]
        };
        assert_eq!([of(22, 5, 8), of(23, 11, 11)], [[true, false], [false, false]]);
        assert_eq!([of(24, 5, 0), of(24, 11, 7), of(25, 5, 0)], [[false, true], [false, true], [false; 2]]);
    }

    #[test]
    fn the_flags_that_give_licenses_back_are_those_of_the_release() {
        assert_eq!(reset_licenses(Version::new(22, 5, 11)), 0);
        assert_eq!(reset_licenses(Version::new(24, 11, 5)), 0b11 << 36);
    }
}
