//! The Slurm that a cluster runs and that plugins are built for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use error_chain::with_causes;
use slurm_releases::Release;
use slurm_tables::{BadVersion, Version};

use crate::command::{line, run};
use crate::error::{HarnessError, at};
use crate::paths;

/// Names a series of the table that clusters run unless a test says another: `24.11`.
pub const SERIES: &str = "TESSERA_E2E_SLURM";
/// Names the prefix of a Slurm built by hand that clusters run unless a test says another.
pub const PREFIX: &str = "TESSERA_E2E_PREFIX";
/// Names the source tree of that Slurm.
pub const SOURCE: &str = "TESSERA_E2E_SOURCE";

/// A Slurm: that of the machine, of a chroot, or one that somebody has built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slurm {
    /// Series of the Slurm.
    pub release: Release,
    /// Source tree; `None` for the packages of a Debian whose source is not always to be had.
    pub(crate) source: Option<PathBuf>,
    /// Prefix of its installation; `None` for the packages of a Debian.
    pub(crate) prefix: Option<PathBuf>,
    /// True if it comes from the set-up.
    pub(crate) packaged: bool,
}

impl From<Release> for Slurm {
    /// The one that `cargo xtask setup` installs.
    fn from(release: Release) -> Self {
        let source = (!release.moves()).then(|| paths::slurm_source(release));
        Self { release, source, prefix: None, packaged: true }
    }
}

impl Slurm {
    /// A Slurm whose source tree is `source`; for a cluster, also where it is installed.
    ///
    /// # Errors
    ///
    /// One line: no source tree, not configured, a series that is not in the table, or `prefix` has another version.
    pub fn by_hand(source: &Path, prefix: Option<&Path>) -> Result<Self, HarnessError> {
        let version = version_of(source)?;
        let problem = |what: String| HarnessError::Unexpected(format!("{}: {what}", source.display()));
        let release = Release::of_version(&version).map_err(|unknown| problem(unknown.to_string()))?;
        if let Some(prefix) = prefix {
            let found = installed(&prefix.join("sbin/slurmctld"))?;
            if found != version {
                let prefix = prefix.display();
                return Err(problem(format!("Slurm {version}, but {prefix} has Slurm {found}")));
            }
        }
        let prefix = prefix.map(Path::to_path_buf);
        Ok(Self { release, source: Some(source.to_path_buf()), prefix, packaged: false })
    }

    /// Returns the Slurm of clusters that name none: the machine's own, or what the environment names.
    ///
    /// # Errors
    ///
    /// The variable that names nothing usable.
    pub fn by_default() -> Result<Self, HarnessError> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(prefix) = variable(PREFIX) {
            let missing = || HarnessError::Unexpected(format!("{PREFIX} is set, and {SOURCE} is not"));
            let source = variable(SOURCE).ok_or_else(missing)?;
            return Self::by_hand(Path::new(&source), Some(Path::new(&prefix)));
        }
        match variable(SERIES) {
            None => Ok(Release::MACHINE.into()),
            Some(series) => {
                let series: Result<Release, _> = series.to_string_lossy().parse();
                series.map(Self::from).map_err(|e| HarnessError::Unexpected(format!("{SERIES}: {e}")))
            }
        }
    }

    /// The version that its packaged slurmctld prints, `24.11.5`; of one built by hand, that of its source tree.
    ///
    /// # Errors
    ///
    /// There is no such program or tree.
    pub fn version(&self) -> Result<String, HarnessError> {
        match &self.source {
            Some(source) if !self.packaged => version_of(source),
            _ => {
                let root = self.chroot().unwrap_or_else(|| "/".into());
                at(&root, fs::metadata(&root))?;
                said_version(Command::new("chroot").arg(&root).args(["/usr/sbin/slurmctld", "-V"]))
            }
        }
    }

    /// Gives the source tree, if there is one.
    #[must_use]
    pub fn source(&self) -> Option<&Path> {
        self.source.as_deref()
    }

    /// The directory that has its public headers: its source tree, or that of its packages.
    #[must_use]
    pub fn headers(&self) -> PathBuf {
        let packaged = || self.chroot().unwrap_or_else(|| "/".into()).join("usr/include");
        self.source.clone().unwrap_or_else(packaged)
    }

    /// Checks that it is of its series and that Tessera has tables for it. A Debian that still changes may have gone on.
    ///
    /// # Errors
    ///
    /// The version that is there, and what is missing.
    pub fn check(&self) -> Result<(), HarnessError> {
        let version = self.version()?;
        if !self.release.is_series_of(&version) {
            let wanted = self.release;
            return Err(HarnessError::Unexpected(format!(
                "its Debian has Slurm {version} now, not {wanted}"
            )));
        }
        plugin_stamp::check(self.number()?).map_err(|why| HarnessError::Unexpected(with_causes(&why)))
    }

    /// Gives the version as a number.
    ///
    /// # Errors
    ///
    /// There is no such Slurm, or its version is none.
    pub fn number(&self) -> Result<Version, HarnessError> {
        self.version()?.parse().map_err(|why: BadVersion| HarnessError::Unexpected(why.to_string()))
    }

    /// The root of the chroot that its daemons run in, if any.
    pub(crate) fn chroot(&self) -> Option<PathBuf> {
        if self.packaged { paths::chroot(self.release) } else { None }
    }

    /// A daemon, as it is seen where the daemons run.
    pub(crate) fn daemon(&self, name: &str) -> String {
        self.prefix.as_deref().unwrap_or(Path::new("/usr")).join("sbin").join(name).display().to_string()
    }

    /// The directory of its own plugins.
    pub(crate) fn plugin_dir(&self) -> String {
        match &self.prefix {
            None => "/usr/lib/x86_64-linux-gnu/slurm-wlm".to_owned(),
            Some(prefix) => prefix.join("lib/slurm").display().to_string(),
        }
    }
}

