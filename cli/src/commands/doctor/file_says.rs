//! Compares what `tessera.toml` names with what Slurm and this node have. Each finding has its line and column.

use std::path::Path;

use gpu_node::power_status;
use rustix::fs::statfs;
use site_config::{ConfigError, SiteConfig};
use site_problems::{OnNode, SlurmNames, own_problems, problems_on_node, unknown_to_slurm};

use super::answers::SlurmAnswers;
use super::findings::Findings;
use crate::commands::idle::mail_problem;
use crate::local_node::{Local, require_root};
use crate::outcome::Failure;
use crate::slurm::{caller, sacctmgr, sinfo};
use crate::this_machine::{host, this_node};

/// A good `tessera.toml` with its text.
#[derive(Clone, Copy)]
pub(super) struct GoodFile<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
    pub(super) config: &'a SiteConfig,
}

fn bad(errors: Vec<ConfigError>, findings: &mut Findings) {
    errors.into_iter().for_each(|error| findings.bad(error.to_string()));
}

impl GoodFile<'_> {
    fn name(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Reports settings that contradict each other or have no effect, and names that Slurm does not have.
    pub(super) fn check(&self, slurm: Option<&SlurmAnswers>, findings: &mut Findings) {
        bad(own_problems(&self.name(), self.text), findings);
        let Some(slurm) = slurm else { return };
        if slurm.is_first_controller(&host()) {
            let problem = self.config.idle.as_ref().and_then(mail_problem);
            problem.into_iter().for_each(|problem| findings.bad(format!("{}: {problem}", self.name())));
        }
        let names = self.names(slurm, findings);
        findings.group("Slurm has the partitions, accounts and types of GPU that tessera.toml names", |f| {
            bad(unknown_to_slurm(&self.name(), self.text, &names), f);
        });
    }

    /// Asks Slurm for its names, as far as the file has such.
    fn names(&self, slurm: &SlurmAnswers, findings: &mut Findings) -> SlurmNames {
        let SiteConfig { limits, partitions, idle, .. } = self.config;
        let rules = idle.as_ref().map_or(&[][..], |idle| &idle.rules);
        let mut names = SlurmNames { gpu_types: slurm.gpu_types(), ..SlurmNames::default() };
        let of_limits = limits.iter().map(|limit| (&limit.partition, &limit.account));
        let named: Vec<_> =
            of_limits.chain(rules.iter().map(|rule| (&rule.partition, &rule.account))).collect();
        if !partitions.is_empty() || named.iter().any(|(partition, _)| partition.is_some()) {
            names.partitions = known(sinfo::partitions(), "partitions", findings);
        }
        if named.iter().any(|(_, account)| account.is_some()) {
            match accounts_are_hidden(|key| slurm.setting(key), require_root("").is_ok()) {
                Some(why) => findings.skipped(format!("accounts of tessera.toml: {why}")),
                None => names.accounts = known(sacctmgr::accounts(), "accounts", findings),
            }
        }
        if limits.iter().any(|limit| limit.qos.is_some()) {
            let all = sacctmgr::qos_limits().map(|all| all.into_keys().collect());
            names.qos = known(all, "QOS", findings);
        }
        let named = limits.iter().filter_map(|limit| Some((limit.uid, limit.user.clone()?)));
        let known_users = named.filter(|(uid, name)| uid.is_some() || caller::is_user(name));
        names.users = Some(known_users.map(|(_, name)| name).collect());
        names
    }

    /// Reports paths that this node does not have, and power limits that its GPUs do not take.
    pub(super) fn check_here(&self, only: Option<&str>, findings: &mut Findings) {
        let here = this_node().filter(|name| self.config.node(name).is_some());
        let Some(name) = here.filter(|name| only.is_none_or(|only| only == name)) else { return };
        let limits_w = self.limits_w(&name);
        let node = OnNode { name: &name, exists: &Path::exists, limits_w: &limits_w };
        bad(problems_on_node(&self.name(), self.text, &node), findings);
        let state_dir = node_jobs::Settings::of(self.config, &name).node.state_dir;
        if is_in_memory(&state_dir) {
            findings.skipped(format!(
                "{name}: state_dir {} is on a file system in memory: a reboot empties it, and Tessera forgets the power limits \
                 that it found; use a directory on a disk",
                state_dir.display()
            ));
        }
    }

    /// The power limits that this node's GPUs take, W; none if nobody asks for one, or if the driver cannot be asked.
    fn limits_w(&self, name: &str) -> Vec<(u16, u32, u32)> {
        let capped = self.config.node(name).is_some_and(|spec| spec.power.cap_w.is_some());
        if !capped || require_root("").is_err() {
            return Vec::new();
        }
        let Ok(local) = Local::new(self.config, Some(name)) else { return Vec::new() };
        // Why the driver does not answer is reported with the budgets.
        let gpus = power_status(&local.settings).unwrap_or_default();
        let range = gpus.iter().filter_map(|view| Some((view.gpu.0, view.power.as_ref().ok()?.range_mw?)));
        range.map(|(gpu, (least, most))| (gpu, least.div_ceil(1000), most / 1000)).collect()
    }
}

/// The names, or none with a finding that says why.
fn known(asked: Result<Vec<String>, Failure>, what: &str, findings: &mut Findings) -> Option<Vec<String>> {
    asked.map_err(|e| findings.skipped(format!("{what} of tessera.toml: {}", e.what()))).ok()
}

/// Why Slurm's accounts cannot be listed here.
fn accounts_are_hidden<'s>(setting: impl Fn(&str) -> &'s str, is_root: bool) -> Option<&'static str> {
    let storage = setting("accountingstoragetype");
    if ["", "(null)", "accounting_storage/none"].contains(&storage) {
        return Some("Slurm keeps no accounts here, so users may name any");
    }
    let hidden = setting("privatedata").split(',').any(|word| word.trim() == "accounts");
    (hidden && !is_root).then_some("PrivateData hides them; only root may look")
}

/// True if a directory is on a file system that a reboot empties, by the kernel's name for it.
fn is_in_memory(dir: &Path) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    statfs(dir).is_ok_and(|fs| [TMPFS, RAMFS].contains(&fs.f_type))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn accounts_are_asked_for_where_slurm_keeps_them() {
        let why = |storage: &'static str, private: &'static str, is_root| {
            let settings = HashMap::from([("accountingstoragetype", storage), ("privatedata", private)]);
            accounts_are_hidden(|key| settings.get(key).copied().unwrap_or_default(), is_root).is_some()
        };
        assert!(why("accounting_storage/none", "none", true) && why("(null)", "none", true));
        assert!(!why("accounting_storage/slurmdbd", "none", false));
        assert!(why("accounting_storage/slurmdbd", "jobs,accounts", false));
        assert!(!why("accounting_storage/slurmdbd", "jobs,accounts", true));
    }

    #[test]
    fn a_file_system_in_memory_is_told_from_a_disk() {
        assert!(!is_in_memory(Path::new("/proc")) && !is_in_memory(Path::new("/no-such-directory")));
    }
}
