//! The limits of a job with their use, from what Slurm's commands show. [`in_force`] chooses among them.

use std::collections::{BTreeSet, HashMap};

use slurm_limits::{Holder, QosRecord, in_force};

use super::{Bound, LimitKind, Whose, uses};
use crate::slurm::assoc_mgr::{Fields, Held, LimitRecord, TresLimit, entries, entry};
use crate::slurm::sacctmgr::QosLimits;
use crate::slurm::squeue;

/// Whose jobs are asked about.
#[derive(Clone, Debug, Default)]
pub(super) struct Subject {
    pub(super) user: String,
    /// The user's number, which 22.05 shows in place of the name.
    pub(super) uid: String,
    pub(super) account: String,
    pub(super) partition: String,
    pub(super) qos: Option<String>,
    pub(super) partition_qos: Option<String>,
    /// `AccountingStorageEnforce` has `safe`.
    pub(super) safe: bool,
}

/// A limit by its TRES, most and used.
type Limit = (LimitKind, TresLimit);

/// The limits that hold. `by_name`: what the accounting knows of each QOS.
pub(super) fn bounds(held: &Held, subject: &Subject, by_name: &HashMap<String, QosLimits>) -> Vec<Bound> {
    let qos = |name: &String| {
        let none = QosLimits::default();
        let limits = by_name.get(name).unwrap_or(&none);
        let record = held.qos.iter().find(|record| record.name("QOS") == Some(name.as_str()));
        QosRecord {
            name: name.clone(),
            limits: of_qos(name, record, limits, subject),
            over_partition: limits.over_partition,
            factor: limits.factor,
        }
    };
    let [of_partition, own] = [&subject.partition_qos, &subject.qos].map(|name| name.as_ref().map(qos));
    in_force(of_partition, own, of_associations(held, subject))
}

fn bound((kind, entry): Limit, holder: &Holder) -> Option<Bound> {
    let most = entry.most?;
    Some(Bound {
        kind,
        tres: entry.name,
        most,
        used: entry.used,
        reserved: 0,
        whose: Whose::Slurm(holder.clone()),
    })
}

fn list(fields: &Fields, key: &str, kind: LimitKind) -> Vec<Limit> {
    fields
        .get(key)
        .map_or_else(Vec::new, |text| entries(text).into_iter().map(|entry| (kind, entry)).collect())
}

fn number(fields: &Fields, key: &str, kind: LimitKind) -> Option<Limit> {
    fields.get(key).map(|value| (kind, entry("", value)))
}

/// The limits on a group: an association's, or a QOS's.
fn of_group(fields: &Fields, whose: &Holder, safe: bool) -> Vec<Bound> {
    let mut all = list(fields, "GrpTRES", LimitKind::Together);
    all.extend(list(fields, "GrpTRESMins", LimitKind::Minutes { safe }));
    all.extend(list(fields, "GrpTRESRunMins", LimitKind::RunMinutes));
    all.extend(number(fields, "GrpJobs", LimitKind::Jobs));
    all.extend(number(fields, "GrpWall", LimitKind::Wall));
    let running = list(fields, "GrpTRESRunMins", LimitKind::RunMinutes);
    let mut bounds: Vec<Bound> = all.into_iter().filter_map(|limit| bound(limit, whose)).collect();
    for bound in bounds.iter_mut().filter(|bound| matches!(bound.kind, LimitKind::Minutes { .. })) {
        bound.reserved =
            running.iter().find(|(_, entry)| entry.name == bound.tres).map_or(0, |(_, entry)| entry.used);
    }
    bounds
}

/// The limits on one job.
fn of_job(fields: &Fields, whose: &Holder) -> Vec<Bound> {
    let mut all = list(fields, "MaxTRESPJ", LimitKind::PerJob);
    all.extend(list(fields, "MaxTRESPN", LimitKind::PerNode));
    all.extend(list(fields, "MinTRESPJ", LimitKind::Least));
    all.extend(list(fields, "MaxTRESMinsPJ", LimitKind::MinutesPerJob));
    all.extend(number(fields, "MaxWallPJ", LimitKind::WallPerJob));
    all.into_iter().filter_map(|limit| bound(limit, whose)).collect()
}

