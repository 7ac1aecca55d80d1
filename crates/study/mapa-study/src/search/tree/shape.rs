//! A tree of ranks by the shapes of its subtrees.

use mapa::Edge;

use crate::limits::MOST_FREE;

/// A tree of ranks. Subtrees of the same shape share one number, and so one table.
pub(in crate::search) struct TreeShape {
    /// The shapes of the children of each shape; a shape comes after its children.
    pub(super) children: Vec<Vec<usize>>,
    /// Number of ranks of each shape.
    pub(super) size: Vec<usize>,
    /// Shape of the subtree of each rank.
    pub(super) of_rank: Vec<usize>,
    /// Children of each rank, in the order of its shape's children.
    pub(super) below: Vec<Vec<usize>>,
}

impl TreeShape {
    /// The shapes of a tree with equal weights over `n` ranks; `None` for any other graph.
    pub(in crate::search) fn new(edges: &[Edge], n: usize) -> Option<Self> {
        let equal = edges.windows(2).all(|w| (w[0].weight - w[1].weight).abs() < f64::EPSILON);
        if !(2..=MOST_FREE).contains(&n) || edges.len() != n - 1 || !equal {
            return None;
        }
        let mut tree =
            Self { children: Vec::new(), size: Vec::new(), of_rank: vec![0; n], below: vec![Vec::new(); n] };
        let mut seen = 0_u32;
        tree.visit(edges, 0, &mut seen)?;
        (seen.count_ones() as usize == n).then_some(tree)
    }

    /// The edges of the tree, from parents to children, each with weight 1.
    pub(in crate::search) fn edges(&self) -> Vec<Edge> {
        let below = self.below.iter().enumerate();
        below.flat_map(|(a, ranks)| ranks.iter().map(move |b| Edge { a, b: *b, weight: 1.0 })).collect()
    }

    fn visit(&mut self, edges: &[Edge], rank: usize, seen: &mut u32) -> Option<usize> {
        if *seen & 1 << rank != 0 {
            return None;
        }
        *seen |= 1 << rank;
        let ends = |e: &Edge| if e.a == rank { Some(e.b) } else { (e.b == rank).then_some(e.a) };
        let mut below: Vec<(usize, usize)> = Vec::new();
        let mut parents = 0;
        for next in edges.iter().filter_map(ends) {
            // With n - 1 edges and every rank reached, an edge to a seen rank is the one to the parent.
            if *seen & 1 << next != 0 {
                parents += 1;
            } else {
                below.push((self.visit(edges, next, seen)?, next));
            }
        }
        if parents > 1 {
            return None;
        }
        below.sort_unstable_by_key(|(shape, rank)| (std::cmp::Reverse(self.size[*shape]), *shape, *rank));
        let children: Vec<usize> = below.iter().map(|(shape, _)| *shape).collect();
        let size = 1 + children.iter().map(|c| self.size[*c]).sum::<usize>();
        let shape = self.children.iter().position(|c| *c == children).unwrap_or_else(|| {
            self.children.push(children);
            self.size.push(size);
            self.children.len() - 1
        });
        self.of_rank[rank] = shape;
        self.below[rank] = below.into_iter().map(|(_, rank)| rank).collect();
        Some(shape)
    }
}
