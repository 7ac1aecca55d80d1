//! `scontrol show assoc_mgr`: the limits of associations and QOS that slurmctld holds jobs to, and how much of them is in use.
//!
//! With `-o` each record is a line of `Key=value` words. A list of TRES is `name=most(used),…`, with `N` for no limit. A QOS ends with
//! the use by account and by user, `Account Limits= bio={Key=value …}`.

use std::collections::HashMap;

use super::command::run;
use crate::outcome::Failure;

/// The values of a record by their keys.
pub(crate) type Fields = HashMap<String, String>;

/// An association, or a QOS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitRecord {
    pub(crate) fields: Fields,
    /// Use of each account that has jobs in a QOS; empty for an association.
    pub(crate) accounts: Vec<(String, Fields)>,
    /// Use of each such user, a name or a number.
    pub(crate) users: Vec<(String, Fields)>,
}

impl LimitRecord {
    /// The name in a field without the number behind it: `alice` of `alice(1001)`; `None` for an empty one.
    pub(crate) fn name(&self, key: &str) -> Option<&str> {
        let name = self.fields.get(key)?.split('(').next()?;
        (!name.is_empty()).then_some(name)
    }
}

/// Limits that slurmctld holds jobs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) associations: Vec<LimitRecord>,
    pub(crate) qos: Vec<LimitRecord>,
}

/// Asks slurmctld.
pub(crate) fn held() -> Result<Held, Failure> {
    Ok(read(&run("scontrol", &["-o", "show", "assoc_mgr", "flags=assoc,qos"])?))
}

/// Reads what scontrol prints.
fn read(text: &str) -> Held {
    let mut held = Held::default();
    for line in text.lines() {
        if line.starts_with("ClusterName=") {
            held.associations.push(record(line));
        } else if line.starts_with("QOS=") {
            held.qos.push(record(line));
        }
    }
    held
}

/// The part of a line that is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordPart {
    Own,
    Accounts,
    Users,
}

fn record(line: &str) -> LimitRecord {
    let mut record = LimitRecord::default();
    let (mut part, mut inside) = (RecordPart::Own, false);
    for word in line.split_whitespace() {
        let (word, ends) = word.strip_suffix('}').map_or((word, false), |word| (word, true));
        match (word, inside) {
            // The word behind is `Limits=`.
            ("Account", false) => part = RecordPart::Accounts,
            ("User", false) => part = RecordPart::Users,
            _ => {
                let opened = word.split_once("={");
                inside |= opened.is_some();
                let pair = opened.map_or(word, |(_, first)| first).split_once('=');
                let list = match part {
                    RecordPart::Own => None,
                    RecordPart::Accounts => Some(&mut record.accounts),
                    RecordPart::Users => Some(&mut record.users),
                };
                if let (Some((whose, _)), Some(list)) = (opened, list) {
                    list.push((whose.split('(').next().unwrap_or(whose).to_owned(), Fields::new()));
                }
                let fields = match part {
                    RecordPart::Own => Some(&mut record.fields),
                    RecordPart::Accounts => record.accounts.last_mut().map(|(_, fields)| fields),
                    RecordPart::Users => record.users.last_mut().map(|(_, fields)| fields),
                };
                if let (Some((key, value)), Some(fields)) = (pair, fields) {
                    fields.entry(key.to_owned()).or_insert_with(|| value.to_owned());
                }
            }
        }
        inside &= !ends;
    }
    record
}

/// Entry of a list of TRES.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TresLimit {
    pub(crate) name: String,
    /// `None`: no limit.
    pub(crate) most: Option<u64>,
    pub(crate) used: u64,
}

/// The entries of a list as `gres/gpu=8(4),license/slice=N(3)`.
pub(crate) fn entries(list: &str) -> Vec<TresLimit> {
    list.split(',')
        .filter_map(|entry| entry.rsplit_once('='))
        .map(|(name, value)| entry(name, value))
        .collect()
}

