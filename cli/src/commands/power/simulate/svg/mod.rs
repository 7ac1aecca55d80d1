//! A figure as a picture: one panel for each application or α, lines over numbers, bars over workloads.

use std::fmt::Write as _;

use super::figures::Row;
use crate::render::svg::escape;

const HEIGHT: f64 = 220.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 16.0;
const TITLE: f64 = 30.0;
/// Below a panel: labels, standing on end.
const LABELS: f64 = 96.0;
const LEGEND: f64 = 26.0;

const COLOURS: [&str; 6] = ["#94a3b8", "#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#0f172a"];

/// Values over the same places.
struct Panel {
    title: String,
    places: Vec<String>,
    series: Vec<Series>,
    is_line: bool,
}

struct Series {
    name: String,
    values: Vec<Option<f64>>,
}

/// The whole picture.
pub(super) fn of(figure: u8, rows: &[Row]) -> String {
    let panels = panels(figure, rows);
    let widest = panels.iter().map(|panel| panel.places.len()).max().unwrap_or(1);
    let width = LEFT + RIGHT + f64::from(u32::try_from(widest).unwrap_or(1)).max(12.0) * 36.0;
    let step = TITLE + HEIGHT + LABELS + LEGEND;
    let count = f64::from(u32::try_from(panels.len()).unwrap_or(1));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        step * count
    );
    let mut top = 0.0;
    for panel in &panels {
        draw(&mut out, panel, width, top);
        top += step;
    }
    out.push_str("</svg>\n");
    out
}

fn panels(figure: u8, rows: &[Row]) -> Vec<Panel> {
    let title = |of: &str| format!("Figure {figure}: {of}");
    let watts = |row: &Row| row.cap_w.map_or_else(String::new, |watts| format!("{watts} W"));
    let alpha = |row: &Row| row.alpha.map_or_else(String::new, |alpha| format!("alpha {alpha:.2}"));
    let state = |row: &Row| row.state.clone().unwrap_or_default();
    let gpcs = |row: &Row| state(row).trim_end_matches(['c', 'g']).to_owned();
    match figure {
        4 | 5 => {
            let kind = |row: &Row| match (figure, state(row).ends_with('g')) {
                (5, _) => watts(row),
                (_, true) => "private".to_owned(),
                (_, false) => "shared".to_owned(),
            };
            let all: Vec<&Row> = rows.iter().collect();
            split(&all, |row| row.workload.clone())
                .into_iter()
                .map(|(app, rows)| {
                    let by_kind = split(&rows, kind).into_iter();
                    let series = by_kind
                        .map(|(name, rows)| Series { name, values: rows.iter().map(|r| r.best).collect() });
                    let series: Vec<Series> = series.collect();
                    let places = split(&rows, gpcs).into_iter().map(|(gpcs, _)| gpcs).collect();
                    Panel {
                        title: title(&format!("{app}, relative performance over GPCs")),
                        places,
                        series,
                        is_line: true,
                    }
                })
                .collect()
        }
        6 => {
            let panel = chosen(title("throughput"), &rows.iter().collect::<Vec<_>>(), |row| {
                format!("{} {}", row.workload, state(row))
            });
            vec![Panel { series: panel.series.into_iter().skip(2).collect(), ..panel }]
        }
        8 => by(
            rows,
            |row| row.metric.to_owned(),
            |metric, rows| {
                let panel = chosen(title(metric), rows, |row| format!("{} {}", row.workload, state(row)));
                let named = panel.series.into_iter().skip(1).zip(["predicted", "measured"]);
                let series = named.map(|(series, name)| Series { name: name.to_owned(), ..series }).collect();
                Panel { series, ..panel }
            },
        ),
        10 => vec![lines(title("throughput, geometric mean"), rows, watts)],
        13 => vec![lines(title("efficiency, geometric mean"), rows, alpha)],
        _ => by(rows, alpha, |alpha, rows| {
            let metric = rows.first().map_or("", |row| row.metric);
            chosen(title(&format!("{metric}, {alpha}")), rows, |row| row.workload.clone())
        }),
    }
}

