//! Writes what was weighed in a decision: every candidate with its score, for administrators.
//!
//! The line for users, and why nothing fits, are [`decision_report`]'s own, because slurmctld writes these. No plugin links this crate.
#![forbid(unsafe_code)]

mod parts;

use decision_report::report::{Fate, KindTried, Report, SeatScore, ShareClass};
use decision_report::{Cost, Decision};
use geometry::counted;
use node_state::Kind;
use protocol::{Grant, MigSpec};

use parts::{WARPS_PER_SM, cost, takes};
pub use parts::{candidate, fate, outcome};

/// Writes a decision as a block: the line for the user, the scores, and every candidate of each kind.
#[must_use]
pub fn decision(decision: &Decision) -> String {
    let report = &decision.report;
    let mut text = decision.why() + "\n";
    text.extend(scores(decision).map(|scores| scores + "\n"));
    for tried in &report.kinds {
        let chosen = if tried.chosen { ", chosen" } else { "" };
        text += &format!("{:5} {}{chosen}\n", tried.kind.name(), outcome(tried));
        for weighed in report.weighed.iter().filter(|c| c.kind == tried.kind) {
            text += &format!("  {}\n", candidate(weighed));
        }
    }
    if report.omitted > 0 {
        text += &format!("  and {} more\n", report.omitted);
    }
    text
}

/// Gives the scores by which the choice was made, for those who ask for all of them:
/// `leaves 140 placements to others, best of 32`. `None` where [`Decision::reason`] says everything.
#[must_use]
pub fn scores(decision: &Decision) -> Option<String> {
    let report = &decision.report;
    let score = match (decision.chosen.as_ref()?, report.best?) {
        (Grant::Mig(specs), Fate::Costs(cost)) => Some(mig_scores(report, specs, cost)),
        (_, Fate::Compute(score)) if !score.joins => Some(leaves(report, score.cost)),
        (_, Fate::Share(score)) => Some(match score.class {
            ShareClass::Join | ShareClass::Oversubscribe => {
                format!("{} in use", counted(score.in_use_sm_percent * WARPS_PER_SM / 100, "warp"))
            }
            ShareClass::Open | ShareClass::Carve => cost(&score.cost),
        }),
        (_, Fate::Seats(SeatScore { class: ShareClass::Open | ShareClass::Carve, cost: of, .. })) => {
            Some(cost(&of))
        }
        _ => None,
    };
    let parts: Vec<String> = score.into_iter().chain(other_kinds(report)).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn mig_scores(report: &Report, specs: &[MigSpec], cost: Cost) -> String {
    let tried = |tried: &&KindTried| tried.kind == Kind::Mig && specs.len() == 1 && tried.feasible > 1;
    let of = report.kinds.iter().find(tried).filter(|_| !matches!(report.planned, Some((_, true))));
    let of = of.map_or_else(String::new, |t| format!(", best of {}", t.feasible));
    format!("{}{of}", leaves(report, cost))
}

fn leaves(report: &Report, cost: Cost) -> String {
    match report.placements_before.saturating_sub(cost.lost) {
        1 => "leaves 1 placement to others".to_owned(),
        left => format!("leaves {left} placements to others"),
    }
}

/// Lists what each kind that `auto` tried takes; `None` where one kind was asked for.
fn other_kinds(report: &Report) -> Option<String> {
    let chosen = report.kinds.iter().find(|k| k.chosen).filter(|_| report.kinds.len() > 1)?;
    let taken = chosen.outcome.ok().map(takes).unwrap_or_default();
    let mut text = format!("{} takes {taken}", chosen.kind);
    for other in report.kinds.iter().filter(|k| !k.chosen) {
        match other.outcome {
            Ok(it) => text.push_str(&format!(", {} would take {}", other.kind, takes(it))),
            Err(None) => text.push_str(&format!(", {} does not fit", other.kind)),
            Err(Some(_)) => {}
        }
    }
    Some(text)
}
