//! A node of the page: each GPU a row of its memory slices, as `tessera layout` draws it, with its history.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::User;
use super::history::{graph, spanned};
use crate::cluster_snapshot::{GpuSeen, NodeSeen};
use crate::gpu_pieces::{Owner, Piece, PieceJob};
use crate::node_groups;
use crate::render::svg::escape;
use crate::sick_words::sick_words;

/// How the history of a GPU is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum History {
    /// At the right of the GPU, under one title.
    Small,
    /// Below it, with words.
    Large,
}

/// The looks of a node's GPUs: of each GPU the parts of its slices that jobs had, and the seconds between two looks.
#[derive(Clone, Copy)]
pub(super) struct Looks<'a> {
    pub(super) busy: &'a [VecDeque<u8>],
    pub(super) every_s: u64,
}

/// The node's GPUs under its name.
pub(super) fn section(
    out: &mut String,
    node: &NodeSeen,
    looks: Looks<'_>,
    user: User<'_, '_>,
    history: History,
) {
    let (away, no_jobs) = if node.takes_jobs { ("", "") } else { (" class=\"away\"", ", takes no jobs now") };
    let name = escape(&node.name);
    let gpus = if node.gpus.is_ok() { escape(&node_groups::gpus(node)) + ", " } else { String::new() };
    let _ = write!(
        out,
        "<section{away} aria-labelledby=\"node-{name}\"><h2 id=\"node-{name}\">{name} \
         <small>{gpus}links {}{no_jobs}</small></h2>",
        escape(&node.links)
    );
    match &node.gpus {
        Err(why) => {
            let _ = write!(out, "<p>Its GPUs are not known: {}</p>", escape(why));
        }
        Ok(gpus) => {
            for sick in &node.sick {
                let _ = write!(out, "<p>{}</p>", escape(&sick_words(sick)));
            }
            ruler(out, gpus.first(), looks, history);
            for (i, seen) in gpus.iter().enumerate() {
                gpu(out, (&name, i, seen), looks, user, history);
            }
        }
    }
    out.push_str("</section>\n");
}

/// The numbers of the placement units above the GPUs, and the title of the small histories.
fn ruler(out: &mut String, gpu: Option<&GpuSeen>, looks: Looks<'_>, history: History) {
    let units = gpu.map_or(0, |gpu| gpu.model.placement_units);
    let past = looks.busy.first().filter(|past| history == History::Small && past.len() > 1);
    let past = past.map_or_else(String::new, |past| {
        format!("<span class=\"past\">used, last {}</span>", spanned(past, looks.every_s))
    });
    if units > 1 || !past.is_empty() {
        let units: String =
            (0..units).filter(|_| units > 1).map(|unit| format!("<li class=\"u1\">{unit}</li>")).collect();
        let _ = writeln!(
            out,
            "<div class=\"gpu ruler\" aria-hidden=\"true\"><span class=\"name\">unit</span><ul class=\"pieces\">{units}</ul>{past}</div>"
        );
    }
}

/// The GPUs of the node of which this job has a part.
pub(super) fn of_job(out: &mut String, node: &NodeSeen, job: u32, user: User<'_, '_>) {
    let name = escape(&node.name);
    let _ = write!(
        out,
        "<section><h3><a href=\"/nodes/{name}\">{name}</a> <small>{}, links {}</small></h3>",
        escape(&node_groups::gpus(node)),
        escape(&node.links)
    );
    let none = Looks { busy: &[], every_s: 0 };
    let has = |gpu: &GpuSeen| gpu.pieces.iter().flat_map(|piece| &piece.jobs).any(|of| of.id.0 == job);
    let gpus = node.gpus.as_deref().unwrap_or_default();
    ruler(out, gpus.iter().find(|gpu| has(gpu)), none, History::Small);
    for (i, seen) in gpus.iter().enumerate().filter(|(_, seen)| has(seen)) {
        gpu(out, (&name, i, seen), none, user, History::Small);
    }
    out.push_str("</section>\n");
}

