//! Ring+tree on up to 16 GPUs beside a plain DP over subsets, written from the definition; it shares no code with
//! the search and leaves nothing out.
#![allow(clippy::unwrap_used, reason = "tests")]

mod mapa_common;

use mapa::Query;
use mapa_common::ring_tree::best;
use mapa_common::{from_list, gbps, left, system, worth};
use mapa_study::choose;
use topology::{BandwidthModel, GpuSet, HardwareGraph, Pattern, Selection};

/// Greedy's or preserve's choices of these numbers of GPUs.
fn check(
    graph: &HardwareGraph,
    free: u64,
    numbers: std::ops::RangeInclusive<usize>,
    (policy, model): (Selection, BandwidthModel),
) {
    let free = GpuSet::from_bits(free);
    let query = |n| Query {
        graph,
        free,
        next: GpuSet::EMPTY,
        n,
        pattern: &Pattern::RingTree,
        sensitive: true,
        policy,
        model,
    };
    for (n, expect) in numbers.clone().zip(best(&query(0), numbers)) {
        let (query, found) = (query(n), choose(&query(n)).unwrap());
        let what = format!("{n} of {free}, {policy:?}, {model:?}: {found:?}, best is {expect:?}");
        let edges = mapa::edges_of(&Pattern::RingTree, n).unwrap();
        assert!((worth(&query, &edges, &found.order) - expect.worth).abs() < 1e-6, "{what}");
        assert_eq!(left(&query, &found.order), expect.left, "{what}");
        assert!((found.preserved_bw - gbps(expect.left[0])).abs() < 1e-6, "{what}");
        assert!(found.tied_sets.is_none_or(|tied| tied == expect.tied), "{what}");
        assert_eq!(found.order.iter().copied().collect::<GpuSet>(), found.gpus, "{what}");
        assert!(found.gpus.len() == n && found.gpus.and(free) == found.gpus && found.exact, "{what}");
    }
}

const SUM: (Selection, BandwidthModel) = (Selection::Greedy, BandwidthModel::Mapa2021);

fn slowest() -> (Selection, BandwidthModel) {
    (Selection::Preserve, BandwidthModel::default())
}

fn equation_2() -> (Selection, BandwidthModel) {
    (Selection::Preserve, BandwidthModel::Mapa2021)
}

/// Links from a few bandwidths in no order.
fn random(size: usize, bandwidths: &[f64], seed: u64) -> HardwareGraph {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bandwidths[usize::try_from(state >> 33).unwrap() % bandwidths.len()]
    };
    from_list(size, &(0..size * (size - 1) / 2).map(|_| next()).collect::<Vec<f64>>())
}

#[test]
fn all_sixteen_of_cubemesh() {
    check(&system("cubemesh-16"), 0xffff, 9..=16, SUM);
}

#[test]
fn named_systems_in_part() {
    for (name, free) in [("torus-2d", 0x7bdf_u64), ("cubemesh-16", 0xeef6)] {
        check(&system(name), free, 4..=free.count_ones() as usize, SUM);
        check(&system(name), free, 4..=free.count_ones() as usize, slowest());
    }
    for (name, free) in [("torus-2d", 0x3d77_u64), ("cubemesh-16", 0xbb75)] {
        check(&system(name), free, 9..=11, equation_2());
    }
}

#[test]
fn random_links() {
    let few = [10.0, 10.0, 10.0, 25.0, 50.0];
    let many = [10.0, 13.0, 24.5, 25.0, 48.25, 50.0, 100.0];
    // Rates without a common unit are counted in wider numbers.
    let any = [9.731, 10.0, 21.847, 44.113, 88.907];
    for seed in 1..=3 {
        for bandwidths in [&few[..], &many, &any] {
            let graph = random(12, bandwidths, seed);
            check(&graph, 0xfff, 4..=12, SUM);
            check(&graph, 0xfff, 4..=12, slowest());
        }
    }
    check(&random(11, &few, 7), 0x7ff, 9..=11, equation_2());
}

/// From 13 GPUs on both sides of the tree's top are put together from halves, and bound each other.
#[test]
fn random_links_for_two_large_sides() {
    let few = [10.0, 10.0, 10.0, 25.0, 50.0];
    let many = [10.0, 13.0, 24.5, 25.0, 48.25, 50.0, 100.0];
    for seed in 1..=4 {
        check(&random(14, &few, seed), 0x3fff, 13..=14, SUM);
        check(&random(14, &many, seed), 0x3fff, 13..=14, SUM);
    }
    check(&random(14, &few, 5), 0x3fff, 13..=14, slowest());
    check(&random(15, &many, 6), 0x7fff, 13..=15, SUM);
}
