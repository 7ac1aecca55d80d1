//! A pattern as the searches take it: ranks in the order in which they are placed.

use crate::Edge;

use super::subsets::bits;
use super::symmetry::{Symmetry, Weights};
use crate::limits::{MOST_FREE, MOST_ORDERS};

/// An edge from one rank to another.
#[derive(Clone, Copy)]
pub(super) struct Near {
    /// The other rank.
    pub(super) rank: usize,
    /// Thousandths.
    pub(super) weight: i64,
    /// The weight over that of the heaviest edge.
    pub(super) share: f64,
}

/// A step of placing all ranks.
pub(super) struct Place {
    /// The rank to place.
    pub(super) rank: usize,
    /// Edges to ranks that are placed.
    pub(super) back: Vec<Near>,
    /// After it, the placed ranks with edges to ranks that are not, and the weight of these edges.
    pub(super) half: Vec<(usize, i64)>,
    /// Weights of the edges between ranks that are not placed after it, heaviest first.
    pub(super) open: Vec<i64>,
    /// Number of edges that are not.
    pub(super) closed: usize,
    /// Placed ranks whose vertex must be lower, and higher.
    lower: Vec<usize>,
    higher: Vec<usize>,
    /// Number of later ranks that must have a higher vertex, and a lower one.
    later_above: u32,
    later_below: u32,
}

impl Place {
    /// The vertices, of those that are free, that the rank may have; `at` has the vertex of each placed rank.
    #[inline]
    pub(super) fn allowed(&self, free: u32, at: &[usize; MOST_FREE]) -> u32 {
        let mut allowed = free;
        (0..self.later_below).for_each(|_| allowed &= allowed.wrapping_sub(1));
        for _ in 0..self.later_above {
            allowed &= !(1_u32.checked_shl(31 - allowed.leading_zeros().min(31)).unwrap_or(0));
        }
        for rank in &self.lower {
            allowed &= !((2 << at[*rank]) - 1);
        }
        for rank in &self.higher {
            allowed &= (1 << at[*rank]) - 1;
        }
        allowed
    }
}

/// The edges of `n` ranks.
pub(crate) struct Ranks {
    pub(super) places: Vec<Place>,
    /// Per rank: its edges.
    pub(super) near: Vec<Vec<Near>>,
    /// Between every two ranks: weights in thousandths, and numbers of edges.
    pub(super) weights: Weights,
    pub(super) numbers: Weights,
    /// The different shares, ascending.
    pub(super) shares: Vec<f64>,
    /// The ranks can be turned round.
    pub(super) is_ring: bool,
    /// The ranks can only be reversed.
    is_chain: bool,
    alike: u64,
}

impl Ranks {
    /// At most 16 ranks.
    pub(crate) fn new(edges: &[Edge], n: usize) -> Self {
        let heaviest = edges.iter().map(|e| e.weight).fold(0.0, f64::max);
        let mut near = vec![Vec::new(); n];
        let (mut weights, mut numbers) = ([[0; MOST_FREE]; MOST_FREE], [[0; MOST_FREE]; MOST_FREE]);
        for e in edges {
            let (weight, share) = (thousandths(e.weight), e.weight / heaviest);
            near[e.a].push(Near { rank: e.b, weight, share });
            near[e.b].push(Near { rank: e.a, weight, share });
            for (a, b) in [(e.a, e.b), (e.b, e.a)] {
                weights[a][b] += weight;
                numbers[a][b] += 1;
            }
        }
        let mut shares: Vec<f64> = near.iter().flatten().map(|edge| edge.share).collect();
        shares.sort_unstable_by(f64::total_cmp);
        shares.dedup();
        let Symmetry { above, alike, is_ring, is_chain } = Symmetry::new(&weights, n);
        let mut ranks = Self { places: Vec::new(), near, weights, numbers, shares, is_ring, is_chain, alike };
        for _ in 0..n {
            ranks.place_next(&above);
        }
        (0..n).for_each(|at| ranks.look_ahead(at));
        ranks
    }

