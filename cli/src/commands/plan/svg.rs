//! The plan as a picture: a lane per slice, instances with their tasks, creations and destructions in colour, as the
//! paper's Fig. 12 shows them.

use std::fmt::Display;

use far::{Answer, Micros, OpKind};
use geometry::counted;

use super::batch::seconds;
use super::planned::Planned;
use crate::render::svg::{self, Svg, TEXT_STYLE};

const MARGIN: f64 = 16.0;
const LABEL: f64 = 64.0;
/// Width of the time axis: of most plans, and of the longest.
const WIDTH: std::ops::RangeInclusive<f64> = 1000.0..=12_000.0;
/// Room that a task of average length has at least, up to the widest axis: a short name fits.
const TASK: f64 = 64.0;
/// Least height or width of a box with a name.
const LETTER: f64 = 14.0;
/// The tasks that may go without a name, because they are so short: one in so many, and so many of a small plan.
const UNNAMED: (usize, usize) = (10, 3);
const LANE: f64 = 30.0;
const TITLE: f64 = 58.0;
const AXIS: f64 = 34.0;

/// Rules of plans alone.
const STYLE: &str = "\
.lane { fill: #f3f4f6; stroke: #d0d7de; } .tick { stroke: #d0d7de; }
.task { fill: #9bcbff; stroke: #3b7fc4; } .create { fill: #f8e47e; } .destroy { fill: #b3261e; }
@media (prefers-color-scheme: dark) { .lane { fill: #161b22; stroke: #3d444d; } .tick { stroke: #3d444d; } }
";

pub(super) fn picture(planned: &Planned<'_>) -> String {
    let scale = Scale::of(planned);
    let mut body = Svg::default();
    let mut y = MARGIN + TITLE;
    heading(&mut body, planned);
    for gpu in 0..planned.answer.problem.gpus.len() {
        let gpu = GpuPicture { planned, scale, gpu, y };
        gpu.lanes(&mut body);
        gpu.operations(&mut body);
        gpu.tasks(&mut body);
        y += f64::from(planned.batch.model.placement_units) * lane(planned) + 14.0;
    }
    axis(&mut body, scale, y);
    let (width, height) = (2.0 * MARGIN + LABEL + scale.width, y + AXIS);
    let attributes: [(&str, &dyn Display); 5] = [
        ("viewBox", &format_args!("0 0 {width} {height:.0}")),
        ("width", &width),
        ("height", &format_args!("{height:.0}")),
        ("role", &"img"),
        ("aria-label", &"Plan"),
    ];
    svg::picture(&attributes, |svg| {
        svg.style(&format!("{TEXT_STYLE}{STYLE}"));
        svg.background(width - 1.0, format_args!("{:.0}", height - 1.0));
        svg.add(body);
    })
}

/// From times to the time axis.
#[derive(Clone, Copy)]
struct Scale {
    /// Width of the axis, px.
    width: f64,
    /// Length of the time axis, s.
    whole: f64,
}

impl Scale {
    /// Wide enough for the lane with most tasks, and for the names of all tasks but the shortest.
    fn of(planned: &Planned<'_>) -> Self {
        let whole = seconds(planned.makespan.max(1));
        let width = Self::for_lanes(planned).max(Self::for_names(planned, whole));
        Self { width: width.clamp(*WIDTH.start(), *WIDTH.end()).round(), whole }
    }

    fn for_names(planned: &Planned<'_>, whole: f64) -> f64 {
        let Answer { problem, schedule, .. } = &planned.answer;
        let needs = schedule.runs.iter().filter_map(|run| {
            let tall = f64::from(problem.tree.nodes[run.node].mask.count_ones()) * lane(planned);
            let wide = name_width(&planned.name(run.task), tall)?;
            Some(wide * whole / seconds((run.end - run.begin).max(1)))
        });
        let mut needs: Vec<f64> = needs.collect();
        needs.sort_unstable_by(|a, b| b.total_cmp(a));
        let unnamed = (needs.len() / UNNAMED.0).max(UNNAMED.1);
        needs.get(unnamed).copied().unwrap_or(0.0)
    }

    fn for_lanes(planned: &Planned<'_>) -> f64 {
        let problem = &planned.answer.problem;
        let units = planned.batch.model.placement_units;
        let mut tasks = vec![vec![0_u32; usize::from(units)]; problem.gpus.len()];
        for run in &planned.answer.schedule.runs {
            let mask = problem.tree.nodes[run.node].mask;
            for (_, count) in tasks[run.gpu].iter_mut().enumerate().filter(|(unit, _)| mask >> unit & 1 == 1)
            {
                *count += 1;
            }
        }
        TASK * f64::from(tasks.into_iter().flatten().max().unwrap_or(0))
    }

    fn at(self, time: Micros) -> f64 {
        MARGIN + LABEL + self.width * seconds(time) / self.whole
    }
}

fn heading(body: &mut Svg, planned: &Planned<'_>) {
    let batch = planned.batch;
    let title = format!("{}: {}, policy {}", batch.id, counted(batch.tasks.len(), "job"), planned.policy);
    let (makespan, bound) = (seconds(planned.makespan), seconds(planned.answer.lower_bound));
    let below = if planned.answer.proven_optimal {
        format!("{makespan:.2} s, proven the best possible")
    } else {
        format!(
            "{makespan:.2} s, at most {:.2} % longer than the best (bound {bound:.2} s)",
            100.0 * planned.gap()
        )
    };
    body.of_class("text", "title").at(MARGIN, MARGIN + 14.0).text(title);
    body.line();
    body.of_class("text", "dim").at(MARGIN, MARGIN + 34.0).text(below);
    body.line();
    let x = MARGIN + LABEL + WIDTH.start();
    for (class, what, right) in [("create", "create", 170.0), ("destroy", "destroy", 90.0)] {
        let y = MARGIN + 24.0;
        body.of_class("rect", class).at(x - right, y).size(12, 12).end();
        body.line();
        body.element("text").at(x - right + 18.0, y + 10.0).text(what);
        body.line();
    }
}

/// Height of a placement unit. Models with many units get thinner lanes, so that a slice looks alike on all.
fn lane(planned: &Planned<'_>) -> f64 {
    let model = planned.batch.model;
    if model.placement_units > 8 { LANE / 3.0 } else { LANE }
}

/// A GPU's part of the picture, its top at `y`.
struct GpuPicture<'a> {
    planned: &'a Planned<'a>,
    scale: Scale,
    gpu: usize,
    y: f64,
}

impl GpuPicture<'_> {
    fn lanes(&self, body: &mut Svg) {
        let (y, x, width, height) = (self.y, MARGIN + LABEL, self.scale.width, lane(self.planned));
        body.element("text").at(MARGIN, y + 14.0).text(format_args!("GPU {}", self.gpu));
        body.line();
        // The last unit of an eight-unit GPU has memory and no compute slice: no lane of its own, but within the frame.
        let whole = f64::from(self.planned.batch.model.placement_units) * height;
        body.of_class("rect", "lane").at(x, y).size(width, whole).end();
        body.line();
        for node in self.planned.answer.problem.tree.nodes.iter().filter(|n| n.children.is_empty()) {
            let (top, tall) =
                (y + f64::from(node.start) * height, f64::from(node.mask.count_ones()) * height);
            body.of_class("rect", "lane").at(x, top).size(width, tall).end();
            let number = body.of_class("text", "dim").at(x - 6.0, top + tall / 2.0 + 4.0);
            number.set("text-anchor", "end").text(node.start);
            body.line();
        }
    }

    /// Top and height of an instance.
    fn place(&self, node: usize) -> (f64, f64) {
        let (node, height) = (&self.planned.answer.problem.tree.nodes[node], lane(self.planned));
        (self.y + f64::from(node.start) * height, f64::from(node.mask.count_ones()) * height)
    }

    fn operations(&self, body: &mut Svg) {
        let answer = &self.planned.answer;
        for op in answer.schedule.ops.iter().filter(|o| o.gpu == self.gpu) {
            let class = if op.kind == OpKind::Create { "create" } else { "destroy" };
            let (top, tall) = self.place(op.node);
            let (from, to) = (self.scale.at(op.begin), self.scale.at(op.end));
            let profile = &answer.problem.tree.nodes[op.node].profile;
            body.element("g").holds(|body| {
                let (begin, end) = (seconds(op.begin), seconds(op.end));
                body.element("title").text(format_args!("{class} {profile}: {begin:.2} to {end:.2} s"));
                // A reconfiguration of a long plan is thinner than a pixel, and would vanish.
                let wide = (to - from).max(1.5);
                body.of_class("rect", class).at(hundredths(from), top).size(hundredths(wide), tall).end();
            });
            body.line();
        }
    }

    fn tasks(&self, body: &mut Svg) {
        let answer = &self.planned.answer;
        for run in answer.schedule.runs.iter().filter(|r| r.gpu == self.gpu) {
            let (top, tall) = self.place(run.node);
            let (from, to) = (self.scale.at(run.begin), self.scale.at(run.end));
            let name = self.planned.name(run.task);
            let profile = &answer.problem.tree.nodes[run.node].profile;
            body.element("g").holds(|body| {
                let (begin, end) = (seconds(run.begin), seconds(run.end));
                body.element("title").text(format_args!("{name} on {profile}: {begin:.2} to {end:.2} s"));
                let wide = hundredths((to - from).max(0.5));
                let task = body.of_class("rect", "task").at(hundredths(from), top + 1.0);
                task.size(wide, tall - 2.0).set("rx", 3).end();
                body.line();
                label(body, &name, (from, to - from), (top, tall));
            });
            body.line();
        }
    }
}

/// About seven pixels a letter.
fn length(name: &str) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a name's length")]
    let letters = name.chars().count() as f64;
    7.0 * letters + 6.0
}

