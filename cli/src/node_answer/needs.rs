//! Counts the nodes of a job that needs several at once.

use std::collections::BTreeSet;

use far::Micros;
use geometry::{JobId, counted};

use super::{Verdict, rank};

/// The nodes that a job needs at once, and those that take no jobs now: these may come back.
#[derive(Clone, Copy)]
pub(crate) struct Needs {
    pub(crate) nodes: usize,
    pub(crate) away: usize,
}

impl Needs {
    /// Tells whether too few nodes could ever have room for the job.
    pub(crate) fn never(self, verdicts: &[(Vec<String>, Verdict)]) -> bool {
        let able = able(verdicts);
        let back = if able == 0 { 0 } else { self.away };
        !verdicts.is_empty() && able + back < self.nodes.max(1)
    }

    /// Tells whether so many nodes have room now, as far as GPUs go.
    pub(crate) fn have_room(self, verdicts: &[(Vec<String>, Verdict)]) -> bool {
        with_room(verdicts) >= self.nodes.max(1)
    }

    /// When so many nodes have room at once; `None` for a job that needs one, or where no node is known.
    pub(crate) fn sentence(
        self,
        verdicts: &[(Vec<String>, Verdict)],
        name: &dyn Fn(JobId) -> Option<String>,
    ) -> Option<String> {
        let Self { nodes: needs, .. } = self;
        if needs < 2 || verdicts.is_empty() {
            return None;
        }
        let able = able(verdicts);
        if able < needs {
            let then = if self.never(verdicts) {
                "it never starts like this"
            } else {
                "others must take jobs again first"
            };
            let able = counted(able, "node");
            return Some(format!("It needs {needs} nodes at once, and {able} can have room for it: {then}."));
        }
        let now = with_room(verdicts);
        let have = format!("{now} {} room now", if now == 1 { "has" } else { "have" });
        if now >= needs {
            return Some(format!("It needs {needs} nodes at once, and {have}."));
        }
        let later = soonest(needs, now, verdicts)
            .map_or_else(String::new, |later| format!("; the job {}", later.words(name)));
        Some(format!("It needs {needs} nodes at once: {have}{later}."))
    }
}

/// The nodes with such a verdict.
fn count(verdicts: &[(Vec<String>, Verdict)], wanted: &dyn Fn(&Verdict) -> bool) -> usize {
    verdicts.iter().filter(|(_, verdict)| wanted(verdict)).map(|(names, _)| names.len()).sum()
}

/// The nodes that have room now.
fn with_room(verdicts: &[(Vec<String>, Verdict)]) -> usize {
    count(verdicts, &|verdict| matches!(verdict, Verdict::Now(_) | Verdict::Slurm(_)))
}

/// The nodes that take jobs and could have room for the job.
fn able(verdicts: &[(Vec<String>, Verdict)]) -> usize {
    count(verdicts, &|verdict| !matches!(verdict, Verdict::Never(_)))
}

/// The jobs that must end until so many nodes have room, those first whose end is expected first.
fn soonest(needs: usize, now: usize, verdicts: &[(Vec<String>, Verdict)]) -> Option<Verdict> {
    let mut later: Vec<_> =
        verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::After { .. })).collect();
    later.sort_by_key(|(_, verdict)| rank(verdict));
    let (mut have, mut all, mut last): (usize, BTreeSet<JobId>, Option<Micros>) =
        (now, BTreeSet::new(), Some(0));
    for (names, verdict) in later {
        if have >= needs {
            break;
        }
        let Verdict::After { jobs, within } = verdict else { continue };
        all.extend(jobs);
        last = last.zip(*within).map(|(last, within)| last.max(within));
        have += names.len();
    }
    (have >= needs && !all.is_empty())
        .then(|| Verdict::After { jobs: all.into_iter().collect(), within: last })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(node: &str, job: u32, within: Option<Micros>) -> (Vec<String>, Verdict) {
        (vec![node.to_owned()], Verdict::After { jobs: vec![JobId(job)], within })
    }

    fn never(node: &str) -> (Vec<String>, Verdict) {
        (vec![node.to_owned()], Verdict::Never("no".to_owned()))
    }

    #[test]
    fn a_job_on_several_nodes_is_told_how_many_have_room() {
        let now = (vec!["n1".to_owned()], Verdict::Now("free".to_owned()));
        let said = |nodes, verdicts: &[_]| {
            Needs { nodes, away: 0 }.sentence(verdicts, &|_| None).unwrap_or_default()
        };
        let minute = Some(60_000_000);
        assert_eq!(said(1, &[after("n2", 7, None)]), "");
        assert_eq!(
            said(2, &[after("n2", 7, None), after("n3", 8, minute), now.clone()]),
            "It needs 2 nodes at once: 1 has room now; the job has room when job 8 ends, expected in 60 s."
        );
        assert_eq!(
            said(2, &[after("n2", 7, Some(1)), after("n3", 8, minute)]),
            "It needs 2 nodes at once: 0 have room now; the job has room when jobs 7, 8 end, expected in 60 s."
        );
        assert_eq!(
            said(2, &[now, never("n2")]),
            "It needs 2 nodes at once, and 1 node can have room for it: it never starts like this."
        );
        let both = (vec!["n1".to_owned(), "n2".to_owned()], Verdict::Now(String::new()));
        assert_eq!(said(2, &[both]), "It needs 2 nodes at once, and 2 have room now.");
    }

    #[test]
    fn a_drained_node_may_come_back() {
        let never_with = |nodes, away, verdicts: &[_]| Needs { nodes, away }.never(verdicts);
        let one = [after("n1", 7, None), never("n2")];
        assert!(never_with(2, 0, &one) && !never_with(2, 1, &one) && never_with(3, 1, &one));
        assert!(never_with(1, 1, &[never("n1")]), "no node of a kind that could");
        assert!(!never_with(1, 0, &one) && !never_with(2, 0, &[]));
    }
}
