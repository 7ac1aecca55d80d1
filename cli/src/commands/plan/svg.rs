//! The plan as a picture: a lane per slice, instances with their tasks, creations and destructions in colour, as the
//! paper's Fig. 12 shows them.

use std::fmt::Write as _;

use far::{Micros, OpKind};

use super::batch::seconds;
use super::planned::Planned;
use crate::render::svg::escape;

const MARGIN: f64 = 16.0;
const LABEL: f64 = 64.0;
const WIDTH: f64 = 1000.0;
const LANE: f64 = 30.0;
const TITLE: f64 = 58.0;
const AXIS: f64 = 34.0;

/// The picture carries its own background, so that it reads on a light and a dark page.
const STYLE: &str = "\
text { font: 12px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1c2128; }
.title { font-weight: 600; font-size: 15px; } .dim { fill: #6b7280; } .ink { fill: #14181d; }
.bg { fill: #ffffff; stroke: #d0d7de; } .lane { fill: #f3f4f6; stroke: #d0d7de; } .tick { stroke: #d0d7de; }
.task { fill: #8ec5ff; stroke: #4a90d9; } .create { fill: #22d3ee; } .destroy { fill: #ef4444; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .dim { fill: #9198a1; } .bg { fill: #0d1117; stroke: #3d444d; }
  .lane { fill: #161b22; stroke: #3d444d; } .tick { stroke: #3d444d; } .ink { fill: #14181d; }
}";

pub(super) fn picture(planned: &Planned<'_>) -> String {
    let problem = &planned.answer.problem;
    let mut body = String::new();
    let mut y = MARGIN + TITLE;
    heading(&mut body, planned);
    for gpu in 0..problem.gpus.len() {
        let lanes = f64::from(planned.batch.model.placement_units);
        gpu_lanes(&mut body, planned, gpu, y);
        y += lanes * lane(planned) + 14.0;
    }
    axis(&mut body, planned, y);
    let (width, height) = (2.0 * MARGIN + LABEL + WIDTH, y + AXIS);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height:.0}\" width=\"{width}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"Plan\">\n<style>{STYLE}</style>\n\
         <rect class=\"bg\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{:.0}\" rx=\"10\"/>\n{body}</svg>\n",
        width - 1.0,
        height - 1.0
    )
}

fn heading(body: &mut String, planned: &Planned<'_>) {
    let batch = planned.batch;
    let title = format!("{}: {} tasks, policy {}", batch.id, batch.tasks.len(), planned.policy);
    let (makespan, bound) = (seconds(planned.makespan), seconds(planned.answer.lower_bound));
    let below = if planned.answer.proven_optimal {
        format!("{makespan:.2} s, proven the best possible")
    } else {
        format!(
            "{makespan:.2} s, at most {:.2} % longer than the best (bound {bound:.2} s)",
            100.0 * planned.gap()
        )
    };
    let _ = writeln!(
        body,
        "<text class=\"title\" x=\"{MARGIN}\" y=\"{}\">{}</text>",
        MARGIN + 14.0,
        escape(&title)
    );
    let _ = writeln!(body, "<text class=\"dim\" x=\"{MARGIN}\" y=\"{}\">{below}</text>", MARGIN + 34.0);
    let x = MARGIN + LABEL + WIDTH;
    for (class, what, right) in [("create", "create", 170.0), ("destroy", "destroy", 90.0)] {
        let y = MARGIN + 24.0;
        let _ = writeln!(
            body,
            "<rect class=\"{class}\" x=\"{}\" y=\"{y}\" width=\"12\" height=\"12\"/>",
            x - right
        );
        let _ = writeln!(body, "<text x=\"{}\" y=\"{}\">{what}</text>", x - right + 18.0, y + 10.0);
    }
}

/// Height of a placement unit. Models with many units get thinner lanes, so that a slice looks alike on all.
fn lane(planned: &Planned<'_>) -> f64 {
    let model = planned.batch.model;
    if model.placement_units > 8 { LANE / 3.0 } else { LANE }
}

fn gpu_lanes(body: &mut String, planned: &Planned<'_>, gpu: usize, y: f64) {
    let problem = &planned.answer.problem;
    let (height, units) = (lane(planned), f64::from(planned.batch.model.placement_units));
    let x = MARGIN + LABEL;
    let _ = writeln!(body, "<text x=\"{MARGIN}\" y=\"{}\">GPU {gpu}</text>", y + 14.0);
    for node in problem.tree.nodes.iter().filter(|n| n.children.is_empty()) {
        let (top, tall) = (y + f64::from(node.start) * height, f64::from(node.mask.count_ones()) * height);
        let _ = writeln!(
            body,
            "<rect class=\"lane\" x=\"{x}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{tall}\"/>\
             <text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            x - 6.0,
            top + tall / 2.0 + 4.0,
            node.start
        );
    }
    let box_of = |node: usize| {
        let node = &problem.tree.nodes[node];
        // Unit 7 of an eight-unit GPU has no compute slice of its own: drawn, but as part of what holds it.
        let (top, tall) = (f64::from(node.start) * height, f64::from(node.mask.count_ones()) * height);
        (y + top, tall.min(units * height - top))
    };
    for op in planned.answer.schedule.ops.iter().filter(|o| o.gpu == gpu) {
        let class = if op.kind == OpKind::Create { "create" } else { "destroy" };
        let (top, tall) = box_of(op.node);
        let (from, to) = (at(planned, op.begin), at(planned, op.end));
        let profile = &problem.tree.nodes[op.node].profile;
        let _ = writeln!(
            body,
            "<g><title>{class} {profile}: {:.2} to {:.2} s</title>\
             <rect class=\"{class}\" x=\"{from:.2}\" y=\"{top}\" width=\"{:.2}\" height=\"{tall}\"/></g>",
            seconds(op.begin),
            seconds(op.end),
            // A reconfiguration of a long plan is thinner than a pixel, and would vanish.
            (to - from).max(1.5)
        );
    }
    for run in planned.answer.schedule.runs.iter().filter(|r| r.gpu == gpu) {
        let (top, tall) = box_of(run.node);
        let (from, to) = (at(planned, run.begin), at(planned, run.end));
        let name = escape(&planned.name(run.task));
        let profile = &problem.tree.nodes[run.node].profile;
        let _ = writeln!(
            body,
            "<g><title>{name} on {profile}: {:.2} to {:.2} s</title>\
             <rect class=\"task\" x=\"{from:.2}\" y=\"{}\" width=\"{:.2}\" height=\"{}\" rx=\"3\"/>",
            seconds(run.begin),
            seconds(run.end),
            top + 1.0,
            (to - from).max(0.5),
            tall - 2.0
        );
        // About seven pixels a letter: a name that does not fit is in the tooltip only.
        #[expect(clippy::cast_precision_loss, reason = "a name's length")]
        if to - from > 7.0 * name.chars().count() as f64 + 6.0 && tall >= 14.0 {
            let (x, y) = (f64::midpoint(from, to), top + tall / 2.0 + 4.0);
            let _ = write!(
                body,
                "<text class=\"ink\" x=\"{x:.2}\" y=\"{y}\" text-anchor=\"middle\">{name}</text>"
            );
        }
        let _ = writeln!(body, "</g>");
    }
}

fn at(planned: &Planned<'_>, time: Micros) -> f64 {
    MARGIN + LABEL + WIDTH * seconds(time) / seconds(planned.makespan.max(1))
}

/// Ticks at 1, 2 or 5 times a power of ten seconds: five to twelve of them.
fn axis(body: &mut String, planned: &Planned<'_>, y: f64) {
    let whole = seconds(planned.makespan.max(1));
    let power = 10f64.powf((whole / 5.0).log10().floor());
    let step = [5.0, 2.0, 1.0].into_iter().map(|f| f * power).find(|s| whole / s >= 5.0).unwrap_or(power);
    let mut time = 0.0;
    while time <= whole {
        let x = MARGIN + LABEL + WIDTH * time / whole;
        let label = if step < 1.0 { format!("{time:.2}") } else { format!("{time:.0}") };
        let _ = writeln!(
            body,
            "<path class=\"tick\" d=\"M{x:.2} {}v6\"/><text class=\"dim\" x=\"{x:.2}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            y - 10.0,
            y + 10.0
        );
        time += step;
    }
    let _ = writeln!(body, "<text class=\"dim\" x=\"{MARGIN}\" y=\"{}\">seconds</text>", y + 10.0);
}
