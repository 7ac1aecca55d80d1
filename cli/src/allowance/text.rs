//! Limits in words, and as JSON.

use geometry::counted;
use serde_json::{Value, json};
use slurm_limits::{Holder, phrase};

use super::{Allowance, Bound, LimitKind, Need, Room, Whose};

/// Users that a line names.
const MOST_NAMED: usize = 4;
/// Limits that are listed.
const MOST_LISTED: usize = 8;

impl Whose {
    fn words(&self) -> String {
        match self {
            Whose::Slurm(holder) => holder.words(),
            Whose::Site { jobs, .. } => jobs.clone(),
        }
    }

    /// The limit's place, in parentheses, if it has one.
    fn place(&self) -> String {
        match self {
            Whose::Site { place, .. } => format!(" ({place})"),
            _ => String::new(),
        }
    }

    /// Who keeps the limit: `Slurm`.
    fn keeper(&self) -> &'static str {
        if matches!(self, Whose::Site { .. }) { "the site" } else { "Slurm" }
    }

    /// Tells whether it adds up the jobs of a single user.
    fn is_one_user(&self) -> bool {
        matches!(self, Whose::Slurm(Holder::User(..) | Holder::UserOfQos(..)))
    }
}

impl Bound {
    /// The limit, its use, and the users of it.
    fn words(&self, users: &[(String, u64)]) -> String {
        let limit = phrase(self.kind, &self.whose.words(), self.most, &self.tres);
        let used = self.used;
        match self.kind {
            LimitKind::Together => {
                format!("{limit}{}; {used} in use{}", self.whose.place(), self.by(users))
            }
            LimitKind::Jobs | LimitKind::MaxJobs => format!("{limit}; {used} running{}", self.by(users)),
            LimitKind::Minutes { .. } | LimitKind::Wall => format!("{limit}; {used} used up"),
            LimitKind::RunMinutes => format!("{limit}; they have {used}"),
            LimitKind::PerJob
            | LimitKind::PerNode
            | LimitKind::Least
            | LimitKind::MinutesPerJob
            | LimitKind::WallPerJob => limit,
        }
    }

    /// ` (bob 7, alice 3)`.
    fn by(&self, users: &[(String, u64)]) -> String {
        let own = matches!(&self.whose, Whose::Site { jobs, .. } if jobs.starts_with("jobs of "));
        if users.is_empty() || own || self.whose.is_one_user() {
            return String::new();
        }
        let mut names: Vec<String> =
            users.iter().take(MOST_NAMED).map(|(user, n)| format!("{user} {n}")).collect();
        let more = users.len().saturating_sub(MOST_NAMED);
        names.extend((more > 0).then(|| format!("and {}", counted(more, "other user"))));
        format!(" ({})", names.join(", "))
    }
}

impl Allowance {
    /// The limits that concern GPUs, a line for each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let all: Vec<&Bound> = self.bounds.iter().filter(|bound| bound.matters()).collect();
        let mut lines: Vec<String> = self.barred.iter().cloned().collect();
        lines.extend(all.iter().take(MOST_LISTED).map(|bound| bound.words(&self.users(bound))));
        let more = all.len().saturating_sub(MOST_LISTED);
        lines.extend((more > 0).then(|| format!("and {}; --json has them", counted(more, "more limit"))));
        lines
    }

    /// The limit that keeps a job with this need, as a sentence; `None`: none does now.
    pub(crate) fn keeps(&self, need: &Need) -> Option<String> {
        if let Some(why) = &self.barred {
            return Some(format!("Slurm never lets it start there: {why}."));
        }
        let (room, bound) = self.tightest(need)?;
        let words = bound.words(&self.users(bound));
        let needs = need.words(bound.kind, &bound.tres);
        let needs = needs.map_or_else(String::new, |needs| format!("; {needs}"));
        match room {
            Room::Never => {
                Some(format!("A limit of {} never lets it start: {words}{needs}.", bound.whose.keeper()))
            }
            Room::Jobs(0) => Some(format!("A limit of {} keeps it: {words}{needs}.", bound.whose.keeper())),
            Room::Jobs(_) => None,
        }
    }

    /// Tells whether a limit never lets a job with this need start.
    pub(crate) fn never(&self, need: &Need) -> bool {
        self.barred.is_some() || matches!(self.tightest(need), Some((Room::Never, _)))
    }

    /// The head of a list of the limits: `Limits of Slurm for alice, account bio, QOS normal`.
    pub(crate) fn head(&self, user: &str) -> String {
        let own = self.bounds.iter().any(|bound| matches!(bound.whose, Whose::Site { .. }));
        let whose = self.whose(user);
        if own { format!("Limits for {whose}") } else { format!("Limits of Slurm for {whose}") }
    }

    fn whose(&self, user: &str) -> String {
        let of = |what: &str, name: &Option<String>| {
            name.as_ref().map_or_else(String::new, |name| format!(", {what} {name}"))
        };
        format!("{user}{}{}", of("account", &self.account), of("QOS", &self.qos))
    }
}

