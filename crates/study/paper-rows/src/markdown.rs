//! A table as the pages have it.

use std::fmt::Write as _;

use super::{Agreement, Measure, PaperRow, PaperTable, RowGroup};

/// Writes a table in Markdown: a line for each row, then one for each group of several rows.
#[must_use]
pub fn markdown(table: &PaperTable) -> String {
    let spread = table.groups.iter().flat_map(|group| &group.rows).any(|row| row.spread.is_some());
    let mut out = format!("### {}: {}\n\n", table.name, table.title);
    let (head, line) = if spread { (" spread |", "---|") } else { ("", "") };
    let _ = writeln!(out, "| row | kind | paper | ours |{head} distance | best constant |");
    let _ = writeln!(out, "|---|---|---|---|{line}---|---|");
    for group in &table.groups {
        let kind = group.kind().name();
        for row in &group.rows {
            let more = if spread { format!(" {} |", range(row)) } else { String::new() };
            let kind = if row.paper.is_some() { kind } else { Agreement::NotPrinted.name() };
            let paper = row.paper.map_or_else(|| "-".to_owned(), number);
            let [distance, constant] = distances(group, row);
            let label = &row.label;
            let ours = number(row.ours);
            let _ = writeln!(out, "| {label} | {kind} | {paper} | {ours} |{more} {distance} | {constant} |");
        }
        if let (Some(error), Some(constant)) = (group.error(), group.constant()) {
            let more = if spread { " |" } else { "" };
            let value = number(constant.value);
            let _ = writeln!(
                out,
                "| **{}, all {}** | {kind} | | |{more} {} | {} (always {value}) |",
                group.what,
                group.pairs().len(),
                shown_error(group.measure, error),
                shown_error(group.measure, constant.error)
            );
        }
    }
    for note in &table.notes {
        let _ = writeln!(out, "\n{note}");
    }
    out
}

/// The distance of a row, and that of the group's best constant.
fn distances(group: &RowGroup, row: &PaperRow) -> [String; 2] {
    let Some(paper) = row.paper else { return ["-", "-"].map(str::to_owned) };
    let shown = |value: f64| {
        let distance = shown_as(group.measure, group.measure.distance(value, paper));
        let sign = if distance < 0.0 { "-" } else { "+" };
        format!("{sign}{}", with_unit(group.measure, distance.abs()))
    };
    let constant = group.constant().map_or_else(|| "-".to_owned(), |constant| shown(constant.value));
    [shown(row.ours), constant]
}

/// Turns the logarithm of a ratio into percent.
fn shown_as(measure: Measure, distance: f64) -> f64 {
    match measure {
        Measure::Points => distance,
        Measure::Ratio => 100.0 * ((distance / 100.0).exp() - 1.0),
    }
}

/// Writes the error of a group.
fn shown_error(measure: Measure, error: f64) -> String {
    with_unit(measure, shown_as(measure, error))
}

fn with_unit(measure: Measure, value: f64) -> String {
    match measure {
        Measure::Points if value < 1.0 => format!("{value:.2}"),
        Measure::Points => format!("{value:.1}"),
        Measure::Ratio => format!("{value:.1} %"),
    }
}

fn range(row: &PaperRow) -> String {
    row.spread
        .map_or_else(|| "-".to_owned(), |(least, most)| format!("{} to {}", number(least), number(most)))
}

/// Three figures behind the point below ten, one or none above.
fn number(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = if magnitude < 10.0 {
        3
    } else if magnitude < 1000.0 {
        1
    } else {
        0
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::super::{Basis, Measure, PaperRow, PaperTable, RowGroup};
    use super::*;

    #[test]
    fn a_line_for_each_row_and_each_group() {
        let rows = vec![
            PaperRow::new("a", 2.0, 2.1),
            PaperRow { spread: Some((3.5, 4.5)), ..PaperRow::new("b", 4.0, 3.9) },
            PaperRow::new("c", None, 12.34),
        ];
        let group = RowGroup {
            what: "x".into(),
            basis: Basis::Predicted,
            measure: Measure::Ratio,
            within: 10.0,
            rows,
        };
        let table = PaperTable {
            name: "Table 1",
            title: "t".into(),
            groups: vec![group],
            notes: vec!["A note.".into()],
        };
        let want = "\
### Table 1: t

| row | kind | paper | ours | spread | distance | best constant |
|---|---|---|---|---|---|---|
| a | predicted | 2.000 | 2.100 | - | +5.0 % | +41.4 % |
| b | predicted | 4.000 | 3.900 | 3.500 to 4.500 | -2.5 % | -29.3 % |
| c | ours alone | - | 12.3 | - | - | - |
| **x, all 2** | predicted | | | | 4.0 % | 41.4 % (always 2.828) |

A note.
";
        assert_eq!(markdown(&table), want);
    }
}
