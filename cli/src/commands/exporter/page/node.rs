//! One node of the page: each GPU a row of its slices, as `tessera layout` draws it, with its history.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::User;
use crate::cluster_snapshot::{GpuSeen, NodeSeen};
use crate::commands::exporter::changes::HISTORY;
use crate::gpu_pieces::{Owner, Piece, PieceJob};
use crate::node_groups;
use crate::render::svg::{Svg, escape};
use crate::sick_words::sick_words;
use geometry::counted;

/// How the history of a GPU is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum History {
    /// Beside the GPU, without words.
    Small,
    /// Below it, with words.
    Large,
}

/// `busy`: of each GPU the parts of its slices that jobs had, look by look.
pub(super) fn section(
    out: &mut String,
    node: &NodeSeen,
    busy: &[VecDeque<u8>],
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
            for (i, seen) in gpus.iter().enumerate() {
                gpu(out, (&name, i, seen), busy.get(i), user, history);
            }
        }
    }
    out.push_str("</section>\n");
}

/// `seen` is GPU `i` of the node.
fn gpu(
    out: &mut String,
    (node, i, seen): (&str, usize, &GpuSeen),
    busy: Option<&VecDeque<u8>>,
    user: User<'_, '_>,
    history: History,
) {
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
        let _ = write!(out, "{}</div>", busy.map_or_else(String::new, |busy| graph(busy, "history")));
    } else {
        let _ = write!(out, "</div>{}", busy.map_or_else(String::new, told));
    }
}

/// Its jobs are links, which the page's script opens beside the cluster.
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
fn graph(busy: &VecDeque<u8>, class: &str) -> String {
    let last = busy.back().copied().unwrap_or(0);
    percents(busy, class, "slices used", &format!("{last} % of its slices are used now"))
}

/// Percents, look by look, as a graph of `what`; `now` says the last one.
pub(super) fn percents(values: &VecDeque<u8>, class: &str, what: &str, now: &str) -> String {
    let points: Vec<String> =
        values.iter().enumerate().map(|(x, percent)| format!("{x},{}", 100 - i32::from(*percent))).collect();
    let mut svg = Svg::default();
    let graph = svg.of_class("svg", class).set("viewBox", format_args!("0 0 {HISTORY} 100"));
    let graph = graph.set("preserveAspectRatio", "none").set("role", "img").set("aria-label", now);
    graph.holds(|svg| {
        let looks = counted(values.len(), "look");
        svg.element("title").text(format_args!("{what}, the last {looks}"));
        svg.element("polyline").set("points", points.join(" ")).end();
    });
    svg.into_text()
}

/// The same with words.
fn told(busy: &VecDeque<u8>) -> String {
    let n = u32::try_from(busy.len()).unwrap_or(u32::MAX).max(1);
    let mean = busy.iter().map(|percent| u32::from(*percent)).sum::<u32>() / n;
    let most = busy.iter().max().copied().unwrap_or(0);
    let now = busy.back().copied().unwrap_or(0);
    // One look is no history.
    if n < 2 {
        return format!("<p class=\"told\">Slices that jobs had: {now} % now</p>");
    }
    format!(
        "<figure class=\"told\">{}<figcaption>Slices that jobs had: {now} % now; {mean} % on average and {most} % at most in \
         the last {n} looks</figcaption></figure>",
        graph(busy, "history large")
    )
}
