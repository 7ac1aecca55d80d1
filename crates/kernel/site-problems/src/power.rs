//! Finds power limits that no board of the model takes: the driver refuses them, and nothing limits the GPU.

use geometry::Model;
use site_config::hostlist;
use toml_tables::{At, TableReader};

/// Power limits that boards take, in watts: the model's key, the lowest (0: not published) and the highest of all of its boards.
///
/// Sources: NVIDIA's public data sheets and product briefs for the highest, which is the default of every one of these boards, and
/// `nvidia-smi -q -d POWER` in public logs for the lowest, as the boards of the simulator have them. A test holds the two equal. A limit
/// that the simulator takes from a neighbour is not in here.
const LIMITS_W: &[(&str, u16, u16)] = &[
    ("a30-24gb", 100, 165),
    ("a100-40gb", 100, 400),
    ("a100-80gb", 100, 400),
    ("h100-80gb-sxm", 200, 700),
    ("h100-80gb-pcie", 200, 350),
    ("h100-94gb-nvl", 200, 400),
    ("gh200-96gb", 100, 900),
    ("gh200-144gb", 0, 900),
    ("h200-141gb", 200, 700),
    ("h20-96gb", 200, 500),
    ("h20-141gb", 0, 500),
    ("b200-180gb", 200, 1000),
    ("gb200-186gb", 0, 1200),
    ("b300-269gb", 0, 1100),
    ("gb300-278gb", 0, 1400),
    ("rtx-pro-6000-96gb", 150, 600),
    ("p100-12gb", 0, 250),
    ("p100-16gb", 0, 300),
    ("p40-24gb", 0, 250),
    ("p4-8gb", 0, 75),
    ("v100-16gb", 0, 300),
    ("v100-32gb", 0, 300),
    ("t4-16gb", 0, 70),
    ("rtx6000-24gb", 0, 260),
    ("rtx8000-48gb", 0, 260),
    ("a2-16gb", 0, 60),
    ("a10-24gb", 0, 150),
    ("a10g-24gb", 0, 300),
    ("a16-16gb", 0, 62),
    ("a40-48gb", 0, 300),
    ("rtxa6000-48gb", 0, 300),
    ("l4-24gb", 0, 72),
    ("l20-48gb", 0, 275),
    ("l40-48gb", 0, 300),
    ("l40s-48gb", 0, 350),
    ("rtx6000ada-48gb", 0, 300),
    ("rtx-pro-5000-48gb", 0, 300),
    ("rtx-pro-4500-32gb", 0, 200),
];

/// No board of [`LIMITS_W`] takes less, W.
const LEAST_W: u16 = 30;

/// Limits that the boards of a model take.
struct Limits {
    key: String,
    least_w: u16,
    most_w: u16,
}

impl Limits {
    /// The limits of a model by its key or NVML name; `None`: not known, such as those of a model that the site describes.
    fn of(name: &str) -> Option<Self> {
        let key = &Model::find(name)?.key;
        let (_, least_w, most_w) = *LIMITS_W.iter().find(|(known, ..)| known == key)?;
        Some(Self { key: key.clone(), least_w, most_w })
    }

    fn take(&self, watts: u64) -> bool {
        (u64::from(self.least_w.max(LEAST_W))..=u64::from(self.most_w)).contains(&watts)
    }

    fn hint(&self) -> String {
        match self.least_w {
            0 => format!("boards of {} take at most {} W", self.key, self.most_w),
            least => format!("boards of {} take {least} to {} W", self.key, self.most_w),
        }
    }
}

/// Finds `cap_w` of node sets and `floor_w` of power budgets that no board of the nodes' models takes.
pub(crate) fn untaken_limits(root: &TableReader<'_, '_>) {
    let sets: Vec<_> =
        root.tables("nodes").into_iter().map(|set| (names(&set, "names"), models(&set), set)).collect();
    for (_, models, set) in &sets {
        untaken(set, "cap_w", models);
    }
    for budget in root.tables("power_budgets") {
        let nodes = names(&budget, "nodes");
        let in_it = |of: &[String]| of.iter().any(|name| nodes.contains(name));
        let models: Vec<String> = sets
            .iter()
            .filter(|(of, ..)| in_it(of))
            .flat_map(|(_, models, _)| models.iter().cloned())
            .collect();
        untaken(&budget, "floor_w", &models);
    }
}

fn names(table: &TableReader<'_, '_>, key: &'static str) -> Vec<String> {
    table.string(key).and_then(|At { value, .. }| hostlist::expand(&value).ok()).unwrap_or_default()
}

/// The models of a node set as the file names them.
fn models(set: &TableReader<'_, '_>) -> Vec<String> {
    let mut all: Vec<String> = set.string("gpu").into_iter().map(|at| at.value).collect();
    if all.is_empty() {
        all = set.strings("gpus").unwrap_or_default().into_iter().map(|at| at.value).collect();
    }
    all.sort_unstable();
    all.dedup();
    all
}

fn untaken(table: &TableReader<'_, '_>, key: &'static str, models: &[String]) {
    let Some(At { value: watts, span }) = table.number(key, 0..u64::MAX) else { return };
    let limits = models.iter().filter_map(|name| Limits::of(name));
    if let Some(limits) = limits.into_iter().find(|limits| !limits.take(watts)) {
        let what = format!("{key} = {watts}: no board of {} takes this power limit", limits.key);
        table.errors.push(span, what, Some(limits.hint()));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(serde::Deserialize)]
    struct Boards {
        board: Vec<Board>,
    }

    #[derive(serde::Deserialize)]
    struct Board {
        key: String,
        src: String,
        power_w: u16,
        min_power_w: u16,
        #[serde(default)]
        named: Vec<Named>,
    }

    #[derive(serde::Deserialize)]
    struct Named {
        power_w: u16,
        min_power_w: u16,
    }

    #[test]
    fn the_limits_are_those_of_the_simulated_boards() {
        let text = include_str!("../../../sim/nvml-sim/models/boards.toml");
        let boards: Boards = toml::from_str(text).unwrap();
        let of = |board: &Board| {
            let least = board.named.iter().map(|named| named.min_power_w).min().unwrap_or(u16::MAX);
            let most = board.named.iter().map(|named| named.power_w).max().unwrap_or(0);
            let is_shown = board.src.contains("SMI");
            (if is_shown { board.min_power_w.min(least) } else { 0 }, board.power_w.max(most))
        };
        let simulated: BTreeMap<&str, _> =
            boards.board.iter().map(|board| (board.key.as_str(), of(board))).collect();
        let known: BTreeMap<&str, _> =
            LIMITS_W.iter().map(|(key, least, most)| (*key, (*least, *most))).collect();
        assert_eq!(known, simulated);
        let highest = LIMITS_W.iter().map(|(.., most)| *most).max();
        assert_eq!(highest, Some(job_options::MOST_DRAW_W), "what sbatch refuses");
        assert_eq!(known.len(), Model::all().len(), "every model has its limits");
        assert!(boards.board.iter().all(|board| board.min_power_w > LEAST_W));
    }
}
