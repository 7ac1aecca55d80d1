//! Any other pattern: branch and bound over placements of ranks.
//!
//! # Algorithm
//! Ranks are placed one after the other, those with most edges to placed ranks first, on the vertex with the best
//! links first. A branch is left when its slowest edge is slower than the best match's, or when even the strongest
//! remaining links could not make its sum larger.
//!
//! # Limit
//! [`MOST_STEPS`] placements of one rank per search. When they are used up the best match so far is taken, and the
//! answer says that it is not proven: for sums over patterns that are no ring, chain, star, tree or clique there is no
//! bound short of all orders of their ranks. How fast the slowest edge can be is found otherwise (`fit`); then this
//! looks for the largest sum, [`FEW_STEPS`] long.

use super::climb;
use super::model::equation_2;
use super::space::{MOST_FREE, Space};
use topology::{Edge, LinkClass};

/// Most placements of one rank in a search.
pub const MOST_STEPS: u32 = 60_000;

/// Most of them where only the sum of an order depends on it, and for sums of many sets.
pub(super) const FEW_STEPS: u32 = 15_000;

/// What a match is judged by; the larger first number wins, then the larger second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// Slowest edge, then sum.
    Slowest,
    /// Sum.
    Sum,
    /// Equation 2.
    Equation2,
}

/// A pattern prepared for placing.
#[derive(Clone)]
pub(super) struct GraphPattern {
    n: usize,
    /// Ranks in the order of placing.
    ranks: Vec<usize>,
    /// Per place: edges to earlier places, weight, and weight over that of the heaviest edge.
    back: Vec<Vec<(usize, f64, f64)>>,
    /// Weights of the edges that are still open after each place, heaviest first.
    open: Vec<Vec<f64>>,
    /// Number of edges per rank, most first; several edges between two ranks count once.
    degrees: Vec<u32>,
}

impl GraphPattern {
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
        let back: Vec<Vec<(usize, f64, f64)>> = back.collect();
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

    /// Number of ranks.
    pub(super) fn ranks(&self) -> usize {
        self.n
    }

    /// Two ranks and the weight over that of the heaviest edge, for each edge.
    pub(super) fn edge_shares(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let of = move |(place, back): (usize, &Vec<(usize, f64, f64)>)| {
            let rank = self.ranks[place];
            back.iter().map(move |(to, _, share)| (rank, self.ranks[*to], *share)).collect::<Vec<_>>()
        };
        self.back.iter().enumerate().flat_map(of)
    }

    /// The shares that there are, ascending.
    pub(super) fn shares(&self) -> Vec<f64> {
        let mut shares: Vec<f64> = self.edge_shares().map(|(.., share)| share).collect();
        shares.sort_unstable_by(f64::total_cmp);
        shares.dedup();
        shares
    }

    /// Sum of a match's links, thousandths of GB/s, times the edges' weights.
    pub(super) fn sum(&self, space: &Space, order: &[usize]) -> f64 {
        let at = self.in_place_order(order);
        let of = |(place, back): (usize, &Vec<(usize, f64, f64)>)| {
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
    pub(super) fn back(&self, place: usize) -> Option<&[(usize, f64, f64)]> {
        self.back.get(place).map(Vec::as_slice)
    }

    /// The vertex of each rank, from those of the places.
    pub(super) fn in_rank_order(&self, at: &[usize]) -> Vec<usize> {
        let mut order = vec![0; self.n];
        self.ranks.iter().zip(at).for_each(|(rank, v)| order[*rank] = *v);
        order
    }

    /// The vertex of each place, from those of the ranks.
    pub(super) fn in_place_order(&self, order: &[usize]) -> Vec<usize> {
        self.ranks.iter().map(|rank| order[*rank]).collect()
    }

    /// Most edges that can lie on links of which the vertices have so many ends, most first.
    pub(super) fn most_edges(&self, ends: &[u32]) -> usize {
        // Several edges between two ranks may share a link.
        let twice = self.back.iter().any(|b| b.iter().any(|e| b.iter().filter(|f| f.0 == e.0).count() > 1));
        if twice {
            return if ends.is_empty() { 0 } else { self.edges() };
        }
        let ends: u32 = self.degrees.iter().zip(ends).map(|(need, has)| need.min(has)).sum();
        ends as usize / 2
    }
}

/// A match of good sum on links of at least this level: the sum and the vertex of each rank; `None` if none is found.
///
/// Weights of edges only count in the sum.
pub(super) fn good_sum(pattern: &GraphPattern, space: &Space, level: usize) -> Option<(f64, Vec<usize>)> {
    if pattern.edges() > climb::MOST_EDGES {
        return None;
    }
    let edges: Vec<Edge> = pattern.edge_shares().map(|(a, b, weight)| Edge { a, b, weight }).collect();
    let (_, order) = climb::good::<i32>(&space.weights(level, &space.scale()), &edges, pattern.n, None)?;
    Some((pattern.sum(space, &order), order))
}

/// A match: its two numbers and the vertex of each rank.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) key: (f64, f64),
    pub(super) order: Vec<usize>,
}

/// Steps that are left.
pub(super) struct Budget(pub(super) u32);

struct Search<'a> {
    pattern: &'a GraphPattern,
    space: &'a Space,
    aim: Aim,
    /// Sum of the strongest links for the edges still open, by place.
    most_open: Vec<f64>,
    at: Vec<usize>,
    best: Option<Placed>,
    /// Matches must beat this.
    floor: (f64, f64),
}

