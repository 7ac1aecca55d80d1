//! The cluster as a page: each GPU a row of its slices, as `tessera layout` draws it, and what waits.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;

use super::changes::Changes;
use super::seen::{GpuSeen, NodeSeen, Seen, kind};
use crate::clock::span;
use crate::render::colour::Owner;
use crate::render::layout::pieces::Piece;
use crate::render::svg::escape;
use crate::slurm::squeue::Job;

/// Pending jobs that are listed.
const MOST_PENDING: usize = 200;

/// The page around [`cluster`].
pub(super) fn whole(cluster: &str, every_s: u64) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>GPUs of the cluster</title><link rel=\"stylesheet\" href=\"/page.css\">\
         <noscript><meta http-equiv=\"refresh\" content=\"{every_s}\"></noscript>\
         <script src=\"/page.js\" defer></script></head>\n\
         <body data-every=\"{every_s}\"><main id=\"cluster\">{cluster}</main>\
         <dialog id=\"job\" aria-label=\"Job\"><pre id=\"says\" aria-live=\"polite\"></pre>\
         <button id=\"close\">Close</button></dialog></body></html>\n"
    )
}

/// All that changes. `trouble`: why the last look failed. `names`: users may be named.
pub(super) fn cluster(
    seen: Option<&Seen>,
    changes: &Changes,
    trouble: Option<&str>,
    names: bool,
    now: u64,
) -> String {
    let mut out = String::from("<h1>GPUs of the cluster</h1>\n");
    if let Some(why) = trouble {
        let _ = writeln!(
            out,
            "<p class=\"trouble\" role=\"alert\">Slurm cannot be asked now: {}</p>",
            escape(why)
        );
    }
    let Some(seen) = seen else { return out };
    let jobs: HashMap<u32, &Job> = seen.jobs.iter().map(|job| (job.id, job)).collect();
    let _ = writeln!(out, "<p>{}</p>", summary(seen, now));
    out.push_str(&legend());
    for node in &seen.nodes {
        let busy = changes.busy.get(&node.name).map_or(&[][..], Vec::as_slice);
        section(&mut out, node, busy, &|id| jobs.get(&id).filter(|_| names).map(|job| job.user.as_str()));
    }
    pending(&mut out, seen, names, now);
    out
}

fn summary(seen: &Seen, now: u64) -> String {
    let gpus = || seen.nodes.iter().flat_map(|node| node.gpus.iter().flatten());
    let slices = gpus().flat_map(GpuSeen::slices);
    let (free, all) = slices.fold((0, 0), |(free, all), (owner, n)| {
        (free + if matches!(owner, Owner::Free | Owner::Idle) { n } else { 0 }, all + n)
    });
    let in_state = |state: &str| seen.jobs.iter().filter(|job| job.state == state).count();
    let age = now.saturating_sub(seen.at);
    format!(
        "{}, {}; {free} of {all} compute slices free. {} running, {} waiting. Seen {} ago.",
        counted(seen.nodes.len(), "node"),
        counted(gpus().count(), "GPU"),
        counted(in_state("RUNNING"), "job"),
        in_state("PENDING"),
        span(age)
    )
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn legend() -> String {
    let one = |owner: &Owner| {
        let words = match owner {
            Owner::Isolated => "a job's instance",
            Owner::Shared => "shared",
            Owner::Tasks => "shared by GPU tasks",
            Owner::Idle => "idle instance",
            Owner::Whole => "whole GPU",
            Owner::Free => "free",
            Owner::Slurm => "left to Slurm",
        };
        format!("<li><span class=\"key {}\"></span>{words}</li>", owner.name())
    };
    let all =
        [Owner::Isolated, Owner::Shared, Owner::Tasks, Owner::Idle, Owner::Whole, Owner::Free, Owner::Slurm];
    format!("<ul class=\"legend\">{}</ul>\n", all.iter().map(one).collect::<String>())
}

fn section<'a>(
    out: &mut String,
    node: &NodeSeen,
    busy: &[VecDeque<u8>],
    user: &dyn Fn(u32) -> Option<&'a str>,
) {
    let no_jobs = if node.takes_jobs { "" } else { ", takes no jobs now" };
    let name = escape(&node.name);
    let _ = write!(
        out,
        "<section aria-labelledby=\"node-{name}\"><h2 id=\"node-{name}\">{name} <small>{}{no_jobs}</small></h2>",
        escape(&node.links)
    );
    match &node.gpus {
        Err(why) => {
            let _ = write!(out, "<p>Its GPUs are not known: {}</p>", escape(why));
        }
        Ok(gpus) => {
            for (i, gpu) in gpus.iter().enumerate() {
                let _ = write!(
                    out,
                    "<div class=\"gpu\"><span class=\"name\" title=\"{}\">GPU {i}</span><ul class=\"pieces\">",
                    escape(&gpu.model.key)
                );
                gpu.pieces.iter().for_each(|p| piece(out, p, user));
                let _ = write!(out, "</ul>{}</div>", busy.get(i).map_or_else(String::new, history));
            }
        }
    }
    out.push_str("</section>\n");
}

