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
    let of_partition = of_partition.filter(|qos| own.as_ref().is_none_or(|own| own.name != qos.name));
    let over = own.as_ref().is_some_and(|own| own.over_partition);
    let order = if over { [own, of_partition] } else { [of_partition, own] };
    let (mut set, mut all, mut factor) = (BTreeSet::new(), Vec::new(), None);
    for qos in order.into_iter().flatten() {
        factor = factor.or(qos.factor);
        keep_new(qos.limits, &mut set, &mut all);
    }
    // A limit for each user or account of a QOS replaces `MaxJobs` of an association; `GrpJobs` of a QOS does not.
    if [1, 2].into_iter().any(|group| set.contains(&(LimitKind::Jobs, group, String::new()))) {
        set.insert((LimitKind::MaxJobs, 0, String::new()));
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
    let slotted = here.into_iter().filter_map(|limit| Some((slot(&limit)?, limit)));
    let (slots, new): (Vec<Slot>, Vec<L>) = slotted.filter(|(slot, _)| !set.contains(slot)).unzip();
    set.extend(slots);
    all.extend(new);
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
    fn only_a_qos_that_limits_jobs_of_members_replaces_an_associations_max_jobs() {
        let jobs = |kind, most, holder| SlurmLimit { kind, tres: String::new(), most, holder };
        let user = || Holder::User("alice".to_owned(), "bio".to_owned());
        let with = |holder| {
            let qos = QosRecord { limits: vec![jobs(LimitKind::Jobs, 100, holder)], ..qos("normal", &[]) };
            let own = vec![jobs(LimitKind::Jobs, 3, user()), jobs(LimitKind::MaxJobs, 2, user())];
            most(&in_force(None, Some(qos), own))
        };
        let name = || "normal".to_owned();
        assert_eq!(with(Holder::Qos(name())), [100, 2], "GrpJobs stands for GrpJobs");
        assert_eq!(with(Holder::UserOfQos("alice".to_owned(), name())), [100, 3], "MaxJobsPU");
        assert_eq!(with(Holder::AccountOfQos("bio".to_owned(), name())), [100, 3], "MaxJobsPA");
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
