//! The best match under Equation 2 for patterns whose counts no table holds: trees, ring+tree, edge lists.
//!
//! # Problem
//! Equation 2 depends on how many edges lie on double, single and no NVLinks, and is not monotone. Tables of all counts
//! that each set can have would be too large.
//!
//! # Algorithm
//! There are few counts (300 for 23 edges). They are tried in the order of their score: a search over placements looks
//! for one match, of any set, with exactly these counts. The first counts that have one are the best; then sets are
//! searched for them one by one, those that leave most bandwidth first, so that the first one found is the answer.
//! Counts are ruled out by the degrees of vertices and ranks before any placement; where they have no double link, as
//! the best ones of large patterns have, also by the fewest PCIe links and the fewest single links that a match
//! without double ones can have, which the searches for sums know for every set. What remains mostly has a match,
//! which exchanging places finds at once; only where it does not every placement is gone through.
//!
//! # Limit
//! Steps are counted ([`MOST_STEPS`](super::general::MOST_STEPS) is for other searches): the named systems stay far
//! below [`MOST_PLACED`]; if it is reached the answer says so.

use super::general::{Budget, GraphPattern};
use super::link::LinkClass;
use super::model::equation_2;
use super::space::{MOST_FREE, Space, bits};
use super::swaps::{LONG, SHORT, Swaps};

/// Most placements of one rank.
pub(super) const MOST_PLACED: u32 = 20_000_000;

/// Numbers of double, single and other links.
type Counts = [usize; 3];

/// A placement in progress.
struct Placing<'a> {
    pattern: &'a GraphPattern,
    /// By class and vertex: the vertices linked so.
    near: &'a [[u32; MOST_FREE]; 3],
    /// Classes, scarcest first: those are used up first.
    scarce: [usize; 3],
    at: Vec<usize>,
}

/// A set with the best counts, and the vertex of each rank.
pub(super) struct Best {
    pub(super) mask: u32,
    pub(super) order: Vec<usize>,
}

/// Whether a match on vertices of this set lacks at most so much, if each class of links lacks that much; `None`:
/// unknown.
pub(super) type Within<'a> = &'a dyn Fn(u32, [Option<u32>; 3], u32) -> Option<bool>;

/// The best match among these sets of `n`, of which the first one with the best counts is taken.
///
/// `None` where the steps are used up before any match was found.
pub(super) fn best(
    space: &Space,
    pattern: &GraphPattern,
    sets: &[u32],
    within: Within<'_>,
    budget: &mut Budget,
) -> Option<Best> {
    let (class, near) = classes(space);
    let links = |class: usize| near[class].iter().map(|n| n.count_ones()).sum::<u32>();
    let mut scarce = [0, 1, 2];
    scarce.sort_unstable_by_key(|class| links(*class));
    let all = (1_u32 << space.len()) - 1;
    let mut swaps = Swaps::new(&class, pattern);
    for counts in by_score(pattern.edges()) {
        let placing = Placing { pattern, near: &near, scarce, at: Vec::with_capacity(MOST_FREE) };
        if !placing.could(all, counts) {
            continue;
        }
        let mut look = Look { placing, swaps: &mut swaps, within, counts };
        // Any set that has these counts will do.
        if sets.len() > 1 && look.on(all, budget).is_none() {
            continue;
        }
        for set in sets {
            if let Some(at) = look.on(*set, budget) {
                return Some(Best { mask: *set, order: pattern.in_rank_order(&at) });
            }
        }
    }
    None
}

/// Most placements before something else is tried.
const FEW_PLACED: [u32; 2] = [400, 2_000];

/// The ways to find a match with given counts, the fast ones first.
struct Look<'a, 's> {
    placing: Placing<'a>,
    swaps: &'s mut Swaps<'a>,
    within: Within<'a>,
    counts: Counts,
}

impl Look<'_, '_> {
    /// The vertex of each place of a match on vertices of this set.
    fn on(&mut self, set: u32, budget: &mut Budget) -> Option<Vec<usize>> {
        let counts = self.counts;
        if !self.placing.could(set, counts) {
            return None;
        }
        for few in FEW_PLACED {
            let mut few = Budget(few.min(budget.0));
            if let Some(done) = self.every_placement(set, &mut few) {
                return done;
            }
            if let Some(at) = self.swaps.find(set, counts, SHORT) {
                return Some(at.to_vec());
            }
        }
        if self.is_ruled_out(set) {
            return None;
        }
        if let Some(at) = self.swaps.find(set, counts, LONG) {
            return Some(at.to_vec());
        }
        self.every_placement(set, budget).flatten()
    }