/// The limits that concern GPUs: `[{"whose", "kind", "tres", "most", "used", "users"}]`; empty without any.
pub(crate) fn json(allowance: &Allowance) -> Value {
    let kind = |kind: LimitKind| match kind {
        LimitKind::Together => "at_once",
        LimitKind::PerJob => "per_job",
        LimitKind::PerNode => "per_node",
        LimitKind::Least => "least",
        LimitKind::Minutes { .. } => "minutes",
        LimitKind::RunMinutes => "run_minutes",
        LimitKind::MinutesPerJob => "minutes_per_job",
        LimitKind::Jobs | LimitKind::MaxJobs => "jobs",
        LimitKind::Wall => "wall_minutes",
        LimitKind::WallPerJob => "wall_minutes_per_job",
    };
    let one = |allowance: &Allowance, bound: &Bound| {
        let users: Vec<Value> = allowance
            .users(bound)
            .into_iter()
            .map(|(user, n)| json!({ "user": user, "amount": n }))
            .collect();
        json!({
            "whose": bound.whose.words(), "kind": kind(bound.kind), "tres": bound.tres, "most": bound.most, "used": bound.used,
            "users": users,
        })
    };
    allowance.bounds.iter().filter(|bound| bound.matters()).map(|bound| one(allowance, bound)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allowance::SLICES;

    fn words(kind: LimitKind, tres: &str, whose: Whose) -> String {
        let users: Vec<(String, u64)> = (0..6_u32).map(|i| (format!("u{i}"), 1)).collect();
        Bound { kind, tres: tres.to_owned(), most: 14, used: 7, reserved: 0, whose }.words(&users)
    }

    #[test]
    fn a_limit_says_whose_it_is_and_who_uses_it() {
        let account = || Whose::Slurm(Holder::Account("bio".to_owned()));
        let own = Whose::Slurm(Holder::UserOfQos("alice".to_owned(), "normal".to_owned()));
        assert_eq!(
            words(LimitKind::Together, SLICES, account()),
            "account bio may have 14 slices at once; 7 in use (u0 1, u1 1, u2 1, u3 1, and 2 other users)"
        );
        assert_eq!(
            words(LimitKind::Together, "gres/gpu", own.clone()),
            "alice in QOS normal may have 14 GPUs at once; 7 in use"
        );
        assert_eq!(
            words(LimitKind::PerJob, "gres/gpu", own),
            "a job of alice in QOS normal may have at most 14 GPUs"
        );
        assert_eq!(
            words(LimitKind::Minutes { safe: true }, SLICES, account()),
            "account bio may use 14 slice minutes; 7 used up"
        );
        assert_eq!(
            words(LimitKind::WallPerJob, "", Whose::Slurm(Holder::Qos("long".to_owned()))),
            "a job of QOS long may have a time limit of at most 14 minutes"
        );
    }

    #[test]
    fn a_job_that_a_limit_keeps_is_told_so() {
        let whose = Whose::Slurm(Holder::Account("bio".to_owned()));
        let bound = |most| Bound {
            kind: LimitKind::Together,
            tres: SLICES.to_owned(),
            most,
            used: 7,
            reserved: 0,
            whose: whose.clone(),
        };
        let keeps = |most, slices| {
            let need = Need { slices, nodes: 1, ..Need::default() };
            Allowance { bounds: vec![bound(most)], ..Allowance::default() }.keeps(&need)
        };
        assert_eq!(keeps(14, 7), None);
        assert_eq!(
            keeps(10, 4).as_deref(),
            Some(
                "A limit of Slurm keeps it: account bio may have 10 slices at once; 7 in use; this job needs 4 slices."
            )
        );
        let wall = Bound { kind: LimitKind::WallPerJob, tres: String::new(), most: 60, ..bound(0) };
        let need = Need { slices: 1, nodes: 1, minutes: Some(100), ..Need::default() };
        let long = Allowance { bounds: vec![wall], ..Allowance::default() }.keeps(&need).unwrap();
        assert!(
            long.ends_with("may have a time limit of at most 60 minutes; this job asks for 100 minutes."),
            "{long}"
        );
        assert!(keeps(10, 11).unwrap().starts_with("A limit of Slurm never lets it start: "));
        assert_eq!(keeps(10, 0), None);
    }
}
