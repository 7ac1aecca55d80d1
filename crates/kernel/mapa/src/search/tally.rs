//! The sums over the edges of a match, and their score.
//!
//! Each edge adds one number for the link that it is on. Under Equation 2, which counts links by class, the number holds
//! the count of double NVLinks in its upper half and that of single ones in its lower half.

use topology::LinkClass;

use super::ranks::Ranks;
use super::space::Space;
use crate::limits::MOST_FREE;
use crate::model::equation_2;

/// Measure of the worth of a match.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Score {
    /// The sum over its edges (AggBW), MB/s and thousandths of weight.
    Sum,
    /// Equation 2 for a pattern of so many edges.
    Equation2(usize),
    /// Minus the distance from so many double and single links.
    Counts(usize, usize),
}

/// More edges than this have no table of Equation 2.
const MOST_TABLED: usize = 40;

/// More edges than this are not bounded under Equation 2; such patterns have few orders ([`is_few`](super::Ranks::is_few))
/// or are not searched by bounds.
const MOST_BOUNDED: usize = 16;

/// The worth of matches.
pub(crate) struct Tally {
    /// Value that an edge adds on the link between two vertices.
    pub(super) link: [[i64; MOST_FREE]; MOST_FREE],
    score: Score,
    /// Equation 2 by double and single links.
    worth: Vec<f64>,
    /// By edges placed, double and single links among them: the most that Equation 2 can still become.
    most: Vec<f64>,
}

const DOUBLE: i64 = 1 << 32;

impl Tally {
    /// Counts all links of a space.
    pub(crate) fn new(space: &Space, score: Score) -> Self {
        let add = |a: usize, b: usize| match (score, space.class[a][b]) {
            (Score::Sum, _) => i64::from(space.weight[a][b]),
            (_, LinkClass::Double) => DOUBLE,
            (_, LinkClass::Single) => 1,
            (_, LinkClass::Pcie) => 0,
        };
        let worth = match score {
            Score::Equation2(edges) if edges <= MOST_TABLED => table(edges),
            _ => Vec::new(),
        };
        Self { link: links(space, &add), score, worth, most: Vec::new() }
    }

    /// Counts links of at least this rate, with a heavy loss for each edge on another one.
    pub(super) fn on_fast_links(space: &Space, slowest: f64) -> Self {
        let add = |a: usize, b: usize| {
            let mb_s = space.weight[a][b];
            if f64::from(mb_s) >= slowest { i64::from(mb_s) } else { -1_000_000_000 }
        };
        Self { link: links(space, &add), score: Score::Sum, worth: Vec::new(), most: Vec::new() }
    }

    /// Minus one for each edge on a link that is slower than this.
    pub(super) fn of_slow_links(space: &Space, slowest: f64) -> Self {
        let add = |a: usize, b: usize| -i64::from(f64::from(space.weight[a][b]) < slowest);
        Self { link: links(space, &add), score: Score::Sum, worth: Vec::new(), most: Vec::new() }
    }

    /// With what [`Tally::at_most`] needs.
    pub(crate) fn with_bounds(mut self) -> Self {
        if let Score::Equation2(edges) = self.score
            && edges <= MOST_BOUNDED
        {
            let has = |add: i64| self.link.iter().flatten().any(|link| *link == add);
            self.most = most(edges, &self.worth, [has(DOUBLE), has(1)]);
        }
        self
    }

    /// The weight of an edge in the tally: Equation 2 knows none.
    #[inline]
    pub(super) fn weighs(&self, weight: i64) -> i64 {
        if self.score == Score::Sum { weight } else { 1 }
    }

    /// The weight of all edges between two ranks in the tally.
    #[inline]
    pub(super) fn between(&self, ranks: &Ranks, a: usize, b: usize) -> i64 {
        if self.score == Score::Sum { ranks.weights[a][b] } else { ranks.numbers[a][b] }
    }

