//! The layout as a picture.

use std::fmt::Display;

use super::text::title;
use crate::cluster_snapshot::NodeSeen;
use crate::gpu_pieces::Owner;
use crate::gpu_pieces::Piece;
use crate::render::svg::{self, Svg};

const MARGIN: usize = 16;
const LABEL: usize = 56;
/// Width of a GPU: a multiple of 4, 8 and 12 units.
const GPU: usize = 768;
const ROW: usize = 46;
const GAP: usize = 6;
const TITLE: usize = 30;

/// Colours by class; the picture carries its own background, so that it reads on a light and a dark page.
const STYLE: &str = "\
text { font: 13px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1c2128; }
.title { font-weight: 600; font-size: 15px; } .small { font-size: 12px; } .dim { fill: #6b7280; }
.bg { fill: #ffffff; stroke: #d0d7de; } .free { fill: #f3f4f6; stroke: #d0d7de; } .tick { stroke: #d0d7de; }
.isolated { fill: #8ec5ff; stroke: #4a90d9; } .shared { fill: #95dfb0; stroke: #45a56b; }
.tasks { fill: #7ee0d6; stroke: #2b9a8f; } .idle { fill: #d4d8de; stroke: #9aa3ae; } .whole { fill: #ffc78a; stroke: #d98a35; }
.ink { fill: #14181d; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .dim { fill: #9198a1; } .bg { fill: #0d1117; stroke: #3d444d; }
  .free { fill: #161b22; stroke: #3d444d; } .tick { stroke: #3d444d; } .ink { fill: #14181d; }
}";

/// All nodes under each other, with a legend.
pub(crate) fn picture(nodes: &[NodeSeen]) -> String {
    let (mut body, mut y) = (Svg::default(), MARGIN);
    for node in nodes {
        body.of_class("text", "title").at(MARGIN, y + 16).text(title(node));
        body.line();
        y += TITLE;
        for (i, gpu) in node.gpus.iter().flatten().enumerate() {
            body.of_class("text", "dim").at(MARGIN, y + ROW / 2 + 4).text(format_args!("GPU {i}"));
            body.line();
            let unit = GPU / usize::from(gpu.model.placement_units.max(1));
            gpu.pieces.iter().for_each(|p| piece(&mut body, p, unit, y));
            y += ROW + GAP;
        }
        y += GAP;
    }
    y = legend(&mut body, y);
    let (width, height) = (MARGIN * 2 + LABEL + GPU, y + MARGIN);
    let attributes: [(&str, &dyn Display); 5] = [
        ("viewBox", &format_args!("0 0 {width} {height}")),
        ("width", &width),
        ("height", &height),
        ("role", &"img"),
        ("aria-label", &"GPU layout"),
    ];
    svg::picture(&attributes, |svg| {
        svg.style(STYLE);
        svg.background(width - 1, height - 1);
        svg.add(body);
    })
}

fn piece(body: &mut Svg, piece: &Piece, unit: usize, y: usize) {
    let (x, width) = (MARGIN + LABEL + usize::from(piece.start) * unit, usize::from(piece.size) * unit);
    let tip = match &piece.profile {
        Some(profile) => format!("{profile} at {}: {}", piece.start, piece.detail()),
        None => piece.detail(),
    };
    body.element("g").holds(|body| {
        body.element("title").text(tip);
        body.of_class("rect", piece.owner.name()).at(x + 1, y).size(width - 2, ROW).set("rx", 5).end();
        body.line();
        if matches!(piece.owner, Owner::Free | Owner::Slurm) {
            for k in 1..usize::from(piece.size) {
                let path = format!("M{} {}v{}", x + k * unit, y + 6, ROW - 12);
                body.of_class("path", "tick").set("d", path).set("stroke-dasharray", "2 4").end();
                body.line();
            }
        } else {
            labels(body, piece, x + 9, width - 14, y);
        }
    });
    body.line();
}

fn labels(body: &mut Svg, piece: &Piece, x: usize, room: usize, y: usize) {
    // A character of the small face is about 7 wide.
    let fits = |text: &String| text.chars().count() * 7 <= room;
    let choices = piece.told();
    let holder = choices.iter().find(|c| fits(c)).or(choices.last()).map_or("", String::as_str);
    let (first, second) = match &piece.profile {
        Some(profile) => (profile.as_str(), Some(holder)),
        None => (holder, None),
    };
    let at = if second.is_some() { y + 19 } else { y + ROW / 2 + 4 };
    body.of_class("text", "ink").at(x, at).text(first);
    body.line();
    if let Some(second) = second {
        body.of_class("text", "ink small").at(x, y + 36).text(second);
        body.line();
    }
}

fn legend(body: &mut Svg, y: usize) -> usize {
    let says = |owner| match owner {
        Owner::Isolated => "one job's instance",
        Owner::Shared => "shared (MPS)",
        Owner::Tasks => "GPU tasks",
        Owner::Idle => "idle, kept for reuse",
        Owner::Whole => "whole GPU",
        Owner::Free => "free",
        Owner::Slurm => "left to Slurm",
        Owner::Sick => "unhealthy",
    };
    let mut x = MARGIN + LABEL;
    for owner in [Owner::Isolated, Owner::Shared, Owner::Tasks, Owner::Idle, Owner::Whole, Owner::Free] {
        let (class, text) = (owner.name(), says(owner));
        body.of_class("rect", class).at(x, y).size(14, 14).set("rx", 3).end();
        body.of_class("text", "small dim").at(x + 20, y + 11).text(text);
        body.line();
        x += 20 + text.len() * 7 + 22;
    }
    y + 16
}
