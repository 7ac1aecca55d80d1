//! The configuration that slurmctld works with: that of `tessera.toml`, or of its last good version while the file is bad.

use std::path::Path;

use geometry::counted;
use plugin_rt::{Chain, log};
use site_config::SiteConfig;
use site_files::last_good::LastGood;
use site_files::tessera_toml::{self, LoadError};
use slurmctld_rt::uid_of;

use crate::engine::Engine;

/// Slurm sets this variable in a slurmctld that is to replace another one at `scontrol reconfigure` (from 23.11,
/// `_try_to_reconfig` in `controller.c`). If the new process ends instead, the old one goes on, and tells its caller that the
/// reconfiguration has failed. A slurmctld in the foreground has no such process behind it, and no such variable.
pub(crate) const WAITING_PARENT: &str = "SLURMCTLD_RECONF_PARENT_FD";

/// Result of reading the file.
pub(crate) enum Reading {
    /// A good file.
    New(Box<SiteConfig>),
    /// There is no file: Slurm places GPUs alone.
    Missing,
    /// A bad file, and what holds unless a good version is in memory.
    Bad(Box<Engine>),
}

/// The file as it was read last.
#[derive(Debug)]
pub(crate) struct Site {
    /// Description of the file's error; `None`: it has none.
    bad: Option<String>,
    /// Why no copy of it could be made, when that was last said.
    not_kept: Option<String>,
}

impl Site {
    /// Before the first reading.
    pub(crate) const fn new() -> Self {
        Self { bad: None, not_kept: None }
    }

    /// Describes the file's error, in one line.
    pub(crate) fn bad(&self) -> Option<&str> {
        self.bad.as_deref()
    }

    /// Reads the file beside slurm.conf. `state` is slurmctld's directory, where the last good version is kept.
    pub(crate) fn read(&mut self, slurm_conf: &Path, state: Option<&Path>) -> Reading {
        let path = tessera_toml::beside(slurm_conf);
        let in_force = match state.map(LastGood::in_dir) {
            Some(copy) => copy.load(&path),
            None => tessera_toml::load(&path).map(|(config, _)| config.into()),
        };
        let in_force = match in_force {
            Ok(in_force) => in_force,
            Err(missing @ LoadError::Missing(_)) => {
                self.bad = None;
                log::error(format_args!("select plugin: {missing}: GPUs are placed by Slurm alone"));
                return Reading::Missing;
            }
            Err(bad) => {
                let stays = "select plugin: no good version of tessera.toml is known: GPUs are placed by Slurm alone, and \
                             jobs with --gpu options wait or are refused";
                self.say(&bad, stays);
                return Reading::Bad(Box::new(Engine::of_bad_file()));
            }
        };
        let mut config = in_force.config;
        for limit in config.name_users(uid_of) {
            let (user, line) = (limit.user.as_deref().unwrap_or_default(), limit.line);
            log::error(format_args!(
                "select plugin: this machine knows no user {user}: the limit in line {line} of tessera.toml applies to no job"
            ));
        }
        if let Some(bad) = &in_force.bad {
            self.say(bad, "select plugin: the last good version of tessera.toml stays in force");
            let mut engine = Engine::new(config);
            engine.is_last_good();
            return Reading::Bad(Box::new(engine));
        }
        if self.bad.take().is_some() {
            log::info("select plugin: tessera.toml is good again");
        }
        self.say_not_kept(in_force.not_kept.map(|e| Chain(&e).to_string()));
        log::info(format_args!("select plugin: {} in tessera.toml", counted(config.nodes.len(), "node set")));
        Reading::New(Box::new(config))
    }

    /// Says what is wrong with the file and what holds instead, once until that changes.
    fn say(&mut self, bad: &LoadError, stays: &str) {
        let first = bad.first_line();
        if self.bad.as_ref() != Some(&first) {
            bad.lines().iter().for_each(log::error);
            log::error(stays);
        }
        self.bad = Some(first);
    }

    fn say_not_kept(&mut self, why: Option<String>) {
        if let Some(why) = why.as_ref().filter(|why| self.not_kept.as_ref() != Some(why)) {
            log::error(format_args!(
                "select plugin: no copy of tessera.toml can be kept in StateSaveLocation: {why}: slurmctld would start \
                 without it if the file became bad"
            ));
        }
        self.not_kept = why;
    }
}

#[cfg(test)]
mod tests {
    use node_layout::ConfigInForce;

    use super::*;

    const GOOD: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n";

    /// Reads the file: its state, the version of the engine and the number of its nodes.
    fn read(site: &mut Site, dir: &Path) -> (&'static str, Option<ConfigInForce>, usize) {
        let (word, engine) = match site.read(&dir.join("slurm.conf"), Some(dir)) {
            Reading::New(config) => ("new", Engine::new(*config)),
            Reading::Bad(engine) => ("bad", *engine),
            Reading::Missing => return ("missing", None, 0),
        };
        (word, Some(engine.version()), engine.node_names().count())
    }

    #[test]
    fn a_bad_file_leaves_the_last_good_version_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tessera.toml");
        let mut site = Site::new();
        assert_eq!(read(&mut site, dir.path()), ("missing", None, 0));
        std::fs::write(&file, "x").unwrap();
        assert_eq!(read(&mut site, dir.path()), ("bad", Some(ConfigInForce::Bad), 0));
        assert!(site.bad().is_some_and(|why| why.contains("tessera.toml:1:")), "{site:?}");
        std::fs::write(&file, GOOD).unwrap();
        assert_eq!(read(&mut site, dir.path()), ("new", Some(ConfigInForce::Current), 1));
        assert_eq!(site.bad(), None);
        std::fs::write(&file, "x").unwrap();
        let mut after_a_restart = Site::new();
        for site in [&mut site, &mut after_a_restart] {
            assert_eq!(read(site, dir.path()), ("bad", Some(ConfigInForce::LastGood), 1));
        }
    }

    #[test]
    fn a_layout_tells_which_version_holds() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tessera.toml"), GOOD).unwrap();
        let Reading::New(config) = Site::new().read(&dir.path().join("slurm.conf"), Some(dir.path())) else {
            panic!("it is good")
        };
        let mut engine = Engine::new(*config);
        assert_eq!(engine.layout("n1").as_deref(), Some("tessera gpu0-1=free"));
        engine.is_last_good();
        assert_eq!(engine.layout("n1").as_deref(), Some("tessera config=last-good gpu0-1=free"));
    }
}