/// Its jobs are links, which the page's script opens beside the cluster.
fn piece<'a>(out: &mut String, piece: &Piece, user: &dyn Fn(u32) -> Option<&'a str>) {
    let profile = piece.profile.as_deref().unwrap_or("");
    let holder = if piece.jobs.is_empty() {
        escape(&piece.holder())
    } else {
        let link = |id: u32| {
            let who = user(id).map_or_else(String::new, |name| format!(" ({})", escape(name)));
            format!("<a href=\"/jobs/{id}\" data-job=\"{id}\">job {id}{who}</a>")
        };
        let jobs: Vec<String> = piece.jobs.iter().map(|job| link(job.id.0)).collect();
        let more = if piece.more > 0 { format!(" +{}", piece.more) } else { String::new() };
        jobs.join(" ") + &more
    };
    let _ = write!(
        out,
        "<li class=\"{} u{}\" title=\"{}\"><b>{}</b> {holder}</li>",
        piece.owner.name(),
        piece.size,
        escape(&format!("{profile} {}", piece.detail())),
        escape(profile),
    );
}

/// How much of the GPU jobs had, look by look, as a small graph.
fn history(busy: &VecDeque<u8>) -> String {
    let points: Vec<String> =
        busy.iter().enumerate().map(|(x, percent)| format!("{x},{}", 100 - i32::from(*percent))).collect();
    let last = busy.back().copied().unwrap_or(0);
    format!(
        "<svg class=\"history\" viewBox=\"0 0 {} 100\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{last} % of its slices are used now\"><title>slices used, the last {} looks</title>\
         <polyline points=\"{}\"/></svg>",
        super::changes::HISTORY,
        busy.len(),
        points.join(" ")
    )
}

fn pending(out: &mut String, seen: &Seen, names: bool, now: u64) {
    let mut waiting: Vec<&Job> = seen.jobs.iter().filter(|job| job.state == "PENDING").collect();
    waiting.sort_by_key(|job| (std::cmp::Reverse(job.priority), job.id));
    if waiting.is_empty() {
        return;
    }
    let whose = if names { "<th>User</th>" } else { "" };
    let _ = write!(
        out,
        "<h2>Jobs that wait</h2><table><thead><tr><th>Job</th>{whose}<th>Asks for</th><th>Waits for</th>\
         <th>Slurm's reason</th></tr></thead><tbody>"
    );
    for job in waiting.iter().take(MOST_PENDING) {
        let id = job.id;
        let user = if names { format!("<td>{}</td>", escape(&job.user)) } else { String::new() };
        let waited = job.submit.map_or_else(String::new, |submit| span(now.saturating_sub(submit)));
        let _ = write!(
            out,
            "<tr><td><a href=\"/jobs/{id}\" data-job=\"{id}\">{id}</a></td>{user}<td>{}</td><td>{waited}</td>\
             <td>{}</td></tr>",
            kind(job).unwrap_or("Slurm's own"),
            escape(&job.reason)
        );
    }
    out.push_str("</tbody></table>\n");
    if waiting.len() > MOST_PENDING {
        let _ = writeln!(out, "<p>{} more wait.</p>", waiting.len() - MOST_PENDING);
    }
}
