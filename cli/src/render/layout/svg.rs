//! The layout as a picture.

use std::fmt::Display;

use geometry::Profile;

use super::text::title;
use crate::cluster_snapshot::{GpuSeen, NodeSeen};
use crate::gpu_pieces::Owner;
use crate::gpu_pieces::Piece;
use crate::render::svg::{self, Svg, TEXT_STYLE};
use crate::render::{hosts, palette};

const MARGIN: usize = 16;
const LABEL: usize = 56;
/// Width of a GPU: a multiple of 4, 8 and 12 units.
const GPU: usize = 768;
const ROW: usize = 46;
const GAP: usize = 6;
const TITLE: usize = 30;
/// Height of the numbers of the memory slices, whose label has two lines, and of a line of placements.
const UNITS: usize = 28;
const TRY: usize = 24;

/// Rules of layouts, besides the colours of the kinds.
const STYLE: &str = "\
.free, .slurm { fill: #f3f4f6; stroke: #d0d7de; } .slurm { stroke-dasharray: 4 3; } .sick { fill: none; stroke: #b3261e; }
.fits { fill: none; stroke: #1d7a4f; stroke-width: 1.5; } .taken { fill: none; stroke: #b3261e; stroke-width: 1.5; stroke-dasharray: 5 3; }
.hit { fill: #b3261e; opacity: 0.25; } .yes { fill: #1d7a4f; } .no { fill: #b3261e; }
@media (prefers-color-scheme: dark) {
  .free, .slurm { fill: #161b22; stroke: #3d444d; } .fits { stroke: #4cc38a; } .taken { stroke: #ff8a80; }
  .hit { fill: #ff8a80; } .yes { fill: #4cc38a; } .no { fill: #ff8a80; }
}
";

/// All nodes under each other, with a legend of what they have. `fits`: a profile whose placements are drawn below each GPU.
pub(crate) fn picture(nodes: &[NodeSeen], fits: Option<&str>) -> String {
    let (mut body, mut y) = (Svg::default(), MARGIN);
    for node in nodes {
        body.of_class("text", "title").at(MARGIN, y + 16).text(title(node));
        body.line();
        y += TITLE;
        y = units(&mut body, node, y);
        for (i, gpu) in node.gpus.iter().flatten().enumerate() {
            body.of_class("text", "dim").at(MARGIN, y + ROW / 2 + 4).text(format_args!("GPU {i}"));
            body.line();
            let unit = GPU / usize::from(gpu.model.placement_units.max(1));
            gpu.pieces.iter().for_each(|p| piece(&mut body, p, unit, y));
            y += ROW + GAP;
            let tried = fits.and_then(|profile| gpu.model.profile(profile));
            y = tried.map_or(y, |profile| placements(&mut body, gpu, profile, unit, y));
        }
        y += GAP;
    }
    y = legend(&mut body, nodes, y);
    let (width, height) = (MARGIN * 2 + LABEL + GPU, y + MARGIN);
    let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let attributes: [(&str, &dyn Display); 5] = [
        ("viewBox", &format_args!("0 0 {width} {height}")),
        ("width", &width),
        ("height", &height),
        ("role", &"img"),
        ("aria-label", &format_args!("GPUs of {}", hosts::brief(&names))),
    ];
    svg::picture(&attributes, |svg| {
        svg.style(&format!("{TEXT_STYLE}{}{STYLE}", palette::svg_rules()));
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
                body.of_class("path", "grid").set("d", path).set("stroke-dasharray", "2 4").end();
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

/// Numbers the memory slices above the GPUs, if all GPUs of the node have as many.
fn units(body: &mut Svg, node: &NodeSeen, y: usize) -> usize {
    let mut all = node.gpus.iter().flatten().map(|gpu| usize::from(gpu.model.placement_units.max(1)));
    let Some(n) = all.next().filter(|n| *n > 1 && all.all(|other| other == *n)) else { return y };
    for unit in 0..n {
        body.of_class("text", "small dim").at(MARGIN + LABEL + unit * (GPU / n) + 9, y + 20).text(unit);
    }
    for (line, word) in ["memory", "slice"].into_iter().enumerate() {
        body.of_class("text", "small dim").at(MARGIN, y + 8 + 12 * line).text(word);
    }
    body.line();
    y + UNITS
}

/// A line for each placement of a profile: a tick where it fits, a cross where its units are taken, and the units that collide.
fn placements(body: &mut Svg, gpu: &GpuSeen, profile: &Profile, unit: usize, mut y: usize) -> usize {
    let free = gpu.free_units();
    for start in &profile.starts {
        let taken = profile.at(*start).mask() & !free;
        let (first, size) = (usize::from(start.0), usize::from(profile.size));
        let (x, width) = (MARGIN + LABEL + first * unit, size * unit);
        let (class, mark, colour) =
            if taken == 0 { ("fits", "✓ fits", "yes") } else { ("taken", "✗ collides", "no") };
        body.of_class("rect", class).at(x + 1, y).size(width - 2, TRY).set("rx", 4).end();
        for hit in (first..first + size).filter(|unit| taken >> unit & 1 == 1) {
            body.of_class("rect", "hit").at(MARGIN + LABEL + hit * unit + 1, y).size(unit - 2, TRY).end();
        }
        let said = format_args!("{mark}: {} at {start}", profile.name);
        body.of_class("text", format_args!("small {colour}")).at(x + 9, y + TRY - 7).text(said);
        body.line();
        y += TRY + GAP;
    }
    y + GAP
}

fn legend(body: &mut Svg, nodes: &[NodeSeen], y: usize) -> usize {
    let gpus = nodes.iter().flat_map(|node| node.gpus.iter().flatten());
    let mut x = MARGIN + LABEL;
    for owner in Owner::of(gpus.flat_map(|gpu| &gpu.pieces)) {
        let (class, text) = (owner.name(), owner.words());
        body.of_class("rect", class).at(x, y).size(14, 14).set("rx", 3).end();
        body.of_class("text", "small dim").at(x + 20, y + 11).text(text);
        body.line();
        // A character of the small face is about 6 wide.
        x += 20 + text.len() * 6 + 24;
    }
    y + 16
}
