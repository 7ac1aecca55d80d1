//! The four numbers that people look for first.

use std::fmt::Write as _;

use super::history::past;
use super::{Uses, View};
use crate::clock::span;
use crate::cluster_snapshot::{ClusterSnapshot, Use};
use crate::fragmentation::Wholeness;
use crate::render::svg::escape;
use crate::slurm::squeue::QueuedJob;
use geometry::counted;

/// GPUs without jobs with their history, jobs that wait, the longest wait, and nodes that take no jobs.
pub(super) fn tiles(
    out: &mut String,
    seen: &ClusterSnapshot,
    whole: &Wholeness,
    uses: &Uses,
    view: View<'_>,
) {
    out.push_str("<ul class=\"tiles\">\n");
    let room = seen.room();
    let slices = format!("{} of {} compute slices free", room.slices.free, room.slices.all);
    let now = format!("{} of {} GPUs have no job now", whole.gpus, whole.of_gpus);
    let graph = past(&view.changes.whole, "GPUs without jobs", &now, view.every_s);
    tile(
        out,
        &whole.gpus.to_string(),
        &format!("of {} without jobs", counted(whole.of_gpus, "GPU")),
        &slices,
        &graph,
    );
    waiting(out, seen, view.now);
    let count = |wanted: &dyn Fn(Use) -> bool| {
        uses.iter().filter(|(in_use, _)| wanted(*in_use)).map(|(_, n)| n).sum::<usize>()
    };
    let (away, unknown) = (count(&Use::is_away), count(&|in_use| in_use == Use::Unknown));
    let with = if away == 1 { "node takes" } else { "nodes take" };
    let unknown = if unknown > 0 { format!(", {unknown} not known") } else { String::new() };
    let links = format!("<a href=\"/?state=away\">of {}</a>{unknown}", counted(seen.nodes.len(), "node"));
    tile(out, &away.to_string(), &format!("{with} no jobs"), &links, "");
    out.push_str("</ul>\n");
}

fn waiting(out: &mut String, seen: &ClusterSnapshot, now: u64) {
    let count = |wanted: &dyn Fn(&&QueuedJob) -> bool| {
        seen.jobs.iter().filter(wanted).map(|job| job.jobs()).fold(0, usize::saturating_add)
    };
    let waiting = count(&|job| job.waits());
    let running = format!("{} running", counted(count(&|job| job.state == "RUNNING"), "job"));
    tile(out, &waiting.to_string(), if waiting == 1 { "job waits" } else { "jobs wait" }, &running, "");
    let of_waiting = seen.jobs.iter().filter(|job| job.waits());
    let first =
        of_waiting.filter_map(|job| Some((job.submit?, job))).min_by_key(|(submit, job)| (*submit, job.id));
    let (longest, which) = first.map_or_else(
        || ("none".to_owned(), "no job waits".to_owned()),
        |(submit, job)| {
            let (id, number) = (job.id, escape(&job.number()));
            (
                span(now.saturating_sub(submit)),
                format!("<a href=\"/jobs/{id}\" data-job=\"{id}\">job {number}</a>"),
            )
        },
    );
    tile(out, &longest, "longest wait", &which, "");
}

/// `more` and `graph` are HTML.
fn tile(out: &mut String, number: &str, what: &str, more: &str, graph: &str) {
    let _ = writeln!(out, "<li><b>{number}</b> <span>{what}</span> <small>{more}</small>{graph}</li>");
}
