//! Writes links as `tessera discover` prints them.

use geometry::GpuIndex;
use topology::{HardwareGraph, Link, LinkKind, PcieSlot};

/// The keys of a `[[nodes]]` that describe these links, as `site-config` reads them; empty for fewer than two GPUs.
///
/// `slot` is the PCIe slot of the GPUs. Without it, and for pairs whose bandwidth does not follow from it, bandwidths are
/// written instead of words; the kind of such a link is then lost.
#[must_use]
pub fn links_text(graph: &HardwareGraph, slot: Option<PcieSlot>) -> String {
    let n = graph.len();
    if n < 2 {
        return String::new();
    }
    let gpus: Vec<GpuIndex> = graph.all().iter().collect();
    let pairs = || gpus.iter().flat_map(|a| gpus.iter().filter_map(|b| graph.link(*a, *b)));
    let generations = pairs().filter_map(|l| match l.kind {
        LinkKind::NvLink { generation, lanes } if Link::nvlink(generation, lanes) == Some(l) => {
            Some(generation)
        }
        _ => None,
    });
    let generation = generations.clone().max_by_key(|g| (generations.clone().filter(|o| o == g).count(), *g));
    let word = |link: Link| match link.kind {
        LinkKind::NvLink { generation: of, .. } => {
            generation == Some(of) && Link::nvlink(of, lanes(link)) == Some(link)
        }
        level => slot.and_then(|slot| Link::pcie(level, slot)) == Some(link),
    };
    let mut lines = Vec::new();
    if let Some(generation) = generation {
        lines.push(format!("nvlink = {generation} # generation"));
    }
    if gpus.iter().any(|g| graph.sends_mb_s(*g) < u32::MAX) {
        lines.push("nvswitch = true".to_owned());
    }
    let pcie_words = pairs().any(|l| !matches!(l.kind, LinkKind::NvLink { .. }) && word(l));
    if let Some(slot) = slot.filter(|_| pcie_words) {
        lines.push(format!("pcie = {} # generation", slot.generation));
        if slot.lanes != 16 {
            lines.push(format!("pcie_lanes = {}", slot.lanes));
        }
    }
    if graph.socket() != n.div_ceil(2) {
        lines.push(format!("socket = {} # GPUs", graph.socket()));
    }
    let cell = |a: GpuIndex, b: GpuIndex| match graph.link(a, b) {
        None => "\"X\"".to_owned(),
        Some(link) if word(link) => format!("\"{}\"", link.kind),
        Some(link) => link.gbps().to_string(),
    };
    let rows: Vec<Vec<String>> = gpus.iter().map(|a| gpus.iter().map(|b| cell(*a, *b)).collect()).collect();
    let width = rows.iter().flatten().map(String::len).max().unwrap_or(0);
    lines.push("matrix = [ # as `nvidia-smi topo -m` has them".to_owned());
    for row in rows {
        let padded: Vec<String> = row.iter().map(|c| format!("{c:>width$}")).collect();
        lines.push(format!("  [{}],", padded.join(", ")));
    }
    lines.push("]\n".to_owned());
    lines.join("\n")
}

fn lanes(link: Link) -> u8 {
    match link.kind {
        LinkKind::NvLink { lanes, .. } => lanes,
        _ => 0,
    }
}
