//! Rings and chains, by the table of paths.

use topology::Pattern;

use crate::search::edge_graph::EdgeGraph;
use crate::search::equation2::{ClassSums, Within};
use crate::search::level_tables::FitTable;
use crate::search::link_classes::ClassLinks;
use crate::search::number::{Byte, Number, Scale};
use crate::search::path::{PathTable, feasible};
use crate::search::space::Space;
use crate::search::subset_search::SubsetSearch;
use crate::search::subsets::subsets;

/// `ring` if closed, else `chain`.
pub(super) struct RingOrChain {
    pub(super) closed: bool,
}

impl FitTable for RingOrChain {
    fn fits(&self, space: &Space, level: usize, n: usize) -> Vec<bool> {
        let found = feasible(space, level, n, self.closed);
        subsets(space.len(), n).map(|mask| found[mask as usize]).collect()
    }
}

impl ClassSums for RingOrChain {
    fn within(&self, links: &ClassLinks<'_>, n: usize, limit: u32) -> Within {
        let (weights, limit) = (links.weights(), Byte::of(limit));
        let table = PathTable::new(&weights, n, self.closed);
        let mut sets = subsets(weights.rows.len(), n);
        let found = sets.any(|set| !limit.ahead(table.value(&weights, set)));
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

impl SubsetSearch for RingOrChain {
    fn graph(&self, n: usize) -> EdgeGraph {
        let pattern = if self.closed { Pattern::Ring } else { Pattern::Chain };
        // Only edge lists can fail to fit a number of ranks.
        EdgeGraph::new(&mapa::edges_of(&pattern, n).unwrap_or_default(), n)
    }

    fn most_edges(&self, n: usize) -> usize {
        n
    }

    fn sums_in<T: Number>(&self, space: &Space, n: usize, scale: &Scale) -> Vec<i64> {
        let weights = space.weights::<T>(0, scale);
        let table = PathTable::new(&weights, n, self.closed);
        let edges = n - usize::from(!self.closed);
        let sum = |mask| scale.sum_mb_s(edges, table.value(&weights, mask));
        subsets(space.len(), n).map(sum).collect()
    }

    fn order_in<T: Number>(&self, space: &Space, level: usize, scale: &Scale, _: Option<i64>) -> Vec<usize> {
        let m = space.len();
        let weights = space.weights::<T>(level, scale);
        PathTable::new(&weights, m, self.closed).order(&weights, (1 << m) - 1)
    }
}
