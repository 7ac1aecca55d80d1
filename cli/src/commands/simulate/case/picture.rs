//! A figure as bars: the paper's and ours side by side.

use std::fmt::Write as _;

use case_study::figures::{Figure, Row};

use crate::render::svg::escape;

const MARGIN: f64 = 16.0;
const LABEL: f64 = 180.0;
const WIDTH: f64 = 520.0;
const BAR: f64 = 10.0;
const ROW: f64 = 30.0;
const TITLE: f64 = 56.0;

/// The picture carries its own background, so that it reads on a light and a dark page.
const STYLE: &str = "\
text { font: 12px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1c2128; }
.title { font-weight: 600; font-size: 15px; } .bg { fill: #ffffff; stroke: #d0d7de; } .axis { stroke: #9aa3ae; }
.paper { fill: #d4d8de; stroke: #9aa3ae; } .ours { fill: #8ec5ff; stroke: #4a90d9; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .bg { fill: #0d1117; stroke: #3d444d; } .axis { stroke: #9198a1; }
}";

pub(super) fn svg(figure: &Figure) -> String {
    let values = || figure.rows.iter().flat_map(|row| [row.paper.unwrap_or(0.0), row.ours]);
    let (least, most) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
    let scale = WIDTH / f64::max(most - least, f64::MIN_POSITIVE);
    let zero = MARGIN + LABEL - least * scale;
    let mut body = heading(figure);
    for (i, row) in (0_u32..).zip(&figure.rows) {
        bars(&mut body, row, MARGIN + TITLE + f64::from(i) * ROW, zero, scale);
    }
    let bottom = MARGIN + TITLE + figure.rows.len() as f64 * ROW;
    let top = MARGIN + TITLE - 4.0;
    let _ = writeln!(
        body,
        "<line class=\"axis\" x1=\"{zero:.1}\" y1=\"{top}\" x2=\"{zero:.1}\" y2=\"{bottom}\"/>"
    );
    let (width, height) = (LABEL + WIDTH + 5.0 * MARGIN, bottom + MARGIN);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"bg\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"10\"/>\n{body}</svg>\n",
        escape(figure.name),
        width - 1.0,
        height - 1.0,
    )
}

/// Title and legend.
fn heading(figure: &Figure) -> String {
    let mut out = String::new();
    let title = escape(&format!("{}: {}", figure.name, figure.title));
    let _ = writeln!(out, "<text class=\"title\" x=\"{MARGIN}\" y=\"32\">{title}</text>");
    for (x, class) in [(MARGIN, "paper"), (MARGIN + 80.0, "ours")] {
        let _ =
            writeln!(out, "<rect class=\"{class}\" x=\"{x}\" y=\"44\" width=\"{BAR}\" height=\"{BAR}\"/>");
        let _ = writeln!(out, "<text x=\"{}\" y=\"53\">{class}</text>", x + BAR + 6.0);
    }
    out
}

/// The label of one row and its bars, from `y` down; a value of 0 is at `zero`.
fn bars(out: &mut String, row: &Row, y: f64, zero: f64, scale: f64) {
    let _ = writeln!(out, "<text x=\"{MARGIN}\" y=\"{:.1}\">{}</text>", y + 14.0, escape(&row.label));
    for (i, (value, class)) in [(row.paper, "paper"), (Some(row.ours), "ours")].into_iter().enumerate() {
        let Some(value) = value else { continue };
        let (x, width) = (zero + f64::min(value, 0.0) * scale, value.abs() * scale);
        let y = y + i as f64 * (BAR + 2.0);
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + width + 4.0,
            y + 9.0,
            number(value),
        );
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
