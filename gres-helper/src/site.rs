//! The site's configuration, read anew when slurmctld has read its own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use admission::Refusal;
use decision_counts::decisions::Reason;
use plugin_rt::log;
use protocol::Bandwidth;
use site_config::{Limit, SiteConfig};
use site_files::last_good::{InForce, LastGood};
use site_files::tessera_toml::{self, LoadError};
use slurm_names::{SlurmNames, unknown_to_slurm};
use slurmctld_rt::uid_of;

use crate::file_state::FileState;
use crate::learnt::{LearntFile, row_of};
use crate::submission::Described;

/// Rules for submissions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rules<'a> {
    /// The site has no `tessera.toml`.
    None,
    /// The configuration in force.
    Of(&'a SiteConfig),
    /// `tessera.toml` is bad in this way, and no good version of it is known.
    Unknown(&'a str),
}

impl<'a> Rules<'a> {
    /// The configuration, where there is one.
    pub(crate) fn config(self) -> Option<&'a SiteConfig> {
        match self {
            Self::Of(config) => Some(config),
            Self::None | Self::Unknown(_) => None,
        }
    }

    /// Why nobody can tell what a request of ours means.
    pub(crate) fn unknown(self) -> Option<Refusal> {
        let Self::Unknown(why) = self else { return None };
        let why = format!(
            "jobs with --gpu options cannot be accepted until an administrator has corrected tessera.toml: {why}"
        );
        Some(Refusal::new(Reason::Config, why))
    }
}

/// The configuration in force.
#[derive(Default)]
pub(crate) struct Site {
    config: Option<SiteConfig>,
    /// Why there is none.
    bad: Option<String>,
    /// slurmctld's time of its last reading, when ours was made.
    read_at: Option<i64>,
    /// The file as ours was made; `None`: slurmctld cannot have read another one at that time.
    may_change: Option<FileState>,
    /// Path and text of a good file whose partitions have not been compared with Slurm's since it was read.
    not_compared: Option<(PathBuf, String)>,
    /// slurmctld's directory.
    state: Option<PathBuf>,
    learnt: LearntFile,
}

impl Site {
    /// Reads the file beside slurm.conf if slurmctld has read its configuration since. If it is bad, the version before
    /// stays, or else the last good version that the select plugin has kept in slurmctld's directory `state`. That plugin
    /// also says what is wrong.
    ///
    /// The machine's directory is asked for users when slurmctld starts, as slurmctld asks it then. A later reading happens in a
    /// submission, under slurmctld's locks, and a directory may take long: names that are new then are learnt from slurmctld's
    /// accounting ([`Self::learn_user`]).
    ///
    /// slurmctld says to the second when it read its own, `slurm_read_at`, and may do so again in that second: what was read then is
    /// compared with the file once more after it. `now`: seconds since 1970.
    pub(crate) fn refresh(&mut self, slurm_conf: &str, state: Option<&str>, slurm_read_at: i64, now: i64) {
        let is_read = self.read_at == Some(slurm_read_at);
        if is_read && self.may_change.is_none() {
            return;
        }
        let path = tessera_toml::beside(Path::new(slurm_conf));
        let seen = FileState::of(&path);
        let is_same = is_read && self.may_change == Some(seen);
        self.may_change = (now <= slurm_read_at).then_some(seen);
        if is_same {
            return;
        }
        let starts = self.read_at.is_none();
        self.read_at = Some(slurm_read_at);
        self.state = state.map(PathBuf::from);
        let in_force = match state {
            Some(state) => LastGood::in_dir(Path::new(state)).look(&path),
            None => tessera_toml::load(&path).map(InForce::from),
        };
        self.not_compared = None;
        match in_force {
            Ok(InForce { bad: Some(bad), .. }) if self.config.is_some() => {
                log::verbose(format_args!(
                    "job submit plugin: the previous version of tessera.toml stays in force: {}",
                    bad.first_line()
                ));
            }
            Ok(InForce { mut config, text, .. }) => {
                // The select plugin says of whom nothing is known.
                let asks = |name: &str| if starts { uid_of(name) } else { None };
                let known = self.users();
                config.name_users(|name| known.get(name).copied().or_else(|| asks(name)));
                (self.config, self.bad) = (Some(config), None);
                self.not_compared = text.map(|text| (path, text));
            }
            Err(LoadError::Missing(_)) => (self.config, self.bad) = (None, None),
            Err(bad) if self.config.is_none() => self.bad = Some(bad.first_line()),
            Err(_) => {}
        }
    }