    /// Whether the fewest PCIe links or the fewest single links that a match without double ones has are too many.
    fn is_ruled_out(&self, set: u32) -> bool {
        let [x, y, z] = self.counts.map(|c| u32::try_from(c).unwrap_or(u32::MAX));
        let too_many = |lacks, limit| (self.within)(set, lacks, limit) == Some(false);
        x == 0 && (too_many([None, Some(0), Some(1)], z) || too_many([None, Some(1), Some(0)], y))
    }

    /// `None`: the steps were used up.
    fn every_placement(&mut self, set: u32, budget: &mut Budget) -> Option<Option<Vec<usize>>> {
        self.placing.at.clear();
        let found = self.placing.place(set, self.counts, budget);
        (found || budget.0 > 0).then(|| found.then(|| self.placing.at.clone()))
    }
}

/// The class of each link, and by class and vertex the vertices linked so.
type Classes = ([[u8; MOST_FREE]; MOST_FREE], [[u32; MOST_FREE]; 3]);

fn classes(space: &Space) -> Classes {
    let (mut classes, mut near) = ([[2; MOST_FREE]; MOST_FREE], [[0; MOST_FREE]; 3]);
    for a in 0..space.len() {
        for b in (0..space.len()).filter(|b| *b != a) {
            let class: u8 = match space.class[a][b] {
                LinkClass::Double => 0,
                LinkClass::Single => 1,
                LinkClass::Pcie => 2,
            };
            classes[a][b] = class;
            near[usize::from(class)][a] |= 1 << b;
        }
    }
    (classes, near)
}

/// Every way to count so many edges, best score first.
fn by_score(edges: usize) -> Vec<Counts> {
    let mut counts: Vec<Counts> =
        (0..=edges).flat_map(|x| (0..=edges - x).map(move |y| [x, y, edges - x - y])).collect();
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let score = |c: &Counts| equation_2(small(c[0]), small(c[1]), small(c[2]));
    counts.sort_by(|a, b| score(b).total_cmp(&score(a)));
    counts
}

impl Placing<'_> {
    /// Whether the links within a set have enough ends of each class: necessary, not sufficient.
    fn could(&self, set: u32, counts: Counts) -> bool {
        (0..3).all(|class| {
            let mut ends: Vec<u32> =
                bits(set).map(|v| (self.near[class][v] & set).count_ones()).filter(|d| *d > 0).collect();
            ends.sort_unstable_by(|a, b| b.cmp(a));
            self.pattern.most_edges(&ends) >= counts[class]
        })
    }

    /// Places the remaining ranks on this set so that their edges have exactly these counts.
    fn place(&mut self, left: u32, counts: Counts, budget: &mut Budget) -> bool {
        let place = self.at.len();
        let Some(back) = self.pattern.back(place) else { return counts == [0; 3] };
        // Vertices by how many of the scarcest classes they use up, most first.
        let mut next = [(0_usize, 0_usize, [0; 3]); MOST_FREE];
        let mut n_next = 0;
        for v in bits(left) {
            let Some(rest) = self.with(v, back, counts) else { continue };
            let used = |class: usize| counts[class] - rest[class];
            let worth = used(self.scarce[0]) * 64 + used(self.scarce[1]);
            let mut at = n_next;
            while at > 0 && next[at - 1].0 < worth {
                next[at] = next[at - 1];
                at -= 1;
            }
            next[at] = (worth, v, rest);
            n_next += 1;
        }
        for (_, v, rest) in next.into_iter().take(n_next) {
            if budget.0 == 0 {
                return false;
            }
            budget.0 -= 1;
            self.at.push(v);
            if self.place(left ^ 1 << v, rest, budget) {
                return true;
            }
            self.at.pop();
        }
        false
    }

    /// What is left of the counts with the next rank on `v`.
    fn with(&self, v: usize, back: &[(usize, f64, f64)], mut counts: Counts) -> Option<Counts> {
        for (place, ..) in back {
            let to = 1 << self.at[*place];
            let class = (0..3).find(|class| self.near[*class][v] & to != 0)?;
            counts[class] = counts[class].checked_sub(1)?;
        }
        Some(counts)
    }
}
