//! The links of a node as a picture: GPUs on a circle, the chosen set marked.

use std::f64::consts::TAU;
use std::fmt::Write as _;

use geometry::GpuIndex;
use topology::{Link, LinkClass};

use super::picture::Picture;
use crate::render::svg::escape;

/// Width of the picture, and height of its circle.
const SIZE: f64 = 560.0;
/// Height of the line above it, and of the legend below.
const TITLE: f64 = 36.0;
const LEGEND: f64 = 30.0;

const STYLE: &str = "line{stroke:#8a94a6;fill:none}.pcie{stroke-dasharray:2 5}.used{stroke:#c2410c}\
    circle{fill:#e5e7eb;stroke:#475569;stroke-width:1.5}.chosen{fill:#fdba74}.busy{fill:#94a3b8}\
    .legend{font-size:11px;fill:#475569}";

struct Line {
    ends: (GpuIndex, GpuIndex),
    link: Link,
    used: bool,
}

/// The whole picture.
pub(super) fn of(picture: &Picture<'_>) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {SIZE} {}\" font-family=\"sans-serif\" \
         font-size=\"15\" text-anchor=\"middle\">\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"{}\" y=\"24\">{}</text>\n",
        TITLE + SIZE + LEGEND,
        SIZE / 2.0,
        escape(&title(picture)),
    );
    // What the job uses is drawn last, above the rest.
    let (used, unused): (Vec<_>, Vec<_>) = lines(picture).into_iter().partition(|line| line.used);
    for line in unused.iter().chain(&used) {
        draw(picture, &mut out, line);
    }
    for g in picture.graph.all().iter() {
        let (x, y) = place(picture, g);
        let _ = writeln!(
            out,
            "<circle class=\"{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"20\"/><text x=\"{x:.1}\" y=\"{:.1}\">{g}</text>",
            picture.mark(g),
            y + 5.0
        );
    }
    let _ = writeln!(
        out,
        "<text class=\"legend\" x=\"{}\" y=\"{}\">{}</text>\n</svg>",
        SIZE / 2.0,
        TITLE + SIZE + LEGEND / 2.0,
        legend(picture)
    );
    out
}

fn title(picture: &Picture<'_>) -> String {
    let name = &picture.args.topology;
    let Some(c) = picture.chosen else { return name.clone() };
    let order: Vec<String> = c.order.iter().map(ToString::to_string).collect();
    let rate = c.scores.eff_bw.map_or_else(String::new, |gbps| format!(", {gbps:.1} GB/s"));
    format!("{name}: {} on {}{rate}", picture.args.pattern.name(), order.join(" "))
}

fn legend(picture: &Picture<'_>) -> String {
    let mut text = "thick: two NVLink lanes or more, thin: one".to_owned();
    if picture.chosen.is_some() {
        text.push_str("; orange: the job (dotted: PCIe)");
    }
    if !picture.args.busy.is_empty() {
        text.push_str("; dark: busy");
    }
    text
}

/// NVLink, and what the job uses: PCIe joins all with all.
fn lines(picture: &Picture<'_>) -> Vec<Line> {
    let edges = picture.chosen.and_then(|c| {
        let edges = picture.args.pattern.edges(c.order.len()).ok()?;
        Some(edges.iter().filter_map(|e| Some((*c.order.get(e.a)?, *c.order.get(e.b)?))).collect::<Vec<_>>())
    });
    let edges = edges.unwrap_or_default();
    let graph = picture.graph.graph();
    let lines = graph.edge_indices().filter_map(|edge| {
        let (a, b) = graph.edge_endpoints(edge)?;
        let (a, b) = (graph[a], graph[b]);
        let used = edges.contains(&(a, b)) || edges.contains(&(b, a));
        Some(Line { ends: (a, b), link: graph[edge], used })
    });
    lines.filter(|line| line.used || line.link.class() != LinkClass::Pcie).collect()
}

fn draw(picture: &Picture<'_>, out: &mut String, line: &Line) {
    let (width, class) = match line.link.class() {
        LinkClass::Double => (5.0, ""),
        LinkClass::Single => (2.5, ""),
        LinkClass::Pcie => (1.5, "pcie"),
    };
    let used = if line.used { " used" } else { "" };
    let (a, b) = line.ends;
    let ((x1, y1), (x2, y2)) = (place(picture, a), place(picture, b));
    let _ = writeln!(
        out,
        "<line class=\"{class}{used}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" \
         stroke-width=\"{width}\"><title>{a}-{b} {} {} GB/s</title></line>",
        line.link.kind,
        line.link.gbps()
    );
}

fn place(picture: &Picture<'_>, gpu: GpuIndex) -> (f64, f64) {
    let n = u32::try_from(picture.graph.len().max(1)).unwrap_or(1);
    let turn = TAU * (f64::from(gpu.0) / f64::from(n) - 0.25);
    (SIZE * (0.5 + 0.42 * turn.cos()), TITLE + SIZE * (0.5 + 0.42 * turn.sin()))
}