fn of_qos(name: &str, record: Option<&LimitRecord>, limits: &QosLimits, subject: &Subject) -> Vec<Bound> {
    let whose = Holder::Qos(name.to_owned());
    let mut all = Vec::new();
    if let Some(record) = record {
        all.extend(of_group(&record.fields, &whose, subject.safe));
        all.extend(of_job(&record.fields, &whose));
    }
    let none = Fields::new();
    let used = |list: Option<&Vec<(String, Fields)>>, names: [&str; 2]| {
        list.and_then(|list| list.iter().find(|(name, _)| names.contains(&name.as_str())))
            .map(|(_, fields)| fields.clone())
    };
    let user = used(record.map(|record| &record.users), [&subject.user, &subject.uid])
        .unwrap_or_else(|| none.clone());
    let whose = Holder::UserOfQos(subject.user.clone(), name.to_owned());
    let of_user = PerMember {
        most: &limits.per_user,
        jobs: limits.jobs_per_user,
        run_minutes: &limits.run_minutes_per_user,
    };
    all.extend(of_user.bounds(&user, "PU", &whose));
    let account = used(record.map(|record| &record.accounts), [&subject.account; 2]).unwrap_or(none);
    let whose = Holder::AccountOfQos(subject.account.clone(), name.to_owned());
    let of_account = PerMember {
        most: &limits.per_account,
        jobs: limits.jobs_per_account,
        run_minutes: &limits.run_minutes_per_account,
    };
    all.extend(of_account.bounds(&account, "PA", &whose));
    all
}

/// Limits for each user or account of a QOS, as only the accounting has them before the first job.
struct PerMember<'a> {
    /// A list of TRES.
    most: &'a str,
    jobs: Option<u64>,
    /// A list of TRES times minutes.
    run_minutes: &'a str,
}

impl PerMember<'_> {
    /// The limits of one member. slurmctld shows those that have a use in `shown`, with keys that end in `PU` or `PA`.
    fn bounds(&self, shown: &Fields, end: &str, whose: &Holder) -> Vec<Bound> {
        let list = |key: &str, before: &str| {
            entries(shown.get(&format!("{key}{end}")).map_or(before, String::as_str))
        };
        let jobs = shown
            .get(&format!("MaxJobs{end}"))
            .map(|value| entry("", value))
            .or_else(|| self.jobs.map(|most| TresLimit { name: String::new(), most: Some(most), used: 0 }));
        let together = list("MaxTRES", self.most).into_iter().map(|entry| (LimitKind::Together, entry));
        let running = list("MaxTRESRunMins", self.run_minutes).into_iter();
        let limits = together
            .chain(running.map(|entry| (LimitKind::RunMinutes, entry)))
            .chain(jobs.map(|entry| (LimitKind::Jobs, entry)));
        limits.filter_map(|limit| bound(limit, whose)).collect()
    }
}

/// The limits of a partition on each of its jobs.
pub(super) fn of_partition(partition: &Fields, name: &str) -> Vec<Bound> {
    let holder = Holder::Partition(name.to_owned());
    let set = |key: &str| partition.get(key).filter(|value| !value.eq_ignore_ascii_case("UNLIMITED"));
    let minutes = set("MaxTime").and_then(|time| squeue::limit(time)).map(|seconds| seconds / 60);
    let nodes = set("MaxNodes").and_then(|nodes| nodes.parse().ok());
    let of = |kind, tres: &str, most| (kind, TresLimit { name: tres.to_owned(), most, used: 0 });
    let all = [of(LimitKind::WallPerJob, "", minutes), of(LimitKind::PerJob, "node", nodes)];
    all.into_iter().filter_map(|limit| bound(limit, &holder)).collect()
}

/// The association of a user's jobs, and those above it.
fn of_associations(held: &Held, subject: &Subject) -> Vec<Bound> {
    let is_own = |record: &&LimitRecord| {
        record.name("UserName") == Some(subject.user.as_str())
            && record.name("Account") == Some(subject.account.as_str())
    };
    let own = |partition: Option<&str>| {
        held.associations.iter().filter(is_own).find(|record| record.name("Partition") == partition)
    };
    let Some(own) = own(Some(&subject.partition)).or_else(|| own(None)) else { return Vec::new() };
    let whose = Holder::User(subject.user.clone(), subject.account.clone());
    let mut all = of_group(&own.fields, &whose, subject.safe);
    all.extend(of_job(&own.fields, &whose));
    all.extend(number(&own.fields, "MaxJobs", LimitKind::MaxJobs).and_then(|limit| bound(limit, &whose)));
    let mut next = Some(subject.account.clone());
    let mut seen = BTreeSet::new();
    while let Some(account) = next.filter(|name| seen.insert(name.clone())) {
        let is_it = |record: &&LimitRecord| {
            record.name("UserName").is_none() && record.name("Account") == Some(account.as_str())
        };
        let record = held.associations.iter().find(is_it);
        all.extend(
            record
                .into_iter()
                .flat_map(|record| of_group(&record.fields, &Holder::Account(account.clone()), subject.safe)),
        );
        next = record.and_then(|record| record.name("ParentAccount")).map(str::to_owned);
    }
    all
}

