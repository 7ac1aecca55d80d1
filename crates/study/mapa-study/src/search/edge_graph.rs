//! A pattern as searches over placements take it: ranks in the order in which they are placed.

use mapa::Edge;

use super::space::Space;

/// An edge from a place to an earlier one: that place, the weight, and the weight over that of the heaviest edge.
pub(super) type BackEdge = (usize, f64, f64);

/// A pattern whose ranks have places: rank `ranks[i]` is the `i`th that a search places.
#[derive(Clone)]
pub(super) struct EdgeGraph {
    n: usize,
    /// Ranks in the order of placing.
    ranks: Vec<usize>,
    /// Per place: its edges to earlier places.
    back: Vec<Vec<BackEdge>>,
    /// Weights of the edges that are still open after each place, heaviest first.
    pub(super) open: Vec<Vec<f64>>,
    /// Number of edges per rank, most first; several edges between two ranks count once.
    degrees: Vec<u32>,
}

impl EdgeGraph {
    pub(super) fn new(edges: &[Edge], n: usize) -> Self {
        let heaviest = edges.iter().map(|e| e.weight).fold(0.0, f64::max);
        let touches = |e: &Edge, r: usize| e.a == r || e.b == r;
        let other = |e: &Edge, r: usize| if e.a == r { e.b } else { e.a };
        let degree = |r: usize| {
            let mut near: Vec<usize> = edges.iter().filter(|e| touches(e, r)).map(|e| other(e, r)).collect();
            near.sort_unstable();
            near.dedup();
            near.len()
        };
        let mut ranks: Vec<usize> = Vec::with_capacity(n);
        while ranks.len() < n {
            let to_placed =
                |r: usize| edges.iter().filter(|e| touches(e, r) && ranks.contains(&other(e, r))).count();
            let next =
                (0..n).filter(|r| !ranks.contains(r)).max_by_key(|r| (to_placed(*r), degree(*r), n - r));
            let Some(next) = next else { break };
            ranks.push(next);
        }
        let place = |r: usize| ranks.iter().position(|x| *x == r).unwrap_or(0);
        let back = ranks.iter().enumerate().map(|(at, r)| {
            let mine = edges.iter().filter(|e| touches(e, *r)).map(|e| (place(other(e, *r)), e.weight));
            mine.filter(|(p, _)| *p < at).map(|(p, w)| (p, w, w / heaviest)).collect()
        });
        let back: Vec<Vec<BackEdge>> = back.collect();
        let open = (0..n).map(|at| {
            let mut weights: Vec<f64> = back[at + 1..].iter().flatten().map(|(_, w, _)| *w).collect();
            weights.sort_unstable_by(|a, b| b.total_cmp(a));
            weights
        });
        let open = open.collect();
        let mut degrees: Vec<u32> = (0..n).map(|r| u32::try_from(degree(r)).unwrap_or(u32::MAX)).collect();
        degrees.sort_unstable_by(|a, b| b.cmp(a));
        Self { n, ranks, back, open, degrees }
    }

    /// True if two ranks have more than one edge between them. Such edges share one link.
    pub(super) fn has_parallel_edges(&self) -> bool {
        self.back.iter().any(|b| b.iter().any(|e| b.iter().filter(|f| f.0 == e.0).count() > 1))
    }

    pub(super) fn ranks(&self) -> usize {
        self.n
    }

    /// Per edge: two ranks, and its weight over that of the heaviest edge, its share.
    pub(super) fn edge_shares(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let of = move |(place, back): (usize, &Vec<BackEdge>)| {
            let rank = self.ranks[place];
            back.iter().map(move |(to, _, share)| (rank, self.ranks[*to], *share)).collect::<Vec<_>>()
        };
        self.back.iter().enumerate().flat_map(of)
    }

    /// The different shares of [`EdgeGraph::edge_shares`], ascending.
    pub(super) fn shares(&self) -> Vec<f64> {
        let mut shares: Vec<f64> = self.edge_shares().map(|(.., share)| share).collect();
        shares.sort_unstable_by(f64::total_cmp);
        shares.dedup();
        shares
    }

    /// Sum over the edges of the link's bandwidth, MB/s, times the weight. `order`: the vertex of each rank.
    pub(super) fn sum(&self, space: &Space, order: &[usize]) -> f64 {
        let at = self.in_place_order(order);
        let of = |(place, back): (usize, &Vec<BackEdge>)| {
            back.iter()
                .map(|(to, weight, _)| f64::from(space.weight[at[*to]][at[place]]) * weight)
                .sum::<f64>()
        };
        self.back.iter().enumerate().map(of).sum()
    }

    /// Number of edges.
    pub(super) fn edges(&self) -> usize {
        self.back.iter().map(Vec::len).sum()
    }

    /// The edges of a place to earlier ones; `None` past the last.
    pub(super) fn back(&self, place: usize) -> Option<&[BackEdge]> {
        self.back.get(place).map(Vec::as_slice)
    }

    /// The vertex of each rank, given that of each place.
    pub(super) fn in_rank_order(&self, at: &[usize]) -> Vec<usize> {
        let mut order = vec![0; self.n];
        self.ranks.iter().zip(at).for_each(|(rank, v)| order[*rank] = *v);
        order
    }

    /// The vertex of each place, given that of each rank.
    pub(super) fn in_place_order(&self, order: &[usize]) -> Vec<usize> {
        self.ranks.iter().map(|rank| order[*rank]).collect()
    }

    /// Most edges that fit on links of which each vertex has so many. `ends`: these numbers, largest first.
    pub(super) fn most_edges(&self, ends: &[u32]) -> usize {
        if self.has_parallel_edges() {
            return if ends.is_empty() { 0 } else { self.edges() };
        }
        let ends: u32 = self.degrees.iter().zip(ends).map(|(need, has)| need.min(has)).sum();
        ends as usize / 2
    }
}