    /// Computes the facts that a place needs about the edges that are open after it.
    fn look_ahead(&mut self, at: usize) {
        let placed = self.places[..=at].iter().fold(0_u32, |mask, place| mask | 1 << place.rank);
        let is_placed = |edge: &&Near| placed >> edge.rank & 1 == 1;
        let later = || self.places[at + 1..].iter().flat_map(|place| &place.back);
        let mut open: Vec<i64> = later().filter(|edge| !is_placed(edge)).map(|edge| edge.weight).collect();
        open.sort_unstable_by(|a, b| b.cmp(a));
        let to = |rank: usize| later().filter(|edge| edge.rank == rank).map(|edge| edge.weight).sum::<i64>();
        let half = bits(placed).map(|rank| (rank, to(rank))).filter(|(_, weight)| *weight > 0).collect();
        let closed = self.edges() - later().count();
        let place = &mut self.places[at];
        (place.open, place.half, place.closed) = (open, half, closed);
    }

    /// Adds the rank with most edges to placed ranks; of these the lowest, or the last one of a chain.
    fn place_next(&mut self, above: &[u32; MOST_FREE]) {
        let placed = self.places.iter().fold(0_u32, |mask, place| mask | 1 << place.rank);
        let is_placed = |rank: usize| placed >> rank & 1 == 1;
        let to_placed = |rank: &usize| self.near[*rank].iter().filter(|e| is_placed(e.rank)).count();
        let n = self.near.len();
        let key = |rank: &usize| (to_placed(rank), if self.is_chain { *rank } else { n - rank });
        let Some(rank) = (0..n).filter(|rank| !is_placed(*rank)).max_by_key(key) else { return };
        let is_above = |low: usize, high: usize| above[low] >> high & 1 == 1;
        let all =
            |keep: &dyn Fn(usize) -> bool| (0..self.near.len()).filter(|r| keep(*r)).collect::<Vec<_>>();
        let later = |keep: &dyn Fn(usize) -> bool| {
            u32::try_from(all(&|r| r != rank && !is_placed(r) && keep(r)).len()).unwrap_or(0)
        };
        let place = Place {
            rank,
            back: self.near[rank].iter().filter(|e| is_placed(e.rank)).copied().collect(),
            half: Vec::new(),
            open: Vec::new(),
            closed: 0,
            lower: all(&|r| is_placed(r) && is_above(r, rank)),
            higher: all(&|r| is_placed(r) && is_above(rank, r)),
            later_above: later(&|r| is_above(rank, r)),
            later_below: later(&|r| is_above(r, rank)),
        };
        self.places.push(place);
    }

    /// Number of ranks.
    pub(super) fn len(&self) -> usize {
        self.near.len()
    }

    /// Number of edges.
    pub(crate) fn edges(&self) -> usize {
        self.places.iter().map(|place| place.back.len()).sum()
    }

    /// The weight of the edges, if all weigh the same and no two are parallel, and most edges of a rank.
    pub(super) fn plain(&self) -> Option<(i64, usize)> {
        let weight = self.near.iter().flatten().map(|edge| edge.weight).next()?;
        let most = self.near.iter().map(Vec::len).max()?;
        (self.shares.len() == 1 && !self.has_parallel_edges()).then_some((weight, most))
    }

    /// Tells whether two ranks have more than one edge between them. Such edges share one link.
    pub(super) fn has_parallel_edges(&self) -> bool {
        self.near.iter().any(|near| near.iter().any(|e| near.iter().filter(|f| f.rank == e.rank).count() > 1))
    }

    /// Tells whether all orders of a set are alike.
    pub(super) fn has_one_order(&self) -> bool {
        self.alike >= (1..=self.len() as u64).product()
    }

    /// Tells whether every order of the ranks on every set of `m` vertices can be tried: there are at most [`MOST_ORDERS`]
    /// that are not alike.
    pub(crate) fn is_few(&self, m: usize) -> bool {
        let orders =
            (0..self.len()).try_fold(1_u64, |orders, i| orders.checked_mul(m.saturating_sub(i) as u64));
        orders.is_some_and(|orders| orders / self.alike <= MOST_ORDERS)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "weights are thousandths up to 1000")]
fn thousandths(weight: f64) -> i64 {
    (weight * 1000.0).round() as i64
}