/// A partition's own QOS.
pub(super) fn own_qos(partition: &Fields) -> Option<String> {
    partition.get("QoS").filter(|name| !["N/A", "(null)", ""].contains(&name.as_str())).cloned()
}

/// Why a partition takes no jobs of this account or QOS; `None`: it does. `parents`: each account's parent, if an account in the partition's
/// lists stands for those below it, too, as from 23.02 on (`part_policy_valid_acct`).
pub(super) fn barred(
    partition: &Fields,
    subject: &Subject,
    parents: Option<&HashMap<String, String>>,
) -> Option<String> {
    let among = |list: &str, names: &[&str]| {
        list.split(',').any(|one| names.iter().any(|name| one.eq_ignore_ascii_case(name)))
    };
    let check = |what: &str, names: &[&str], [allow, deny]: [&str; 2]| {
        // Slurm does not read what is denied where it reads what is allowed.
        let allowed = partition.get(allow).filter(|list| !list.eq_ignore_ascii_case("ALL"));
        let (key, list) = match allowed {
            Some(list) => (allow, Some(list).filter(|list| !among(list, names))?),
            None => (deny, partition.get(deny).filter(|list| among(list, names))?),
        };
        let name = names.first()?;
        Some(format!("partition {} takes no jobs of {what} {name} ({key}={list})", subject.partition))
    };
    let account = Some(subject.account.as_str()).filter(|name| !name.is_empty());
    let with_parents = |own| uses::ancestry(own, parents).collect::<Vec<_>>();
    let by_account =
        account.and_then(|own| check("account", &with_parents(own), ["AllowAccounts", "DenyAccounts"]));
    by_account.or_else(|| check("QOS", &[subject.qos.as_deref()?], ["AllowQos", "DenyQos"]))
}

