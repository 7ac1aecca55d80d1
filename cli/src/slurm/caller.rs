//! Who asks, as Slurm knows them: what sbatch would take where a user names no partition and no account.

use std::env;

use super::command::run;

/// Partition, account and QOS of a caller's job.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    /// The login name.
    pub(crate) user: String,
    pub(crate) partition: Option<String>,
    pub(crate) account: Option<String>,
    /// QOS by sbatch's variables alone: only slurmdbd knows the default.
    pub(crate) qos: Option<String>,
}

/// The caller with sbatch's own variables, then the cluster's default partition and, if asked for, his default account.
/// What cannot be found out is `None`.
pub(crate) fn caller(with_account: bool) -> Caller {
    let said = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
    let user = run("id", &["-un"]).map_or_else(|_| String::new(), |name| name.trim().to_owned());
    let account = said("SBATCH_ACCOUNT").or_else(|| with_account.then(|| default_account(&user)).flatten());
    let qos = said("SBATCH_QOS");
    Caller { qos, partition: said("SBATCH_PARTITION").or_else(default_partition), account, user }
}

/// The login name of a user; the number where this machine has no name for it.
pub(crate) fn name_of(uid: u32) -> String {
    let name = run("id", &["-un", "--", &uid.to_string()]);
    name.ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| uid.to_string())
}

/// The number of a user; `None` where this machine does not know the name.
pub(crate) fn uid_of(name: &str) -> Option<String> {
    run("id", &["-u", "--", name]).ok().map(|uid| uid.trim().to_owned())
}

/// True if this machine knows a user of this name.
pub(crate) fn is_user(name: &str) -> bool {
    run("id", &["-u", "--", name]).is_ok()
}

/// sinfo marks the default partition with a star.
fn default_partition() -> Option<String> {
    let names = run("sinfo", &["-h", "-o", "%P"]).ok()?;
    names.lines().find_map(|name| name.trim().strip_suffix('*')).map(str::to_owned)
}

/// The account that a user is charged to who names none.
pub(crate) fn default_account(user: &str) -> Option<String> {
    let line = run("sacctmgr", &["-nP", "show", "user", &format!("name={user}"), "format=defaultaccount"]);
    line.ok()?.lines().next().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
}
