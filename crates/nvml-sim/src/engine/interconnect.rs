//! How the described GPUs are connected: NVLink connections and PCIe topology levels.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::chip::Chip;
use super::node::{GpuSpec, NodeError, NodeFile, fail};

#[derive(Deserialize)]
struct System {
    gpus: usize,
    links: Vec<[usize; 3]>,
}

type Links = (Vec<Vec<u32>>, Vec<u32>);

/// NVLink connections per pair of GPUs, and of each GPU to NVSwitches.
pub(super) fn links(file: &NodeFile, gpus: &[GpuSpec]) -> Result<Links, NodeError> {
    let n = gpus.len();
    let mut matrix = vec![vec![0u32; n]; n];
    let mut to_switch = vec![0; n];
    match (&file.links, file.interconnect.as_deref()) {
        (Some(_), Some(_)) => return fail("`links` and `interconnect` exclude each other"),
        (Some(rows), None) => {
            let square = rows.len() == n && rows.iter().all(|r| r.len() == n);
            let symmetric = square && (0..n).all(|a| (0..n).all(|b| rows[a][b] == rows[b][a]));
            if !symmetric || (0..n).any(|a| rows[a][a] != 0) {
                return fail(format!("links must be {n} x {n}, symmetric, with 0 on the diagonal"));
            }
            matrix.clone_from(rows);
        }
        (None, None | Some("none")) => {}
        (None, Some("nvswitch")) => {
            for (switch, gpu) in to_switch.iter_mut().zip(gpus) {
                *switch = Chip::find(&gpu.model).map_or(0, |c| c.board.links);
            }
        }
        (None, Some(name)) => {
            let systems: BTreeMap<String, System> =
                toml::from_str(include_str!("../../models/systems.toml")).unwrap_or_default();
            let Some(system) = systems.get(name) else {
                let known: Vec<_> = systems.keys().map(String::as_str).collect();
                return fail(format!(
                    "interconnect {name:?} is not known; known: none, nvswitch, {}",
                    known.join(", ")
                ));
            };
            if system.gpus != n {
                return fail(format!("interconnect {name:?} has {} GPUs, the node {n}", system.gpus));
            }
            for &[a, b, count] in &system.links {
                matrix[a][b] = u32::try_from(count).unwrap_or(0);
                matrix[b][a] = matrix[a][b];
            }
        }
    }
    if let Some(row) = matrix.iter().find(|r| r.iter().sum::<u32>() > 18) {
        return fail(format!("a GPU has {} links; NVML counts at most 18", row.iter().sum::<u32>()));
    }
    Ok((matrix, to_switch))
}

/// NVML's topology level of every pair. Same NUMA node: neighbours share a PCIe switch, others the node; else the system.
pub(super) fn levels(file: &NodeFile, gpus: &[GpuSpec]) -> Result<Vec<Vec<u32>>, NodeError> {
    let n = gpus.len();
    let default = |a: usize, b: usize| match () {
        () if a == b => 0,
        () if gpus[a].numa != gpus[b].numa => 50,
        () if a / 2 == b / 2 => 10,
        () => 40,
    };
    let Some(rows) = &file.levels else {
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
