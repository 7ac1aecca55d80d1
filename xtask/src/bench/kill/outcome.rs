//! Ends of the jobs of a stream, as counts and as lines.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::Bench;
use super::super::stream::Arrival;

/// Ends of the jobs of one stream. Every list has one line per case.
#[derive(Default)]
pub(super) struct StreamOutcome {
    pub(super) submitted: usize,
    pub(super) completed: usize,
    /// The controller does not know them, or gave their numbers to later ones.
    pub(super) forgotten: usize,
    /// By Slurm, with its count of restarts.
    pub(super) requeued: usize,
    /// Begun more often than Slurm counts.
    pub(super) begun_again: usize,
    /// Begun at least once without Slurm having run the site's prolog for it.
    pub(super) without_prolog: usize,
    /// Held by Slurm, and released as an administrator would.
    pub(super) released: BTreeSet<String>,
    /// Ended in another way.
    pub(super) failed: Vec<String>,
    /// Neither ended nor forgotten when the time was over.
    pub(super) unended: Vec<String>,
    /// Nodes that were drained at any time, with the reason.
    pub(super) drained: BTreeSet<String>,
    /// Findings in logs, journals and drivers that should not be there.
    pub(super) findings: Vec<String>,
    pub(super) left_at_kill: usize,
    pub(super) seconds: u64,
}

impl StreamOutcome {
    /// Lists the faults. A node that Slurm drains because it started a job twice is Slurm's, see `docs/slurm-quirks.md`.
    pub(super) fn wrong(&self) -> Vec<String> {
        let ours = self.drained.iter().filter(|line| !line.contains("Duplicate jobid"));
        let drained = ours.map(|line| format!("drained: {line}"));
        self.failed.iter().chain(&self.unended).chain(&self.findings).cloned().chain(drained).collect()
    }
}

pub(super) fn lines(outcome: &StreamOutcome) -> String {
    let lists = [("failed", &outcome.failed), ("not ended", &outcome.unended), ("found", &outcome.findings)];
    let mut text = String::new();
    for (name, list) in lists {
        for line in list {
            // Written to a String: cannot fail.
            let _ = writeln!(text, "{name}: {line}");
        }
    }
    for line in &outcome.drained {
        let _ = writeln!(text, "drained: {line}");
    }
    text
}

/// Both outcomes side by side, then every case.
pub(super) fn text(bench: &Bench, lanes: &[(&str, StreamOutcome)]) -> String {
    let mut out = format!(
        "{} jobs, {}, seed {}, {} build\n{:34}",
        bench.jobs,
        if bench.arrival == Arrival::Queued { "from a full queue" } else { "as they are submitted" },
        bench.seed,
        if bench.debug { "debug" } else { "release" },
        ""
    );
    for (name, _) in lanes {
        let _ = write!(out, "{name:>14}");
    }
    out.push('\n');
    type Count = fn(&StreamOutcome) -> usize;
    let rows: [(&str, Count); 13] = [
        ("left at the kill", |o| o.left_at_kill),
        ("submitted", |o| o.submitted),
        ("completed", |o| o.completed),
        ("forgotten with the last seconds", |o| o.forgotten),
        ("requeued", |o| o.requeued),
        ("held by Slurm, released by us", |o| o.released.len()),
        ("begun more often than Slurm knows", |o| o.begun_again),
        ("begun without a prolog", |o| o.without_prolog),
        ("failed", |o| o.failed.len()),
        ("not ended in time", |o| o.unended.len()),
        ("nodes drained", |o| o.drained.len()),
        ("left in logs, journals, drivers", |o| o.findings.len()),
        ("seconds from kill to end", |o| usize::try_from(o.seconds).unwrap_or_default()),
    ];
    for (name, count) in rows {
        let _ = write!(out, "{name:34}");
        for (_, outcome) in lanes {
            let _ = write!(out, "{:>14}", count(outcome));
        }
        out.push('\n');
    }
    for (name, outcome) in lanes {
        for line in lines(outcome).lines() {
            let _ = writeln!(out, "{name}: {line}");
        }
    }
    out
}
