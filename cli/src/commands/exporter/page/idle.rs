//! The jobs that hold GPUs without using them.

use std::fmt::Write as _;

use crate::clock::span;
use crate::cluster_snapshot::ClusterSnapshot;
use crate::filter::Filter;
use crate::idle_jobs::{IdleHeld, IdleSeen, tenths};
use crate::render::hosts;
use crate::render::svg::escape;

/// Jobs that are listed.
const MOST: usize = 200;

/// Picks the jobs that the filter wants, the longest idle first. `names`: users may be named.
pub(super) fn idle(out: &mut String, seen: &ClusterSnapshot, filter: &Filter, names: bool) {
    let Some(idle) = IdleSeen::of(seen) else { return };
    let held: Vec<&IdleHeld> = idle.held.iter().filter(|held| filter.job(&held.job)).collect();
    if held.is_empty() {
        return;
    }
    let whose = if names { "<th>User</th>" } else { "" };
    let _ = write!(
        out,
        "<h2>Jobs with idle GPUs</h2><table><thead><tr><th>Job</th>{whose}<th>Nodes</th><th>Idle</th><th>For</th>\
         <th>Slices</th><th>Slice hours</th></tr></thead><tbody>"
    );
    for held in held.iter().take(MOST) {
        let (id, number) = (held.job.id, escape(&held.job.number()));
        let user = if names { format!("<td>{}</td>", escape(&held.job.user)) } else { String::new() };
        let _ = write!(
            out,
            "<tr><td><a href=\"/jobs/{id}\" data-job=\"{id}\">{number}</a></td>{user}<td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td></tr>",
            escape(&hosts::brief(&held.nodes)),
            held.part(),
            span(held.idle_s(seen.at)),
            tenths(held.slices_c),
            tenths(held.hours_c(seen.at))
        );
    }
    out.push_str("</tbody></table>\n");
    if held.len() > MOST {
        let _ = writeln!(out, "<p>{} more are idle.</p>", held.len() - MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_with_idle_gpus_are_listed() {
        let shown = |seen: &ClusterSnapshot, names| {
            let mut out = String::new();
            idle(&mut out, seen, &Filter::new("", "", "", "").unwrap(), names);
            out
        };
        assert_eq!(shown(&crate::cluster_snapshot::tests::seen(), true), "");
        let seen = crate::idle_jobs::tests::seen();
        let text = shown(&seen, true);
        assert!(
            text.contains("<td>alice</td><td>n1</td><td>1 of 1</td><td>2 h</td><td>3.0</td><td>6.0</td>"),
            "{text}"
        );
        assert!(!shown(&seen, false).contains("alice"));
    }
}
