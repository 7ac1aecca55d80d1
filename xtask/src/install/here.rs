//! The Slurm that is installed here, and the one to build for.

use std::fs;
use std::path::{Path, PathBuf};

use lab::Slurm;
use plugin_stamp::said;
use slurm_releases::Release;
use slurm_tables::Version;

use super::For;
use crate::command::TaskError;

/// A Slurm that is installed on this machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Here {
    pub(super) version: String,
    /// The directory of its own plugins, if it is found.
    pub(super) plugins: Option<PathBuf>,
    /// The directory of its commands.
    pub(super) commands: PathBuf,
    /// The directory of its configuration, where its source tree says so; `None`: the usual one.
    pub(super) etc: Option<PathBuf>,
}

impl Here {
    /// The Slurm that was installed from this source tree, if it still has that version. Else the one whose daemons or commands
    /// are in PATH or in a directory for daemons. `None` if there is none.
    pub(super) fn find(source: Option<&Path>) -> Result<Option<Self>, TaskError> {
        if let Some(found) = source.and_then(Self::of_source) {
            return Ok(Some(found));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let dirs: Vec<PathBuf> =
            std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]).collect();
        let programs = ["slurmctld", "slurmd", "sinfo"];
        let candidates = programs.iter().flat_map(|name| dirs.iter().map(move |dir| dir.join(name)));
        let Some(program) = candidates.into_iter().find(|path| path.is_file()) else { return Ok(None) };
        let version = lab::slurm::installed(&program)?;
        let prefix =
            fs::canonicalize(&program).ok().and_then(|path| Some(path.ancestors().nth(2)?.to_path_buf()));
        let prefix = prefix.unwrap_or_else(|| "/usr".into());
        Ok(Some(Self { version, plugins: plugin_dir(&prefix), commands: prefix.join("bin"), etc: None }))
    }

    /// Returns the options of `./configure`, if the Slurm of that tree is installed there.
    fn of_source(source: &Path) -> Option<Self> {
        let log = fs::read_to_string(source.join("config.log")).ok()?;
        let prefix = PathBuf::from(variable(&log, "prefix")?);
        let programs = ["sbin/slurmctld", "sbin/slurmd", "bin/sinfo"];
        let program = programs.iter().map(|name| prefix.join(name)).find(|path| path.is_file())?;
        let version = lab::slurm::installed(&program).ok()?;
        if Slurm::by_hand(source, None).ok()?.version().ok()? != version {
            return None;
        }
        let etc = variable(&log, "sysconfdir").map(PathBuf::from);
        Some(Self { version, plugins: plugin_dir(&prefix), commands: prefix.join("bin"), etc })
    }
}

/// An output variable in `config.log`, with the variables in its value.
fn variable(log: &str, name: &str) -> Option<String> {
    let line =
        |line: &str| line.strip_prefix(name)?.strip_prefix("='")?.strip_suffix('\'').map(str::to_owned);
    let value = log.lines().find_map(line)?;
    match value.strip_prefix("${") {
        None => Some(value),
        Some(rest) => {
            let (inner, rest) = rest.split_once('}')?;
            (inner != name).then(|| variable(log, inner))?.map(|inner| inner + rest)
        }
    }
}

/// Returns the directory where the Slurm of this prefix keeps its own plugins, by the usual places.
fn plugin_dir(prefix: &Path) -> Option<PathBuf> {
    let triple = format!("lib/{}-linux-gnu/slurm-wlm", std::env::consts::ARCH);
    let places = [triple.as_str(), "lib/slurm", "lib64/slurm", "lib/slurm-wlm"];
    places.iter().map(|place| prefix.join(place)).find(|dir| dir.join("select_cons_tres.so").is_file())
}

/// Reads a version, or a series of the set-up: then it is the version of that.
pub(super) fn named(text: &str) -> Result<Version, String> {
    match text.parse::<Release>() {
        Ok(release) => Slurm::from(release).number().map_err(|why| why.to_string()),
        Err(_) => text.parse::<Version>().map_err(|why| why.to_string()),
    }
}

