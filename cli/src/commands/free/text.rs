//! The table that a person reads.

use super::count::Free;
use crate::render::{hosts, table};

/// Groups of nodes that a line names; the others are only counted.
const MOST_GROUPS: usize = 3;

/// One line per shape, and why the other shapes are refused.
pub(super) fn table(all: &[Free], left_out: &[String]) -> String {
    let mut rows = vec![["SHAPE", "NOW", "WHERE", "ASK FOR ONE WITH"].map(str::to_owned).to_vec()];
    let mut refused: Vec<String> = Vec::new();
    for free in all {
        match &free.nodes {
            Ok(nodes) => rows.push(vec![
                free.shape.name.clone(),
                free.total().to_string(),
                places(nodes),
                free.shape.options.clone(),
            ]),
            Err(why) => refused.push(format!("{}: {why}", free.shape.name)),
        }
    }
    let mut text = table::render(&rows, &[1]);
    if !refused.is_empty() {
        text.push_str(&format!("\nRefused:\n  {}\n", refused.join("\n  ")));
    }
    if !left_out.is_empty() {
        text.push_str(&format!(
            "\nThese nodes take no jobs now: {}. `sinfo -R` says why.\n",
            hosts::brief(left_out)
        ));
    }
    text
}

/// `n[1-4] 7 each, n5 2`: the nodes with most first.
fn places(nodes: &[(String, u32)]) -> String {
    let mut groups: Vec<(u32, Vec<String>)> = Vec::new();
    for (name, n) in nodes {
        match groups.iter_mut().find(|(count, _)| count == n) {
            Some((_, names)) => names.push(name.clone()),
            None => groups.push((*n, vec![name.clone()])),
        }
    }
    groups.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
    let more: usize = groups.iter().skip(MOST_GROUPS).map(|(_, names)| names.len()).sum();
    let mut words: Vec<String> = groups
        .iter()
        .take(MOST_GROUPS)
        .map(|(n, names)| {
            format!("{} {n}{}", hosts::brief(names), if names.len() > 1 { " each" } else { "" })
        })
        .collect();
    if more > 0 {
        words.push(format!("{more} more node{}", if more == 1 { "" } else { "s" }));
    }
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}
