//! A table or figure of the papers: JSON for scripts, a table and a picture for people.

use std::path::Path;

use case_study::figures::{self, Figure, FigureError, Goal, Row};
use serde_json::{Value, json};

use super::picture::{self, number};
use crate::files::write_text;
use crate::outcome::{Failure, Outcome};
use crate::render::table;

pub(super) fn run(name: &str, seed: u64, as_json: bool, svg: Option<&Path>) -> Result<Outcome, Failure> {
    let figure = figures::figure(name, seed).map_err(|e| match e {
        FigureError::Unknown(_) => {
            Failure::new(format!("--figure {name}: unknown figure")).hint(figures::names().join(", "))
        }
        FigureError::Stuck(_) => Failure::of(&e),
    })?;
    if let Some(file) = svg {
        write_text(file, &picture::svg(&figure))?;
    }
    Ok(if as_json { Outcome::json(&json(&figure), 0) } else { Outcome::ok(text(&figure)) })
}

fn json(figure: &Figure) -> Value {
    let row = |row: &Row| {
        let mut value = json!({ "label": row.label, "paper": row.paper, "ours": row.ours });
        if let Some(why) = row.why {
            value["why"] = json!(why);
        }
        value
    };
    let goal = |goal: &Goal| {
        let (least, most) = goal.range;
        json!({ "what": goal.what, "least": least, "most": most, "ours": goal.ours, "reached": goal.is_reached() })
    };
    let rows: Vec<Value> = figure.rows.iter().map(row).collect();
    let goals: Vec<Value> = figure.goals.iter().map(goal).collect();
    json!({ "figure": figure.name, "title": figure.title, "rows": rows, "goals": goals })
}

/// How far ours is from the paper's value: in points where both are percentages, else in percent of the paper's.
fn error(figure: &Figure, row: &Row) -> String {
    let Some(paper) = row.paper else { return String::new() };
    if figure.title.contains("percent") {
        return format!("{:+.1} points", row.ours - paper);
    }
    let percent = 100.0 * (row.ours / paper - 1.0);
    if percent.is_finite() { format!("{percent:+.1}%") } else { "-".to_owned() }
}

fn text(figure: &Figure) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    let mut note = |why: Option<&'static str>| {
        why.map_or_else(String::new, |why| {
            let at = reasons.iter().position(|known| *known == why).unwrap_or(reasons.len());
            if at == reasons.len() {
                reasons.push(why);
            }
            format!("[{}]", at + 1)
        })
    };
    let mut rows = vec![["", "PAPER", "OURS", "ERROR", ""].map(str::to_owned).to_vec()];
    for row in &figure.rows {
        let paper = row.paper.map_or_else(|| "-".to_owned(), number);
        rows.push(vec![row.label.clone(), paper, number(row.ours), error(figure, row), note(row.why)]);
    }
    let mut goals = vec![["GOAL", "FROM", "TO", "OURS", ""].map(str::to_owned).to_vec()];
    for goal in &figure.goals {
        let missed = if goal.is_reached() { String::new() } else { format!("missed {}", note(goal.why)) };
        let (least, most) = goal.range;
        goals.push(vec![goal.what.to_owned(), number(least), number(most), number(goal.ours), missed]);
    }
    let mut text = format!("{}: {}\n\n{}", figure.name, figure.title, table::render(&rows, &[1, 2, 3]));
    if !figure.goals.is_empty() {
        text.push_str(&format!("\n{}", table::render(&goals, &[1, 2, 3])));
    }
    for (i, why) in reasons.iter().enumerate() {
        let gap = if i == 0 { "\n" } else { "" };
        text.push_str(&format!("{gap}[{}] {why}\n", i + 1));
    }
    text
}
