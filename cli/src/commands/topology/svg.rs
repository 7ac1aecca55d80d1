//! The links of a node as a picture: GPUs on a circle, the chosen set marked.

use std::f64::consts::TAU;
use std::fmt::Display;

use geometry::GpuIndex;
use topology::{Link, LinkClass};

use super::picture::Picture;
use crate::render::svg::{self, Svg, tenths};

/// Width of the picture, and height of its circle.
const SIZE: f64 = 560.0;
/// Height of the line above it, and of the legend below.
const TITLE: f64 = 36.0;
const LEGEND: f64 = 30.0;

/// The picture carries its own background, so that it reads on a light and a dark page.
const STYLE: &str = "\
.bg{fill:#fff;stroke:#d0d7de} text{fill:#1c2128} line{stroke:#8a94a6;fill:none} .pcie{stroke-dasharray:2 5}
.used{stroke:#c2410c} circle{fill:#e5e7eb;stroke:#475569;stroke-width:1.5} .chosen{fill:#fdba74} .busy{fill:#94a3b8}
.ink{fill:#14181d} .rate{font-size:11px;fill:#9a3412;paint-order:stroke;stroke:#fff;stroke-width:4px}
.legend{font-size:11px;fill:#475569}
@media (prefers-color-scheme: dark) {
  .bg{fill:#0d1117;stroke:#3d444d} text{fill:#e6edf3} line{stroke:#6e7681} .used{stroke:#fb923c}
  circle{stroke:#9198a1} .ink{fill:#14181d} .rate{fill:#fdba74;stroke:#0d1117} .legend{fill:#9198a1}
}";

struct LinkLine {
    ends: (GpuIndex, GpuIndex),
    link: Link,
    used: bool,
}

/// The whole picture.
pub(super) fn of(picture: &Picture<'_>) -> String {
    let (width, height) = (SIZE, TITLE + SIZE + LEGEND);
    let attributes: [(&str, &dyn Display); 4] = [
        ("viewBox", &format_args!("0 0 {width} {height}")),
        ("font-family", &"sans-serif"),
        ("font-size", &15),
        ("text-anchor", &"middle"),
    ];
    svg::picture(&attributes, |out| {
        out.style(STYLE);
        out.background(width - 1.0, height - 1.0);
        out.element("text").at(SIZE / 2.0, 24).text(title(picture));
        out.line();
        // What the job uses is drawn last, above the rest.
        let (used, unused): (Vec<_>, Vec<_>) = lines(picture).into_iter().partition(|line| line.used);
        unused.iter().chain(&used).for_each(|line| draw(picture, out, line));
        used.iter().for_each(|line| rate(picture, out, line));
        for g in picture.graph.all().iter() {
            let (x, y) = place(picture, g);
            out.of_class("circle", picture.mark(g)).around(tenths(x), tenths(y)).set("r", 20).end();
            out.of_class("text", "ink").at(tenths(x), tenths(y + 5.0)).text(g);
            out.line();
        }
        out.of_class("text", "legend").at(SIZE / 2.0, TITLE + SIZE + LEGEND / 2.0).text(legend(picture));
        out.line();
    })
}

fn title(picture: &Picture<'_>) -> String {
    let name = &picture.args.topology;
    let Some(c) = picture.chosen else { return name.clone() };
    let order: Vec<String> = c.order.iter().map(ToString::to_string).collect();
    let rate = c.scores.eff_bw.map_or_else(String::new, |gbps| format!(", {gbps:.1} GB/s"));
    format!("{name}: {} on {}{rate}", picture.args.pattern.name(), order.join(" "))
}

/// The bandwidth of each width of line on this node, and what the colours say.
fn legend(picture: &Picture<'_>) -> String {
    let widths = [LinkClass::Double, LinkClass::Single, LinkClass::Pcie].map(|class| {
        let name = match class {
            LinkClass::Double => "thick",
            LinkClass::Single => "thin",
            LinkClass::Pcie => "dotted",
        };
        let of_class = |line: &LinkLine| (line.link.class() == class).then(|| line.link.gbps());
        let mut rates: Vec<f64> = lines(picture).iter().filter_map(of_class).collect();
        rates.sort_by(f64::total_cmp);
        match (rates.first(), rates.last()) {
            (Some(least), Some(most)) if least < most => Some(format!("{name}: {least} to {most} GB/s")),
            (Some(rate), _) => Some(format!("{name}: {rate} GB/s")),
            _ => None,
        }
    });
    let mut parts: Vec<String> = widths.into_iter().flatten().collect();
    if picture.chosen.is_some() {
        parts.push("orange: the job".to_owned());
    }
    if !picture.args.busy.is_empty() {
        parts.push("dark: busy".to_owned());
    }
    parts.join("; ")
}

/// The bandwidth of a link that the job uses, a third of the way along it: links of a ring cross in their middles.
fn rate(picture: &Picture<'_>, out: &mut Svg, line: &LinkLine) {
    let (a, b) = line.ends;
    let ((x1, y1), (x2, y2)) = (place(picture, a), place(picture, b));
    let (x, y) = (x1 + (x2 - x1) / 3.0, y1 + (y2 - y1) / 3.0);
    out.of_class("text", "rate").at(tenths(x), tenths(y + 4.0)).text(line.link.gbps());
    out.line();
}

/// NVLink, and what the job uses: PCIe joins all with all.
fn lines(picture: &Picture<'_>) -> Vec<LinkLine> {
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
        Some(LinkLine { ends: (a, b), link: graph[edge], used })
    });
    lines.filter(|line| line.used || line.link.class() != LinkClass::Pcie).collect()
}

fn draw(picture: &Picture<'_>, out: &mut Svg, line: &LinkLine) {
    let (width, class) = match line.link.class() {
        LinkClass::Double => (5.0, ""),
        LinkClass::Single => (2.5, ""),
        LinkClass::Pcie => (1.5, "pcie"),
    };
    let used = if line.used { " used" } else { "" };
    let (a, b) = line.ends;
    let ((x1, y1), (x2, y2)) = (place(picture, a), place(picture, b));
    let element =
        out.of_class("line", format_args!("{class}{used}")).set("x1", tenths(x1)).set("y1", tenths(y1));
    let element = element.set("x2", tenths(x2)).set("y2", tenths(y2)).set("stroke-width", width);
    element.holds(|out| {
        let link = line.link;
        out.element("title").text(format_args!("{a}-{b} {} {} GB/s", link.kind, link.gbps()));
    });
    out.line();
}

fn place(picture: &Picture<'_>, gpu: GpuIndex) -> (f64, f64) {
    let n = u32::try_from(picture.graph.len().max(1)).unwrap_or(1);
    let turn = TAU * (f64::from(gpu.0) / f64::from(n) - 0.25);
    (SIZE * (0.5 + 0.42 * turn.cos()), TITLE + SIZE * (0.5 + 0.42 * turn.sin()))
}