/// `seen` is GPU `i` of the node.
fn gpu(
    out: &mut String,
    (node, i, seen): (&str, usize, &GpuSeen),
    Looks { busy, every_s }: Looks<'_>,
    user: User<'_, '_>,
    history: History,
) {
    let busy = busy.get(i);
    let model = escape(&seen.model.key);
    let label = match history {
        History::Small => format!(
            "<a class=\"name\" href=\"/nodes/{node}#gpu-{i}\" data-node=\"{node}\" data-gpu=\"{i}\" title=\"{model}\">GPU {i}</a>"
        ),
        History::Large => format!("<span class=\"name\" title=\"{model}\">GPU {i}</span>"),
    };
    let id = if history == History::Large { format!(" id=\"gpu-{i}\"") } else { String::new() };
    let _ = write!(out, "<div class=\"gpu\"{id}>{label}<ul class=\"pieces\">");
    seen.pieces.iter().for_each(|p| piece(out, p, user));
    out.push_str("</ul>");
    if history == History::Small {
        let _ = write!(out, "{}</div>", busy.map_or_else(String::new, |busy| used(busy, "history")));
    } else {
        let _ = write!(out, "</div>{}", busy.map_or_else(String::new, |busy| told(busy, every_s)));
    }
}

/// Writes a piece of a GPU. Jobs are links, which the page's script opens beside the cluster.
fn piece(out: &mut String, piece: &Piece, user: User<'_, '_>) {
    let profile = piece.profile.as_deref().unwrap_or("");
    let holder = if piece.jobs.is_empty() {
        escape(&piece.holder())
    } else {
        let link = |job: &PieceJob| {
            let (id, number) = (job.id.0, escape(&job.number()));
            let who = user(id).map_or_else(String::new, |name| format!("<span> ({})</span>", escape(name)));
            format!("<a href=\"/jobs/{id}\" data-job=\"{id}\">job {number}{who}</a>")
        };
        let jobs: Vec<String> = piece.jobs.iter().map(link).collect();
        let more = if piece.more > 0 { format!(" +{}", piece.more) } else { String::new() };
        jobs.join(" ") + &more
    };
    // A reader who sees no colours reads what kind it is.
    let how = match piece.owner {
        Owner::Whole => "whole",
        Owner::Shared => piece.sharing(),
        Owner::Tasks => "tasks",
        Owner::Isolated | Owner::Idle | Owner::Free | Owner::Slurm | Owner::Sick => "",
    };
    let kind = [profile, how].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let kind = if kind.is_empty() { kind } else { format!("<b>{}</b> ", escape(&kind)) };
    let _ = write!(
        out,
        "<li class=\"{} u{}\" title=\"{}\">{kind}{holder}</li>",
        piece.owner.name(),
        piece.size,
        escape(format!("{profile} {}", piece.detail()).trim_start()),
    );
}

/// How much of the GPU jobs had, look by look, as a graph.
fn used(busy: &VecDeque<u8>, class: &str) -> String {
    let last = busy.back().copied().unwrap_or(0);
    graph(busy, class, "slices used", &format!("{last} % of its slices are used now"))
}

/// The graph with its mean, its most and its time.
fn told(busy: &VecDeque<u8>, every_s: u64) -> String {
    let n = u32::try_from(busy.len()).unwrap_or(u32::MAX).max(1);
    let mean = busy.iter().map(|percent| u32::from(*percent)).sum::<u32>() / n;
    let most = busy.iter().max().copied().unwrap_or(0);
    let now = busy.back().copied().unwrap_or(0);
    // One look is no history.
    if n < 2 {
        return format!("<p class=\"told\">Slices that jobs had: {now} % now</p>");
    }
    format!(
        "<figure class=\"told\">{}<figcaption>Slices that jobs had, 0 to 100 %: {now} % now; {mean} % on average and {most} % at \
         most in the last {}</figcaption></figure>",
        used(busy, "history large"),
        spanned(busy, every_s)
    )
}
