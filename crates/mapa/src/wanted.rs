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
//! which exchanging places finds at once, or the search for the fewest; only where neither does every placement is
//! gone through.
//!
//! # Limit
//! Steps are counted, those of exchanges too ([`MOST_STEPS`](super::general::MOST_STEPS) is for other searches): named
//! patterns on the named systems stay far below [`MOST_PLACED`]. Edge lists have less, for what a user writes must not
//! hold a controller up. Where half of the steps end before the proof, the other half finds a match, and the answer says
//! so.

use super::general::{Budget, GraphPattern};
use super::model::equation_2;
use super::space::{MOST_FREE, Space, bits};
use super::swaps::{LONG, SHORT, Swaps};
use topology::LinkClass;

/// Most steps: placements of one rank, and as many for each round of exchanges.
pub(super) const MOST_PLACED: u32 = 20_000_000;

/// Most of them for an edge list, some fifty milliseconds: users write those.
pub(super) const MOST_PLACED_LISTED: u32 = 400_000;

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

/// Whether a match lacks at most so much.
pub(super) enum Within {
    /// Nobody knows.
    Unknown,
    /// No match does.
    No,
    /// One does.
    Yes,
    /// One lacks exactly so much: the vertex of each rank.
    Exactly(Vec<usize>),
}

/// What links of each class lack; such ones are not used that have no number.
pub(super) type Lacks = [Option<u32>; 3];

/// What the searches for sums know, if each class of links lacks so much.
pub(super) trait Sums {
    /// Whether a match on vertices of this set is within a limit.
    fn within(&self, set: u32, lacks: Lacks, limit: u32) -> Within;
    /// The vertex of each rank of a match on vertices of this set that is at the limit, if one is found at once.
    fn good(&self, set: u32, lacks: Lacks, limit: u32) -> Option<Vec<usize>>;
    /// The sets that have a match at the limit, where none has one below it; `None`: unknown.
    fn sets(&self, lacks: Lacks, limit: u32) -> Option<Vec<u32>>;
}

/// The best match among these sets of `n`, of which the first one with the best counts is taken; one set, of all vertices,
/// or all of them.
///
/// Half of the steps are for proofs. Where those do not last, `budget` ends at 0, and the other half looks for any match, of
/// the best counts at which one is found at once. `None`: none was.
pub(super) fn best(
    space: &Space,
    pattern: &GraphPattern,
    sets: &[u32],
    sums: &dyn Sums,
    budget: &mut Budget,
) -> Option<Best> {
    let (class, near) = classes(space);
    let links = |class: usize| near[class].iter().map(|n| n.count_ones()).sum::<u32>();
    let mut scarce = [0, 1, 2];
    scarce.sort_unstable_by_key(|class| links(*class));
    let all = (1_u32 << space.len()) - 1;
    let mut swaps = Swaps::new(&class, pattern);
    let mut rest = Budget(budget.0 / 2);
    budget.0 -= rest.0;
    for counts in by_score(pattern.edges()) {
        let placing = Placing { pattern, near: &near, scarce, at: Vec::with_capacity(MOST_FREE) };
        if !placing.could(all, counts) {
            continue;
        }
        let (ask_after, swaps) = (ask_after(sets.len()), &mut swaps);
        let mut look = Look { placing, swaps, sums, sets: None, ask_after, refused: 0, counts };
        let found = |mask: u32, at: &[usize]| Some(Best { mask, order: pattern.in_rank_order(at) });
        // Any set that has these counts will do.
        if budget.0 > 0 && (sets.len() == 1 || look.on_any(all, budget)) {
            for set in sets {
                if let Some(at) = look.on(*set, budget) {
                    budget.0 += rest.0;
                    return found(*set, &at);
                }
                if budget.0 == 0 {
                    break;
                }
            }
        }
        if budget.0 == 0 {
            if let Some(at) = look.quickly(all, FEW_PLACED[0], &mut rest).flatten() {
                return found(at.iter().fold(0, |mask, v| mask | 1 << v), &at);
            }
            if rest.0 == 0 {
                break;
            }
        }
    }
    None
}

/// What lacks least then has the fewest PCIe links, or the fewest single NVLinks, and no double ones.
const FEWEST_PCIE: Lacks = [None, Some(0), Some(1)];
const FEWEST_SINGLE: Lacks = [None, Some(1), Some(0)];

/// Most placements before something else is tried.
const FEW_PLACED: [u32; 2] = [400, 2_000];

/// To ask which of so many sets have a match takes as long as to rule out a few, or more.
fn ask_after(sets: usize) -> Option<usize> {
    match sets {
        0..=1 => None,
        2..=100 => Some(1),
        _ => Some(2),
    }
}

/// The ways to find a match with given counts, the fast ones first.
struct Look<'a, 's> {
    placing: Placing<'a>,
    swaps: &'s mut Swaps<'a>,
    sums: &'a dyn Sums,
    /// The sets that can have a match, where that is known.
    sets: Option<Vec<u32>>,
    /// How many must be ruled out one by one before they are asked for; `None`: never, or it is done.
    ask_after: Option<usize>,
    /// Sets that bounds have ruled out.
    refused: usize,
    counts: Counts,
}

