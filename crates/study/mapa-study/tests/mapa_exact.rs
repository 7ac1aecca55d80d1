//! Both searches, slurmctld's and the one that proves, find the best match there is: everything is weighed on up to 8
//! GPUs.
#![allow(clippy::unwrap_used, reason = "tests")]

mod mapa_common;

use job_options::parse_edges;
use mapa::{NoMatch, Query};
use mapa_common::{check, from_list, patterns, system};
use mapa_study::choose;
use proptest::prelude::*;
use topology::{BandwidthModel, GpuSet, Pattern, Selection};

fn queries(graph: &topology::HardwareGraph, free: GpuSet, n: usize) {
    for pattern in patterns(n) {
        for policy in [Selection::Greedy, Selection::Preserve] {
            for (sensitive, model) in [
                (true, BandwidthModel::default()),
                (true, BandwidthModel::Mapa2021),
                (false, BandwidthModel::default()),
            ] {
                let query = Query {
                    graph,
                    free,
                    next: GpuSet::EMPTY,
                    n,
                    pattern: &pattern,
                    sensitive,
                    policy,
                    model,
                };
                check(&query);
            }
        }
    }
}

#[test]
fn every_pattern_on_an_idle_dgx_v() {
    let graph = system("dgx-v");
    for n in 1..=6 {
        queries(&graph, graph.all(), n);
    }
}

#[test]
fn eight_gpus_ring_chain_and_tree() {
    let graph = system("dgx-v");
    for (pattern, n) in [("ring", 8), ("chain", 7), ("tree", 8), ("ring+tree", 8)] {
        let pattern = Pattern::by_name(pattern).unwrap();
        for (policy, model) in [
            (Selection::Preserve, BandwidthModel::default()),
            (Selection::Preserve, BandwidthModel::Mapa2021),
            (Selection::Greedy, BandwidthModel::default()),
        ] {
            check(&Query {
                graph: &graph,
                free: graph.all(),
                next: GpuSet::EMPTY,
                n,
                pattern: &pattern,
                sensitive: true,
                policy,
                model,
            });
        }
    }
}

#[test]
fn named_systems_in_every_occupancy_of_their_first_gpus() {
    for name in ["dgx-p", "summit", "torus-2d", "cubemesh-16"] {
        let graph = system(name);
        for free in [0b11_1111_u64, 0b110_1011, 0b1001_0011] {
            let free = GpuSet::from_bits(free & graph.all().bits());
            (1..=free.len().min(4)).for_each(|n| queries(&graph, free, n));
        }
    }
}

/// Edge lists with cycles, also such as name an edge twice or give weights, where the fastest slowest edge is asked for.
#[test]
fn edge_lists_with_cycles() {
    let prism = "0 1\n1 2\n2 0\n3 4\n4 5\n5 3\n0 3\n1 4\n2 5";
    let two = "0 1\n1 2\n2 0\n2 3\n3 4\n4 5\n5 3\n0 1";
    let weighted = "0 1 2\n1 2\n2 3 2\n3 0\n3 4 0.5\n4 5\n5 0";
    for (name, free) in [("dgx-v", 0xff_u64), ("torus-2d", 0xf10f), ("cubemesh-16", 0x0c7e)] {
        let graph = system(name);
        for list in [prism, two, weighted] {
            check(&Query {
                graph: &graph,
                free: GpuSet::from_bits(free),
                next: GpuSet::EMPTY,
                n: 6,
                pattern: &parse_edges(list).unwrap(),
                sensitive: true,
                policy: Selection::Preserve,
                model: BandwidthModel::default(),
            });
        }
    }
}

/// On 16 GPUs, too, where the sum over the edges is not proven.
#[test]
fn edge_lists_on_sixteen_gpus_are_exact_by_their_slowest_edge() {
    let grid = "0 1\n1 2\n3 4\n4 5\n6 7\n7 8\n0 3\n3 6\n1 4\n4 7\n2 5\n5 8";
    // The middle has four edges, and no GPU of these has more than three links of 50 GB/s.
    for name in ["torus-2d", "cubemesh-16"] {
        let graph = system(name);
        let pattern = parse_edges(grid).unwrap();
        let query = |policy| Query {
            graph: &graph,
            free: graph.all(),
            next: GpuSet::EMPTY,
            n: 9,
            pattern: &pattern,
            sensitive: true,
            policy,
            model: BandwidthModel::default(),
        };
        let (fast, large) =
            (choose(&query(Selection::Preserve)).unwrap(), choose(&query(Selection::Greedy)).unwrap());
        let edges = mapa::edges_of(&pattern, 9).unwrap();
        let links = edges.iter().map(|e| graph.link(fast.order[e.a], fast.order[e.b]).unwrap().gbps());
        assert_eq!((links.fold(f64::INFINITY, f64::min), fast.exact), (25.0, true), "{name}");
        assert!(large.scores.agg_bw >= fast.scores.agg_bw && !large.exact, "{name}: {large:?}");
    }
}