/// A limit on a single number, `8(4)`.
pub(crate) fn entry(name: &str, value: &str) -> TresLimit {
    let (most, used) = value.split_once('(').unwrap_or((value, "0)"));
    // Times have decimals.
    let whole = |text: &str| text.split('.').next().and_then(|n| n.parse().ok());
    TresLimit {
        name: name.to_owned(),
        most: whole(most),
        used: whole(used.trim_end_matches(')')).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of 22.05 and of 24.11.
    const SHOWN: &str = "Current Association Manager state\nAssociation Records\n\
        ClusterName=c Account=bio UserName=alice(1001) Partition= Priority=0 ID=4 ParentAccount=(2) Lineage=/bio/0-alice/ DefAssoc=Yes \
        GrpJobs=N(1) GrpJobsAccrue=N(0) GrpSubmitJobs=N(1) GrpWall=N(3.50) GrpTRES=cpu=N(2),gres/gpu=8(4),license/slice=N(28) \
        GrpTRESMins=cpu=N(7) MaxJobs=3(1) MaxJobsAccrue= MaxWallPJ=60 MaxTRESPJ=gres/gpu=2 MaxTRESPN= MinPrioThresh= Comment=a {b\n\
        QOS Records\n\
        QOS=normal(1) UsageRaw=0.0 GrpJobs=N(2) GrpTRES=license/slice=56(28) MaxTRESPU= MinPrioThresh=  PreemptMode=OFF Priority=0 \
        Account Limits= bio={MaxJobsPA=N(1) MaxTRESPA=license/slice=30(28)} art={MaxJobsPA=N(1) MaxTRESPA=} \
        User Limits= alice(1001)={MaxJobsPU=4(1) MaxSubmitJobsPU=N(1) MaxTRESPU=license/slice=14(7) MaxTRESRunMinsPU=cpu=N(1)} \
        1002={MaxJobsPU=4(0) MaxTRESPU=license/slice=14(0)}\n\
        QOS=idle(7) UsageRaw=0.0 Account Limits=No Accounts User Limits=No Users\n";

    #[test]
    fn records_are_read_with_their_uses() {
        let held = read(SHOWN);
        let own = &held.associations[0];
        assert_eq!(
            (own.name("Account"), own.name("UserName"), own.name("Partition")),
            (Some("bio"), Some("alice"), None)
        );
        assert_eq!(
            entries(&own.fields["GrpTRES"])[1],
            TresLimit { name: "gres/gpu".to_owned(), most: Some(8), used: 4 }
        );
        assert_eq!(entries(&own.fields["MaxTRESPJ"])[0].most, Some(2));
        assert_eq!((entries(&own.fields["MaxTRESPN"]), entry("", "N(3.50)").used), (vec![], 3));
        let qos = &held.qos[0];
        assert_eq!((qos.name("QOS"), held.qos[1].name("QOS")), (Some("normal"), Some("idle")));
        let names = |list: &[(String, Fields)]| list.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(
            (names(&qos.accounts), names(&qos.users)),
            (vec!["bio".to_owned(), "art".to_owned()], vec!["alice".to_owned(), "1002".to_owned()])
        );
        assert_eq!(
            entries(&qos.users[0].1["MaxTRESPU"])[0],
            TresLimit { name: "license/slice".to_owned(), most: Some(14), used: 7 }
        );
        assert!(held.qos[1].users.is_empty());
    }

    #[test]
    fn any_text_is_read() {
        for text in [
            "",
            "QOS=",
            "ClusterName=}={}",
            "QOS=a Account Limits= ={",
            "ClusterName=a User Limits= x",
            "QOS=x =(=)=(",
        ] {
            let _ = read(text);
        }
        assert_eq!(
            entries("x,=,a=99999999999999999999(b"),
            [entry("", ""), TresLimit { name: "a".to_owned(), most: None, used: 0 }]
        );
    }
}
