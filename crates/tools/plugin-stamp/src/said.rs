//! Versions as Slurm's daemons and commands say them.

use slurm_tables::{BadVersion, Version};

/// Reads a version; a release candidate such as `25.11.0-0rc1` counts as its release.
///
/// # Errors
///
/// The text does not begin with a version.
pub fn of_release(text: &str) -> Result<Version, BadVersion> {
    text.trim().split('-').next().unwrap_or_default().parse()
}

/// Reads the answer of a program of Slurm's to `-V`: `slurm 24.11.7`, or `slurm-wlm 22.05.8` for Debian's.
#[must_use]
pub fn of_program(said: &str) -> Option<Version> {
    let (name, version) = said.trim().split_once(' ')?;
    name.starts_with("slurm").then(|| of_release(version).ok())?
}

/// Tells whether two versions are of one series.
#[must_use]
pub const fn is_same_series(one: Version, other: Version) -> bool {
    one.0 >> 8 == other.0 >> 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_what_slurms_programs_say() {
        let read = |said: &str| of_program(said).map(|version| version.to_string());
        assert_eq!(read("slurm 24.11.5\n").as_deref(), Some("24.11.5"));
        assert_eq!(read("slurm-wlm 22.05.8\n").as_deref(), Some("22.05.8"));
        assert_eq!(read("slurm 25.11.0-0rc1\n").as_deref(), Some("25.11.0"));
        for other in ["munge-0.5.15\n", "munge 0.5.15", "slurm", "slurm x.05.1", ""] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn a_series_is_all_but_the_last_number() {
        assert!(is_same_series(Version::new(24, 11, 0), Version::new(24, 11, 5)));
        assert!(!is_same_series(Version::new(24, 5, 8), Version::new(24, 11, 5)));
    }
}
