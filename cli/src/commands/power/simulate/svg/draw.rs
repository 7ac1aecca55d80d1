//! Panels as SVG: lines over places, bars over places, or points on two axes.

use std::fmt::Display;

use super::axis::Axis;
use crate::render::svg::{self, Svg, TEXT_STYLE, tenths};

/// A plot with its axes.
pub(super) struct Panel {
    pub(super) title: String,
    /// Label of the places or numbers below; empty if the places speak for themselves.
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) plot: Plot,
}

pub(super) enum Plot {
    Lines {
        places: Vec<String>,
        series: Vec<Series>,
    },
    Bars {
        places: Vec<String>,
        series: Vec<Series>,
    },
    /// Named groups of points, with the diagonal on which both numbers are equal.
    Points(Vec<(String, Vec<(f64, f64)>)>),
}

/// Values over places.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) values: Vec<Option<f64>>,
}

const HEIGHT: f64 = 220.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const TITLE: f64 = 34.0;
const LEGEND: f64 = 30.0;
/// Room below a plot: for labels that lie, for labels that stand, and for the name of the axis.
const LYING: f64 = 22.0;
const STANDING: f64 = 84.0;
const NAME: f64 = 18.0;
/// Width of a character, at most.
const CHARACTER: f64 = 6.5;

/// Told apart on white, on black, in print and by colour-blind readers; the first is for what is not to stand out.
const COLOURS: [&str; 6] = ["#94a3b8", "#d97706", "#3b7fc4", "#0f9d6b", "#d0559b", "#7a3f9a"];

/// A panel's size and where it stands.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// All panels: two in a row where they are narrow.
pub(super) fn picture(panels: &[Panel]) -> String {
    let widest = panels.iter().map(Panel::width).fold(0.0, f64::max);
    let tallest = panels.iter().map(Panel::height).fold(0.0, f64::max);
    let columns = if panels.len() > 1 && widest < 500.0 { 2 } else { 1 };
    let rows = panels.len().div_ceil(columns);
    let (width, height) = (widest * number(columns), tallest * number(rows));
    let (width, height) = (format!("{width:.0}"), format!("{height:.0}"));
    let attributes: [(&str, &dyn Display); 3] =
        [("viewBox", &format_args!("0 0 {width} {height}")), ("width", &width), ("height", &height)];
    svg::picture(&attributes, |out| {
        out.style(&format!("{TEXT_STYLE}text {{ font-size: 11px; }}\n"));
        out.background(
            format_args!("{:.0}", widest * number(columns) - 1.0),
            format_args!("{:.0}", tallest * number(rows) - 1.0),
        );
        for (at, panel) in panels.iter().enumerate() {
            let (left, top) = (widest * number(at % columns), tallest * number(at / columns));
            let bottom = top + TITLE + HEIGHT;
            let frame =
                Frame { left: left + LEFT, right: left + panel.width() - RIGHT, top: top + TITLE, bottom };
            panel.draw(out, &frame);
        }
    })
}

impl Panel {
    fn width(&self) -> f64 {
        LEFT + RIGHT
            + match &self.plot {
                Plot::Bars { places, .. } => 38.0 * number(places.len().max(8)),
                Plot::Lines { places, .. } => 42.0 * number(places.len().max(8)),
                Plot::Points(_) => HEIGHT + 100.0,
            }
    }

    fn height(&self) -> f64 {
        TITLE + HEIGHT + self.below() + LEGEND
    }

    /// Room for labels and the name of the axis.
    fn below(&self) -> f64 {
        let labels = if self.stands() { STANDING } else { LYING };
        labels + if self.x.is_empty() { 0.0 } else { NAME }
    }

    /// True if the places' names are too long to lie side by side.
    fn stands(&self) -> bool {
        match &self.plot {
            Plot::Bars { places, .. } | Plot::Lines { places, .. } => {
                places.iter().any(|place| CHARACTER * number(place.len()) > 36.0)
            }
            Plot::Points(_) => false,
        }
    }

    fn draw(&self, out: &mut Svg, frame: &Frame) {
        let Frame { left, right, top, bottom } = frame;
        let y = Axis::up_to(self.highest());
        out.element("text").at(left, tenths(top - 14.0)).set("font-size", 14).text(&self.title);
        out.line();
        for (value, text) in y.ticks() {
            let at = frame.y(value, y);
            out.of_class("path", "grid").set("d", format_args!("M{left} {at:.1}H{right}")).end();
            let tick = out.element("text").at(tenths(left - 6.0), tenths(at + 4.0));
            tick.set("text-anchor", "end").text(text);
            out.line();
        }
        let (x, middle) = (tenths(left - 46.0), tenths(0.5 * (top + bottom)));
        let turn = format!("rotate(-90 {x} {middle})");
        let name = out.element("text").at(x, middle).set("text-anchor", "middle");
        name.set("transform", turn).text(self.y);
        out.line();
        match &self.plot {
            Plot::Lines { places, series } => {
                frame.places(out, places, self.stands());
                series.iter().enumerate().for_each(|(n, s)| frame.line(out, s, colour(n), places.len(), y));
            }
            Plot::Bars { places, series } => {
                frame.places(out, places, self.stands());
                for (n, one) in series.iter().enumerate() {
                    frame.bars(out, one, (n, series.len()), places.len(), y);
                }
            }
            Plot::Points(groups) => frame.points(out, groups, y),
        }
        out.element("path").set("d", format_args!("M{left} {bottom}H{right}")).stroke("#7c8793").end();
        out.line();
        if !self.x.is_empty() {
            let (x, y) = (tenths(0.5 * (left + right)), tenths(bottom + self.below() - 4.0));
            out.element("text").at(x, y).set("text-anchor", "middle").text(self.x);
            out.line();
        }
        legend(out, &self.names(), *left, bottom + self.below() + 16.0);
    }

