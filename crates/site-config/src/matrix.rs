//! Bandwidth matrices, inline or in a file of their own.

use placement::LinkMatrix;
use placement::links::System;
use toml::de::{DeTable, DeValue};

use crate::error::Errors;
use crate::nodes::ReadFile;
use crate::reader::{At, TableReader, Value};

/// The links in a file that `tessera discover` wrote: those of its first `[[nodes]]`.
pub(crate) fn discovered(
    table: &TableReader<'_, '_>,
    file: &At<String>,
    n: Option<usize>,
    read_file: ReadFile<'_>,
) -> Option<(String, LinkMatrix)> {
    let text = match read_file(&file.value) {
        Ok(text) => text,
        Err(e) => {
            let hint = Some("`tessera discover` on such a node writes it".to_owned());
            table.errors.push(file.span.clone(), format!("cannot read {}: {e}", file.value), hint);
            return None;
        }
    };
    let inner = Errors::new(&file.value, &text);
    let read = matrix_of_file(&text, n, &inner);
    let found = inner.into_sorted();
    let failed = read.is_none() && found.is_empty();
    table.errors.adopt(file.span.start, found);
    if failed {
        let what = format!("{} has no links in [[nodes]]", file.value);
        table.errors.push(file.span.clone(), what, Some("`tessera discover` writes one".to_owned()));
    }
    read.map(|m| (file.value.clone(), m))
}

/// Links in a file of their own: `matrix = [[…]]`, or the first `[[nodes]]` with a matrix or a known interconnect, as
/// `tessera discover` writes it. `None` with the errors that say why.
pub fn links_of_file(file_name: &str, text: &str) -> (Option<LinkMatrix>, Vec<crate::ConfigError>) {
    let errors = Errors::new(file_name, text);
    let (root, syntax) = DeTable::parse_recoverable(text);
    let read = match root.get_ref().get("matrix").filter(|_| syntax.is_empty()) {
        Some(value) => matrix(value, None, &errors),
        None => matrix_of_file(text, None, &errors),
    };
    let found = errors.into_sorted();
    (read.filter(|_| found.is_empty()), found)
}

fn matrix_of_file(text: &str, n: Option<usize>, errors: &Errors<'_>) -> Option<LinkMatrix> {
    let (root, syntax) = DeTable::parse_recoverable(text);
    for e in &syntax {
        errors.push(e.span().unwrap_or(0..0), e.message().replace('\n', ", "), None);
    }
    let first = root.get_ref().get("nodes")?.get_ref().as_array()?.first()?.get_ref().as_table()?;
    if let Some(named) = first.get("interconnect") {
        let system = named.get_ref().as_str().and_then(System::find);
        let known = system.and_then(|s| s.matrix(n.unwrap_or(s.size)));
        if known.is_none() {
            let what = format!("no interconnect of this name links {} GPUs", n.unwrap_or(0));
            errors.push(named.span(), what, None);
        }
        return known;
    }
    matrix(first.get("matrix")?, n, errors)
}

/// A matrix as rows of numbers; `n`, where it is known, is the number of GPUs.
pub(crate) fn matrix(value: &Value<'_>, n: Option<usize>, errors: &Errors<'_>) -> Option<LinkMatrix> {
    let rows = value.get_ref().as_array().map(|a| a.iter().collect::<Vec<_>>());
    let Some(rows) = rows else {
        let hint = Some("rows of GB/s: [[0, 50], [50, 0]]".to_owned());
        errors.push(value.span(), "matrix is not an array of rows", hint);
        return None;
    };
    if let Some(n) = n.filter(|n| *n != rows.len()) {
        errors.push(value.span(), format!("matrix has {} rows for {n} GPUs", rows.len()), None);
        return None;
    }
    let read: Option<Vec<Vec<f64>>> = rows.iter().map(|row| matrix_row(row, rows.len(), errors)).collect();
    let read = read?;
    for (a, row) in read.iter().enumerate() {
        for (b, bw) in row.iter().enumerate() {
            let cell =
                || rows[a].get_ref().as_array().and_then(|r| r.get(b)).map_or(value.span(), |v| v.span());
            if a == b && *bw != 0.0 {
                errors.push(
                    cell(),
                    format!("matrix has {bw} between GPU {a} and itself"),
                    Some("write 0".to_owned()),
                );
                return None;
            }
            if b < a && (bw - read[b][a]).abs() > f64::EPSILON {
                let what = format!("matrix has {bw} from GPU {a} to {b} but {} back", read[b][a]);
                errors.push(cell(), what, Some("both directions are the same".to_owned()));
                return None;
            }
        }
    }
    LinkMatrix::from_rows(&read)
}

fn matrix_row(row: &Value<'_>, n: usize, errors: &Errors<'_>) -> Option<Vec<f64>> {
    let Some(cells) = row.get_ref().as_array() else {
        errors.push(row.span(), "a row of matrix is not an array", None);
        return None;
    };
    if cells.len() != n {
        errors.push(
            row.span(),
            format!("this row has {} numbers in a matrix of {n} rows", cells.len()),
            None,
        );
        return None;
    }
    let number = |cell: &Value<'_>| {
        let text = match cell.get_ref() {
            DeValue::Integer(i) => i.as_str().replace('_', ""),
            DeValue::Float(f) => f.as_str().replace('_', ""),
            _ => String::new(),
        };
        let read = text.parse::<f64>().ok().filter(|bw| bw.is_finite() && *bw >= 0.0);
        if read.is_none() {
            errors.push(cell.span(), "not a bandwidth in GB/s", None);
        }
        read
    };
    cells.iter().map(number).collect()
}
