//! Tessera's plugins for Slurm's accounting: where slurm.conf names one, it must be there and have what it needs.

use std::path::PathBuf;

use super::findings::Findings;
use crate::outcome::Failure;

/// A plugin of ours: its key in slurm.conf, its name there and its file.
struct AccountingPlugin {
    key: &'static str,
    plugin: &'static str,
    file: &'static str,
}

const ENERGY: AccountingPlugin = AccountingPlugin {
    key: "AcctGatherEnergyType",
    plugin: "acct_gather_energy/tessera",
    file: "acct_gather_energy_tessera.so",
};
const USAGE: AccountingPlugin = AccountingPlugin {
    key: "AcctGatherInterconnectType",
    plugin: "acct_gather_interconnect/tessera",
    file: "acct_gather_interconnect_tessera.so",
};

/// The TRES that [`USAGE`] fills in.
const USAGE_TRES: [&str; 2] = ["gres/gpumem", "gres/gpuutil"];

/// The entries of a list in slurm.conf.
fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim)
}

/// The plugins of ours that slurm.conf names. Slurm takes a name with its kind and without.
fn named<'s>(setting: impl Fn(&str) -> &'s str) -> Vec<AccountingPlugin> {
    let is_ours = |name: &str| name.rsplit('/').next() == Some("tessera");
    [ENERGY, USAGE].into_iter().filter(|kind| entries(setting(kind.key)).any(is_ours)).collect()
}

/// The files of the plugins of ours that slurm.conf names.
pub(super) fn files<'s>(setting: impl Fn(&str) -> &'s str) -> impl Iterator<Item = &'static str> {
    named(setting).into_iter().map(|kind| kind.file)
}

/// `setting` is the value of a key of slurm.conf as Slurm shows it; `dirs` is `PluginDir`.
pub(super) fn check<'s>(setting: impl Fn(&str) -> &'s str, dirs: &[PathBuf], findings: &mut Findings) {
    let named = named(&setting);
    for AccountingPlugin { key, file, .. } in &named {
        if !dirs.iter().any(|dir| dir.join(file).is_file()) {
            let shown: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
            findings.bad(format!(
                "slurm.conf: {key} names tessera, but PluginDir = {} has no {file}: Slurm's daemons do not start again \
                 without it",
                shown.join(":")
            ));
        }
    }
    let Some(AccountingPlugin { plugin, .. }) = named.first() else { return };
    let mut lacks = |name: &str, word: &str| {
        findings.bad(format!("slurm.conf: {name} = {}, but {plugin} needs {word}", setting(name)));
    };
    if !entries(setting("PrologFlags")).any(|flag| flag.eq_ignore_ascii_case("Contain")) {
        lacks("PrologFlags", "Contain");
    }
    if !["jobacct_gather/linux", "jobacct_gather/cgroup"].contains(&setting("JobAcctGatherType")) {
        lacks("JobAcctGatherType", "jobacct_gather/cgroup or jobacct_gather/linux");
    }
    if named.iter().any(|kind| kind.key == USAGE.key) {
        for tres in USAGE_TRES
            .into_iter()
            .filter(|tres| !entries(setting("AccountingStorageTRES")).any(|t| t == *tres))
        {
            lacks("AccountingStorageTRES", tres);
        }
    }
}

