//! `sacctmgr`: what else the accounting keeps.

use std::collections::HashMap;

use super::command::run;
use crate::outcome::Failure;

/// True if a node was drained, down or otherwise away between two instants, seconds since 1970. `now`: the present.
pub(crate) fn has_events(node: &str, (from, to): (u64, u64), now: u64) -> Result<bool, Failure> {
    let ago = |name: &str, at: u64| format!("{name}=now-{}seconds", now.saturating_sub(at));
    let (nodes, start, end) = (format!("nodes={node}"), ago("start", from), ago("end", to));
    let said = run("sacctmgr", &["-nP", "show", "event", &nodes, &start, &end, "format=nodename"])?;
    Ok(!said.trim().is_empty())
}

/// Asks slurmdbd for what every user may see.
pub(crate) fn ask_slurmdbd() -> Result<(), Failure> {
    run("sacctmgr", &["-nP", "show", "cluster", "format=cluster"]).map(|_| ())
}

/// The names of all accounts that the caller may see.
pub(crate) fn accounts() -> Result<Vec<String>, Failure> {
    names(&["-nP", "show", "account", "format=account"])
}

/// Lists what sacctmgr prints, a name a line.
fn names(args: &[&str]) -> Result<Vec<String>, Failure> {
    let said = run("sacctmgr", args)?;
    Ok(said.lines().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// The names of all users that the caller may see.
pub(crate) fn users() -> Result<Vec<String>, Failure> {
    names(&["-nP", "show", "user", "format=user"])
}

/// Limits of a QOS that slurmctld shows only of users and accounts that have jobs in it, and its flags.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct QosLimits {
    /// Lists of TRES.
    pub(crate) per_user: String,
    pub(crate) per_account: String,
    /// Lists of TRES times the minutes that running jobs have left.
    pub(crate) run_minutes_per_user: String,
    pub(crate) run_minutes_per_account: String,
    pub(crate) jobs_per_user: Option<u64>,
    pub(crate) jobs_per_account: Option<u64>,
    /// True if its limits come before those of a partition's QOS.
    pub(crate) over_partition: bool,
    /// Factor of the limits of associations.
    pub(crate) factor: Option<f64>,
}

/// The limits of each QOS.
pub(crate) fn qos_limits() -> Result<HashMap<String, QosLimits>, Failure> {
    let format = "format=name,maxtrespu,maxtrespa,maxjobspu,maxjobspa,flags,limitfactor,maxtresrunminspu,maxtresrunminspa";
    Ok(qos_in(&run("sacctmgr", &["-nP", "show", "qos", format])?))
}

fn qos_in(text: &str) -> HashMap<String, QosLimits> {
    let one = |line: &str| {
        let cells = <[&str; 9]>::try_from(line.split('|').collect::<Vec<_>>()).ok()?;
        let [
            name,
            per_user,
            per_account,
            jobs_per_user,
            jobs_per_account,
            flags,
            factor,
            run_user,
            run_account,
        ] = cells;
        let limits = QosLimits {
            per_user: per_user.to_owned(),
            per_account: per_account.to_owned(),
            run_minutes_per_user: run_user.to_owned(),
            run_minutes_per_account: run_account.to_owned(),
            jobs_per_user: jobs_per_user.parse().ok(),
            jobs_per_account: jobs_per_account.parse().ok(),
            over_partition: flags.split(',').any(|flag| flag.eq_ignore_ascii_case("OverPartQOS")),
            factor: factor.parse().ok(),
        };
        Some((name.to_owned(), limits))
    };
    text.lines().filter_map(one).collect()
}

/// The partition, the default QOS and the list of QOS of each association of a user in an account; the partition is mostly empty.
pub(crate) fn association_qos(user: &str, account: &str) -> Result<Vec<(String, String, String)>, Failure> {
    let (user, account) = (format!("user={user}"), format!("account={account}"));
    let said =
        run("sacctmgr", &["-nP", "show", "assoc", &user, &account, "format=partition,defaultqos,qos"])?;
    let one = |line: &str| {
        let mut cells = line.split('|').map(|cell| cell.trim().to_owned());
        Some((cells.next()?, cells.next()?, cells.next()?))
    };
    Ok(said.lines().filter_map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qos_has_limits_for_each_user() {
        let text = "normal|license/slice=14||4|||1.000000|gres/gpu=90|\nbig|||||DenyOnLimit,OverPartQOS|||\nbroken\n";
        let found = qos_in(text);
        assert_eq!(found.len(), 2);
        let normal = &found["normal"];
        assert_eq!(
            (normal.per_user.as_str(), normal.jobs_per_user, normal.factor),
            ("license/slice=14", Some(4), Some(1.0))
        );
        assert_eq!(
            (normal.run_minutes_per_user.as_str(), normal.run_minutes_per_account.as_str()),
            ("gres/gpu=90", "")
        );
        assert!(found["big"].over_partition && !normal.over_partition);
    }
}
