//! Limits in words.

use geometry::counted;

use crate::{Holder, LimitKind, Need, SLICES};

impl Holder {
    /// Names the owner: `alice in account bio`.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Holder::Account(account) => format!("account {account}"),
            Holder::User(user, account) => format!("{user} in account {account}"),
            Holder::Qos(qos) => format!("QOS {qos}"),
            Holder::UserOfQos(user, qos) => format!("{user} in QOS {qos}"),
            Holder::Partition(partition) => format!("partition {partition}"),
            Holder::AccountOfQos(account, qos) => format!("account {account} in QOS {qos}"),
        }
    }
}

/// An amount of a TRES: `1 slice`, `8 GPUs`.
#[must_use]
pub fn tres_amount(n: u64, tres: &str) -> String {
    match tres {
        SLICES => counted(n, "slice"),
        "gres/gpu" => counted(n, "GPU"),
        "gres/shard" => counted(n, "shard"),
        "node" => counted(n, "node"),
        "cpu" => counted(n, "CPU"),
        "mem" => format!("{n} MB of memory"),
        other => format!("{n} of {other}"),
    }
}

/// An amount of a TRES times minutes: `500 slice minutes`.
fn minutes(n: u64, tres: &str) -> String {
    let one = match tres {
        SLICES => "slice",
        "gres/gpu" => "GPU",
        "gres/shard" => "shard",
        other => other,
    };
    counted(n, &format!("{one} minute"))
}

/// Says a limit: `account bio may have 14 slices at once`.
#[must_use]
pub fn phrase(kind: LimitKind, whose: &str, most: u64, tres: &str) -> String {
    match kind {
        LimitKind::Together => format!("{whose} may have {} at once", tres_amount(most, tres)),
        LimitKind::Jobs | LimitKind::MaxJobs => format!("{whose} may run {} at once", counted(most, "job")),
        LimitKind::PerJob => format!("a job of {whose} may have at most {}", tres_amount(most, tres)),
        LimitKind::PerNode => {
            format!("a job of {whose} may have at most {} on a node", tres_amount(most, tres))
        }
        LimitKind::Least => format!("a job of {whose} must have at least {}", tres_amount(most, tres)),
        LimitKind::Minutes { .. } => format!("{whose} may use {}", minutes(most, tres)),
        LimitKind::RunMinutes => {
            format!("running jobs of {whose} may have {} left to their time limits", minutes(most, tres))
        }
        LimitKind::MinutesPerJob => {
            format!("a job of {whose} may have at most {} to its time limit", minutes(most, tres))
        }
        LimitKind::Wall => format!("jobs of {whose} may run {} in all", counted(most, "minute")),
        LimitKind::WallPerJob => {
            format!("a job of {whose} may have a time limit of at most {}", counted(most, "minute"))
        }
    }
}

/// A time limit. Slurm writes one without end as the largest number of 32 bits.
fn limit_of(minutes: u64) -> String {
    if minutes >= u64::from(u32::MAX) { "any time".to_owned() } else { counted(minutes, "minute") }
}

impl Need {
    /// Says what a job needs of a limit: `this job needs 4 GPUs for up to 60 minutes`; `None` for limits on numbers of jobs.
    #[must_use]
    pub fn words(&self, kind: LimitKind, tres: &str) -> Option<String> {
        let needs = || format!("this job needs {}", tres_amount(self.of(tres), tres));
        match kind {
            LimitKind::WallPerJob => {
                self.minutes.map(|minutes| format!("this job asks for {}", limit_of(minutes)))
            }
            _ if tres.is_empty() => None,
            LimitKind::Least => {
                Some(format!("Slurm counts {} for this job", tres_amount(self.of(tres), tres)))
            }
            LimitKind::Minutes { .. } | LimitKind::RunMinutes | LimitKind::MinutesPerJob => {
                let times = self.minutes.map(|minutes| format!(" for up to {}", limit_of(minutes)));
                Some(needs() + &times.unwrap_or_default())
            }
            _ => Some(needs()),
        }
    }
}