/// Checks that slurmdbd answers where slurm.conf has one; `ask` asks it.
pub(super) fn check_slurmdbd(
    storage: &str,
    ask: impl FnOnce() -> Result<(), Failure>,
    findings: &mut Findings,
) {
    if !storage.ends_with("slurmdbd") {
        return;
    }
    let Err(why) = ask() else { return };
    let why = why.what().lines().next().unwrap_or_default();
    if why.starts_with("cannot run ") {
        findings.skipped(format!("slurmdbd: {why}"));
    } else {
        findings.bad(format!(
            "slurmdbd does not answer, so new limits do not arrive and `sacct` shows no new jobs: start it, or see its log ({why})"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slurmdbd_that_is_down_is_said() {
        let said = |storage: &str, why: Option<&str>| {
            let mut findings = Findings::default();
            let ask = || why.map_or(Ok(()), |why| Err(Failure::new(why.to_owned())));
            check_slurmdbd(storage, ask, &mut findings);
            let lines =
                findings.list.into_iter().map(|(verdict, what)| format!("{} {what}\n", verdict.word()));
            lines.collect::<String>()
        };
        let down = Some("`sacctmgr show` failed: sacctmgr: error: Connection refused\nsacctmgr: error: more");
        insta::assert_snapshot!(said("accounting_storage/slurmdbd", down), @"bad slurmdbd does not answer, so new limits do not arrive and `sacct` shows no new jobs: start it, or see its log (`sacctmgr show` failed: sacctmgr: error: Connection refused)");
        let missing = Some("cannot run `sacctmgr show`: No such file or directory");
        insta::assert_snapshot!(said("accounting_storage/slurmdbd", missing), @"skip slurmdbd: cannot run `sacctmgr show`: No such file or directory");
        assert_eq!(said("accounting_storage/slurmdbd", None) + &said("accounting_storage/none", down), "");
    }

    /// Checks settings, one `Key=value` per word, with the plugins' files in place if `installed`, and returns the findings.
    fn said(conf: &str, installed: bool) -> String {
        let dir = tempfile::tempdir().unwrap();
        if installed {
            [ENERGY, USAGE].iter().for_each(|kind| std::fs::write(dir.path().join(kind.file), "").unwrap());
        }
        let setting = |key: &str| {
            conf.split_whitespace()
                .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
                .unwrap_or_default()
        };
        let mut findings = Findings::default();
        check(setting, &[dir.path().to_path_buf()], &mut findings);
        let lines = findings.list.into_iter().map(|(verdict, what)| format!("{} {what}\n", verdict.word()));
        lines.collect::<String>().replace(&dir.path().display().to_string(), "/l")
    }

    const ALL: &str = "PrologFlags=Alloc,Contain JobAcctGatherType=jobacct_gather/cgroup \
                       AccountingStorageTRES=cpu,gres/gpu,gres/gpumem,gres/gpuutil";

    #[test]
    fn nothing_is_asked_of_a_site_that_names_no_plugin_of_ours() {
        for none in ["(null)", "acct_gather_interconnect/none", "acct_gather_interconnect/ofed"] {
            assert_eq!(said(&format!("AcctGatherInterconnectType={none}"), false), "");
        }
    }

    #[test]
    fn a_plugin_that_is_named_and_missing_is_said() {
        let both = "AcctGatherEnergyType=acct_gather_energy/ipmi,tessera \
                    AcctGatherInterconnectType=acct_gather_interconnect/ofed,acct_gather_interconnect/tessera";
        assert_eq!(said(&format!("{both} {ALL}"), true), "");
        insta::assert_snapshot!(said(&format!("{both} {ALL}"), false), @"
        bad slurm.conf: AcctGatherEnergyType names tessera, but PluginDir = /l has no acct_gather_energy_tessera.so: Slurm's daemons do not start again without it
        bad slurm.conf: AcctGatherInterconnectType names tessera, but PluginDir = /l has no acct_gather_interconnect_tessera.so: Slurm's daemons do not start again without it
        ");
    }

    #[test]
    fn settings_without_which_there_are_no_numbers_are_said() {
        let usage = "AcctGatherInterconnectType=acct_gather_interconnect/tessera";
        let lacking =
            "PrologFlags=Alloc JobAcctGatherType=jobacct_gather/none AccountingStorageTRES=cpu,gres/gpu";
        insta::assert_snapshot!(said(&format!("{usage} {lacking}"), true), @"
        bad slurm.conf: PrologFlags = Alloc, but acct_gather_interconnect/tessera needs Contain
        bad slurm.conf: JobAcctGatherType = jobacct_gather/none, but acct_gather_interconnect/tessera needs jobacct_gather/cgroup or jobacct_gather/linux
        bad slurm.conf: AccountingStorageTRES = cpu,gres/gpu, but acct_gather_interconnect/tessera needs gres/gpumem
        bad slurm.conf: AccountingStorageTRES = cpu,gres/gpu, but acct_gather_interconnect/tessera needs gres/gpuutil
        ");
        let energy = "AcctGatherEnergyType=acct_gather_energy/tessera";
        insta::assert_snapshot!(said(&format!("{energy} {lacking}"), true), @"
        bad slurm.conf: PrologFlags = Alloc, but acct_gather_energy/tessera needs Contain
        bad slurm.conf: JobAcctGatherType = jobacct_gather/none, but acct_gather_energy/tessera needs jobacct_gather/cgroup or jobacct_gather/linux
        ");
    }
}
