//! How the described GPUs are connected: NVLink connections and PCIe topology levels.

use topology::{LinkKind, System, nvml_version, systems};

use super::chip::Chip;
use super::node_file::{GpuSpec, NodeError, NodeFile, fail};

/// The system that a node file names; `none` and `nvswitch` are none.
pub(super) fn named(file: &NodeFile) -> Result<Option<&'static System>, NodeError> {
    match file.interconnect.as_deref() {
        Some(_) if file.links.is_some() => fail("`links` and `interconnect` exclude each other"),
        None | Some("none" | "nvswitch") => Ok(None),
        Some(name) => System::find(name).map(Some).ok_or_else(|| {
            let known: Vec<&str> = systems().iter().map(|s| s.name.as_str()).collect();
            NodeError(format!(
                "interconnect {name:?} is not known; known: none, nvswitch, {}",
                known.join(", ")
            ))
        }),
    }
}

/// NVLink connections, as one node has them.
pub(super) struct NvLinks {
    /// Per pair of GPUs.
    pub(super) pairs: Vec<Vec<u32>>,
    /// Of each GPU to NVSwitches.
    pub(super) to_switch: Vec<u32>,
    /// `nvmlNvlinkVersion_t`, where it is not that of each GPU's chip.
    pub(super) version: Option<u32>,
}

/// NVLink connections per pair of GPUs, and of each GPU to NVSwitches.
pub(super) fn links(file: &NodeFile, gpus: &[GpuSpec]) -> Result<NvLinks, NodeError> {
    let n = gpus.len();
    let system = named(file)?;
    let mut pairs = vec![vec![0_u32; n]; n];
    let mut to_switch = vec![0; n];
    if let Some(rows) = &file.links {
        let square = rows.len() == n && rows.iter().all(|r| r.len() == n);
        let symmetric = square && (0..n).all(|a| (0..n).all(|b| rows[a][b] == rows[b][a]));
        if !symmetric || (0..n).any(|a| rows[a][a] != 0) {
            return fail(format!("links must be {n} x {n}, symmetric, with 0 on the diagonal"));
        }
        pairs.clone_from(rows);
    }
    if let Some(system) = system {
        if !system.fits(n) {
            return fail(format!("interconnect {:?} has {} GPUs, the node {n}", system.name, system.size));
        }
        pairs = (0..n).map(|a| (0..n).map(|b| system.lanes(a, b).into()).collect()).collect();
        to_switch = vec![system.switch_lanes().into(); n];
    }
    if file.interconnect.as_deref() == Some("nvswitch") {
        for (switch, gpu) in to_switch.iter_mut().zip(gpus) {
            *switch = Chip::find(&gpu.model).map_or(0, |c| c.board.links);
        }
    }
    let most = pairs.iter().zip(&to_switch).map(|(row, switch)| row.iter().sum::<u32>() + switch).max();
    if let Some(most) = most.filter(|most| *most > 18) {
        return fail(format!("a GPU has {most} links; NVML counts at most 18"));
    }
    let version = match file.nvlink.or_else(|| system?.generation()) {
        None => None,
        Some(generation) => {
            let known = nvml_version(generation);
            Some(known.ok_or_else(|| NodeError(format!("nvlink = {generation} is no known generation")))?)
        }
    };
    Ok(NvLinks { pairs, to_switch, version })
}

/// The NUMA node of a GPU where the file does not say: the system's sockets, or two halves of four GPUs or more.
pub(super) fn numa(system: Option<&System>, index: usize, total: usize) -> u32 {
    match system {
        Some(system) => u32::try_from(index / system.socket(total).max(1)).unwrap_or(0),
        None => u32::from(total >= 4 && index >= total / 2),
    }
}

/// The other end of each link in `links_down`, which names a GPU and a link number: both ends.
pub(super) fn down(file: &NodeFile, links: &NvLinks) -> Result<Vec<(u32, u32)>, NodeError> {
    let mut down = Vec::new();
    for &(gpu, link) in file.links_down.iter().flatten() {
        let ends = ends(&links.pairs, &links.to_switch, gpu, link);
        let ends = ends.ok_or_else(|| NodeError(format!("links_down: GPU {gpu} has no link {link}")))?;
        down.extend(ends);
    }
    down.sort_unstable();
    down.dedup();
    Ok(down)
}

/// A link by GPU and number, at both ends where another GPU is the far one. `None` for a link that is not there.
///
/// A GPU's links go to its peers in order, then to switches; the `k`th of `a` to `b` is the `k`th of `b` to `a`.
pub(super) fn ends(pairs: &[Vec<u32>], to_switch: &[u32], gpu: u32, link: u32) -> Option<Vec<(u32, u32)>> {
    let row = pairs.get(gpu as usize)?;
    let mut first = 0;
    for (peer, count) in (0_u32..).zip(row) {
        if (first..first + count).contains(&link) {
            let before: u32 = pairs.get(peer as usize)?.iter().take(gpu as usize).sum();
            return Some(vec![(gpu, link), (peer, before + link - first)]);
        }
        first += count;
    }
    (link < first + to_switch.get(gpu as usize)?).then(|| vec![(gpu, link)])
}

/// NVML's topology level of every pair: the named system's, where it says more than PCIe. Else in the same NUMA node
/// neighbours share a PCIe switch, others the node; else the system.
pub(super) fn levels(file: &NodeFile, gpus: &[GpuSpec]) -> Result<Vec<Vec<u32>>, NodeError> {
    let n = gpus.len();
    let default = |a: usize, b: usize| match () {
        () if a == b => 0,
        () if gpus[a].numa != gpus[b].numa => 50,
        () if a / 2 == b / 2 => 10,
        () => 40,
    };
    let Some(rows) = &file.levels else {
        if let Some(system) = named(file)?.filter(|s| s.size > 0) {
            let level = |a: usize, b: usize| match system.level(a, b, n) {
                _ if a == b => 0,
                LinkKind::Pix => 10,
                LinkKind::Pxb => 20,
                LinkKind::Phb => 30,
                LinkKind::Node => 40,
                _ => 50,
            };
            return Ok((0..n).map(|a| (0..n).map(|b| level(a, b)).collect()).collect());
        }
        return Ok((0..n).map(|a| (0..n).map(|b| default(a, b)).collect()).collect());
    };
    if rows.len() != n || rows.iter().any(|r| r.len() != n) {
        return fail(format!("levels must be {n} x {n}"));
    }
    let level = |text: &String| match text.as_str() {
        "internal" => Ok(0),
        "single" => Ok(10),
        "multiple" => Ok(20),
        "hostbridge" => Ok(30),
        "node" => Ok(40),
        "system" => Ok(50),
        other => fail(format!("level {other:?}: internal, single, multiple, hostbridge, node or system")),
    };
    rows.iter().map(|row| row.iter().map(level).collect()).collect()
}
