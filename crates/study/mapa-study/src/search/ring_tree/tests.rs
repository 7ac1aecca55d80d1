//! Tests that bounds are bounds, and that prices change nothing.

use super::sides::{Ends, SideSlack};
use super::*;
use crate::limits::MOST_FREE;
use crate::search::number::Byte;
use topology::Pattern;

/// Links in no order, in every second graph those of some vertices worse.
fn links<T: Number>(m: usize, seed: usize) -> Weights<T> {
    let mut state = seed as u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 60
    };
    let worse = |v: usize| if seed % 2 == 1 && (v + seed).is_multiple_of(3) { 3 } else { 0 };
    let mut of = vec![[T::NONE; MOST_FREE]; m];
    for (a, b) in (0..m).flat_map(|a| (0..a).map(move |b| (a, b))) {
        let lacks = T::of([5, 5, 3, 5, 0, 5, 3, 5][(next() % 8) as usize] + worse(a) + worse(b));
        (of[a][b], of[b][a]) = (lacks, lacks);
    }
    Weights::new(of)
}

fn same_from_poor_limits<T: Number>(seeds: std::ops::Range<usize>) {
    for seed in seeds {
        for (m, n) in [(12, 11), (13, 13), (14, 12), (14, 13), (14, 14), (15, 14), (15, 15)] {
            let weights = links::<T>(m, seed);
            let edges = mapa::edges_of(&Pattern::RingTree, n).unwrap();
            let (best, mut sets) = best(&weights, n, &edges);
            sets.sort_unstable();
            for more in [2, 6, 14] {
                let limit = T::of(best.units().unwrap() + more);
                let wanted = if m == n { Wanted::One } else { Wanted::Sets };
                let search = StretchSearch::new(&weights, n, Some(limit), wanted).run();
                let lacks = search.example.expect("the best one is within the limit").lacks;
                assert_eq!(lacks.units(), best.units(), "seed {seed}: {n} of {m}, {more} more");
                if wanted == Wanted::Sets {
                    let mut found = search.found.sets;
                    found.sort_unstable();
                    assert_eq!(found, sets, "seed {seed}: {n} of {m}, {more} more");
                }
            }
        }
    }
}

/// A climb is mostly so good that bounds never decide. From a poor limit they have to, and find the same.
#[test]
fn a_poor_limit_leads_to_the_same_sets() {
    same_from_poor_limits::<Byte>(0..12);
    same_from_poor_limits::<i16>(0..4);
}

/// Tests that the least lack of a side is no more than any side lacks.
#[test]
fn no_side_is_better_than_the_least() {
    for (seed, n) in [(0, 9), (1, 13), (2, 14), (3, 15)] {
        let weights = links::<Byte>(15, seed);
        let limit = Byte::of(Byte::MOST / 2);
        let search = StretchSearch::new(&weights, n, Some(limit), Wanted::Sets);
        for top in 0..15 {
            let near = search.near_halves(top);
            let ends = Ends { top, edge: weights.rows[top], near: &near, limit };
            let room = SideSlack { rest: Byte::ZERO.each(), twice: false, others: None };
            for side in [search.sides.0, search.sides.1].into_iter().filter(|s| s.is_composed()) {
                let least = Byte::lanes(search.sides().least(side, &ends));
                for part in search.sides().compose(side, &ends, room) {
                    let each = Byte::lanes(part.row).into_iter().zip(least);
                    let within = each.filter(|(lacks, _)| !limit.ahead(*lacks));
                    let better = within.filter(|(lacks, least)| lacks.ahead(*least)).count();
                    assert_eq!(better, 0, "seed {seed}: {side:?} {:x} below {top}", part.set);
                }
            }
        }
    }
}

/// Whatever vertices cost, sections of the best match lack what their edges lack.
#[test]
fn what_a_match_lacks_is_without_prices() {
    for (seed, m) in [(1, 13), (3, 14), (5, 15), (7, 16)] {
        let weights = links::<Byte>(m, seed);
        let edges = mapa::edges_of(&Pattern::RingTree, m).unwrap();
        let limit = hill_climb::limit(&weights, &edges, m).plus(Byte::of(3));
        let search = StretchSearch::new(&weights, m, Some(limit), Wanted::One).run();
        assert!(search.prices.most().units() > Some(0), "seed {seed}: no prices");
        let example = search.example.unwrap();
        let order = example.ranks(&weights, m);
        let each = edges.iter().map(|e| weights.of[order[e.a]][order[e.b]].units().unwrap());
        assert_eq!(example.lacks.units(), Some(each.sum()), "seed {seed}");
    }
}
