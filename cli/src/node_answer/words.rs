//! Verdicts in words, for a person and for programs.

use std::fmt::Write as _;

use geometry::{JobId, counted};
use serde_json::{Value, json};

use super::{Verdict, rank};
use crate::clock::span;
use crate::layout_line::UNLISTED;

/// Most jobs that a line names.
const MOST_JOBS: usize = 4;
/// Most lines of nodes that a person reads.
const MOST_LINES: usize = 12;

impl Verdict {
    /// `has room when job 12 (bob) ends, expected in 20 min`; the engine's reason where there is room now. `name` gives
    /// a job's name, `12 (bob)`, if the job is known.
    pub(crate) fn words(&self, name: &dyn Fn(JobId) -> Option<String>) -> String {
        self.words_with(name, MOST_JOBS)
    }

    /// Puts the answer into words, with so many jobs by name.
    pub(crate) fn words_with(&self, name: &dyn Fn(JobId) -> Option<String>, most_jobs: usize) -> String {
        match self {
            Self::Now(why) => format!("now: {why}"),
            Self::Never(why) => format!("never: {why}"),
            Self::Slurm(why) => format!("Slurm alone decides: {why}"),
            Self::Unfit(why) => format!("not until an administrator fixes it: {why}"),
            Self::After { jobs, .. } if jobs.is_empty() => "no room, though no job is there".to_owned(),
            Self::After { jobs, within } => {
                let s = if jobs.len() == 1 { ("", "s") } else { ("s", "") };
                let when = match within {
                    Some(micros) => format!(", expected in {}", span(micros.div_ceil(1_000_000))),
                    None if jobs.len() == 1 => ", which has no known end".to_owned(),
                    None => "; at least one of them has no known end".to_owned(),
                };
                format!("has room when job{} {} end{}{when}", s.0, named(jobs, name, most_jobs), s.1)
            }
        }
    }
}

/// A verdict of these nodes for programs: `room` is `now`, `later`, `never`, `slurm` or `unfit`.
pub(crate) fn json(names: &[String], verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Now(why) => json!({ "names": names, "room": "now", "why": why }),
        Verdict::Never(why) => json!({ "names": names, "room": "never", "why": why }),
        Verdict::Slurm(why) => json!({ "names": names, "room": "slurm", "why": why }),
        Verdict::Unfit(why) => json!({ "names": names, "room": "unfit", "why": why }),
        Verdict::After { jobs, within } => {
            let ids: Vec<u32> = jobs.iter().filter(|job| **job != UNLISTED).map(|job| job.0).collect();
            let within = within.map(|micros| micros.div_ceil(1_000_000));
            let mut value = json!({ "names": names, "room": "later", "jobs": ids, "within_s": within });
            if jobs.contains(&UNLISTED) {
                value["others"] = true.into();
            }
            value
        }
    }
}

/// `12 (bob), 13 (carol) and 3 more`.
fn named(jobs: &[JobId], name: &dyn Fn(JobId) -> Option<String>, most: usize) -> String {
    let number = |id: &JobId| if *id == UNLISTED { "(not listed)".to_owned() } else { id.to_string() };
    let or_number = |id: &JobId| name(*id).unwrap_or_else(|| number(id));
    let mut words = jobs.iter().take(most).map(or_number).collect::<Vec<_>>().join(", ");
    if jobs.len() > most {
        let _ = write!(words, " and {} more", jobs.len() - most);
    }
    words
}

/// The verdicts for a person: all of a few; of many those that have room first, and a line about the others. `all`: the option
/// that shows these.
pub(crate) fn soonest<'a>(
    verdicts: &'a [(Vec<String>, Verdict)],
    all: &str,
) -> (Vec<&'a (Vec<String>, Verdict)>, Option<String>) {
    let mut shown: Vec<&(Vec<String>, Verdict)> = verdicts.iter().collect();
    if shown.len() > MOST_LINES {
        shown.sort_by_key(|(_, verdict)| rank(verdict));
    }
    let rest = shown.split_off(shown.len().min(MOST_LINES));
    let nodes = |which: &dyn Fn(&Verdict) -> bool| -> usize {
        rest.iter().filter(|(_, verdict)| which(verdict)).map(|(names, _)| names.len()).sum()
    };
    let now = nodes(&|verdict| matches!(verdict, Verdict::Now(_)));
    let by_when = [(now, "now"), (nodes(&|_| true) - now, "later or never")];
    let by_when = by_when.into_iter().filter(|(n, _)| *n > 0);
    let words: Vec<String> = by_when.map(|(n, when)| format!("{} {when}", counted(n, "more node"))).collect();
    (shown, (!words.is_empty()).then(|| format!("{}: {all} names them", words.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_verdicts_the_first_to_have_room_are_shown() {
        let after = |n: u64| {
            let verdict = Verdict::After { jobs: vec![JobId(1)], within: (n != 3).then_some(1000 - n) };
            (vec![format!("n{n}"), format!("m{n}")], verdict)
        };
        let few: Vec<_> = (0..12).map(after).collect();
        assert!(
            matches!(soonest(&few, "--all"), (shown, None) if shown[0].0[0] == "n0" && shown.len() == 12)
        );
        let mut many: Vec<_> = (0..20).map(after).collect();
        many.push((vec!["last".to_owned()], Verdict::Now("free".to_owned())));
        let (shown, rest) = soonest(&many, "--all");
        let names: Vec<&str> = shown.iter().map(|(names, _)| names[0].as_str()).collect();
        assert_eq!((names[0], names[1], names[11]), ("last", "n19", "n9"));
        assert_eq!(rest.as_deref(), Some("18 more nodes later or never: --all names them"));
        many.extend((0..13).map(|n| (vec![format!("f{n}")], Verdict::Now(format!("place {n}")))));
        let (shown, rest) = soonest(&many, "--all");
        assert!(shown.iter().all(|(_, verdict)| matches!(verdict, Verdict::Now(_))));
        assert_eq!(rest.as_deref(), Some("2 more nodes now, 40 more nodes later or never: --all names them"));
    }
}
