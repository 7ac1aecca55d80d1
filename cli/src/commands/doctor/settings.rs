//! Compares the settings that load Tessera: those that slurmctld works with, and those in slurm.conf on this machine.

use std::collections::HashMap;

use super::accounting;
use super::answers::SlurmAnswers;
use super::findings::Findings;
use super::installed::{plugins, plugstack};
use crate::slurm::sacctmgr;

/// A word that a list in slurm.conf must have for Tessera.
struct Wanted {
    key: &'static str,
    word: &'static str,
    /// Words of the same list that stand for it too.
    implied_by: &'static [&'static str],
}

const WANTED: [Wanted; 5] = [
    Wanted { key: "SelectType", word: "select/cons_tres", implied_by: &[] },
    Wanted { key: "JobSubmitPlugins", word: "tessera", implied_by: &["job_submit/tessera"] },
    Wanted { key: "GresTypes", word: "gpu", implied_by: &[] },
    Wanted { key: "GresTypes", word: "shard", implied_by: &[] },
    // Slurm adds Alloc for each of them [`prolog_str2flags`].
    Wanted { key: "PrologFlags", word: "Alloc", implied_by: &["Contain", "DeferBatch", "NoHold", "X11"] },
];

/// Keys whose values must be alike in the file and in slurmctld.
const ALIKE: [&str; 2] = ["PluginDir", "PlugStackConfig"];

/// Checks that slurmctld has loaded what Tessera needs, and that it does so again when it starts next.
pub(super) fn check(slurm: &SlurmAnswers, findings: &mut Findings) {
    let keys = WANTED.iter().map(|wanted| wanted.key).chain(ALIKE);
    let in_file = slurm
        .slurm_conf_file()
        .map(|file| keys.filter_map(|key| Some((key, file.value(key)?))).collect::<HashMap<&str, String>>());
    findings.group("Slurm: settings and plugins", |f| {
        let running = |key: &str| slurm.setting_of(key);
        compare(&running, in_file.as_ref(), f);
        plugins(&slurm.plugin_dirs(), f);
        accounting::check(|key| slurm.setting_of(key), &slurm.plugin_dirs(), f);
        accounting::check_slurmdbd(running("AccountingStorageType"), sacctmgr::ask_slurmdbd, f);
        plugstack(slurm.conf_here.as_deref(), f);
    });
}

/// Compares what slurmctld works with and what the file says; `in_file` is `None` where it cannot be read.
fn compare<'s>(
    running: &impl Fn(&str) -> &'s str,
    in_file: Option<&HashMap<&str, String>>,
    findings: &mut Findings,
) {
    for wanted in &WANTED {
        let Wanted { key, word, .. } = wanted;
        let has = in_file.and_then(|file| match file.get(key) {
            // Slurm's default is another one in each series.
            None if *key == "SelectType" => None,
            list => Some(list.is_some_and(|list| wanted.is_in(list))),
        });
        let now = running(key);
        match (wanted.is_in(now), has) {
            (true, None | Some(true)) => {}
            (true, Some(false)) => findings.bad(format!(
                "slurm.conf: {key} lacks {word}, with which slurmctld still works: add it before slurmctld starts again"
            )),
            (false, Some(true)) => findings.bad(format!(
                "slurmctld works with {key} = {now}, without {word}, which slurm.conf has: restart slurmctld, then the slurmds"
            )),
            (false, Some(false)) => {
                findings.bad(format!("slurm.conf: {key} = {now} lacks {word}: add it, then restart slurmctld and the slurmds"));
            }
            (false, None) => findings.bad(format!("slurmctld works with {key} = {now}, which lacks {word}: add it in its slurm.conf")),
        }
    }
    for key in ALIKE {
        let Some(file) = in_file.and_then(|file| file.get(key)) else { continue };
        if file != running(key) {
            findings.bad(format!(
                "{key}: slurmctld works with {}, slurm.conf here has {file}: restart slurmctld, then the slurmds",
                running(key)
            ));
        }
    }
}

impl Wanted {
    fn is_in(&self, list: &str) -> bool {
        let is = |word: &str| {
            [self.word].iter().chain(self.implied_by).any(|known| word.eq_ignore_ascii_case(known))
        };
        list.split(',').any(|word| is(word.trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> HashMap<&str, String> {
        text.split_whitespace().filter_map(|w| w.split_once('=')).map(|(k, v)| (k, v.to_owned())).collect()
    }

    fn said(running: &str, file: Option<&str>) -> String {
        let (running, file) = (read(running), file.map(read));
        let mut findings = Findings::default();
        let get = |key: &str| running.get(key).map_or("(null)", String::as_str);
        compare(&get, file.as_ref(), &mut findings);
        findings.list.into_iter().map(|(_, said)| said + "\n").collect()
    }

    const GOOD: &str = "SelectType=select/cons_tres JobSubmitPlugins=lua,tessera GresTypes=gpu,shard PrologFlags=Alloc,Contain \
                        PluginDir=/t:/s PlugStackConfig=/etc/slurm/plugstack.conf";

    #[test]
    fn the_file_and_slurmctld_may_differ_in_what_is_not_ours() {
        assert_eq!(said(GOOD, None), "");
        assert_eq!(said(GOOD, Some(&GOOD.replace("PrologFlags=Alloc,Contain", "PrologFlags=contain"))), "");
        assert_eq!(
            said(GOOD, Some(&GOOD.replace("SelectType=select/cons_tres ", ""))),
            "",
            "23.11's default"
        );
        assert_eq!(
            said(GOOD, Some(&GOOD.replace(" PlugStackConfig=/etc/slurm/plugstack.conf", ""))),
            "",
            "the default"
        );
    }

    #[test]
    fn a_setting_is_named_with_where_it_is_wrong() {
        let without = GOOD.replace("Alloc,Contain", "(null)");
        let none = GOOD.replace(" PrologFlags=Alloc,Contain", "");
        insta::assert_snapshot!(said(GOOD, Some(&none)), @"slurm.conf: PrologFlags lacks Alloc, with which slurmctld still works: add it before slurmctld starts again");
        insta::assert_snapshot!(said(&without, Some(GOOD)), @"slurmctld works with PrologFlags = (null), without Alloc, which slurm.conf has: restart slurmctld, then the slurmds");
        insta::assert_snapshot!(said(&without, Some(&none)), @"slurm.conf: PrologFlags = (null) lacks Alloc: add it, then restart slurmctld and the slurmds");
        insta::assert_snapshot!(said(&without, None), @"slurmctld works with PrologFlags = (null), which lacks Alloc: add it in its slurm.conf");
        insta::assert_snapshot!(said(GOOD, Some(&GOOD.replace("/t:/s", "/s:/t"))), @"PluginDir: slurmctld works with /t:/s, slurm.conf here has /s:/t: restart slurmctld, then the slurmds");
    }
}
