//! How often slurmctld's search gives another answer than the exact one: the table of `docs/figures/mapa.md`.
#![allow(clippy::unwrap_used, reason = "tests")]

mod mapa_common;

use std::fmt::Write as _;

use mapa::{Match, Query};
use mapa_common::{from_list, system};
use topology::{BandwidthModel, GpuSet, HardwareGraph, Pattern, Selection};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/figures/mapa.md");

/// Lists the requests for a set.
fn asked() -> [(&'static str, Selection, bool, BandwidthModel); 6] {
    let (default, mapa2021) = (BandwidthModel::default(), BandwidthModel::Mapa2021);
    [
        ("preserve", Selection::Preserve, true, default),
        ("preserve, `mapa2021`", Selection::Preserve, true, mapa2021),
        ("preserve, insensitive", Selection::Preserve, false, default),
        ("greedy", Selection::Greedy, true, default),
        ("baseline", Selection::Baseline, true, default),
        ("topo-aware, `mapa2021`", Selection::TopoAware, true, mapa2021),
    ]
}

/// A row: answers, those that are proven, those that are worth less and by how much at most, and those of another set
/// that is worth as much.
#[derive(Default)]
struct Row {
    answers: u32,
    proven: u32,
    worse: u32,
    most_percent: f64,
    other_set: u32,
}

/// Returns the worth of an answer to its policy, GB/s.
fn worth(query: &Query<'_>, found: &Match) -> f64 {
    let eff_bw = found.scores.eff_bw.unwrap_or(0.0);
    match (query.policy, query.sensitive, query.model) {
        (Selection::Preserve, true, _) => eff_bw,
        (Selection::Preserve, false, _) => found.preserved_bw,
        (Selection::Greedy, ..) | (_, _, BandwidthModel::Mapa2021) => found.scores.agg_bw,
        _ => eff_bw,
    }
}

impl Row {
    fn add(&mut self, query: &Query<'_>) {
        let (found, best) = (mapa::choose(query).unwrap(), mapa_study::choose(query).unwrap());
        let (has, most) = (worth(query, &found), worth(query, &best));
        let (is_less, is_more) = (has < most - 1e-6, has > most + 1e-6);
        assert!(!is_more || !best.exact, "{query:?}: {found:?}, {best:?}");
        self.answers += 1;
        self.proven += u32::from(found.exact);
        self.worse += u32::from(is_less);
        self.most_percent = self.most_percent.max(100.0 * (most - has) / most.max(1e-9));
        let is_other = !is_less && !is_more && found.gpus != best.gpus;
        self.other_set += u32::from(is_other);
        assert!(!found.exact || !(is_less || is_other), "said to be proven: {query:?}: {found:?}, {best:?}");
    }

    fn line(&self, machine: &str, asked: &str) -> String {
        let Self { answers, proven, worse, most_percent, other_set } = self;
        let by = if *worse == 0 { "-".to_owned() } else { format!("{most_percent:.1} %") };
        format!("| {machine} | {asked} | {answers} | {proven} | {worse} | {by} | {other_set} |\n")
    }
}

/// Every named pattern and number of GPUs of an idle machine.
fn add_all(
    row: &mut Row,
    graph: &HardwareGraph,
    (policy, sensitive, model): (Selection, bool, BandwidthModel),
) {
    for (_, pattern) in &Pattern::NAMED {
        for n in 1..=graph.len() {
            let (free, next) = (graph.all(), GpuSet::EMPTY);
            row.add(&Query { graph, free, next, n, pattern, sensitive, policy, model });
        }
    }
}

/// Machines whose links follow no order; the same ones in every run.
fn random(rates: &[f64]) -> Vec<HardwareGraph> {
    let mut state = 99_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        rates[usize::try_from(state >> 33).unwrap() % rates.len()]
    };
    let mut graph =
        |size: usize| from_list(size, &(0..size * (size - 1) / 2).map(|_| next()).collect::<Vec<_>>());
    [8, 10, 12, 14, 16, 16].map(&mut graph).into()
}

fn table() -> String {
    let small = ["dgx-p", "dgx-v", "summit", "pcie-8", "pcie-8-bridged"];
    let mut machines = vec![("up to 8 GPUs, 5 systems", small.map(system).to_vec())];
    for name in ["torus-2d", "cubemesh-16", "cubemesh-16-intended"] {
        machines.push((name, vec![system(name)]));
    }
    machines.push(("random, 3 of 5 links PCIe", random(&[10.0, 10.0, 10.0, 25.0, 50.0])));
    machines.push(("random, 5 of 7 links PCIe", random(&[10.0, 10.0, 10.0, 10.0, 10.0, 25.0, 50.0])));
    let mut text =
        "| machine | policy | answers | proven | worse | by at most | other set of the same worth |\n\
                    |---|---|---|---|---|---|---|\n"
            .to_owned();
    for (machine, graphs) in &machines {
        for (asked, policy, sensitive, model) in asked() {
            let mut row = Row::default();
            graphs.iter().for_each(|graph| add_all(&mut row, graph, (policy, sensitive, model)));
            let _ = write!(text, "{}", row.line(machine, asked));
        }
    }
    text
}

#[test]
fn the_page_has_the_differences() {
    let table = table();
    let page = std::fs::read_to_string(PAGE).unwrap();
    assert!(page.contains(&table), "{PAGE} has another table than:\n{table}");
}