/// Five triangles can be put on the GPUs in so many equal ways that nothing is proven: the answer is a good one.
#[test]
fn what_cannot_be_proven_is_good_and_said() {
    let triangles = (0..5).map(|i| format!("{} {}\n{1} {}\n{2} {0}", 3 * i, 3 * i + 1, 3 * i + 2));
    let pattern = parse_edges(&triangles.collect::<Vec<_>>().join("\n")).unwrap();
    let graph = system("cubemesh-16");
    let choice = choose(&Query {
        graph: &graph,
        free: graph.all(),
        next: GpuSet::EMPTY,
        n: 15,
        pattern: &pattern,
        sensitive: true,
        policy: Selection::Preserve,
        model: BandwidthModel::default(),
    });
    let choice = choice.unwrap();
    assert!(!choice.exact && choice.scores.agg_bw > 450.0, "{choice:?}");
}

/// PCIe levels of different rates, with and without NVLinks beside them.
#[test]
fn ways_over_pcie_are_not_alike() {
    for name in ["pcie-8", "pcie-8-bridged"] {
        let graph = system(name);
        for free in [0b1111_1111_u64, 0b1111_0111, 0b0110_1110] {
            (1..=4).for_each(|n| queries(&graph, GpuSet::from_bits(free), n));
        }
    }
    let insensitive = |busy: u64, n| {
        let graph = system("pcie-8");
        let (policy, model) = (Selection::Preserve, BandwidthModel::default());
        let free = GpuSet::from_bits(0xff & !busy);
        let query = Query {
            graph: &graph,
            free,
            next: GpuSet::EMPTY,
            n,
            pattern: &Pattern::Ring,
            sensitive: false,
            policy,
            model,
        };
        choose(&query).unwrap().gpus.to_string()
    };
    // One GPU of a switch is busy already: the other switches stay whole.
    assert_eq!([insensitive(0b1000, 1), insensitive(0b1000, 2)], ["2", "0-1"]);
}

#[test]
fn a_query_that_cannot_be_met_is_refused() {
    let graph = system("dgx-v");
    let pattern = Pattern::Ring;
    let ask = |free: u64, n| {
        let (policy, model) = (Selection::Preserve, BandwidthModel::default());
        let free = GpuSet::from_bits(free);
        mapa::choose(&Query {
            graph: &graph,
            free,
            next: GpuSet::EMPTY,
            n,
            pattern: &pattern,
            sensitive: true,
            policy,
            model,
        })
    };
    assert_eq!(ask(0b111, 4), Err(NoMatch::TooFew { free: 3, n: 4 }));
    assert_eq!(ask(0b111, 0), Err(NoMatch::Nothing));
    // GPUs that the node does not have.
    assert_eq!(ask(1 << 40, 1), Err(NoMatch::TooFew { free: 0, n: 1 }));
}

#[test]
fn alike_links_need_no_search() {
    let graph = topology::HardwareGraph::uniform(64, 300.0);
    let pattern = Pattern::Ring;
    let (policy, model) = (Selection::Preserve, BandwidthModel::default());
    let found = mapa::choose(&Query {
        graph: &graph,
        free: graph.all(),
        next: GpuSet::EMPTY,
        n: 8,
        pattern: &pattern,
        sensitive: true,
        policy,
        model,
    })
    .unwrap();
    assert_eq!(found.gpus.to_string(), "0-7");
    // Behind a switch a GPU sends to all what it can send to one.
    assert_eq!(found.scores.eff_bw.unwrap().round(), 300.0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_graph_of_up_to_seven(
        size in 2_usize..=7,
        links in prop_oneof![
            prop::collection::vec(prop::sample::select(vec![10.0, 12.0, 25.0, 50.0, 100.0]), 1..21),
            prop::collection::vec(5.0..100.0, 1..=21),
        ],
        free in 1_u64..128,
        next in 0_u64..128,
        n in 1_usize..=5,
        sensitive: bool,
    ) {
        let graph = from_list(size, &links);
        let free = GpuSet::from_bits(free & graph.all().bits());
        let next = GpuSet::from_bits(next);
        prop_assume!(free.len() >= n);
        for pattern in patterns(n) {
            for (policy, model) in [
                (Selection::Preserve, BandwidthModel::default()),
                (Selection::Preserve, BandwidthModel::Mapa2021),
                (Selection::Greedy, BandwidthModel::default()),
            ] {
                check(&Query { graph: &graph, free, next, n, pattern: &pattern, sensitive, policy, model });
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// A better link makes no prediction of the default model worse.
    #[test]
    fn the_default_model_is_monotone_in_every_link(
        links in prop::collection::vec(prop::sample::select(vec![10.0, 12.0, 25.0, 50.0, 100.0]), 15),
        at in 0_usize..15,
        more in prop::sample::select(vec![1.0, 15.0, 25.0, 300.0]),
        n in 2_usize..=6,
    ) {
        let mut better = links.clone();
        better[at] += more;
        for pattern in patterns(n) {
            let eff = |links: &[f64]| {
                let graph = from_list(6, links);
                let (policy, model) = (Selection::Preserve, BandwidthModel::default());
                let free = graph.all();
                let query = Query { graph: &graph, free, next: GpuSet::EMPTY, n, pattern: &pattern, sensitive: true, policy, model };
                choose(&query).unwrap().scores.eff_bw
            };
            let (before, after) = (eff(&links), eff(&better));
            prop_assert!(before <= after, "{pattern:?}: {before:?} {after:?}");
        }
    }
}