/// The Slurm to stamp the plugins for: what the options say, or else the one that is here.
pub(super) fn choose(plugins_for: &For, here: Option<&Here>) -> Result<Version, TaskError> {
    let other = |why: String| TaskError::Other(why);
    if let Some(source) = &plugins_for.slurm_source {
        return Ok(Slurm::by_hand(&crate::command::absolute(source)?, None)?.number()?);
    }
    if let Some(version) = plugins_for.slurm {
        return Ok(version);
    }
    let none = || other("no Slurm is found here: name its version by --slurm 24.11.5, say".to_owned());
    let version = &here.ok_or_else(none)?.version;
    let version = said::of_release(version).map_err(|why| other(why.to_string()))?;
    plugin_stamp::check(version).map_err(|why| other(why.to_string()))?;
    Ok(version)
}

/// Slurm loads these plugins only if they are stamped with exactly its version.
pub(super) fn check(stamped: Version, here: &str) -> Result<(), TaskError> {
    if said::of_release(here) == Ok(stamped) {
        return Ok(());
    }
    Err(TaskError::Other(format!(
        "plugins for Slurm {stamped} cannot be loaded by the Slurm {here} that is installed here: leave --slurm out, or stage \
         them for another machine by --destdir DIR"
    )))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use lab::command::run;

    use super::*;

    #[test]
    fn another_slurm_is_refused_with_both_versions() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(check(version("22.05.8"), "22.05.8").is_ok());
        insta::assert_snapshot!(check(version("25.05.8"), "25.05.7").unwrap_err(), @"plugins for Slurm 25.05.8 cannot be loaded by the Slurm 25.05.7 that is installed here: leave --slurm out, or stage them for another machine by --destdir DIR");
        let here = |version: &str| Here {
            version: version.to_owned(),
            plugins: None,
            commands: "/usr/bin".into(),
            etc: None,
        };
        let choice = For { slurm: None, slurm_source: None };
        insta::assert_snapshot!(choose(&choice, None).unwrap_err(), @"no Slurm is found here: name its version by --slurm 24.11.5, say");
        assert_eq!(choose(&choice, Some(&here("25.05.7"))).unwrap(), version("25.05.7"));
        let why = choose(&choice, Some(&here("21.08.8"))).unwrap_err().to_string();
        assert!(why.starts_with("Slurm 21.08.8 has no table; those that have: 22.05.0 to"), "{why}");
    }

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A program that prints a version. Another process writes it: one that a thread of this one holds open cannot be run.
    fn put_slurmd(path: &Path, version: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let script =
            format!("printf '#!/bin/sh\\necho slurm {version}\\n' > {0}; chmod +x {0}", path.display());
        run(Command::new("sh").args(["-c", &script])).unwrap().ok().unwrap();
    }

    #[test]
    fn the_slurm_of_a_source_tree_is_found_in_its_prefix() {
        let dir = tempfile::tempdir().unwrap();
        let (source, prefix) = (dir.path().join("src"), dir.path().join("opt/slurm"));
        put(&source.join("META"), "  Version:\t25.05.8\n");
        for header in ["config.h", "slurm/slurm.h"] {
            put(&source.join(header), "");
        }
        let log = format!(
            "exec_prefix='${{prefix}}'\nprefix='{}'\nprogram_transform_name='s,x,x,'\nsysconfdir='${{prefix}}/etc'\n",
            prefix.display()
        );
        put(&source.join("config.log"), &log);
        let of_source = || Here::of_source(&source);
        assert_eq!(of_source(), None, "not installed");
        put_slurmd(&prefix.join("sbin/slurmd"), "25.05.8");
        put(&prefix.join("lib/slurm/select_cons_tres.so"), "");
        let found = Here {
            version: "25.05.8".to_owned(),
            plugins: Some(prefix.join("lib/slurm")),
            commands: prefix.join("bin"),
            etc: Some(prefix.join("etc")),
        };
        assert_eq!(of_source(), Some(found));
        put_slurmd(&prefix.join("sbin/slurmd"), "25.05.7");
        assert_eq!(of_source(), None, "another version has been installed since");
    }
}
