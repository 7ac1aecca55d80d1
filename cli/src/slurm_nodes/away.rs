//! Nodes that start no job of the caller now, and why.

use serde_json::{Value, json};

use crate::clock::span;
use crate::slurm::reservations::Reservation;
use crate::slurm::sinfo;

/// A node that starts no job of the caller now.
pub(crate) struct NotTaking {
    pub(crate) name: String,
    pub(crate) why: Away,
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Away {
    /// It is drained, down or the like.
    State,
    /// slurmd does not answer there.
    Silent,
    /// Slurm powers it down.
    PowersDown,
    /// It is kept for the jobs of a reservation.
    Reserved {
        by: String,
        /// Seconds; `None`: it has no end.
        left: Option<u64>,
    },
    /// Reserved by a reservation that Slurm does not show to the caller.
    ReservedUnseen,
    /// In so many seconds it will be kept for the jobs of a reservation, and the caller's job may run longer.
    SoonReserved { by: String, wait: u64 },
    /// The caller's own reservation begins in so many seconds.
    NotBegun { by: String, wait: u64 },
}

/// The caller's job.
pub(super) struct CallersJob<'a> {
    /// Reservation of the caller's job.
    pub(super) own: Option<&'a Reservation>,
    /// Seconds since the epoch.
    pub(super) now: u64,
    /// How long it may run, seconds; `None`: nobody said.
    pub(super) runs_s: Option<u64>,
}

impl Away {
    /// Why a node starts no such job; `None`: it may.
    pub(super) fn of(
        name: &str,
        node: Option<&sinfo::SinfoNode>,
        reservations: &[Reservation],
        job: &CallersJob<'_>,
    ) -> Option<Self> {
        let Some(node) = node else { return Some(Self::State) };
        if !node.takes_jobs && !node.reserved {
            return Some(match node {
                sinfo::SinfoNode { silent: true, .. } => Self::Silent,
                sinfo::SinfoNode { powers_down: true, .. } => Self::PowersDown,
                _ => Self::State,
            });
        }
        let CallersJob { own, now, runs_s } = *job;
        let others = || reservations.iter().filter(|other| other.keeps(name, own));
        if let Some(other) = others().find(|other| other.is_active(now)) {
            return Some(Self::Reserved { by: other.name.clone(), left: other.left(now) });
        }
        let coming = others().filter(|other| other.start > now).min_by_key(|other| other.start);
        if let Some((other, runs_s)) = coming.zip(runs_s) {
            let wait = other.start - now;
            if wait < runs_s {
                return Some(Self::SoonReserved { by: other.name.clone(), wait });
            }
        }
        match own {
            Some(own) if !own.is_active(now) => {
                Some(Self::NotBegun { by: own.name.clone(), wait: own.start.saturating_sub(now) })
            }
            Some(_) => None,
            None => node.reserved.then_some(Self::ReservedUnseen),
        }
    }

    /// `reserved by maint for another 30 min`.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::State => "takes no jobs now; `sinfo -R` says why".to_owned(),
            Self::Silent => "takes no jobs now: its slurmd does not answer".to_owned(),
            Self::PowersDown => {
                "takes no jobs now: Slurm powers it down, and jobs wake it after that".to_owned()
            }
            Self::Reserved { by, left: Some(left) } => {
                format!("reserved by {by} for another {}", span(*left))
            }
            Self::Reserved { by, left: None } => format!("reserved by {by}, which has no known end"),
            Self::ReservedUnseen => "reserved; Slurm does not show you by which reservation".to_owned(),
            Self::SoonReserved { by, wait } => {
                format!("reserved by {by} in {}, before the job's time limit", span(*wait))
            }
            Self::NotBegun { by, wait } => format!("the reservation {by} begins in {}", span(*wait)),
        }
    }
}

/// Nodes with the same reason together, with the reason in words.
pub(crate) fn by_reason(nodes: &[NotTaking]) -> Vec<(Vec<String>, String)> {
    let mut groups: Vec<(Vec<String>, &Away)> = Vec::new();
    for NotTaking { name, why } in nodes {
        match groups.iter_mut().find(|(_, known)| *known == why) {
            Some((names, _)) => names.push(name.clone()),
            None => groups.push((vec![name.clone()], why)),
        }
    }
    groups.into_iter().map(|(names, why)| (names, why.words())).collect()
}

/// Writes them as JSON: the names of all, and which of them are reserved.
pub(crate) fn json(nodes: &[NotTaking]) -> (Value, Value) {
    let names = nodes.iter().map(|node| node.name.as_str()).collect();
    let reserved = nodes.iter().filter_map(|NotTaking { name, why }| match why {
        Away::State | Away::Silent | Away::PowersDown => None,
        Away::Reserved { by, left } => Some(json!({ "node": name, "reservation": by, "left_s": left })),
        Away::ReservedUnseen => Some(json!({ "node": name, "reservation": null, "left_s": null })),
        Away::SoonReserved { by, wait } | Away::NotBegun { by, wait } => {
            Some(json!({ "node": name, "reservation": by, "begins_in_s": wait }))
        }
    });
    (names, reserved.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_does_not_answer_is_told_from_one_that_is_drained() {
        let job = CallersJob { own: None, now: 0, runs_s: None };
        let of = |silent, powers_down| {
            let node = sinfo::SinfoNode { silent, powers_down, ..sinfo::SinfoNode::default() };
            Away::of("n1", Some(&node), &[], &job).map(|why| why.words()).unwrap_or_default()
        };
        assert_eq!(of(true, false), "takes no jobs now: its slurmd does not answer");
        assert_eq!(of(false, true), "takes no jobs now: Slurm powers it down, and jobs wake it after that");
        assert_eq!(of(false, false), "takes no jobs now; `sinfo -R` says why");
    }
}
