//! A second apt beside the machine's own, with other components and suites and with its own lists and cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::paths::target_dir;
use slurm_releases::Debian;

use super::sources::{machine_mirrors, render};
use crate::command::{TaskError, at, output};

/// An apt whose sources, lists and cache lie under `target/apt/SUITE`.
pub(super) struct Apt {
    dir: PathBuf,
}

impl Apt {
    /// Writes the sources and fetches the lists of `suite`.
    pub(super) fn update(suite: &str) -> Result<Self, TaskError> {
        let dir = target_dir().join("apt").join(suite);
        for part in ["lists/partial", "cache/archives/partial"] {
            at(&dir, fs::create_dir_all(dir.join(part)))?;
        }
        let apt = Self { dir };
        let file = apt.dir.join("debian.sources");
        // The main archive only. The upstream tar file is the same in every archive, and one mirror of the security
        // archive listed a source package that it did not have.
        let mirrors = machine_mirrors(Debian::MACHINE.suite)?;
        let main: Vec<_> = mirrors.into_iter().filter(|mirror| mirror.suffix.is_empty()).collect();
        at(&file, fs::write(&file, render(&main, suite)))?;
        output(apt.command("apt-get").arg("update"))?;
        Ok(apt)
    }

    /// `apt-get` or `apt-cache` on these sources.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let option = |name: &str, value: &Path| format!("{name}={}", value.display());
        command
            .args(["-q", "-o", "APT::Sandbox::User=root", "-o", "Dir::Etc::SourceParts=/dev/null"])
            .args(["-o", "APT::Get::List-Cleanup=false"])
            .args(["-o", &option("Dir::Etc::SourceList", &self.dir.join("debian.sources"))])
            .args(["-o", &option("Dir::State::Lists", &self.dir.join("lists"))])
            .args(["-o", &option("Dir::Cache", &self.dir.join("cache"))]);
        command
    }

    /// Downloads the upstream tar file of a source package into `dir`, verified by apt.
    pub(super) fn source_tar(&self, package: &str, dir: &Path) -> Result<(), TaskError> {
        output(self.command("apt-get").args(["source", "--tar-only", package]).current_dir(dir)).map(drop)
    }

    /// Downloads packages into `dir`, verified by apt.
    pub(super) fn download(&self, packages: &[&str], dir: &Path) -> Result<(), TaskError> {
        output(self.command("apt-get").arg("download").args(packages).current_dir(dir)).map(drop)
    }

    /// The main mirror's address, for debootstrap.
    pub(super) fn main_mirror() -> Result<String, TaskError> {
        let mirrors = machine_mirrors(Debian::MACHINE.suite)?;
        mirrors
            .into_iter()
            .find(|mirror| mirror.suffix.is_empty())
            .map(|mirror| mirror.uri)
            .ok_or_else(|| TaskError::Other("no main Debian mirror configured".to_owned()))
    }
}