/// Rows by a key, in the order in which the keys come.
fn split<'r>(rows: &[&'r Row], key: impl Fn(&Row) -> String) -> Vec<(String, Vec<&'r Row>)> {
    let mut groups: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in rows {
        let key = key(row);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    groups
}

fn by(rows: &[Row], key: impl Fn(&Row) -> String, panel: impl Fn(&str, &[&Row]) -> Panel) -> Vec<Panel> {
    let all: Vec<&Row> = rows.iter().collect();
    split(&all, key).iter().map(|(key, rows)| panel(key, rows)).collect()
}

/// Worst, proposal and best.
fn chosen(title: String, rows: &[&Row], place: impl Fn(&Row) -> String) -> Panel {
    let series = |name: &str, value: fn(&Row) -> Option<f64>| Series {
        name: name.to_owned(),
        values: rows.iter().map(|row| value(row)).collect(),
    };
    let series = vec![
        series("worst", |row| row.worst),
        series("proposal", |row| row.proposal),
        series("best", |row| row.best),
    ];
    Panel { title, places: rows.iter().map(|row| place(row)).collect(), series, is_line: false }
}

/// The geometric means over caps or α.
fn lines(title: String, rows: &[Row], place: impl Fn(&Row) -> String) -> Panel {
    let means: Vec<&Row> = rows.iter().filter(|row| row.workload == super::figures::GEOMEAN).collect();
    Panel { is_line: true, ..chosen(title, &means, place) }
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn draw(out: &mut String, panel: &Panel, width: f64, top: f64) {
    let values = panel.series.iter().flat_map(|series| series.values.iter().flatten().copied());
    let highest = values.fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let (bottom, plot) = (top + TITLE + HEIGHT, width - LEFT - RIGHT);
    let y = |value: f64| bottom - HEIGHT * value / highest;
    let slot = plot / number(panel.places.len()).max(1.0);
    let x = |at: usize| LEFT + slot * (number(at) + 0.5);
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{:.1}\" font-size=\"14\">{}</text>\n\
         <path d=\"M{LEFT} {:.1}V{bottom:.1}H{:.1}\" stroke=\"#475569\" fill=\"none\"/>",
        top + 20.0,
        escape(&panel.title),
        top + TITLE,
        width - RIGHT
    );
    for part in [0.0, 0.5, 1.0] {
        let value = part * highest;
        let digits = if highest < 0.1 {
            4
        } else if highest > 10.0 {
            0
        } else {
            2
        };
        let (x, y) = (LEFT - 6.0, y(value) + 4.0);
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{value:.digits$}</text>");
    }
    for (at, place) in panel.places.iter().enumerate() {
        let (x, y) = (x(at), bottom + 10.0);
        let place = escape(place);
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\" transform=\"rotate(-60 {x:.1} {y:.1})\">{place}</text>"
        );
    }
    let bar = 0.8 * slot / number(panel.series.len()).max(1.0);
    for (n, series) in panel.series.iter().enumerate() {
        let colour = COLOURS[n % COLOURS.len()];
        let known = series.values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
        if panel.is_line {
            let points: Vec<String> =
                known.map(|(at, value)| format!("{:.1},{:.1}", x(at), y(value))).collect();
            let points = points.join(" ");
            let _ = writeln!(
                out,
                "<polyline points=\"{points}\" stroke=\"{colour}\" stroke-width=\"2\" fill=\"none\"/>"
            );
        } else {
            for (at, value) in known {
                let (x, y) = (x(at) - 0.4 * slot + bar * number(n), y(value));
                let height = bottom - y;
                let _ = writeln!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{bar:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
                );
            }
        }
        let (x, y) = (LEFT + 76.0 * number(n), bottom + LABELS + 4.0);
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text x=\"{}\" y=\"{y:.1}\">{}</text>",
            y - 9.0,
            x + 14.0,
            escape(&series.name)
        );
    }
}