/// Width from which a box of this height has room for a name; `None`: it never has.
fn name_width(name: &str, tall: f64) -> Option<f64> {
    let long = length(name);
    if tall > long { Some(LETTER) } else { (tall >= LETTER).then_some(long + 1.0) }
}

/// A task's name in its box (left and width, top and height): along it, upwards in a narrow one, or in the tooltip alone.
fn label(body: &mut Svg, name: &str, (left, wide): (f64, f64), (top, tall): (f64, f64)) {
    let (long, x, y) = (length(name), left + wide / 2.0, top + tall / 2.0);
    let upwards = if wide > long && tall >= LETTER {
        false
    } else if tall > long && wide >= LETTER {
        true
    } else {
        return;
    };
    let text =
        body.of_class("text", "ink").at(hundredths(x), hundredths(y + 4.0)).set("text-anchor", "middle");
    let text = if upwards { text.set("transform", format_args!("rotate(-90 {x:.2} {y:.2})")) } else { text };
    text.text(name);
}

/// Ticks at 1, 2 or 5 times a power of ten seconds: five to twelve of them.
fn axis(body: &mut Svg, scale: Scale, y: f64) {
    let whole = scale.whole;
    let power = 10f64.powf((whole / 5.0).log10().floor());
    let step = [5.0, 2.0, 1.0].into_iter().map(|f| f * power).find(|s| whole / s >= 5.0).unwrap_or(power);
    let mut time = 0.0;
    while time <= whole {
        let x = MARGIN + LABEL + scale.width * time / whole;
        let label = if step < 1.0 { format!("{time:.2}") } else { format!("{time:.0}") };
        let middle = hundredths(x);
        body.of_class("path", "tick").set("d", format_args!("M{middle} {}v6", y - 10.0)).end();
        body.of_class("text", "dim").at(middle, y + 10.0).set("text-anchor", "middle").text(label);
        body.line();
        time += step;
    }
    body.of_class("text", "dim").at(MARGIN, y + 10.0).text("seconds");
    body.line();
}

/// A length or place in the picture with two decimals.
fn hundredths(value: f64) -> String {
    format!("{value:.2}")
}
