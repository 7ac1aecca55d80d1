//! A search per pattern, all behind [`PatternSearch`].

mod clique;
mod edge_list;
mod no_edges;
mod ring_chain;
mod ring_tree;
mod star;
mod tree;

use mapa::Edge;
use topology::Pattern;

use self::clique::Clique;
use self::edge_list::EdgeList;
use self::no_edges::NoEdges;
use self::ring_chain::RingOrChain;
use self::ring_tree::RingTree;
use self::star::Star;
use super::edge_graph::EdgeGraph;
use super::pattern_search::PatternSearch;
use super::tree::TreeShape;

/// The search for a pattern with these edges over `n` ranks. An edge list that is a tree of equal weights is searched as
/// one.
pub(crate) fn search_for(pattern: &Pattern, edges: &[Edge], n: usize) -> Box<dyn PatternSearch> {
    if edges.is_empty() {
        return Box::new(NoEdges);
    }
    match pattern {
        Pattern::None => Box::new(NoEdges),
        Pattern::Ring => Box::new(RingOrChain { closed: true }),
        // Up to three ranks the tree is part of the ring.
        Pattern::RingTree if edges.len() == n => Box::new(RingOrChain { closed: true }),
        Pattern::RingTree => Box::new(RingTree { edges: edges.to_vec() }),
        Pattern::Chain => Box::new(RingOrChain { closed: false }),
        Pattern::Star => Box::new(Star),
        Pattern::All => Box::new(Clique),
        Pattern::Tree | Pattern::Edges(_) => match TreeShape::new(edges, n) {
            Some(shape) => Box::new(shape),
            None => Box::new(EdgeList(EdgeGraph::new(edges, n))),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;
    use crate::search::budget::Budget;
    use crate::search::contest::Contest;
    use crate::search::level_tables::FitTable;
    use crate::search::pattern_search::Aim;
    use crate::search::space::Space;
    use crate::search::subsets::{count, subsets};
    use mapa::Query;
    use mapa::score;
    use topology::{BandwidthModel, GpuSet, HardwareGraph, Link, Selection};

    /// Links of twelve GPUs on a grid, all different, those of neighbours faster.
    fn measured(seed: usize) -> HardwareGraph {
        let is_near = |a: usize, b: usize| b - a == 4 || (b - a == 1 && !b.is_multiple_of(4));
        let rate = |a: usize, b: usize| {
            let noise = ((a * 12 + b + seed) * 71 % 149) as f64 / 100.0;
            noise + if is_near(a, b) { 25.0 } else { 10.0 }
        };
        HardwareGraph::new(12, None, 6, &|a, b| Link::of_bandwidth(rate(a.min(b), a.max(b))))
    }

    fn table(pattern: &Pattern, edges: &[Edge], n: usize) -> Box<dyn FitTable> {
        match pattern {
            Pattern::RingTree if edges.len() > n => Box::new(RingTree { edges: edges.to_vec() }),
            Pattern::Ring | Pattern::RingTree => Box::new(RingOrChain { closed: true }),
            Pattern::Chain => Box::new(RingOrChain { closed: false }),
            _ => Box::new(TreeShape::new(edges, n).unwrap()),
        }
    }

    /// Worth of the best set and how many sets have it, by tables of every level.
    fn by_tables(query: &Query<'_>, space: &Space, edges: &[Edge]) -> (f64, u64) {
        let table = table(query.pattern, edges, query.n);
        let mut slowest = vec![0; count(space.len(), query.n)];
        for (level, mb_s) in space.levels.iter().enumerate() {
            let fits = table.fits(space, level, query.n);
            slowest.iter_mut().zip(fits).filter(|(_, fits)| *fits).for_each(|(s, _)| *s = *mb_s);
        }
        let sets = subsets(space.len(), query.n).zip(slowest);
        let worth = sets.map(|(mask, mb_s)| space.predict(query.model, f64::from(mb_s), mask));
        worth.fold((f64::NEG_INFINITY, 0), |(best, tied), worth| match worth.total_cmp(&best) {
            Ordering::Greater => (worth, 1),
            Ordering::Equal => (best, tied + 1),
            Ordering::Less => (best, tied),
        })
    }

    /// EffBW of the set and order that the search finds, how many sets tie, and the steps that are left.
    fn by_search(query: &Query<'_>, space: &Space, edges: &[Edge]) -> (f64, Option<u64>, u32) {
        let search = search_for(query.pattern, edges, query.n);
        let mut budget = Budget(search.steps(Aim::Slowest, space.len()));
        let found = search.set_by_slowest(Contest::new(space, query), &mut budget).unwrap();
        let set = Space::new(query.graph, space.gpu_set(found.mask)).unwrap();
        let order = search.order_by_slowest(&set, found.known.slowest_mb_s, &mut budget);
        let order: Vec<_> = order.into_iter().map(|v| set.gpus[v]).collect();
        let eff_bw = score(query.graph, edges, &order, query.model).eff_bw.unwrap();
        (eff_bw, found.tied, budget.0)
    }

    #[test]
    fn the_search_agrees_with_tables_of_every_level() {
        for seed in 0..2 {
            let graph = measured(seed);
            let space = Space::new(&graph, graph.all()).unwrap();
            for name in ["ring", "chain", "tree", "ring+tree"] {
                let pattern = Pattern::by_name(name).unwrap();
                for n in 2..=11 {
                    let query = Query {
                        graph: &graph,
                        free: graph.all(),
                        next: GpuSet::EMPTY,
                        n,
                        pattern: &pattern,
                        sensitive: true,
                        policy: Selection::Preserve,
                        model: BandwidthModel::default(),
                    };
                    let edges = mapa::edges_of(&pattern, n).unwrap();
                    let (best, tied) = by_tables(&query, &space, &edges);
                    let (found, found_tied, left) = by_search(&query, &space, &edges);
                    assert!((found - best).abs() < 1e-9 && left > 0, "{name} {n}: {found}, not {best}");
                    assert_eq!(found_tied, Some(tied), "{name} {n}");
                }
            }
        }
    }
}
