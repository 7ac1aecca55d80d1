//! `sacctmgr`: what else the accounting keeps.

use super::command::run;
use crate::outcome::Failure;

/// Whether a node was drained, down or otherwise away between two instants, seconds since 1970. `now`: the present.
pub(crate) fn has_events(node: &str, (from, to): (u64, u64), now: u64) -> Result<bool, Failure> {
    let ago = |name: &str, at: u64| format!("{name}=now-{}seconds", now.saturating_sub(at));
    let (nodes, start, end) = (format!("nodes={node}"), ago("start", from), ago("end", to));
    let said = run("sacctmgr", &["-nP", "show", "event", &nodes, &start, &end, "format=nodename"])?;
    Ok(!said.trim().is_empty())
}

/// The names of all accounts that the caller may see.
pub(crate) fn accounts() -> Result<Vec<String>, Failure> {
    let said = run("sacctmgr", &["-nP", "show", "account", "format=account"])?;
    Ok(said.lines().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect())
}
