//! The cells of a matrix: read, and checked to be square and symmetric.

use std::fmt;
use std::ops::Range;

use toml::de::DeValue;
use topology::{HardwareGraph, LinkKind};

use toml_tables::Value;
use toml_tables::{Errors, nearest};

/// No GPU has more NVLink lanes (nvml.h, `NVML_NVLINK_MAX_LINKS`).
const MOST_LANES: u8 = 18;

/// Link between two GPUs according to one cell of a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell {
    /// A GPU and itself.
    Own,
    /// Bandwidth in one direction, GB/s.
    Gbps(f64),
    /// Number of NVLink lanes.
    Lanes(u8),
    /// The way over PCIe.
    Pcie(LinkKind),
}

/// The cells of a row, each with its place in the text.
pub(crate) type Row = Vec<(Cell, Range<usize>)>;

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("X"),
            Self::Gbps(gbps) => write!(f, "{gbps}"),
            Self::Lanes(lanes) => write!(f, "NV{lanes}"),
            Self::Pcie(level) => write!(f, "{level}"),
        }
    }
}

/// The cells of a matrix, row by row; `n` is the number of GPUs, if it is known. `None` if anything is wrong, which is
/// then among the errors.
pub(crate) fn cells(value: &Value<'_>, n: Option<usize>, errors: &Errors<'_>) -> Option<Vec<Row>> {
    let rows = value.get_ref().as_array().map(|a| a.iter().collect::<Vec<_>>());
    let Some(rows) = rows else {
        let hint = Some(
            "write rows of GB/s or links: [[0, 50], [50, 0]], [[\"X\", \"NV2\"], [\"NV2\", \"X\"]]"
                .to_owned(),
        );
        errors.push(value.span(), "matrix is not an array of rows", hint);
        return None;
    };
    if let Some(n) = n.filter(|n| *n != rows.len()) {
        errors.push(
            value.span(),
            format!(
                "matrix has {} for {}",
                geometry::counted(rows.len(), "row"),
                geometry::counted(n, "GPU")
            ),
            None,
        );
        return None;
    }
    if rows.len() > HardwareGraph::MOST_GPUS {
        let what = format!("matrix has {} rows: at most {} GPUs", rows.len(), HardwareGraph::MOST_GPUS);
        errors.push(value.span(), what, None);
        return None;
    }
    // Every wrong cell is reported, not only the first.
    let read: Vec<Option<Row>> = rows.iter().map(|row| matrix_row(row, rows.len(), errors)).collect();
    let read: Vec<Row> = read.into_iter().collect::<Option<_>>()?;
    for (a, row) in read.iter().enumerate() {
        for (b, (cell, span)) in row.iter().enumerate() {
            let own = matches!(cell, Cell::Own) || *cell == Cell::Gbps(0.0);
            let (what, hint) = if a == b && !own {
                (format!("matrix has {cell} between GPU {a} and itself"), "write 0 or \"X\"")
            } else if a != b && *cell == Cell::Own {
                (format!("matrix has X between GPU {a} and GPU {b}"), "X is only for a GPU and itself")
            } else if b < a && !alike(*cell, read[b][a].0) {
                let back = read[b][a].0;
                (
                    format!("matrix has {cell} from GPU {a} to GPU {b}, but {back} from GPU {b} to GPU {a}"),
                    "write the same value for both directions",
                )
            } else {
                continue;
            };
            errors.push(span.clone(), what, Some(hint.to_owned()));
            return None;
        }
    }
    Some(read)
}

fn alike(a: Cell, b: Cell) -> bool {
    match (a, b) {
        (Cell::Gbps(a), Cell::Gbps(b)) => (a - b).abs() <= f64::EPSILON,
        (a, b) => a == b,
    }
}

fn matrix_row(row: &Value<'_>, n: usize, errors: &Errors<'_>) -> Option<Row> {
    let Some(cells) = row.get_ref().as_array() else {
        errors.push(row.span(), "a row of matrix is not an array", None);
        return None;
    };
    if cells.len() != n {
        let what = format!(
            "this row has {}, but the matrix has {}",
            geometry::counted(cells.len(), "value"),
            geometry::counted(n, "row")
        );
        errors.push(row.span(), what, None);
        return None;
    }
    let read = |cell: &Value<'_>| {
        let read = match cell.get_ref() {
            DeValue::Integer(i) => number(i.as_str()),
            DeValue::Float(f) => number(f.as_str()),
            DeValue::String(word) => return self::word(word, cell.span(), errors),
            _ => None,
        };
        if read.is_none() {
            errors.push(
                cell.span(),
                "this cell is not a bandwidth in GB/s",
                Some("write a number, or a link such as \"NV2\" or \"PIX\"".to_owned()),
            );
        }
        read.map(|gbps| (Cell::Gbps(gbps), cell.span()))
    };
    let read: Vec<Option<_>> = cells.iter().map(read).collect();
    read.into_iter().collect()
}

fn number(text: &str) -> Option<f64> {
    text.replace('_', "").parse::<f64>().ok().filter(|bw| bw.is_finite() && *bw >= 0.0)
}

/// A word of `nvidia-smi topo -m`.
fn word(text: &str, span: Range<usize>, errors: &Errors<'_>) -> Option<(Cell, Range<usize>)> {
    let levels = [LinkKind::Pix, LinkKind::Pxb, LinkKind::Phb, LinkKind::Node, LinkKind::Sys];
    let lanes = |digits: &str| {
        digits.parse::<u8>().ok().filter(|n| (1..=MOST_LANES).contains(n) && n.to_string() == digits)
    };
    let level = levels.iter().find(|l| l.to_string() == text).map(|l| Cell::Pcie(*l));
    let read = match text {
        "X" => Some(Cell::Own),
        _ => text.strip_prefix("NV").and_then(lanes).map(Cell::Lanes).or(level),
    };
    if read.is_none() {
        let meant = nearest(text, ["NV1", "NV2", "NV4", "NV12", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS"]);
        let hint = meant.map_or_else(
            || format!("use X, NV1 to NV{MOST_LANES}, PIX, PXB, PHB, NODE, SYS, or GB/s"),
            |m| format!("did you mean {m}?"),
        );
        errors.push(span.clone(), format!("unknown link {text:?}"), Some(hint));
    }
    read.map(|cell| (cell, span))
}
