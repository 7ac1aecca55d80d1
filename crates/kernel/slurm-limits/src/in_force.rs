//! Chooses the limits that apply to a job, as slurmctld does, among those of a partition's QOS, of the job's QOS and of its
//! associations (`acct_policy.c`).
//!
//! # Rules
//! A limit that several of them set is that of the first: the partition's QOS, the job's, the associations. With the flag `OverPartQOS` the job's
//! QOS comes before the partition's. All associations, up to the root, count as one. The `LimitFactor` of the first QOS that has one scales
//! the associations' amounts.

use std::collections::BTreeSet;

use crate::{Holder, LimitKind, SlurmLimit};

/// A limit, perhaps with its use.
pub trait Limited {
    /// Gives the limit alone; `None`: Slurm does not keep it.
    fn limit(&self) -> Option<SlurmLimit>;
    /// Sets its amount.
    fn set_most(&mut self, most: u64);
}

impl Limited for SlurmLimit {
    fn limit(&self) -> Option<SlurmLimit> {
        Some(self.clone())
    }

    fn set_most(&mut self, most: u64) {
        self.most = most;
    }
}

/// A QOS that a job has, by itself or by its partition.
#[derive(Clone, Debug, Default)]
pub struct QosRecord<L> {
    /// Name of the QOS.
    pub name: String,
    /// The limits that it sets.
    pub limits: Vec<L>,
    /// True if it has the flag `OverPartQOS`.
    pub over_partition: bool,
    /// `LimitFactor`, if it is set.
    pub factor: Option<f64>,
}

/// Gives the limits that hold for a job, those that count before others first. `of_accounts`: limits of its association and of the accounts
/// above.
#[must_use]
pub fn in_force<L: Limited>(
    of_partition: Option<QosRecord<L>>,
    own: Option<QosRecord<L>>,
    mut of_accounts: Vec<L>,
) -> Vec<L> {
    let own_name = own.as_ref().map(|own| own.name.clone());
    let of_partition = of_partition.filter(|qos| Some(&qos.name) != own_name.as_ref());
    let over = own.as_ref().is_some_and(|own| own.over_partition);
    let order = if over { [own, of_partition] } else { [of_partition, own] };
    let (mut set, mut all) = (BTreeSet::new(), Vec::new());
    let mut factor = None;
    for qos in order.into_iter().flatten() {
        factor = factor.or(qos.factor);
        keep_new(qos.limits, &mut set, &mut all);
    }
    of_accounts.iter_mut().for_each(|limit| scale(limit, factor.unwrap_or(1.0)));
    keep_new(of_accounts, &mut set, &mut all);
    all
}

/// Limits that stand in each other's place: those of a user of a QOS do not stand in that of its group's.
type Slot = (LimitKind, u8, String);

/// Keeps of a record's limits those that no record before it has set.
fn keep_new<L: Limited>(here: Vec<L>, set: &mut BTreeSet<Slot>, all: &mut Vec<L>) {
    let slot = |limit: &L| {
        let SlurmLimit { kind, tres, holder, .. } = limit.limit()?;
        let group = match holder {
            Holder::Account(_) | Holder::User(..) | Holder::Qos(_) => 0,
            Holder::UserOfQos(..) => 1,
            Holder::AccountOfQos(..) => 2,
            // It holds together with those of the accounting.
            Holder::Partition(_) => 3,
        };
        Some((kind, group, tres))
    };
    let new: Vec<(Slot, L)> = here.into_iter().filter_map(|limit| Some((slot(&limit)?, limit))).collect();
    let new: Vec<(Slot, L)> = new.into_iter().filter(|(slot, _)| !set.contains(slot)).collect();
    for (slot, limit) in new {
        set.insert(slot);
        all.push(limit);
    }
}

/// Scales a limit of an association by the `LimitFactor` of a QOS.
fn scale(limit: &mut impl Limited, factor: f64) {
    let Some(SlurmLimit { kind: LimitKind::Together | LimitKind::PerJob, most, .. }) = limit.limit() else {
        return;
    };
    if factor <= 0.0 || (factor - 1.0).abs() < f64::EPSILON {
        return;
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "as slurmctld does it"
    )]
    limit.set_most((most as f64 * factor) as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(kind: LimitKind, most: u64, holder: Holder) -> SlurmLimit {
        SlurmLimit { kind, tres: "gres/gpu".to_owned(), most, holder }
    }

    fn qos(name: &str, limits: &[(LimitKind, u64)]) -> QosRecord<SlurmLimit> {
        let own = |(kind, most): &(LimitKind, u64)| limit(*kind, *most, Holder::Qos(name.to_owned()));
        let limits = limits.iter().map(own).collect();
        QosRecord { name: name.to_owned(), limits, over_partition: false, factor: None }
    }

    fn account(name: &str, kind: LimitKind, most: u64) -> SlurmLimit {
        limit(kind, most, Holder::Account(name.to_owned()))
    }

    fn most(all: &[SlurmLimit]) -> Vec<u64> {
        all.iter().map(|limit| limit.most).collect()
    }

    #[test]
    fn the_first_record_that_sets_a_limit_counts() {
        let part = || Some(qos("part", &[(LimitKind::PerJob, 2)]));
        let own = || qos("normal", &[(LimitKind::PerJob, 4), (LimitKind::Together, 8)]);
        let accounts = || {
            vec![
                account("bio", LimitKind::Together, 1),
                account("bio", LimitKind::MinutesPerJob, 60),
                account("root", LimitKind::MinutesPerJob, 90),
            ]
        };
        assert_eq!(most(&in_force(part(), Some(own()), accounts())), [2, 8, 60, 90], "both accounts count");
        let over = QosRecord { over_partition: true, ..own() };
        assert_eq!(most(&in_force(part(), Some(over), Vec::new())), [4, 8]);
        let mut each = own();
        each.limits.push(limit(
            LimitKind::Together,
            1,
            Holder::UserOfQos("alice".to_owned(), "normal".to_owned()),
        ));
        assert_eq!(most(&in_force(None, Some(each), Vec::new())), [4, 8, 1], "a user's is another one");
        assert_eq!(most(&in_force(Some(own()), Some(own()), Vec::new())), [4, 8], "it is the same QOS");
        assert_eq!(most(&in_force(None, None, accounts())), [1, 60, 90]);
    }

    #[test]
    fn a_qos_scales_amounts_of_accounts_and_no_times() {
        let of = |kind, factor: &[Option<f64>; 2]| {
            let [part, own] = factor.map(|factor| QosRecord { factor, ..qos("part", &[]) });
            let own = QosRecord { name: "own".to_owned(), ..own };
            most(&in_force(Some(part), Some(own), vec![account("bio", kind, 5)]))[0]
        };
        assert_eq!(of(LimitKind::Together, &[None, Some(0.5)]), 2);
        assert_eq!(of(LimitKind::PerJob, &[Some(2.0), Some(0.5)]), 10, "the first that has one");
        assert_eq!(
            [of(LimitKind::Together, &[Some(-1.0), None]), of(LimitKind::WallPerJob, &[None, Some(2.0)])],
            [5, 5]
        );
        let own = QosRecord { factor: Some(2.0), ..qos("own", &[(LimitKind::Together, 3)]) };
        assert_eq!(most(&in_force(None, Some(own), Vec::new())), [3], "not its own");
    }
}
