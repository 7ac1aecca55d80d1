//! A figure as bars: the paper's and ours side by side.

use std::fmt::Display;

use case_study::figures::{Figure, Row};

use crate::render::svg::{self, Svg, TEXT_STYLE, tenths};

const MARGIN: f64 = 16.0;
const LABEL: f64 = 180.0;
const WIDTH: f64 = 520.0;
const BAR: f64 = 10.0;
const ROW: f64 = 30.0;
const TITLE: f64 = 56.0;

/// Rules of these bars alone.
const STYLE: &str = "\
.axis { stroke: #9aa3ae; } .paper { fill: #bcc4cd; stroke: #7c8793; } .ours { fill: #9bcbff; stroke: #3b7fc4; }
";

pub(super) fn svg(figure: &Figure) -> String {
    let values = || figure.rows.iter().flat_map(|row| [row.paper.unwrap_or(0.0), row.ours]);
    let (least, most) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
    let scale = WIDTH / f64::max(most - least, f64::MIN_POSITIVE);
    let zero = MARGIN + LABEL - least * scale;
    let bottom = MARGIN + TITLE + figure.rows.len() as f64 * ROW;
    let top = MARGIN + TITLE - 4.0;
    let (width, height) = (LABEL + WIDTH + 5.0 * MARGIN, bottom + MARGIN);
    let attributes: [(&str, &dyn Display); 4] = [
        ("viewBox", &format_args!("0 0 {width} {height}")),
        ("width", &width),
        ("height", &height),
        ("role", &"img"),
    ];
    svg::picture(&attributes, |out| {
        out.element("title").text(figure.name);
        out.line();
        out.style(&format!("{TEXT_STYLE}{STYLE}"));
        out.background(width - 1.0, height - 1.0);
        heading(out, figure);
        for (i, row) in (0_u32..).zip(&figure.rows) {
            bars(out, row, MARGIN + TITLE + f64::from(i) * ROW, zero, scale);
        }
        let axis = out.of_class("line", "axis").set("x1", tenths(zero)).set("y1", top);
        axis.set("x2", tenths(zero)).set("y2", bottom).end();
        out.line();
    })
}

/// Title and legend.
fn heading(out: &mut Svg, figure: &Figure) {
    let title = format_args!("{}: {}", figure.name, figure.title);
    out.of_class("text", "title").at(MARGIN, 32).text(title);
    out.line();
    for (x, class) in [(MARGIN, "paper"), (MARGIN + 80.0, "ours")] {
        out.of_class("rect", class).at(x, 44).size(BAR, BAR).end();
        out.line();
        out.element("text").at(x + BAR + 6.0, 53).text(class);
        out.line();
    }
}

/// The label of one row and its bars, from `y` down; a value of 0 is at `zero`.
fn bars(out: &mut Svg, row: &Row, y: f64, zero: f64, scale: f64) {
    out.element("text").at(MARGIN, tenths(y + 14.0)).text(&row.label);
    out.line();
    for (i, (value, class)) in [(row.paper, "paper"), (Some(row.ours), "ours")].into_iter().enumerate() {
        let Some(value) = value else { continue };
        let (x, width) = (zero + f64::min(value, 0.0) * scale, value.abs() * scale);
        let y = y + i as f64 * (BAR + 2.0);
        out.of_class("rect", class).at(tenths(x), tenths(y)).size(tenths(width), BAR).end();
        out.line();
        out.element("text").at(tenths(x + width + 4.0), tenths(y + 9.0)).text(number(value));
        out.line();
    }
}

/// Four significant digits, and none for nothing.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        v if v < 1e-4 => "0".to_owned(),
        v if v < 1.0 => format!("{value:.3}"),
        v if v < 100.0 => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    }
}
