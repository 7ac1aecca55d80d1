//! Trees of equal weights, by tables per shape of subtree.

use crate::search::edge_graph::EdgeGraph;
use crate::search::equation2::{ClassSums, Within};
use crate::search::level_tables::FitTable;
use crate::search::link_classes::ClassLinks;
use crate::search::number::{Byte, Number, Scale};
use crate::search::space::Space;
use crate::search::subset_search::SubsetSearch;
use crate::search::tree::{TreeShape, feasible, sums, sums_within};

impl FitTable for TreeShape {
    fn fits(&self, space: &Space, level: usize, _: usize) -> Vec<bool> {
        feasible(self, &space.adjacent(level))
    }
}

impl ClassSums for TreeShape {
    fn within(&self, links: &ClassLinks<'_>, _: usize, limit: u32) -> Within {
        let (weights, limit) = (links.weights(), Byte::of(limit));
        let values = sums_within(self, &weights, limit).values();
        let found = values.into_iter().any(|lacks| !limit.ahead(lacks));
        if found { Within::Yes } else { Within::No }
    }

    /// `None`: the table of [`ClassSums::within`] is fast enough.
    fn quick_match(&self, _: &ClassLinks<'_>, _: usize, _: u32) -> Option<Vec<usize>> {
        None
    }

    /// `None`: sets are asked about one by one.
    fn sets_at(&self, _: &ClassLinks<'_>, _: usize, _: u32) -> Option<Vec<u32>> {
        None
    }
}

impl SubsetSearch for TreeShape {
    fn graph(&self, n: usize) -> EdgeGraph {
        EdgeGraph::new(&self.edges(), n)
    }

    fn most_edges(&self, n: usize) -> usize {
        n
    }

    fn sums_in<T: Number>(&self, space: &Space, n: usize, scale: &Scale) -> Vec<i64> {
        let values = sums(self, &space.weights::<T>(0, scale)).values();
        values.into_iter().map(|lacks| scale.sum_mb_s(n - 1, lacks)).collect()
    }

    fn order_in<T: Number>(
        &self,
        space: &Space,
        level: usize,
        scale: &Scale,
        known_mb_s: Option<i64>,
    ) -> Vec<usize> {
        let m = space.len();
        let weights = space.weights::<T>(level, scale);
        let known = known_mb_s.and_then(|sum| scale.lacking(m - 1, sum));
        let table = match known {
            Some(limit) => sums_within(self, &weights, limit),
            None => sums(self, &weights),
        };
        table.order(self, &weights, (1 << m) - 1)
    }
}
