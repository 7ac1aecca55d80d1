//! Links written as a matrix, in tessera.toml or in a file of their own.
//!
//! A cell is a bandwidth in GB/s or a word of `nvidia-smi topo -m`: `NV4` for four NVLink lanes, or `PIX`, `PXB`,
//! `PHB`, `NODE`, `SYS` for the way over PCIe. Other keys give the generations, which determine the rates of words.

use std::io;
use std::ops::Range;

use geometry::Model;
use topology::{
    HardwareGraph, Link, LinkKind, PcieSlot, System, newest_nvlink, newest_pcie, nvlink_of, pcie_of,
};

use crate::matrix_cells::{Cell, Row, cells};
use toml_tables::{At, TableReader};
use toml_tables::{ConfigError, Errors};

/// Reads a file that the configuration names, as written there.
pub(crate) type ReadFile<'f> = &'f dyn Fn(&str) -> io::Result<String>;

/// Keys that only go with a matrix.
pub(crate) const BESIDE: [&str; 5] = ["nvlink", "nvswitch", "pcie", "pcie_lanes", "socket"];

/// The links in a file that `tessera discover` wrote: those of its first `[[nodes]]`.
pub(crate) fn discovered(
    table: &TableReader<'_, '_>,
    file: &At<String>,
    gpus: Option<&[&'static Model]>,
    read_file: ReadFile<'_>,
) -> Option<(String, HardwareGraph)> {
    let text = match read_file(&file.value) {
        Ok(text) => text,
        Err(e) => {
            let hint = Some("run `tessera discover` on such a node to write it".to_owned());
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

/// Reads links from a file of their own: `matrix = [[…]]`, or the first `[[nodes]]` with a matrix or a known
/// interconnect, as `tessera discover` writes it. If there are none, the errors say why.
pub fn links_of_file(file_name: &str, text: &str) -> (Option<HardwareGraph>, Vec<ConfigError>) {
    let errors = Errors::new(file_name, text);
    let read = links_of_text(text, None, &errors);
    let found = errors.into_sorted();
    (read.filter(|_| found.is_empty()), found)
}

fn links_of_text(text: &str, gpus: Option<&[&'static Model]>, errors: &Errors<'_>) -> Option<HardwareGraph> {
    let (root, syntax) = crate::tables(text, errors);
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
        let known = system.and_then(|s| s.graph(count.unwrap_or(s.size)));
        if known.is_none() {
            let what = format!(
                "no interconnect of this name links {}",
                geometry::counted(count.unwrap_or(0), "GPU")
            );
            errors.push(named.span(), what, None);
        }
        return known;
    }
    matrix(first, n, gpus.and_then(|g| g.first()).copied().or(model))
}

/// The links of a table with a matrix. `n` is the number of GPUs, if it is known. `model` gives the generations that the
/// table does not.
pub(crate) fn matrix(
    table: &TableReader<'_, '_>,
    n: Option<usize>,
    model: Option<&'static Model>,
) -> Option<HardwareGraph> {
    let value = table.get("matrix")?;
    let cells = cells(value, n, table.errors);
    let small =
        |key, most: u8| table.number(key, 1..u64::from(most) + 1).and_then(|at| u8::try_from(at.value).ok());
    let nvlink = small("nvlink", newest_nvlink());
    let pcie = small("pcie", newest_pcie());
    let lanes = small("pcie_lanes", 16);
    let socket = small("socket", 64);
    let switched = table.boolean("nvswitch").unwrap_or(false);
    // A key that is there but could not be read has its error already; it must not be reported as missing.
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
    Some(graph)
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
                Cell::Lanes(_) => {
                    ("but its NVLink generation is not known", "add nvlink = 3, the generation")
                }
                _ => ("but its PCIe generation is not known", "add pcie = 4, the generation"),
            };
            errors.push(span.clone(), format!("matrix has {cell}, {what}"), Some(hint.to_owned()));
        }
        read
    };
    // Stops at the first error, because all other cells lack the same generation.
    cells.iter().flatten().map(link).collect()
}
