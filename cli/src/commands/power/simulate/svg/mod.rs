//! A figure as a picture: which panels it has, and what each shows.

mod axis;
mod draw;

use super::figures::Row;
use draw::{Panel, Plot, Series};

/// The whole picture.
pub(super) fn of(figure: u8, rows: &[Row]) -> String {
    draw::picture(&panels(figure, rows))
}

fn panels(figure: u8, rows: &[Row]) -> Vec<Panel> {
    let title = |of: &str| format!("Figure {figure}: {of}");
    let all: Vec<&Row> = rows.iter().collect();
    match figure {
        4 | 5 => {
            let apps = split(&all, |row| row.workload.clone());
            apps.into_iter().map(|(app, rows)| scaling(figure, title(&app), &rows)).collect()
        }
        6 => {
            let places = all.iter().map(|row| format!("{} {}", row.workload, state(row))).collect();
            let series = vec![series("measured", &all, |row| row.best)];
            let plot = Plot::Bars { places, series };
            vec![Panel { title: title("throughput at 250 W"), x: "", y: "throughput", plot }]
        }
        8 => split(&all, |row| row.metric.to_owned())
            .into_iter()
            .map(|(metric, rows)| accuracy(title(&format!("{metric} at 250 W")), &rows))
            .collect(),
        10 => {
            let watts = |row: &Row| row.cap_w.map_or_else(String::new, |watts| watts.to_string());
            vec![means(
                title("throughput, geometric mean, alpha 0.20"),
                "power cap, W",
                "throughput",
                &all,
                watts,
            )]
        }
        13 => {
            let efficiency = title("efficiency, geometric mean");
            vec![means(efficiency, "alpha", "throughput per W", &all, alpha)]
        }
        _ => split(&all, alpha)
            .into_iter()
            .map(|(alpha, rows)| {
                let (what, y) = match rows.first().map_or("", |row| row.metric) {
                    "cap_w" => ("power cap", "power cap, W"),
                    "efficiency" => ("efficiency", "throughput per W"),
                    _ => ("throughput at 230 W", "throughput"),
                };
                let places = rows.iter().map(|row| row.workload.clone()).collect();
                let plot = Plot::Bars { places, series: judged(&rows) };
                Panel { title: title(&format!("{what}, alpha {alpha}")), x: "", y, plot }
            })
            .collect(),
    }
}

/// Figures 4 and 5: one application over GPCs, a line for each option or each cap.
fn scaling(figure: u8, title: String, rows: &[&Row]) -> Panel {
    let kind = |row: &Row| match (figure, state(row).ends_with('g')) {
        (5, _) => row.cap_w.map_or_else(String::new, |watts| format!("{watts} W")),
        (_, true) => "private".to_owned(),
        (_, false) => "shared".to_owned(),
    };
    let gpcs = |row: &Row| state(row).trim_end_matches(['c', 'g']).to_owned();
    let lines = split(rows, kind).into_iter().map(|(name, rows)| series(&name, &rows, |row| row.best));
    let places = split(rows, gpcs).into_iter().map(|(gpcs, _)| gpcs).collect();
    let plot = Plot::Lines { places, series: lines.collect() };
    Panel { title, x: "GPCs", y: "relative performance", plot }
}

/// Figure 8: a point for each workload, a colour for each state.
fn accuracy(title: String, rows: &[&Row]) -> Panel {
    let point = |row: &&Row| Some((row.best?, row.proposal?));
    let groups = split(rows, state).into_iter();
    let plot =
        Plot::Points(groups.map(|(state, rows)| (state, rows.iter().filter_map(point).collect())).collect());
    Panel { title, x: "measured", y: "predicted", plot }
}

/// The geometric means over caps or α.
fn means(
    title: String,
    x: &'static str,
    y: &'static str,
    rows: &[&Row],
    place: impl Fn(&Row) -> String,
) -> Panel {
    let is_mean = |row: &&&Row| row.workload == super::figures::GEOMEAN;
    let means: Vec<&Row> = rows.iter().filter(is_mean).copied().collect();
    let places = means.iter().map(|row| place(row)).collect();
    Panel { title, x, y, plot: Plot::Lines { places, series: judged(&means) } }
}

fn judged(rows: &[&Row]) -> Vec<Series> {
    vec![
        series("worst", rows, |row| row.worst),
        series("proposal", rows, |row| row.proposal),
        series("best", rows, |row| row.best),
    ]
}

fn series(name: &str, rows: &[&Row], value: fn(&Row) -> Option<f64>) -> Series {
    Series { name: name.to_owned(), values: rows.iter().map(|row| value(row)).collect() }
}

fn state(row: &Row) -> String {
    row.state.clone().unwrap_or_default()
}

fn alpha(row: &Row) -> String {
    row.alpha.map_or_else(String::new, |alpha| format!("{alpha:.2}"))
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
