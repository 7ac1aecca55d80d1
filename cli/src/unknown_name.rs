//! Names that a person types. One that nobody knows is an error which says what there is: an empty answer would look like a
//! cluster without room.

use std::collections::BTreeSet;

use site_config::nearest;

use crate::cluster_snapshot::ClusterSnapshot;
use crate::outcome::Failure;
use crate::slurm::{caller, sinfo};

/// Most names that a hint lists.
const MOST: usize = 8;

/// `did you mean gpu? there are debug, gpu`: what a person may have meant by a name that is none of `known`.
pub(crate) fn meant<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    hint(typed, known, ["there is", "there are"])
}

/// Makes the hint with other words before one name and before several.
fn hint<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>, [is, are]: [&str; 2]) -> String {
    let known: BTreeSet<&str> = known.into_iter().collect();
    let first: Vec<&str> = known.iter().copied().take(MOST).collect();
    let more = if known.len() > MOST { ", …" } else { "" };
    let there = match first[..] {
        [] => format!("{are} none"),
        [one] => format!("{is} {one}"),
        _ => format!("{are} {}{more}", first.join(", ")),
    };
    // Of several that are as near, nobody knows which.
    let only = nearest(typed, known.iter().copied())
        .filter(|name| nearest(typed, known.iter().rev().copied()) == Some(*name));
    match only {
        Some(name) => format!("did you mean {name}? {there}"),
        None => there,
    }
}

/// The error for a node that is none of `known`, those of `tessera.toml`.
pub(crate) fn unknown_node<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Failure {
    Failure::new(format!("node {name} is not in tessera.toml")).hint(meant(name, known))
}

/// Refuses partitions that Slurm does not have. It is asked about those alone that have no node: `has_node`.
pub(crate) fn partitions(wanted: &[String], has_node: &dyn Fn(&str) -> bool) -> Result<(), Failure> {
    if wanted.iter().all(|name| has_node(name)) {
        return Ok(());
    }
    let known = sinfo::partitions()?;
    let unknown = wanted.iter().find(|name| !known.contains(name));
    unknown.map_or(Ok(()), |name| {
        let hint = meant(name, known.iter().map(String::as_str));
        Err(Failure::new(format!("Slurm has no partition {name}")).hint(hint))
    })
}

/// Refuses a user whom neither Slurm's jobs nor this machine know.
pub(crate) fn user(name: &str, seen: &ClusterSnapshot) -> Result<(), Failure> {
    let users = || seen.jobs.iter().map(|job| job.user.as_str());
    if users().any(|user| user == name) || caller::is_user(name) {
        return Ok(());
    }
    let hint = hint(name, users(), ["the only user with jobs is", "the users with jobs are"]);
    Err(Failure::new(format!("there is no user {name}")).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_comes_first() {
        assert_eq!(meant("gpus", ["gpu", "debug", "gpu"]), "did you mean gpu? there are debug, gpu");
        assert_eq!(meant("zzzzzz", ["gpu", "debug"]), "there are debug, gpu");
        assert_eq!(meant("zzzzzz", ["gpu"]), "there is gpu");
        assert_eq!(meant("x", []), "there are none");
        let many: Vec<String> = (1..=30).map(|n| format!("node{n:02}")).collect();
        let said = meant("nodes03", many.iter().map(String::as_str));
        assert_eq!(meant("n9", ["n1", "n2"]), "there are n1, n2", "none is nearer");
        assert_eq!(
            said,
            "did you mean node03? there are node01, node02, node03, node04, node05, node06, node07, node08, …"
        );
    }
}
