//! The jobs that wait and run.

use std::collections::HashMap;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::{View, cut, pane, titled, window};
use crate::clock::span;
use crate::cluster_snapshot::{ClusterSnapshot, asks};
use crate::commands::top::rows::JobSort;
use crate::commands::top::rows::Rows;
use crate::commands::top::state::Pane;
use crate::idle_jobs::IdleSeen;
use crate::slurm::squeue::QueuedJob;

/// Characters that the jobs' numbers have at least.
const SHORT: usize = 8;
/// And at most: a list of an array's tasks may be long.
const LONG: usize = 14;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: View<'_>, rows: &Rows<'_>) {
    let by = match view.state.job_sort {
        JobSort::Queue => "by priority",
        JobSort::User => "by user",
        JobSort::Time => "longest first",
    };
    let chosen = pane(view.state, Pane::Jobs);
    let width = usize::from(area.width);
    let last = format!("WHERE/WHY ({by})");
    let longest = rows.jobs.iter().map(|job| job.number().len()).max().unwrap_or(0).clamp(SHORT, LONG);
    let title = format!(" {}", line(["JOB", "USER", "STATE", "ASKED FOR", "FOR", &last], longest));
    let rest = titled(frame, area, &cut(&title, width), chosen);
    let at = view.state.job_at.min(rows.jobs.len().saturating_sub(1));
    let idle: HashMap<u32, String> = view.seen.map(|seen| idle(seen, view.now)).unwrap_or_default();
    let row = |(row, job): (usize, &&QueuedJob)| {
        let mark = if row == at && chosen { ">" } else { " " };
        let idle = idle.get(&job.id).map_or_else(String::new, |time| format!(", idle {time}"));
        (row, Line::from(format!("{mark}{}{idle}", told(job, view.now, longest))))
    };
    window(frame, rest, rows.jobs.iter().enumerate().map(row).collect(), at, chosen);
}

/// How long jobs have not used GPUs that they hold, where nodes say so.
fn idle(seen: &ClusterSnapshot, now: u64) -> HashMap<u32, String> {
    let held = IdleSeen::of(seen).map(|idle| idle.held).unwrap_or_default();
    held.iter().map(|held| (held.job.id, span(held.idle_s(now)))).collect()
}

fn told(job: &QueuedJob, now: u64, longest: usize) -> String {
    let waits = job.waits();
    let since = if waits { job.submit } else { job.start };
    let time = since.map_or_else(String::new, |since| span(now.saturating_sub(since)));
    let place = if waits { &job.reason } else { &job.nodes };
    let asked = asks(job).unwrap_or_else(|| "-".to_owned());
    line([&job.number(), &job.user, &job.state.to_lowercase(), &asked, &time, place], longest)
}

/// The first column is so wide. The last takes what room there is.
fn line([id, user, state, asked, time, place]: [&str; 6], longest: usize) -> String {
    format!(
        "{} {} {} {} {} {place}",
        cut(id, longest),
        cut(user, 10),
        cut(state, 9),
        cut(asked, 12),
        cut(time, 11)
    )
}