    /// Learns the number of a user whom limits name. `name`: how slurmctld's accounting calls this user; it is asked only if a limit
    /// names a user whose number is not known.
    pub(crate) fn learn_user(&mut self, uid: u32, name: impl FnOnce() -> Option<String>) {
        let Some(config) = &mut self.config else { return };
        if !config.limits.iter().any(|limit| limit.user.is_some() && limit.uid.is_none()) {
            return;
        }
        if let Some(name) = name() {
            config.name_users(|named| (named == name).then_some(uid));
        }
    }

    /// The numbers of users whom limits name, as far as they are known.
    fn users(&self) -> HashMap<String, u32> {
        let known = |limit: &Limit| Some((limit.user.clone()?, limit.uid?));
        self.config.iter().flat_map(|config| &config.limits).filter_map(known).collect()
    }

    /// Gives the word of such jobs' traffic, if the site lets it be used.
    pub(crate) fn learnt(&mut self, job: &Described) -> Option<Bandwidth> {
        self.config.as_ref().filter(|config| config.learn_bandwidth)?;
        self.learnt.find(self.state.as_deref()?, &row_of(job)?)
    }

    /// Says in slurmctld's log which partitions of the file Slurm does not have, once per reading. Slurm's partitions are
    /// not known yet when slurmctld loads this plugin, so a submission asks for this.
    pub(crate) fn compare_partitions(&mut self, exists: &dyn Fn(&str) -> bool) {
        for line in self.unknown_partitions(exists) {
            log::error(format_args!("job submit plugin: {line}"));
        }
    }

    /// A line for each partition of the file that does not exist, once per reading. A bad file has none: its errors are named
    /// elsewhere.
    fn unknown_partitions(&mut self, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
        let (Some((path, text)), Some(config)) = (self.not_compared.take(), &self.config) else {
            return Vec::new();
        };
        let limited = config.limits.iter().filter_map(|limit| limit.partition.as_deref());
        let named = limited.chain(config.partitions.iter().map(|own| own.name.as_str()));
        let partitions = Some(named.filter(|name| exists(name)).map(str::to_owned).collect());
        let slurm = SlurmNames { partitions, ..SlurmNames::default() };
        let unknown = unknown_to_slurm(&path.to_string_lossy(), &text, &slurm);
        unknown.iter().map(ToString::to_string).collect()
    }

    /// Gives the rules for submissions now.
    pub(crate) fn rules(&self) -> Rules<'_> {
        match (&self.config, &self.bad) {
            (Some(config), _) => Rules::Of(config),
            (None, Some(why)) => Rules::Unknown(why),
            (None, None) => Rules::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use site_limits::tres::Tres;

    const GOOD: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n";

    fn gpus(site: &Site) -> Result<usize, String> {
        match site.rules() {
            Rules::Of(config) => Ok(config.nodes[0].gpus.len()),
            Rules::Unknown(why) => Err(why.to_owned()),
            Rules::None => Ok(0),
        }
    }

    #[test]
    fn a_bad_file_changes_nothing_and_no_version_at_all_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let (conf, state) = (dir.path().join("slurm.conf"), dir.path().join("state"));
        std::fs::create_dir(&state).unwrap();
        let file = tessera_toml::beside(&conf);
        let refresh = |site: &mut Site, at| {
            site.refresh(conf.to_str().unwrap(), state.to_str(), at, at + 1);
            gpus(site)
        };
        let (mut site, mut later) = (Site::default(), Site::default());
        assert_eq!(refresh(&mut site, 1), Ok(0));
        std::fs::write(&file, "x").unwrap();
        assert_eq!(refresh(&mut site, 1), Ok(0), "slurmctld has not read its own file again");
        assert!(refresh(&mut site, 2).unwrap_err().contains("tessera.toml:1:"));
        std::fs::write(&file, GOOD).unwrap();
        assert_eq!(refresh(&mut site, 3), Ok(2));
        LastGood::in_dir(&state).load(&file).unwrap();
        std::fs::write(&file, "x").unwrap();
        assert_eq!((refresh(&mut site, 4), refresh(&mut later, 4)), (Ok(2), Ok(2)));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(refresh(&mut site, 5), Ok(0));
    }

