//! Who uses what a limit counts: running jobs as squeue shows them to the caller.

use std::collections::{BTreeMap, HashMap};

use slurm_limits::Holder;

use super::{Allowance, Bound, LimitKind, Whose};
use crate::slurm::tres::tres;

/// A running job and what Slurm has given it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) user: String,
    pub(crate) account: String,
    pub(crate) qos: String,
    /// The QOS of its partition; empty without one.
    pub(crate) partition_qos: String,
    /// The list of TRES.
    pub(crate) given: String,
}

impl Allowance {
    /// Lists the users of what a limit counts, those with most first; empty for limits of one job and for what is used up.
    pub(crate) fn users(&self, bound: &Bound) -> Vec<(String, u64)> {
        if let Whose::Site { users, .. } = &bound.whose {
            return users.clone();
        }
        if !matches!(bound.kind, LimitKind::Together | LimitKind::Jobs | LimitKind::MaxJobs) {
            return Vec::new();
        }
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for used in self.uses.iter().filter(|used| counts(&bound.whose, used, &self.parents)) {
            let amount = match bound.kind {
                LimitKind::Jobs | LimitKind::MaxJobs => 1,
                _ => tres(&used.given, &bound.tres).and_then(|n| n.parse().ok()).unwrap_or(0),
            };
            let sum = sums.entry(&used.user).or_default();
            *sum = sum.saturating_add(amount);
        }
        let mut all: Vec<(String, u64)> =
            sums.into_iter().filter(|(_, n)| *n > 0).map(|(user, n)| (user.to_owned(), n)).collect();
        all.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        all
    }
}

/// Tells whether a limit counts a job.
fn counts(whose: &Whose, used: &Use, parents: &HashMap<String, String>) -> bool {
    let has = |qos: &String| used.qos == *qos || used.partition_qos == *qos;
    let Whose::Slurm(holder) = whose else { return false };
    match holder {
        Holder::Account(account) => within(&used.account, account, parents),
        Holder::User(user, account) => used.user == *user && used.account == *account,
        Holder::Qos(qos) => has(qos),
        Holder::UserOfQos(user, qos) => used.user == *user && has(qos),
        Holder::Partition(_) => false,
        Holder::AccountOfQos(account, qos) => used.account == *account && has(qos),
    }
}

/// Tells whether an account is `above` or below it.
fn within(account: &str, above: &str, parents: &HashMap<String, String>) -> bool {
    ancestry(account, Some(parents)).any(|name| name == above)
}

/// Gives an account and those above it, by each account's parent.
pub(super) fn ancestry<'a>(
    account: &'a str,
    parents: Option<&'a HashMap<String, String>>,
) -> impl Iterator<Item = &'a str> {
    let up = std::iter::successors(Some(account), move |name| parents?.get(*name).map(String::as_str));
    // A tree of accounts is no deeper than it has accounts.
    up.take(parents.map_or(0, HashMap::len) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_names_its_users() {
        let job = |user: &str, account: &str, slices: u32| Use {
            user: user.to_owned(),
            account: account.to_owned(),
            qos: "normal".to_owned(),
            given: format!("cpu=1,license/slice={slices}"),
            ..Use::default()
        };
        let uses = vec![
            job("alice", "bio", 2),
            job("bob", "cells", 7),
            job("alice", "bio", 3),
            job("eve", "art", 7),
        ];
        let parents = [("bio", "root"), ("cells", "bio"), ("root", "root")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .into();
        let allowance = Allowance { uses, parents, ..Allowance::default() };
        let bound = |kind, whose| Bound {
            kind,
            tres: "license/slice".to_owned(),
            most: 9,
            used: 9,
            reserved: 0,
            whose,
        };
        let of = |kind, whose| allowance.users(&bound(kind, whose));
        let own = |text: &str| text.to_owned();
        assert_eq!(
            of(LimitKind::Together, Whose::Slurm(Holder::Account(own("bio")))),
            [(own("bob"), 7), (own("alice"), 5)]
        );
        assert_eq!(
            of(LimitKind::Jobs, Whose::Slurm(Holder::UserOfQos(own("alice"), own("normal")))),
            [(own("alice"), 2)]
        );
        assert_eq!(of(LimitKind::Together, Whose::Slurm(Holder::User(own("alice"), own("art")))), []);
        assert_eq!(of(LimitKind::PerJob, Whose::Slurm(Holder::Account(own("bio")))), []);
    }
}