/// The best match onto all vertices of `space` that beats `floor`; `None` if none does.
///
/// The slowest edge is in thousandths of GB/s over the edge's share of the heaviest one's weight.
pub(super) fn best(
    pattern: &GraphPattern,
    space: &Space,
    aim: Aim,
    floor: (f64, f64),
    budget: &mut Budget,
) -> Option<Placed> {
    let m = space.len();
    let mut links: Vec<f64> = (0..m)
        .flat_map(|a| (a + 1..m).map(move |b| (a, b)))
        .map(|(a, b)| f64::from(space.weight[a][b]))
        .collect();
    links.sort_unstable_by(|a, b| b.total_cmp(a));
    // Two edges may lie on one link only where the pattern names it twice; then the strongest link bounds each.
    let twice = pattern.back.iter().any(|b| b.iter().any(|e| b.iter().filter(|f| f.0 == e.0).count() > 1));
    let link = |i: usize| links.get(if twice { 0 } else { i }).copied().unwrap_or(0.0);
    let sum = |open: &Vec<f64>| open.iter().enumerate().map(|(i, w)| w * link(i)).sum();
    let most_open = pattern.open.iter().map(sum).collect();
    let mut search = Search { pattern, space, aim, most_open, at: Vec::with_capacity(m), best: None, floor };
    search.extend(0, f64::INFINITY, 0.0, [0; 3], budget);
    search.best
}

impl Search<'_> {
    fn beats(&self, key: (f64, f64)) -> bool {
        let best = self.best.as_ref().map_or(self.floor, |b| b.key);
        key.0 > best.0 || (key.0 >= best.0 && key.1 > best.1)
    }

    fn key(&self, slowest: f64, sum: f64, counts: [u32; 3]) -> (f64, f64) {
        match self.aim {
            Aim::Slowest => (slowest, sum),
            Aim::Sum => (sum, 0.0),
            Aim::Equation2 => (equation_2(counts[0], counts[1], counts[2]), sum),
        }
    }

    fn extend(&mut self, used: u32, slowest: f64, sum: f64, counts: [u32; 3], budget: &mut Budget) {
        let place = self.at.len();
        if place == self.pattern.n {
            let key = self.key(slowest, sum, counts);
            if self.beats(key) {
                let mut order = vec![0; place];
                for (rank, v) in self.pattern.ranks.iter().zip(&self.at) {
                    order[*rank] = *v;
                }
                self.best = Some(Placed { key, order });
            }
            return;
        }
        let mut next = [(0.0, 0.0, 0, [0; 3]); MOST_FREE];
        let mut n_next = 0;
        for v in (0..self.space.len()).filter(|v| used & 1 << v == 0) {
            let new = self.with(place, v, slowest, sum, counts);
            let mut at = n_next;
            while at > 0 && (next[at - 1].0 < new.0 || (next[at - 1].0 <= new.0 && next[at - 1].1 < new.1)) {
                next[at] = next[at - 1];
                at -= 1;
            }
            next[at] = new;
            n_next += 1;
        }
        for (slow, total, v, counts) in next.into_iter().take(n_next) {
            if budget.0 == 0 {
                return;
            }
            budget.0 -= 1;
            let hope = match self.aim {
                Aim::Slowest => (slow, total + self.most_open[place]),
                Aim::Sum => (total + self.most_open[place], 0.0),
                Aim::Equation2 => (f64::INFINITY, 0.0),
            };
            if self.beats(hope) {
                self.at.push(v);
                self.extend(used | 1 << v, slow, total, counts, budget);
                self.at.pop();
            }
        }
    }

    fn with(
        &self,
        place: usize,
        v: usize,
        mut slowest: f64,
        mut sum: f64,
        mut counts: [u32; 3],
    ) -> (f64, f64, usize, [u32; 3]) {
        for (p, weight, share) in &self.pattern.back[place] {
            let u = self.at[*p];
            let link = f64::from(self.space.weight[u][v]);
            slowest = slowest.min(link / share);
            sum += link * weight;
            match self.space.class[u][v] {
                LinkClass::Double => counts[0] += 1,
                LinkClass::Single => counts[1] += 1,
                LinkClass::Pcie => counts[2] += 1,
            }
        }
        (slowest, sum, v, counts)
    }
}
