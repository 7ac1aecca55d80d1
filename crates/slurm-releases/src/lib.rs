//! The one table of Slurm series that Tessera is built for and tested with.
//!
//! A new series is one more constant of [`Release`], named in [`Release::ALL`]. The plugins' build scripts, the set-up,
//! the cluster harness and the tests all read this table; no other file lists series.
//!
//! Where C declarations differ between series, a plugin has one file of code per [`Release::cfg`]. A series whose hooks
//! and structs equal those of an older one takes the older one's cfg and needs no code.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// One Slurm series, and all that differs between it and the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// Major and minor number, `24.11` for instance: on the command line, in directory names, in Slurm's own version.
    pub series: &'static str,
    /// The cfg that the build scripts of slurmctld's plugins set. It selects the file with this series' hooks.
    pub cfg: &'static str,
    /// The Debian release that ships this series: its packages and its source are what the tests use.
    pub debian: Debian,
    /// Where a test cluster's daemons of this series run.
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
    /// Its code name, by which mirrors list it.
    pub suite: &'static str,
}

/// Where Slurm's daemons and commands run in a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// On the machine itself, from its own packages. One series only.
    Machine,
    /// In a chroot of [`Release::debian`], made by debootstrap below `target/`.
    Chroot,
}

impl Release {
    /// Measured as 22.05.8.
    ///
    /// - `select_p_job_test` takes the cores to avoid; five more select hooks exist, which 24.11 dropped.
    /// - A job's shards on a node come from one GPU. Reservations hold no GPUs. There is no `RestrictedCoresPerGPU`.
    /// - slurmd needs a cgroup plugin; the v1 one touches nothing before it is used.
    pub const V22_05: Self = Self {
        series: "22.05",
        cfg: "slurm_22_05",
        debian: Debian { number: "12", suite: "bookworm" },
        home: Home::Machine,
        cgroup_plugin: "cgroup/v1",
    };

    /// Measured as 24.11.5.
    ///
    /// - `select_p_job_test` takes the reserved GPUs and a will-run structure.
    /// - A job's shards on a node have one amount per GPU. Reservations can hold GPUs. `RestrictedCoresPerGPU` exists.
    pub const V24_11: Self = Self {
        series: "24.11",
        cfg: "slurm_24_11",
        debian: Debian { number: "13", suite: "trixie" },
        home: Home::Chroot,
        cgroup_plugin: "disabled",
    };

    /// Every series, oldest first.
    pub const ALL: [Self; 2] = [Self::V22_05, Self::V24_11];

    /// The series that runs on the machine itself: the default wherever a series can be chosen.
    pub const MACHINE: Self = Self::V22_05;

    /// Series that run in a chroot, oldest first.
    pub fn in_chroots() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|release| release.home == Home::Chroot)
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

    /// Whether `version` is of this series: `24.11.5` is of `24.11`.
    #[must_use]
    pub fn is_series_of(self, version: &str) -> bool {
        version.strip_prefix(self.series).is_some_and(|micro| micro.is_empty() || micro.starts_with('.'))
    }
}

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
        let known = Release::ALL.map(|release| release.series).join(" or ");
        write!(f, "`{}` is not a tested Slurm: {known}", self.0)
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
        let unknown = Release::of_version_number(0x18_0505).unwrap_err();
        assert_eq!(unknown.to_string(), "`24.05` is not a tested Slurm: 22.05 or 24.11");
        assert!(Release::V24_11.is_series_of("24.11.5") && Release::V24_11.is_series_of("24.11"));
        assert!(!Release::V24_11.is_series_of("24.110.1") && !Release::V24_11.is_series_of("22.05.8"));
    }
}
