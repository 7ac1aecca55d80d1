//! The one table of Slurm series that Tessera is built for and tested with.
//!
//! A new series is one more row of [`Release::ALL`]. The set-up, the cluster harness and the tests read this table; no other file lists
//! series. Where the fields of Slurm's structures lie is in `slurm-tables`, for each release.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A Slurm series, and all that differs between it and the others outside the plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// Major and minor number, `24.11` for instance: on the command line, in directory names, in Slurm's own version.
    pub series: &'static str,
    /// Place where a test cluster's daemons of this series run.
    pub home: Home,
    /// `CgroupPlugin` of a test cluster, which may have no systemd and no writable cgroup tree, as in a container. When
    /// Slurm chooses by itself, slurmd ends where no tree is mounted.
    pub cgroup_plugin: &'static str,
}

/// A release of Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Debian {
    /// `VERSION_ID` in its `/etc/os-release`.
    pub number: &'static str,
    /// Code name of the Debian, by which mirrors list it.
    pub suite: &'static str,
    /// The package of its Slurm's public library.
    pub library: &'static str,
    /// True if its packages still change: tomorrow it may have another Slurm. The source of its Slurm is not always to be had.
    pub moves: bool,
}

impl Debian {
    /// The release that the machine itself must run for the set-up.
    pub const MACHINE: Self = Self { number: "12", suite: "bookworm", library: "libslurm38", moves: false };
    const TRIXIE: Self = Self { number: "13", suite: "trixie", library: "libslurm42t64", moves: false };
    const FORKY: Self = Self { number: "14", suite: "forky", library: "libslurm45t64", moves: true };
}

/// Place where Slurm's daemons and commands run in a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// On the machine itself, from its own packages. One series only.
    Machine,
    /// In a chroot of this Debian, which ships the series, made by debootstrap below `target/`.
    Chroot(Debian),
    /// Debian ships no such Slurm. The tests do not run it; `cargo xtask smoke` runs one that somebody has built.
    Prefix,
}

impl Release {
    /// Measured as 22.05.8.
    pub const V22_05: Self = Self { series: "22.05", home: Home::Machine, cgroup_plugin: V1 };

    /// Measured as 24.11.5.
    pub const V24_11: Self =
        Self { series: "24.11", home: Home::Chroot(Debian::TRIXIE), cgroup_plugin: DISABLED };

    /// Measured as 26.05.5.
    pub const V26_05: Self =
        Self { series: "26.05", home: Home::Chroot(Debian::FORKY), cgroup_plugin: DISABLED };

    /// Every series, oldest first.
    pub const ALL: [Self; 8] = [
        Self::V22_05,
        Self::by_hand("23.02", V1),
        Self::by_hand("23.11", V1),
        Self::by_hand("24.05", DISABLED),
        Self::V24_11,
        Self::by_hand("25.05", DISABLED),
        Self::by_hand("25.11", DISABLED),
        Self::V26_05,
    ];

    /// The series that runs on the machine itself: the default wherever a series can be chosen.
    pub const MACHINE: Self = Self::V22_05;

    const fn by_hand(series: &'static str, cgroup_plugin: &'static str) -> Self {
        Self { series, home: Home::Prefix, cgroup_plugin }
    }

    /// Series that the set-up installs, with the Debian that ships each, oldest first.
    pub fn packaged() -> impl Iterator<Item = (Self, Debian)> {
        Self::ALL.into_iter().filter_map(|release| Some((release, release.debian()?)))
    }

    /// The Debian that ships this series: its packages and its source are what the tests use.
    #[must_use]
    pub fn debian(self) -> Option<Debian> {
        match self.home {
            Home::Machine => Some(Debian::MACHINE),
            Home::Chroot(debian) => Some(debian),
            Home::Prefix => None,
        }
    }

    /// Tells whether the Debian that ships this series may have another micro release of it tomorrow.
    #[must_use]
    pub fn moves(self) -> bool {
        self.debian().is_some_and(|debian| debian.moves)
    }

    /// Directory of this series below Cargo's target directory. Holds Slurm's source, and the chroot if there is one.
    #[must_use]
    pub fn dir(self) -> PathBuf {
        PathBuf::from("slurm").join(self.series)
    }

    /// Slurm's configured source tree below Cargo's target directory: it holds `config.h` and `slurm/slurm.h`.
    #[must_use]
    pub fn source(self) -> PathBuf {
        self.dir().join("src")
    }

    /// The series of `SLURM_VERSION_NUMBER`, which is 0xMMmmuu: major, minor, micro.
    ///
    /// # Errors
    ///
    /// The series that was found and those in the table.
    pub fn of_version_number(number: u32) -> Result<Self, Unknown> {
        format!("{}.{:02}", number >> 16 & 0xff, number >> 8 & 0xff).parse()
    }

    /// The series of a version as Slurm's commands print it, `24.11.5` or `24.11.0-0rc1`.
    ///
    /// # Errors
    ///
    /// The version that was given and the series in the table.
    pub fn of_version(version: &str) -> Result<Self, Unknown> {
        let known = Self::ALL.into_iter().find(|release| release.is_series_of(version));
        known.ok_or_else(|| Unknown(version.to_owned()))
    }

    /// True if `version` is of this series: `24.11.5` is of `24.11`.
    #[must_use]
    pub fn is_series_of(self, version: &str) -> bool {
        version.strip_prefix(self.series).is_some_and(|micro| micro.is_empty() || micro.starts_with('.'))
    }
}

const V1: &str = "cgroup/v1";
const DISABLED: &str = "disabled";

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.series)
    }
}

impl FromStr for Release {
    type Err = Unknown;

    fn from_str(series: &str) -> Result<Self, Unknown> {
        let known = Self::ALL.into_iter().find(|release| release.series == series);
        known.ok_or_else(|| Unknown(series.to_owned()))
    }
}

/// A Slurm series that is not in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown(String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Release::ALL.map(|release| release.series).join(", ");
        write!(f, "Slurm {} is not one that Tessera knows: {known}", self.0)
    }
}

impl std::error::Error for Unknown {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_series_is_there_once_and_in_order() {
        let number = |release: &Release| release.series.replace('.', "").parse::<u32>().unwrap();
        assert!(Release::ALL.windows(2).all(|pair| number(&pair[0]) < number(&pair[1])));
        let on_the_machine: Vec<Release> =
            Release::ALL.into_iter().filter(|release| release.home == Home::Machine).collect();
        assert_eq!(on_the_machine, [Release::MACHINE]);
    }

    #[test]
    fn the_series_is_read_from_slurms_version() {
        assert_eq!(Release::of_version_number(0x16_0508), Ok(Release::V22_05));
        assert_eq!(Release::of_version_number(0x18_0b05), Ok(Release::V24_11));
        assert_eq!(Release::of_version("24.11.0-0rc1"), Ok(Release::V24_11));
        let unknown = Release::of_version_number(0x15_0805).unwrap_err().to_string();
        let known = "22.05, 23.02, 23.11, 24.05, 24.11, 25.05, 25.11, 26.05";
        assert_eq!(unknown, format!("Slurm 21.08 is not one that Tessera knows: {known}"));
        assert!(Release::V24_11.is_series_of("24.11.5") && Release::V24_11.is_series_of("24.11"));
        assert!(!Release::V24_11.is_series_of("24.110.1") && !Release::V24_11.is_series_of("22.05.8"));
    }
}