/// The version of a source tree, as its file META says.
fn version_of(source: &Path) -> Result<String, HarnessError> {
    let text = fs::read_to_string(source.join("META"));
    let version = text.ok().and_then(|meta| {
        let value = |line: &str| line.trim().strip_prefix("Version:").map(|v| v.trim().to_owned());
        meta.lines().find_map(value)
    });
    version.ok_or_else(|| {
        HarnessError::Unexpected(format!(
            "{}: not a source tree of Slurm (it has no META with a version)",
            source.display()
        ))
    })
}

/// The version that a program of Slurm's prints for `-V`: `slurm 24.11.7`, or `slurm-wlm 22.05.8` for Debian's.
///
/// # Errors
///
/// There is no such program, or it says something else.
pub fn installed(program: &Path) -> Result<String, HarnessError> {
    at(program, fs::metadata(program))?;
    said_version(Command::new(program).arg("-V"))
}

/// The version that this command prints.
fn said_version(command: &mut Command) -> Result<String, HarnessError> {
    let said = run(command)?.ok()?;
    match said.trim().split_once(' ') {
        Some((name, version)) if name.starts_with("slurm") => Ok(version.to_owned()),
        _ => Err(HarnessError::Unexpected(format!("{}: no version in `{said}`", line(command)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Describes the fault of a source tree of these files, without the directory's name.
    fn refused(files: &[(&str, &str)]) -> String {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            fs::write(dir.path().join(name), text).unwrap();
        }
        let why = Slurm::by_hand(dir.path(), None).unwrap_err().to_string();
        why.replace(&dir.path().display().to_string(), "DIR")
    }

    #[test]
    fn a_source_tree_that_does_not_do_is_refused_in_one_line() {
        let meta = |version: &str| format!("  Name:\tslurm\n  Version:\t{version}\n");
        assert_eq!(refused(&[]), "DIR: not a source tree of Slurm (it has no META with a version)");
        assert_eq!(
            refused(&[("META", &meta("21.08.8"))]),
            "DIR: Slurm 21.08.8 is not one that Tessera knows: 22.05, 23.02, 23.11, 24.05, 24.11, 25.05, 25.11, 26.05"
        );
    }

    #[test]
    fn a_prefix_of_another_version_is_refused_with_both() {
        let dir = tempfile::tempdir().unwrap();
        let (source, prefix) = (dir.path().join("src"), dir.path().join("prefix"));
        for sub in [source.clone(), prefix.join("sbin")] {
            fs::create_dir_all(sub).unwrap();
        }
        fs::write(source.join("META"), "Version: 25.05.8\n").unwrap();
        assert_eq!(Slurm::by_hand(&source, None).unwrap().release.series, "25.05");
        // Written by another process: a program that a thread of this one holds open cannot be run.
        let program = prefix.join("sbin/slurmctld");
        let script =
            format!("printf '#!/bin/sh\\necho slurm 25.05.7\\n' > {0}; chmod +x {0}", program.display());
        run(Command::new("sh").args(["-c", &script])).unwrap().ok().unwrap();
        let why = Slurm::by_hand(&source, Some(&prefix)).unwrap_err().to_string();
        assert!(
            why.contains("src: Slurm 25.05.8, but ") && why.ends_with("prefix has Slurm 25.05.7"),
            "{why}"
        );
    }
}
