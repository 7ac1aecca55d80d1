//! Panels as SVG: lines over places, bars over places, or points on two axes.

use std::fmt::Write as _;

use super::axis::Axis;
use crate::render::svg::escape;

/// One plot with its axes.
pub(super) struct Panel {
    pub(super) title: String,
    /// What the places or the numbers below are; empty where the places speak for themselves.
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

/// Told apart on white, in print and by colour-blind readers; the first is for what is not to stand out.
const COLOURS: [&str; 6] = ["#94a3b8", "#d97706", "#1d4ed8", "#047857", "#be185d", "#0f172a"];

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
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#0f172a\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for (at, panel) in panels.iter().enumerate() {
        let (left, top) = (widest * number(at % columns), tallest * number(at / columns));
        let bottom = top + TITLE + HEIGHT;
        let frame =
            Frame { left: left + LEFT, right: left + panel.width() - RIGHT, top: top + TITLE, bottom };
        panel.draw(&mut out, &frame);
    }
    out.push_str("</svg>\n");
    out
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

    /// Whether the places' names are too long to lie side by side.
    fn stands(&self) -> bool {
        match &self.plot {
            Plot::Bars { places, .. } | Plot::Lines { places, .. } => {
                places.iter().any(|place| CHARACTER * number(place.len()) > 36.0)
            }
            Plot::Points(_) => false,
        }
    }

    fn draw(&self, out: &mut String, frame: &Frame) {
        let Frame { left, right, top, bottom } = frame;
        let y = Axis::up_to(self.highest());
        let _ = writeln!(
            out,
            "<text x=\"{left}\" y=\"{:.1}\" font-size=\"14\">{}</text>",
            top - 14.0,
            escape(&self.title)
        );
        for (value, text) in y.ticks() {
            let at = frame.y(value, y);
            let _ = writeln!(
                out,
                "<path d=\"M{left} {at:.1}H{right}\" stroke=\"#e2e8f0\" fill=\"none\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                left - 6.0,
                at + 4.0
            );
        }
        let (x, middle) = (left - 46.0, 0.5 * (top + bottom));
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{middle:.1}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 {x:.1} {middle:.1})\">{}</text>",
            escape(self.y)
        );
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
        let _ = writeln!(out, "<path d=\"M{left} {bottom}H{right}\" stroke=\"#475569\" fill=\"none\"/>");
        if !self.x.is_empty() {
            let (x, y) = (0.5 * (left + right), bottom + self.below() - 4.0);
            let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>", self.x);
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

    fn places(&self, out: &mut String, places: &[String], stands: bool) {
        for (at, place) in places.iter().enumerate() {
            let (x, _) = self.x(at, places.len());
            let (y, place) = (self.bottom + if stands { 12.0 } else { 15.0 }, escape(place));
            let how = if stands {
                format!("text-anchor=\"end\" transform=\"rotate(-60 {x:.1} {y:.1})\"")
            } else {
                "text-anchor=\"middle\"".to_owned()
            };
            let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" {how}>{place}</text>");
        }
    }

    fn line(&self, out: &mut String, series: &Series, colour: &str, count: usize, axis: Axis) {
        let known = series.values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
        let points: Vec<(f64, f64)> =
            known.map(|(at, value)| (self.x(at, count).0, self.y(value, axis))).collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" stroke=\"{colour}\" stroke-width=\"2\" fill=\"none\"/>",
            path.join(" ")
        );
        for (x, y) in points {
            let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
    }

    fn bars(&self, out: &mut String, series: &Series, (n, all): (usize, usize), count: usize, axis: Axis) {
        for (at, value) in series.values.iter().enumerate() {
            let Some(value) = value else { continue };
            let (middle, slot) = self.x(at, count);
            let width = 0.8 * slot / number(all).max(1.0);
            let (x, y) = (middle - 0.4 * slot + width * number(n), self.y(*value, axis));
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                self.bottom - y,
                // A single series is the subject, not the background.
                colour(if all == 1 { 2 } else { n })
            );
        }
    }

    fn points(&self, out: &mut String, groups: &[(String, Vec<(f64, f64)>)], axis: Axis) {
        let x = |value: f64| self.left + (self.right - self.left) * value / axis.end;
        for (value, text) in axis.ticks() {
            let (x, y) = (x(value), self.bottom + 15.0);
            let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{text}</text>");
        }
        let _ = writeln!(
            out,
            "<path d=\"M{} {}L{} {}\" stroke=\"#94a3b8\" stroke-dasharray=\"4 4\" fill=\"none\"/>",
            self.left, self.bottom, self.right, self.top
        );
        for (n, (_, points)) in groups.iter().enumerate() {
            for (measured, predicted) in points {
                let (x, y) = (x(*measured), self.y(*predicted, axis));
                let _ = writeln!(
                    out,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{}\" fill-opacity=\"0.75\"/>",
                    colour(n)
                );
            }
        }
    }
}

/// Names side by side, each after a square of its colour; none where there is nothing to tell apart.
fn legend(out: &mut String, names: &[&str], left: f64, y: f64) {
    let mut x = left;
    for (n, name) in names.iter().enumerate().filter(|_| names.len() > 1) {
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
            y - 9.0,
            colour(n),
            x + 14.0,
            escape(name)
        );
        x += 30.0 + CHARACTER * number(name.len());
    }
}

fn colour(n: usize) -> &'static str {
    COLOURS[n % COLOURS.len()]
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
