//! NCCL's ring and tree over the same ranks, by stretches of the ring.

use mapa::Edge;

use crate::search::edge_graph::EdgeGraph;
use crate::search::equation2::{ClassSums, Within};
use crate::search::level_tables::FitTable;
use crate::search::link_classes::ClassLinks;
use crate::search::number::{Byte, Number, Scale, Weights};
use crate::search::set_positions::POSITIONS;
use crate::search::space::Space;
use crate::search::subset_search::SubsetSearch;
use crate::search::subsets::count;
use crate::search::{hill_climb, ring_tree};

/// `ring+tree` over four ranks or more.
pub(super) struct RingTree {
    pub(super) edges: Vec<Edge>,
}

impl FitTable for RingTree {
    fn fits(&self, space: &Space, level: usize, n: usize) -> Vec<bool> {
        let lacks = |there: bool| if there { Byte::ZERO } else { Byte::NONE };
        let row = |near: &u32| std::array::from_fn(|v| lacks(near >> v & 1 == 1));
        let weights = Weights::new(space.adjacent(level).iter().map(row).collect());
        let mut fits = vec![false; count(space.len(), n)];
        ring_tree::perfect(&weights, n).iter().for_each(|set| fits[POSITIONS.of(*set)] = true);
        fits
    }
}

impl ClassSums for RingTree {
    fn within(&self, links: &ClassLinks<'_>, n: usize, limit: u32) -> Within {
        let (weights, limit) = (links.weights(), Byte::of(limit));
        match ring_tree::within(&weights, &self.edges, n, limit) {
            Some((lacks, order)) if !lacks.ahead(limit) => Within::Exactly(order),
            Some(_) => Within::Yes,
            None => Within::No,
        }
    }

    fn quick_match(&self, links: &ClassLinks<'_>, n: usize, limit: u32) -> Option<Vec<usize>> {
        let (weights, limit) = (links.weights(), Byte::of(limit));
        let good = hill_climb::good(&weights, &self.edges, n, Some(limit));
        good.filter(|(lacks, _)| lacks.units() == limit.units()).map(|(_, order)| order)
    }

    fn sets_at(&self, links: &ClassLinks<'_>, n: usize, limit: u32) -> Option<Vec<u32>> {
        let (weights, limit) = (links.weights(), Byte::of(limit));
        let below = limit.units().and_then(|units| units.checked_sub(1)).map(Byte::of);
        let good = below.and_then(|below| hill_climb::good(&weights, &self.edges, n, Some(below)));
        let is_below = good.is_some_and(|(lacks, _)| lacks.ahead(limit));
        if is_below { None } else { ring_tree::sets_at(&weights, n, limit) }
    }
}

impl SubsetSearch for RingTree {
    fn graph(&self, n: usize) -> EdgeGraph {
        EdgeGraph::new(&self.edges, n)
    }

    fn most_edges(&self, _: usize) -> usize {
        self.edges.len()
    }

    fn sums_in<T: Number>(&self, space: &Space, n: usize, scale: &Scale) -> Vec<i64> {
        let weights = space.weights::<T>(0, scale);
        let (best, sets) = ring_tree::best(&weights, n, &self.edges);
        let mut sums = vec![i64::MIN; count(space.len(), n)];
        let sum = scale.sum_mb_s(self.edges.len(), best);
        sets.iter().for_each(|set| sums[POSITIONS.of(*set)] = sum);
        sums
    }

    fn order_in<T: Number>(
        &self,
        space: &Space,
        level: usize,
        scale: &Scale,
        known_mb_s: Option<i64>,
    ) -> Vec<usize> {
        let weights = space.weights::<T>(level, scale);
        let known = known_mb_s.and_then(|sum| scale.lacking(self.edges.len(), sum));
        let found = ring_tree::one(&weights, &self.edges, known);
        found.map_or_else(|| (0..space.len()).collect(), |(_, order)| order)
    }
}
