//! The links of a node as a picture: the GPUs of a node with eight as two squares, others on a circle, with the chosen set marked.
//! The set that Slurm takes by itself is a second panel at the left.

use std::f64::consts::TAU;
use std::fmt::Display;

use geometry::GpuIndex;
use mapa::Match;
use topology::{Link, LinkClass};

use super::picture::Picture;
use crate::render::svg::{self, Svg, TEXT_STYLE, tenths};

/// Width of a panel, and height of its GPUs.
const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 300.0;
/// Height of the line above it, and of the legend below.
const TITLE: f64 = 46.0;
const LEGEND: f64 = 34.0;

/// Rules of links alone.
const STYLE: &str = "\
line{stroke:#8a94a6;fill:none} .pcie{stroke-dasharray:2 5} .used{stroke:#c2410c} .bad{stroke:#7a3f9a}
circle{fill:#e5e7eb;stroke:#475569;stroke-width:1.5} .chosen{fill:#ee9548} .slurms{fill:#b07acc} .busy{fill:#94a3b8}
.middle{text-anchor:middle} .rate{font-size:12px;font-weight:600;paint-order:stroke;stroke:#fff;stroke-width:4px}
@media (prefers-color-scheme: dark) {
  line{stroke:#6e7681} .used{stroke:#fb923c} .bad{stroke:#c99be0} circle{stroke:#9198a1} .rate{stroke:#0d1117}
}";

struct LinkLine {
    ends: (GpuIndex, GpuIndex),
    link: Link,
    used: bool,
}

/// Drawing of the node with a set of GPUs.
struct Panel<'a> {
    picture: &'a Picture<'a>,
    set: Option<&'a Match>,
    /// The set is Slurm's.
    slurms: bool,
    left: f64,
}

/// The whole picture.
pub(super) fn of(picture: &Picture<'_>) -> String {
    let slurms = picture.slurms.map(|set| Panel { picture, set: Some(set), slurms: true, left: 0.0 });
    let left = if slurms.is_some() { WIDTH } else { 0.0 };
    let ours = Panel { picture, set: picture.chosen, slurms: false, left };
    let panels: Vec<Panel<'_>> = slurms.into_iter().chain([ours]).collect();
    let (width, height) = (left + WIDTH, TITLE + HEIGHT + LEGEND);
    let titles: Vec<String> = panels.iter().map(Panel::title).collect();
    let attributes: [(&str, &dyn Display); 5] = [
        ("viewBox", &format_args!("0 0 {width} {height}")),
        ("width", &width),
        ("height", &height),
        ("role", &"img"),
        ("aria-label", &titles.join("; ")),
    ];
    svg::picture(&attributes, |out| {
        out.style(&format!("{TEXT_STYLE}{STYLE}"));
        out.background(width - 1.0, height - 1.0);
        panels.iter().zip(titles).for_each(|(panel, title)| panel.draw(out, &title));
        out.of_class("text", "small dim middle")
            .at(width / 2.0, TITLE + HEIGHT + LEGEND / 2.0)
            .text(legend(&panels));
        out.line();
    })
}

/// The bandwidth of each width of line on this node, and the meaning of the colours.
fn legend(panels: &[Panel<'_>]) -> String {
    let lines: Vec<LinkLine> = panels.iter().flat_map(Panel::lines).collect();
    let widths = [LinkClass::Double, LinkClass::Single, LinkClass::Pcie].map(|class| {
        let name = match class {
            LinkClass::Double => "thick",
            LinkClass::Single => "thin",
            LinkClass::Pcie => "dotted, PCIe",
        };
        let of_class = |line: &LinkLine| (line.link.class() == class).then(|| line.link.gbps());
        let mut rates: Vec<f64> = lines.iter().filter_map(of_class).collect();
        rates.sort_by(f64::total_cmp);
        match (rates.first(), rates.last()) {
            (Some(least), Some(most)) if least < most => Some(format!("{name}: {least} to {most} GB/s")),
            (Some(rate), _) => Some(format!("{name}: {rate} GB/s")),
            _ => None,
        }
    });
    let mut parts: Vec<String> = widths.into_iter().flatten().collect();
    for panel in panels.iter().filter(|panel| panel.set.is_some()) {
        parts.push(if panel.slurms { "purple: Slurm's choice" } else { "orange: the job" }.to_owned());
    }
    if panels.iter().any(|panel| !panel.picture.args.busy.is_empty()) {
        parts.push("dark: busy".to_owned());
    }
    parts.join("; ")
}

impl Panel<'_> {
    fn title(&self) -> String {
        let name = &self.picture.args.topology;
        let Some(set) = self.set else { return name.clone() };
        let order: Vec<String> = set.order.iter().map(ToString::to_string).collect();
        let rate = set.scores.eff_bw.map_or_else(String::new, |gbps| format!(", {gbps:.1} GB/s"));
        let whose = match (self.slurms, self.picture.slurms) {
            (true, _) => "Slurm alone",
            (false, Some(_)) => "with Tessera",
            (false, None) => name,
        };
        format!("{whose}: {} on {}{rate}", self.picture.args.pattern.name(), order.join(" "))
    }

    fn draw(&self, out: &mut Svg, title: &str) {
        out.of_class("text", "title middle").at(self.left + WIDTH / 2.0, 28).text(title);
        out.line();
        // What the job uses is drawn last, above the rest.
        let (used, unused): (Vec<_>, Vec<_>) = self.lines().into_iter().partition(|line| line.used);
        unused.iter().chain(&used).for_each(|line| self.link(out, line));
        used.iter().for_each(|line| self.rate(out, line));
        for g in self.picture.graph.all().iter() {
            let (x, y) = self.place(g);
            out.of_class("circle", self.mark(g)).around(tenths(x), tenths(y)).set("r", 18).end();
            out.of_class("text", "ink middle").at(tenths(x), tenths(y + 5.0)).text(g);
            out.line();
        }
    }

    fn mark(&self, gpu: GpuIndex) -> &'static str {
        match self.set {
            Some(set) if self.slurms && set.gpus.contains(gpu) => "slurms",
            _ if self.slurms => {
                if self.picture.args.busy.contains(gpu) {
                    "busy"
                } else {
                    ""
                }
            }
            _ => self.picture.mark(gpu),
        }
    }

    /// Writes the bandwidth of a link that the job uses, a third of the way along it: links of a ring cross in their middles.
    fn rate(&self, out: &mut Svg, line: &LinkLine) {
        let (a, b) = line.ends;
        let ((x1, y1), (x2, y2)) = (self.place(a), self.place(b));
        let (x, y) = (x1 + (x2 - x1) / 3.0, y1 + (y2 - y1) / 3.0);
        out.of_class("text", "rate middle").at(tenths(x), tenths(y + 4.0)).text(line.link.gbps());
        out.line();
    }

    /// The links of NVLink, and those that the job uses: PCIe joins all with all.
    fn lines(&self) -> Vec<LinkLine> {
        let edges = self.set.and_then(|set| {
            let edges = mapa::edges_of(&self.picture.args.pattern, set.order.len()).ok()?;
            Some(
                edges
                    .iter()
                    .filter_map(|e| Some((*set.order.get(e.a)?, *set.order.get(e.b)?)))
                    .collect::<Vec<_>>(),
            )
        });
        let edges = edges.unwrap_or_default();
        let graph = self.picture.graph;
        let gpus = graph.all();
        let pairs = gpus.iter().flat_map(|a| gpus.iter().filter(move |b| a < *b).map(move |b| (a, b)));
        let lines = pairs.filter_map(|(a, b)| {
            let used = edges.contains(&(a, b)) || edges.contains(&(b, a));
            Some(LinkLine { ends: (a, b), link: graph.link(a, b)?, used })
        });
        lines.filter(|line| line.used || line.link.class() != LinkClass::Pcie).collect()
    }

    fn link(&self, out: &mut Svg, line: &LinkLine) {
        let (width, class) = match line.link.class() {
            LinkClass::Double => (5.0, ""),
            LinkClass::Single => (2.5, ""),
            LinkClass::Pcie => (1.5, "pcie"),
        };
        let used = match (line.used, self.slurms) {
            (true, true) => " used bad",
            (true, false) => " used",
            _ => "",
        };
        let (a, b) = line.ends;
        let ((x1, y1), (x2, y2)) = (self.place(a), self.place(b));
        let element =
            out.of_class("line", format_args!("{class}{used}")).set("x1", tenths(x1)).set("y1", tenths(y1));
        let element = element.set("x2", tenths(x2)).set("y2", tenths(y2)).set("stroke-width", width);
        element.holds(|out| {
            let link = line.link;
            out.element("title").text(format_args!("{a}-{b} {} {} GB/s", link.kind, link.gbps()));
        });
        out.line();
    }

    /// The middle of a GPU. Eight GPUs are two squares of four, as they are on the boards of a DGX. The inner corners are nearer to
    /// each other, so that no link between the squares runs through a GPU.
    fn place(&self, gpu: GpuIndex) -> (f64, f64) {
        const SQUARE: [(f64, f64); 4] = [(0.10, 0.10), (0.36, 0.26), (0.36, 0.74), (0.10, 0.90)];
        let n = self.picture.graph.len().max(1);
        let (x, y) = match SQUARE.get(usize::from(gpu.0) % 4) {
            Some((x, y)) if n == 8 => (if gpu.0 < 4 { *x } else { 1.0 - *x }, *y),
            _ => {
                let turn = TAU * (f64::from(gpu.0) / f64::from(u32::try_from(n).unwrap_or(1)) - 0.25);
                let radius = 0.42 * HEIGHT;
                (0.5 + radius * turn.cos() / WIDTH, 0.5 + radius * turn.sin() / HEIGHT)
            }
        };
        (self.left + WIDTH * x, TITLE + HEIGHT * y)
    }
}
