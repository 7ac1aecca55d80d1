//! Links written as a matrix, inline or in a file of their own.
//!
//! A cell is a bandwidth in GB/s or a word of `nvidia-smi topo -m`: `NV4` for four NVLink lanes, or `PIX`, `PXB`,
//! `PHB`, `NODE`, `SYS` for the way over PCIe. Beside the matrix stand the generations that give words their rates.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use geometry::Model;
use toml::de::DeValue;
use topology::{
    HardwareGraph, Link, LinkKind, LinkMatrix, PcieSlot, System, newest_nvlink, newest_pcie, nvlink_of,
    pcie_of,
};

use crate::error::{Errors, nearest};
use crate::nodes::ReadFile;
use crate::reader::{At, TableReader, Value};

/// Keys that say more about a matrix.
pub(crate) const BESIDE: [&str; 5] = ["nvlink", "nvswitch", "pcie", "pcie_lanes", "socket"];

/// No GPU has more NVLink lanes (nvml.h, `NVML_NVLINK_MAX_LINKS`).
const MOST_LANES: u8 = 18;

/// The links in a file that `tessera discover` wrote: those of its first `[[nodes]]`.
pub(crate) fn discovered(
    table: &TableReader<'_, '_>,
    file: &At<String>,
    gpus: Option<&[&'static Model]>,
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
    let read = links_of_text(&text, gpus, &inner);
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
    let read = links_of_text(text, None, &errors);
    let found = errors.into_sorted();
    (read.filter(|_| found.is_empty()), found)
}

fn links_of_text(text: &str, gpus: Option<&[&'static Model]>, errors: &Errors<'_>) -> Option<LinkMatrix> {
    let (root, syntax) = crate::depth::tables(text, errors);
    if syntax > 0 {
        return None;
    }
    let root = TableReader::new(root.get_ref(), root.span(), "", errors);
    if root.has("matrix") {
        return matrix(&root, gpus.map(<[_]>::len), gpus.and_then(|g| g.first()).copied());
    }
    let nodes = root.tables("nodes");
    let first = nodes.first()?;
    let model = first.get("gpu").and_then(|v| Model::find(v.get_ref().as_str()?));
    let n = gpus.map(<[_]>::len);
    if let Some(named) = first.get("interconnect") {
        let system = named.get_ref().as_str().and_then(System::find);
        let count = first.has("count").then(|| first.number("count", 1..65)).flatten();
        let count = n.or_else(|| count.and_then(|c| usize::try_from(c.value).ok()));
        let known = system.and_then(|s| s.matrix(count.unwrap_or(s.size)));
        if known.is_none() {
            let what = format!("no interconnect of this name links {} GPUs", count.unwrap_or(0));
            errors.push(named.span(), what, None);
        }
        return known;
    }
    matrix(first, n, gpus.and_then(|g| g.first()).copied().or(model))
}

/// One cell of a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell {
    /// A GPU and itself.
    Own,
    Gbps(f64),
    Lanes(u8),
    Pcie(LinkKind),
}

/// A row's cells and where they are written.
type Row = Vec<(Cell, Range<usize>)>;

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

/// The matrix of a table, and what stands beside it. `n`, where it is known, is the number of GPUs; `model` gives the
/// generations that are not written.
pub(crate) fn matrix(
    table: &TableReader<'_, '_>,
    n: Option<usize>,
    model: Option<&'static Model>,
) -> Option<LinkMatrix> {
    let value = table.get("matrix")?;
    let cells = cells(value, n, table.errors);
    let small =
        |key, most: u8| table.number(key, 1..u64::from(most) + 1).and_then(|at| u8::try_from(at.value).ok());
    let nvlink = small("nvlink", newest_nvlink());
    let pcie = small("pcie", newest_pcie());
    let lanes = small("pcie_lanes", 16);
    let socket = small("socket", 64);
    let switched = table.boolean("nvswitch").unwrap_or(false);
    // What is wrong beside the matrix has been said: a value that is there and was not read is no missing one.
    if [("nvlink", nvlink), ("pcie", pcie), ("pcie_lanes", lanes), ("socket", socket)]
        .iter()
        .any(|(key, read)| table.has(key) && read.is_none())
    {
        return None;
    }
    let generation = nvlink.or_else(|| nvlink_of(&model?.arch));
    let slot = pcie.or_else(|| pcie_of(&model?.arch));
    let slot = slot.map(|generation| PcieSlot { generation, lanes: lanes.unwrap_or(16) });
    let cells = cells?;
    let links = links(&cells, generation, slot, table.errors)?;
    let n = cells.len();
    let at = |a: usize, b: usize| links[a * n + b];
    let graph = if switched {
        let port = |gpu: usize| {
            let lanes = (0..n).filter(|other| *other != gpu).map(|other| at(gpu, other));
            lanes.filter(|l| matches!(l.kind, LinkKind::NvLink { .. })).map(Link::gbps).reduce(f64::max)
        };
        HardwareGraph::with_ports(n, &port, socket.map_or(n.div_ceil(2), usize::from), &at)
    } else if cells.iter().flatten().all(|(cell, _)| matches!(cell, Cell::Own | Cell::Gbps(_))) {
        let plain = HardwareGraph::of_bandwidths(n, &|a, b| at(a, b).gbps());
        socket.map_or(plain.clone(), |socket| plain.with_socket(socket.into()))
    } else {
        HardwareGraph::new(n, None, socket.map_or(n.div_ceil(2), usize::from), &at)
    };
    Some(LinkMatrix::of_graph(Arc::new(graph)))
}

/// The links of all cells, row by row.
fn links(
    cells: &[Row],
    generation: Option<u8>,
    slot: Option<PcieSlot>,
    errors: &Errors<'_>,
) -> Option<Vec<Link>> {
    let link = |(cell, span): &(Cell, Range<usize>)| {
        let read = match *cell {
            Cell::Own => return Some(Link::new(LinkKind::Pix, 0.0)),
            Cell::Gbps(gbps) => return Some(Link::of_bandwidth(gbps)),
            Cell::Lanes(lanes) => generation.and_then(|g| Link::nvlink(g, lanes)),
            Cell::Pcie(level) => slot.and_then(|slot| Link::pcie(level, slot)),
        };
        if read.is_none() {
            let (what, hint) = match cell {
                Cell::Lanes(_) => ("but not of which NVLink generation", "add nvlink = 3, the generation"),
                _ => ("but not of which PCIe generation", "add pcie = 4, the generation"),
            };
            errors.push(span.clone(), format!("matrix has {cell}, {what}"), Some(hint.to_owned()));
        }
        read
    };
    // The first of them is enough: the rest lack the same.
    cells.iter().flatten().map(link).collect()
}

fn cells(value: &Value<'_>, n: Option<usize>, errors: &Errors<'_>) -> Option<Vec<Row>> {
    let rows = value.get_ref().as_array().map(|a| a.iter().collect::<Vec<_>>());
    let Some(rows) = rows else {
        let hint = Some(
            "rows of GB/s or links: [[0, 50], [50, 0]], [[\"X\", \"NV2\"], [\"NV2\", \"X\"]]".to_owned(),
        );
        errors.push(value.span(), "matrix is not an array of rows", hint);
        return None;
    };
    if let Some(n) = n.filter(|n| *n != rows.len()) {
        errors.push(value.span(), format!("matrix has {} rows for {n} GPUs", rows.len()), None);
        return None;
    }
    if rows.len() > HardwareGraph::MOST_GPUS {
        let what = format!("matrix has {} rows: at most {} GPUs", rows.len(), HardwareGraph::MOST_GPUS);
        errors.push(value.span(), what, None);
        return None;
    }
    // Every cell that is wrong is told, not only the first.
    let read: Vec<Option<Row>> = rows.iter().map(|row| matrix_row(row, rows.len(), errors)).collect();
    let read: Vec<Row> = read.into_iter().collect::<Option<_>>()?;
    for (a, row) in read.iter().enumerate() {
        for (b, (cell, span)) in row.iter().enumerate() {
            let own = matches!(cell, Cell::Own) || *cell == Cell::Gbps(0.0);
            let (what, hint) = if a == b && !own {
                (format!("matrix has {cell} between GPU {a} and itself"), "write 0 or \"X\"")
            } else if a != b && *cell == Cell::Own {
                (format!("matrix has X between GPU {a} and {b}"), "X is a GPU and itself")
            } else if b < a && !alike(*cell, read[b][a].0) {
                let back = read[b][a].0;
                (
                    format!("matrix has {cell} from GPU {a} to {b} but {back} back"),
                    "both directions are the same",
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
        let what = format!("this row has {} entries in a matrix of {n} rows", cells.len());
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
                "not a bandwidth in GB/s",
                Some("or a link such as \"NV2\" or \"PIX\"".to_owned()),
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
            || format!("X, NV1 to NV{MOST_LANES}, PIX, PXB, PHB, NODE, SYS, or GB/s"),
            |m| format!("did you mean {m}?"),
        );
        errors.push(span.clone(), format!("unknown link {text:?}"), Some(hint));
    }
    read.map(|cell| (cell, span))
}
