//! The lines of slurm.conf that the node side reads by itself: prolog and epilog are separate processes without Slurm's settings.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Path where Slurm looks for its configuration when none is named.
pub const DEFAULT: &str = "/etc/slurm/slurm.conf";
/// Link of slurmd's to the files that slurmctld has sent it: Slurm looks there if [`DEFAULT`] is not there [read_config.c].
pub const SENT: &str = "/run/slurm/conf/slurm.conf";
/// Most files that are read because slurm.conf includes them.
const MOST_INCLUDED: usize = 100;
/// Slurm's own default of `SlurmdSpoolDir`.
const DEFAULT_SPOOL: &str = "/var/spool/slurmd";

/// The path of slurm.conf: the value of `SLURM_CONF`, which slurmd sets for prologs, else where Slurm finds it.
#[must_use]
pub fn path(env: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let named = env("SLURM_CONF").filter(|path| !path.is_empty());
    named.unwrap_or_else(|| found(&|path| Path::new(path).exists()).to_owned()).into()
}

fn found(is_there: &dyn Fn(&str) -> bool) -> &'static str {
    if !is_there(DEFAULT) && is_there(SENT) { SENT } else { DEFAULT }
}

/// Reads a slurm.conf, each file that it includes in the place of the line that says so. `None` where it cannot be read.
#[must_use]
pub fn read(conf: &Path) -> Option<String> {
    with_included(conf, conf.parent()?, &mut 0)
}

fn with_included(file: &Path, dir: &Path, n_included: &mut usize) -> Option<String> {
    let mut text = String::new();
    for line in read_to_string(file).ok()?.lines() {
        let mut words = line.split_ascii_whitespace();
        let is_include = words.next().is_some_and(|word| word.eq_ignore_ascii_case("include"));
        match words.next().filter(|_| is_include && *n_included < MOST_INCLUDED) {
            Some(name) => {
                *n_included += 1;
                text += &with_included(&dir.join(name), dir, n_included).unwrap_or_default();
            }
            None => text += line,
        }
        text.push('\n');
    }
    Some(text)
}

/// `SlurmdSpoolDir` as a slurm.conf with this text has it. `None` where it is not there, or has more than the node's name
/// in it.
#[must_use]
pub fn named_spool_dir(text: &str, node: &str) -> Option<PathBuf> {
    let dir = value(text, "SlurmdSpoolDir")?.replace("%n", node);
    (!dir.contains('%') && dir.starts_with('/')).then(|| PathBuf::from(dir.trim_end_matches('/')))
}

/// Finds the directory in which slurmd keeps its state on this node. `None` where that cannot be told.
#[must_use]
pub fn spool_dir(conf: &Path, node: &str) -> Option<PathBuf> {
    let text = read(conf)?;
    let is_named = value(&text, "SlurmdSpoolDir").is_some();
    if is_named { named_spool_dir(&text, node) } else { Some(DEFAULT_SPOOL.into()) }
}

/// The last value of a key in the text of a slurm.conf.
#[must_use]
pub fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let words = text.lines().filter_map(|l| l.split('#').next()).flat_map(str::split_ascii_whitespace);
    let named = words.filter_map(|w| w.split_once('=')).filter(|(k, _)| k.eq_ignore_ascii_case(key));
    named.map(|(_, value)| value).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_file_of_its_own_a_node_has_the_one_that_slurmctld_has_sent() {
        let of = |there: &[&str]| found(&|path| there.contains(&path));
        assert_eq!([of(&[DEFAULT, SENT]), of(&[SENT]), of(&[])], [DEFAULT, SENT, DEFAULT]);
        assert_eq!(path(&|_| Some("/x/slurm.conf".to_owned())), Path::new("/x/slurm.conf"));
    }

    #[test]
    fn the_spool_directory_is_slurms() {
        let dir = |conf| named_spool_dir(conf, "n1");
        assert_eq!(dir("slurmdspooldir=/var/spool/%n/ # x\n"), Some("/var/spool/n1".into()));
        assert_eq!(dir("#SlurmdSpoolDir=/a\n"), None);
        assert_eq!(dir("SlurmdSpoolDir=/var/%h\n"), None);
    }

    #[test]
    fn without_a_word_it_is_slurms_default() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("slurm.conf");
        assert_eq!(spool_dir(&conf, "n1"), None);
        std::fs::write(&conf, "ClusterName=x\n").unwrap();
        assert_eq!(spool_dir(&conf, "n1"), Some(DEFAULT_SPOOL.into()));
        std::fs::write(&conf, "SlurmdSpoolDir=/var/%h\n").unwrap();
        assert_eq!(spool_dir(&conf, "n1"), None);
        let text = "StateSaveLocation=/var/ctl\n";
        assert_eq!((value(text, "StateSaveLocation"), value(text, "SlurmUser")), (Some("/var/ctl"), None));
        assert_eq!(value("SlurmUser=root\nslurmuser=slurm # x\n", "SlurmUser"), Some("slurm"));
        assert_eq!(path(&|_| Some(String::new())), Path::new(DEFAULT));
    }

    #[test]
    fn a_setting_in_an_included_file_counts_where_it_is_included() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let spool = || spool_dir(&dir.path().join("slurm.conf"), "n1").unwrap().display().to_string();
        write("common.conf", "SlurmdSpoolDir=/var/lib/%n\n");
        write("slurm.conf", "SlurmdSpoolDir=/a\n Include common.conf # all nodes\n");
        assert_eq!(spool(), "/var/lib/n1");
        write("slurm.conf", "SlurmdSpoolDir=/a\n#Include common.conf\n");
        assert_eq!(spool(), "/a");
        write("slurm.conf", &format!("Include {}/common.conf\nSlurmdSpoolDir=/a\n", dir.path().display()));
        assert_eq!(spool(), "/a");
        write("slurm.conf", "Include gone.conf\nInclude slurm.conf\n");
        assert_eq!(spool(), DEFAULT_SPOOL, "a file that includes itself has an end");
    }
}