    #[test]
    fn a_file_that_slurmctld_may_have_read_in_the_second_of_ours_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("slurm.conf");
        let file = tessera_toml::beside(&conf);
        let mut site = Site::default();
        let mut refresh = |now| {
            site.refresh(conf.to_str().unwrap(), None, 7, now);
            gpus(&site)
        };
        let write = |count: u32| std::fs::write(&file, GOOD.replace("= 2", &format!("= {count}"))).unwrap();
        write(2);
        assert_eq!(refresh(7), Ok(2));
        write(3);
        assert_eq!(refresh(7), Ok(3));
        write(4);
        assert_eq!(refresh(9), Ok(4), "written before the second ended");
        write(2);
        assert_eq!(refresh(10), Ok(4), "slurmctld has not read its own file again");
    }

    #[test]
    fn what_was_learnt_is_used_only_if_the_file_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("slurm.conf");
        let table = "tessera-bandwidth 1\n7 name train.sh 2 insensitive\n";
        std::fs::write(dir.path().join(learnt_bandwidth::FILE), table).unwrap();
        let tres = Tres { per_node: Some("gres:gpu:2".to_owned()), ..Tres::default() };
        let job = Described { tres, user: 7, name: Some("train.sh".to_owned()), ..Described::default() };
        let learnt = |more: &str| {
            std::fs::write(tessera_toml::beside(&conf), format!("{GOOD}{more}")).unwrap();
            let mut site = Site::default();
            site.refresh(conf.to_str().unwrap(), dir.path().to_str(), 1, 2);
            site.learnt(&job)
        };
        assert_eq!(learnt("[bandwidth]\nlearn = true\n"), Some(Bandwidth::Insensitive));
        assert_eq!(learnt(""), None);
    }

    #[test]
    fn only_slurmctlds_start_asks_the_machine_for_users() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("slurm.conf");
        let limit = |user: &str| format!("[[limits]]\nuser = \"{user}\"\nmax_gpus = 1\n");
        let mut site = Site::default();
        let read = |site: &mut Site, users: &[&str], at| {
            let text: String = users.iter().map(|user| limit(user)).collect();
            std::fs::write(tessera_toml::beside(&conf), format!("{text}{GOOD}")).unwrap();
            site.refresh(conf.to_str().unwrap(), None, at, at + 1);
        };
        let uids = |site: &Site| -> Vec<Option<u32>> {
            site.config.iter().flat_map(|config| &config.limits).map(|limit| limit.uid).collect()
        };
        read(&mut site, &["root"], 1);
        assert_eq!(uids(&site), [Some(0)]);
        read(&mut site, &["daemon", "root", "alice"], 2);
        assert_eq!(uids(&site), [None, Some(0), None], "daemon is a user of this machine");
        site.learn_user(1001, || Some("alice".to_owned()));
        site.learn_user(1002, || None);
        assert_eq!(uids(&site), [None, Some(0), Some(1001)]);
        read(&mut site, &["alice"], 3);
        assert_eq!(uids(&site), [Some(1001)]);
        site.learn_user(1003, || panic!("nothing is to be learnt"));
    }

    #[test]
    fn partitions_that_do_not_exist_are_named_at_their_places_once_per_reading() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("slurm.conf");
        let file = tessera_toml::beside(&conf);
        let (mut site, mut at) = (Site::default(), 0);
        let mut said = |text: &str| {
            std::fs::write(&file, text).unwrap();
            at += 1;
            site.refresh(conf.to_str().unwrap(), None, at, at + 1);
            // The file as it was read counts, whatever it has become since.
            std::fs::write(&file, "y").unwrap();
            [(); 2].map(|()| site.unknown_partitions(&|name| name == "gpu").join("\n"))
        };
        let named = "[[limits]]\npartition = \"gpuu\"\n[[limits]]\npartition = \"gpu\"\n[[partitions]]\nname = \"nights\"\n";
        let [first, second] = said(&format!("{named}{GOOD}"));
        assert_eq!(
            first.replace(&dir.path().display().to_string(), ""),
            "/tessera.toml:2:14: Slurm has no partition gpuu: this limit applies to no job (did you mean gpu?)\n\
             /tessera.toml:6:9: Slurm has no partition nights: these settings apply to no job (use a partition of slurm.conf)"
        );
        assert_eq!(second, "");
        assert_eq!(said("x"), ["", ""], "its errors are named elsewhere");
        assert_eq!(said(GOOD), ["", ""]);
    }
}