impl Look<'_, '_> {
    /// Whether there is a match on any vertices.
    fn on_any(&mut self, all: u32, budget: &mut Budget) -> bool {
        if let Some(done) = self.quickly(all, FEW_PLACED[0], budget) {
            return done.is_some();
        }
        self.ask_for_sets();
        match &self.sets {
            Some(sets) => !sets.is_empty(),
            None => self.slowly(all, budget).is_some(),
        }
    }

    /// The PCIe links of a match without double NVLinks.
    fn fewest_pcie(&self) -> Option<u32> {
        let [x, _, z] = self.counts;
        u32::try_from(z).ok().filter(|_| x == 0)
    }

    fn ask_for_sets(&mut self) {
        if self.ask_after.take().is_some() {
            self.sets = self.fewest_pcie().and_then(|z| self.sums.sets(FEWEST_PCIE, z));
        }
    }

    fn is_out(&self, set: u32) -> bool {
        self.sets.as_ref().is_some_and(|sets| !sets.contains(&set))
    }

    /// The vertex of each place of a match on vertices of this set.
    fn on(&mut self, set: u32, budget: &mut Budget) -> Option<Vec<usize>> {
        if !self.placing.could(set, self.counts) || self.is_out(set) {
            return None;
        }
        self.quickly(set, FEW_PLACED[0], budget).unwrap_or_else(|| self.slowly(set, budget))
    }

    /// `None`: that was not enough to tell.
    fn quickly(&mut self, set: u32, few: u32, budget: &mut Budget) -> Option<Option<Vec<usize>>> {
        let few = few.min(budget.0);
        let mut left = Budget(few);
        let known = self.every_placement(set, &mut left);
        budget.0 -= few - left.0;
        known.or_else(|| {
            let good = self.fewest_pcie().and_then(|z| self.sums.good(set, FEWEST_PCIE, z));
            let at = good.map(|order| self.placing.pattern.in_place_order(&order));
            at.or_else(|| self.swaps.find(set, self.counts, SHORT, budget).map(<[usize]>::to_vec)).map(Some)
        })
    }

    fn slowly(&mut self, set: u32, budget: &mut Budget) -> Option<Vec<usize>> {
        if self.ask_after.is_some_and(|after| self.refused >= after) {
            self.ask_for_sets();
            if self.is_out(set) {
                return None;
            }
        }
        let known = self.by_bounds(set);
        self.refused += usize::from(known.as_ref().is_some_and(Option::is_none));
        let known = known.or_else(|| self.quickly(set, FEW_PLACED[1], budget));
        let known =
            known.or_else(|| self.swaps.find(set, self.counts, LONG, budget).map(|at| Some(at.to_vec())));
        known.unwrap_or_else(|| self.every_placement(set, budget).flatten())
    }

    /// What the fewest PCIe links and the fewest single links say that a match without double ones has: too many, or
    /// just so many. `None`: neither.
    fn by_bounds(&self, set: u32) -> Option<Option<Vec<usize>>> {
        let [x, y, z] = self.counts.map(|c| u32::try_from(c).unwrap_or(u32::MAX));
        if x > 0 {
            return None;
        }
        for (lacks, limit) in [(FEWEST_PCIE, z), (FEWEST_SINGLE, y)] {
            match self.sums.within(set, lacks, limit) {
                Within::No => return Some(None),
                Within::Exactly(order) => return Some(Some(self.placing.pattern.in_place_order(&order))),
                Within::Yes | Within::Unknown => {}
            }
        }
        None
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

#[cfg(test)]
mod tests {
    use super::super::space::subsets;
    use super::*;
    use topology::{Pattern, PatternEdge, System};

    struct KnowsNothing;

    impl Sums for KnowsNothing {
        fn within(&self, _: u32, _: Lacks, _: u32) -> Within {
            Within::Unknown
        }
        fn good(&self, _: u32, _: Lacks, _: u32) -> Option<Vec<usize>> {
            None
        }
        fn sets(&self, _: Lacks, _: u32) -> Option<Vec<u32>> {
            None
        }
    }

    /// Three threes of ranks, each rank with those of the two other threes.
    #[test]
    fn without_steps_nothing_is_tried() {
        let system = System::find("cubemesh-16").unwrap();
        let graph = system.graph(system.size).unwrap();
        let space = Space::new(&graph, graph.all()).unwrap();
        let pairs = (0..9).flat_map(|a| (0..a).map(move |b| (a, b))).filter(|(a, b)| a % 3 != b % 3);
        let edges = Pattern::Edges(pairs.map(|(a, b)| PatternEdge::new(a, b)).collect()).edges(9).unwrap();
        let pattern = GraphPattern::new(&edges, 9);
        let sets: Vec<u32> = subsets(16, 9).collect();
        let found = |steps: u32| {
            let mut budget = Budget(steps);
            let found = best(&space, &pattern, &sets, &KnowsNothing, &mut budget);
            (found.map(|best| best.mask.count_ones()), budget.0)
        };
        assert_eq!(found(0), (None, 0));
        assert_eq!(found(MOST_PLACED_LISTED), (Some(9), 0), "not proven");
    }
}