    /// Under Equation 2, tallies for the counts of links that are worth more than this, the best first.
    pub(super) fn better_counts(&self, than: f64) -> Vec<Self> {
        let Score::Equation2(edges) = self.score else { return Vec::new() };
        let pairs = (0..=edges).flat_map(|x| (0..=edges - x).map(move |y| (x, y)));
        let worth = pairs.map(|(x, y)| (of_counts(x, y, edges), Score::Counts(x, y)));
        let mut better: Vec<(f64, Score)> = worth.filter(|(worth, _)| *worth > than).collect();
        better.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let of = |score| Self { link: self.link, score, worth: Vec::new(), most: Vec::new() };
        better.into_iter().map(|(_, score)| of(score)).collect()
    }

    /// Tells whether matches are worth the sum of their links.
    pub(super) fn is_sum(&self) -> bool {
        self.score == Score::Sum
    }

    /// The worth of a complete match.
    #[inline]
    #[expect(
        clippy::cast_precision_loss,
        reason = "sums of 120 links of 10^6, in thousandths, are below 2^53"
    )]
    pub(super) fn worth(&self, total: i64) -> f64 {
        match self.score {
            Score::Sum => total as f64,
            Score::Equation2(edges) => {
                let (x, y) = counts(total);
                let known = self.worth.get(x * (edges + 1) + y).copied();
                known.unwrap_or_else(|| of_counts(x, y, edges))
            }
            Score::Counts(x, y) => {
                let (has_x, has_y) = counts(total);
                -((x.abs_diff(has_x) + y.abs_diff(has_y)) as f64)
            }
        }
    }

    /// The most that a match can be worth of which so many edges are placed. `open`: the most that the other edges can add
    /// to a sum.
    #[inline]
    pub(super) fn at_most(&self, total: i64, closed: usize, open: i64) -> f64 {
        match self.score {
            Score::Sum => self.worth(total + open),
            Score::Counts(..) => f64::INFINITY,
            Score::Equation2(edges) => {
                let (x, y) = counts(total);
                self.most.get((closed * (edges + 1) + x) * (edges + 1) + y).copied().unwrap_or(f64::INFINITY)
            }
        }
    }
}

fn links(space: &Space, add: &dyn Fn(usize, usize) -> i64) -> [[i64; MOST_FREE]; MOST_FREE] {
    let m = space.len();
    let mut links = [[0; MOST_FREE]; MOST_FREE];
    for (a, b) in (0..m).flat_map(|a| (0..m).map(move |b| (a, b))).filter(|(a, b)| a != b) {
        links[a][b] = add(a, b);
    }
    links
}

/// Double and single links.
#[inline]
fn counts(total: i64) -> (usize, usize) {
    let at = |n: i64| usize::try_from(n).unwrap_or(0);
    (at(total >> 32), at(total & (DOUBLE - 1)))
}

fn of_counts(x: usize, y: usize, edges: usize) -> f64 {
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    equation_2(small(x), small(y), small(edges.saturating_sub(x + y)))
}

fn table(edges: usize) -> Vec<f64> {
    let pairs = (0..=edges).flat_map(|x| (0..=edges).map(move |y| (x, y)));
    let of = |(x, y)| if x + y <= edges { of_counts(x, y, edges) } else { f64::NEG_INFINITY };
    pairs.map(of).collect()
}

/// `has`: whether any link is double, and single.
fn most(edges: usize, worth: &[f64], has: [bool; 2]) -> Vec<f64> {
    let side = edges + 1;
    let mut most = vec![f64::NEG_INFINITY; side * side * side];
    most[edges * side * side..].copy_from_slice(worth);
    for k in (0..edges).rev() {
        for x in 0..=k {
            for y in 0..=k - x {
                let next = |x: usize, y: usize| most[((k + 1) * side + x) * side + y];
                let mut best = next(x, y);
                if has[0] {
                    best = best.max(next(x + 1, y));
                }
                if has[1] {
                    best = best.max(next(x, y + 1));
                }
                most[(k * side + x) * side + y] = best;
            }
        }
    }
    most
}