    fn highest(&self) -> f64 {
        match &self.plot {
            Plot::Lines { series, .. } | Plot::Bars { series, .. } => {
                series.iter().flat_map(|s| s.values.iter().flatten().copied()).fold(0.0, f64::max)
            }
            Plot::Points(groups) => {
                groups.iter().flat_map(|(_, points)| points).map(|(x, y)| x.max(*y)).fold(0.0, f64::max)
            }
        }
    }

    fn names(&self) -> Vec<&str> {
        match &self.plot {
            Plot::Lines { series, .. } | Plot::Bars { series, .. } => {
                series.iter().map(|s| s.name.as_str()).collect()
            }
            Plot::Points(groups) => groups.iter().map(|(name, _)| name.as_str()).collect(),
        }
    }
}

impl Frame {
    fn y(&self, value: f64, axis: Axis) -> f64 {
        self.bottom - (self.bottom - self.top) * value / axis.end
    }

    /// The middle of a place, and how wide each is.
    fn x(&self, at: usize, count: usize) -> (f64, f64) {
        let slot = (self.right - self.left) / number(count).max(1.0);
        (self.left + slot * (number(at) + 0.5), slot)
    }

    fn places(&self, out: &mut Svg, places: &[String], stands: bool) {
        for (at, place) in places.iter().enumerate() {
            let (x, _) = self.x(at, places.len());
            let (x, y) = (tenths(x), tenths(self.bottom + if stands { 12.0 } else { 15.0 }));
            let turn = format!("rotate(-60 {x} {y})");
            let text = out.element("text").at(x, y);
            let text = if stands {
                text.set("text-anchor", "end").set("transform", turn)
            } else {
                text.set("text-anchor", "middle")
            };
            text.text(place);
            out.line();
        }
    }

    fn line(&self, out: &mut Svg, series: &Series, colour: &str, count: usize, axis: Axis) {
        let known = series.values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
        let points: Vec<(f64, f64)> =
            known.map(|(at, value)| (self.x(at, count).0, self.y(value, axis))).collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let line = out.element("polyline").set("points", path.join(" ")).set("stroke", colour);
        line.set("stroke-width", 2).set("fill", "none").end();
        out.line();
        for (x, y) in points {
            out.element("circle").around(tenths(x), tenths(y)).set("r", 3).set("fill", colour).end();
            out.line();
        }
    }

    fn bars(&self, out: &mut Svg, series: &Series, (n, all): (usize, usize), count: usize, axis: Axis) {
        for (at, value) in series.values.iter().enumerate() {
            let Some(value) = value else { continue };
            let (middle, slot) = self.x(at, count);
            let width = 0.8 * slot / number(all).max(1.0);
            let (x, y) = (middle - 0.4 * slot + width * number(n), self.y(*value, axis));
            // A single series is the subject, not the background.
            let colour = colour(if all == 1 { 2 } else { n });
            let bar = out.element("rect").at(tenths(x), tenths(y));
            bar.size(tenths(width), tenths(self.bottom - y)).set("fill", colour).end();
            out.line();
        }
    }

    fn points(&self, out: &mut Svg, groups: &[(String, Vec<(f64, f64)>)], axis: Axis) {
        let x = |value: f64| self.left + (self.right - self.left) * value / axis.end;
        for (value, text) in axis.ticks() {
            let (x, y) = (x(value), self.bottom + 15.0);
            out.element("text").at(tenths(x), tenths(y)).set("text-anchor", "middle").text(text);
            out.line();
        }
        let diagonal = format_args!("M{} {}L{} {}", self.left, self.bottom, self.right, self.top);
        let line = out.element("path").set("d", diagonal).set("stroke", "#94a3b8");
        line.set("stroke-dasharray", "4 4").set("fill", "none").end();
        out.line();
        for (n, (_, points)) in groups.iter().enumerate() {
            for (measured, predicted) in points {
                let (x, y) = (x(*measured), self.y(*predicted, axis));
                let point = out.element("circle").around(tenths(x), tenths(y)).set("r", 3.5);
                point.set("fill", colour(n)).set("fill-opacity", 0.75).end();
                out.line();
            }
        }
    }
}

/// Names side by side, each after a square of its colour; none where there is nothing to tell apart.
fn legend(out: &mut Svg, names: &[&str], left: f64, y: f64) {
    let mut x = left;
    for (n, name) in names.iter().enumerate().filter(|_| names.len() > 1) {
        out.element("rect").at(tenths(x), tenths(y - 9.0)).size(10, 10).set("fill", colour(n)).end();
        out.element("text").at(tenths(x + 14.0), tenths(y)).text(name);
        out.line();
        x += 30.0 + CHARACTER * number(name.len());
    }
}

fn colour(n: usize) -> &'static str {
    COLOURS[n % COLOURS.len()]
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
