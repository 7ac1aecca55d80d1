//! Rows and summaries for a person, and rows as CSV.

use std::fmt::Write as _;

use power_study::Model;

use super::super::text::errors;
use super::compare::Compared;
use super::figures::{Row, Rule};
use super::guard::Kept;
use crate::render::table;

/// The rows of a figure as a table.
pub(super) fn rows(rows: &[Row]) -> String {
    let head =
        ["FIGURE", "WORKLOAD", "ALPHA", "CAP", "METRIC", "WORST", "PROPOSAL", "BEST", "STATE", "VIOLATES"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(line));
    table::render(&lines, &[0, 2, 3, 5, 6, 7])
}

fn line(row: &Row) -> Vec<String> {
    let dash = || "-".to_owned();
    let value = |value: Option<f64>| match (value, row.metric) {
        (None, _) => dash(),
        (Some(watts), "cap_w") => format!("{watts:.0}"),
        (Some(value), "efficiency") => format!("{value:.5}"),
        (Some(value), _) => format!("{value:.3}"),
    };
    vec![
        row.figure.to_string(),
        row.workload.clone(),
        row.alpha.map_or_else(dash, |alpha| format!("{alpha:.2}")),
        row.cap_w.map_or_else(dash, |watts| watts.to_string()),
        row.metric.to_owned(),
        value(row.worst),
        value(row.proposal),
        value(row.best),
        row.state.clone().unwrap_or_else(dash),
        row.violates.map_or_else(dash, |violates| if violates { "yes" } else { "no" }.to_owned()),
    ]
}

/// All values at full precision; an empty field where there is none.
pub(super) fn csv(rows: &[Row]) -> String {
    let mut out = "figure,workload,alpha,cap_w,worst,proposal,best,state,violates,metric\n".to_owned();
    for row in rows {
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{}",
            row.figure,
            row.workload,
            number(row.alpha),
            row.cap_w.map_or_else(String::new, |watts| watts.to_string()),
            number(row.worst),
            number(row.proposal),
            number(row.best),
            row.state.as_deref().unwrap_or_default(),
            row.violates.map_or_else(String::new, |violates| violates.to_string()),
            row.metric,
        );
    }
    out
}

/// The paper's numbers and the guarantee.
pub(super) fn summary(rule: &Rule, bases: &[Model], compared: &[Compared], kept: &[Kept]) -> String {
    let mut wrong = vec![["BASIS", "ERRORS", "HELD OUT"].map(str::to_owned).to_vec()];
    for model in bases {
        let held_out = model.held_out().map_or_else(|| "unknown".to_owned(), errors);
        wrong.push(vec![model.basis().name().to_owned(), errors(model.errors()), held_out]);
    }
    let mut lines = vec![["FIGURE", "WHAT", "PAPER", "SIMULATED"].map(str::to_owned).to_vec()];
    for row in compared {
        let simulated = row.simulated.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
        lines.push(vec![row.figure.to_string(), row.what.to_owned(), format!("{:.3}", row.paper), simulated]);
    }
    let head = [
        "BASIS", "APPS", "GUARD", "PROBLEM", "ALPHA", "POSSIBLE", "REFUSED", "CHOSEN", "BROKEN", "DEEPEST",
        "OF BEST",
    ];
    let mut promises = vec![head.map(str::to_owned).to_vec()];
    promises.extend(kept.iter().map(promise));
    format!(
        "Figures with basis {}, guard {}\n\n{}\n\
         Errors on the co-runs, and on those of applications left out of the fit\n\n{}\n\
         The promise of 18 workloads, by whether the fit has seen their applications\n\n{}",
        rule.model.basis(),
        if rule.guard { "on" } else { "off" },
        table::render(&lines, &[0, 2, 3]),
        table::render(&wrong, &[]),
        table::render(&promises, &[3, 4, 5, 6, 7, 8, 9, 10]),
    )
}

fn promise(kept: &Kept) -> Vec<String> {
    vec![
        kept.basis.to_owned(),
        if kept.unseen { "unseen" } else { "seen" }.to_owned(),
        if kept.guard { "on" } else { "off" }.to_owned(),
        kept.problem.to_string(),
        format!("{:.2}", kept.alpha),
        kept.possible.to_string(),
        kept.refused.to_string(),
        kept.chosen.to_string(),
        kept.violations.to_string(),
        format!("{:.3}", kept.deepest),
        kept.of_best.map_or_else(|| "-".to_owned(), |share| format!("{share:.3}")),
    ]
}