/// Each account's parent.
pub(super) fn parents(held: &Held) -> HashMap<String, String> {
    let accounts = held.associations.iter().filter(|record| record.name("UserName").is_none());
    accounts
        .filter_map(|record| {
            Some((record.name("Account")?.to_owned(), record.name("ParentAccount")?.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(pairs: &[(&str, &str)]) -> LimitRecord {
        let fields = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        LimitRecord { fields, ..LimitRecord::default() }
    }

    fn subject() -> Subject {
        let own = |text: &str| text.to_owned();
        Subject {
            user: own("alice"),
            uid: own("1001"),
            account: own("bio"),
            partition: own("gpu"),
            qos: Some(own("normal")),
            ..Subject::default()
        }
    }

    fn held() -> Held {
        let qos = LimitRecord {
            users: vec![(
                "1001".to_owned(),
                record(&[("MaxTRESPU", "license/slice=14(7)"), ("MaxJobsPU", "N(1)")]).fields,
            )],
            ..record(&[("QOS", "normal(1)"), ("GrpTRES", "gres/gpu=8(4),cpu=N(9)")])
        };
        let account = |name: &str, parent: &str, tres: &str| {
            record(&[("Account", name), ("UserName", ""), ("ParentAccount", parent), ("GrpTRES", tres)])
        };
        let own = |partition: &str, tres: &str| {
            record(&[
                ("Account", "bio"),
                ("UserName", "alice(1001)"),
                ("Partition", partition),
                ("GrpTRES", tres),
                ("MaxJobs", "3(1)"),
            ])
        };
        Held {
            qos: vec![qos, record(&[("QOS", "part(2)"), ("GrpTRES", "gres/gpu=2(1)")])],
            associations: vec![
                account("root", "", "license/slice=99(9)"),
                account("bio", "root(1)", "gres/gpu=1(0),license/slice=50(8)"),
                own("", "license/slice=20(7)"),
                own("night", "license/slice=21(7)"),
            ],
        }
    }

    fn told(subject: &Subject, by_name: &[(&str, QosLimits)]) -> Vec<String> {
        let by_name = by_name.iter().map(|(name, limits)| ((*name).to_owned(), limits.clone())).collect();
        let all = bounds(&held(), subject, &by_name);
        all.iter()
            .map(|bound| format!("{:?} {} {}/{}", bound.kind, bound.tres, bound.used, bound.most))
            .collect()
    }

    #[test]
    fn a_qos_comes_before_the_association() {
        assert_eq!(
            told(&subject(), &[]),
            [
                "Together gres/gpu 4/8",
                "Together license/slice 7/14",
                "Together license/slice 7/20",
                "MaxJobs  1/3",
                "Together license/slice 8/50",
                "Together license/slice 9/99"
            ],
            "bio's limit on GPUs does not count: normal has one"
        );
        let at_night = Subject { partition: "night".to_owned(), ..subject() };
        assert!(told(&at_night, &[]).contains(&"Together license/slice 7/21".to_owned()));
    }

    #[test]
    fn the_partitions_qos_comes_first_unless_the_jobs_own_is_over_it() {
        let both = Subject { partition_qos: Some("part".to_owned()), ..subject() };
        assert_eq!(told(&both, &[])[0], "Together gres/gpu 1/2");
        let over = QosLimits { over_partition: true, ..QosLimits::default() };
        let first = told(&both, &[("normal", over)]);
        assert_eq!(
            (first[0].as_str(), first.iter().filter(|told| told.contains("gpu")).count()),
            ("Together gres/gpu 4/8", 1)
        );
    }

    #[test]
    fn a_limit_per_user_holds_before_the_users_first_job() {
        let bob = Subject { user: "bob".to_owned(), uid: "1002".to_owned(), ..subject() };
        let limits = QosLimits {
            per_user: "license/slice=14".to_owned(),
            jobs_per_user: Some(4),
            run_minutes_per_user: "gres/gpu=90".to_owned(),
            ..QosLimits::default()
        };
        let all = told(&bob, &[("normal", limits)]);
        assert!(
            all.contains(&"Together license/slice 0/14".to_owned())
                && all.contains(&"RunMinutes gres/gpu 0/90".to_owned())
                && all.contains(&"Jobs  0/4".to_owned()),
            "{all:?}"
        );
    }

    #[test]
    fn running_jobs_keep_minutes_for_themselves() {
        let fields = record(&[
            ("GrpTRESMins", "gres/gpu=900(300),license/slice=N(5)"),
            ("GrpTRESRunMins", "cpu=N(7),gres/gpu=N(120)"),
        ])
        .fields;
        let all = of_group(&fields, &Holder::Account("bio".to_owned()), true);
        let told: Vec<_> =
            all.iter().map(|b| (b.kind, b.tres.as_str(), b.most, b.used, b.reserved)).collect();
        assert_eq!(told, [(LimitKind::Minutes { safe: true }, "gres/gpu", 900, 300, 120)]);
    }

    #[test]
    fn a_partition_limits_time_and_nodes() {
        let of = |pairs: &[(&str, &str)]| -> Vec<String> {
            let bounds = of_partition(&record(pairs).fields, "gpu");
            bounds.iter().map(|bound| format!("{:?} {} {}", bound.kind, bound.tres, bound.most)).collect()
        };
        assert_eq!(
            of(&[("MaxTime", "1-02:00:00"), ("MaxNodes", "4")]),
            ["WallPerJob  1560", "PerJob node 4"]
        );
        assert_eq!(of(&[("MaxTime", "UNLIMITED"), ("MaxNodes", "UNLIMITED")]), [""; 0]);
    }

    #[test]
    fn a_partition_may_take_no_jobs_of_an_account_or_a_qos() {
        let barred = |pairs: &[(&str, &str)]| barred(&record(pairs).fields, &subject(), None);
        assert_eq!(barred(&[("AllowAccounts", "ALL"), ("AllowQos", "ALL"), ("QoS", "N/A")]), None);
        assert_eq!(barred(&[("AllowAccounts", "art,Bio"), ("DenyQos", "idle")]), None);
        assert_eq!(
            barred(&[("AllowAccounts", "art")]).as_deref(),
            Some("partition gpu takes no jobs of account bio (AllowAccounts=art)")
        );
        assert!(barred(&[("DenyAccounts", "bio")]).is_some() && barred(&[("AllowQos", "idle")]).is_some());
        assert_eq!(
            barred(&[("AllowAccounts", "bio"), ("DenyAccounts", "bio")]),
            None,
            "Slurm reads the first"
        );
        assert!(barred(&[("AllowAccounts", "ALL"), ("DenyAccounts", "bio")]).is_some());
        assert_eq!(own_qos(&record(&[("QoS", "N/A")]).fields), None);
    }

    #[test]
    fn an_account_in_a_partitions_list_stands_for_those_below_it_from_23_02_on() {
        let parents = parents(&held());
        let of =
            |list: &str, parents| barred(&record(&[(list, "root")]).fields, &subject(), parents).is_some();
        assert_eq!([of("AllowAccounts", None), of("AllowAccounts", Some(&parents))], [true, false]);
        assert_eq!([of("DenyAccounts", None), of("DenyAccounts", Some(&parents))], [false, true]);
    }

    #[test]
    fn a_qos_can_scale_the_limits_of_associations() {
        let limits = QosLimits { factor: Some(0.5), ..QosLimits::default() };
        let all = told(&subject(), &[("normal", limits)]);
        assert!(
            all.contains(&"Together license/slice 8/25".to_owned())
                && all.contains(&"Together gres/gpu 4/8".to_owned()),
            "{all:?}"
        );
        assert_eq!(parents(&held()).get("bio").map(String::as_str), Some("root"));
    }
}
