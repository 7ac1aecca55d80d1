//! The best match under Equation 2 for patterns whose counts of links no table holds: all but stars and cliques.
//!
//! # Problem
//! Equation 2 depends on how many edges lie on double, single and no NVLinks, and is not monotone. Tables of all counts
//! that each set can have would be too large.
//!
//! # Approach
//! Few counts are possible (300 for 23 edges). They are tried in the order of their score: a search over placements
//! looks for one match, on any set, with exactly these counts. The first counts that have a match are the best. Then the
//! sets are searched one by one for a match with these counts, those that leave most bandwidth first, so that the first
//! one found is the answer.
//!
//! Counts are ruled out before any placement by the degrees of vertices and ranks. Counts without double links, which
//! the best ones of large patterns are, are also ruled out by the fewest PCIe links and the fewest single links that a
//! match without double ones can have: the searches for sums know these for every set ([`ClassSums`]). What remains
//! mostly has a match, which exchanging places finds at once, or the search for the fewest links does. Only where
//! neither answers, every placement is tried.
//!
//! # Limit
//! Steps are counted, those of exchanges too. Named patterns on the named systems stay far below
//! [`MOST_PLACED`](crate::limits::MOST_PLACED). Edge lists have less, because a user writes them. If half of the steps
//! end before the proof, the other half finds some match, and the answer says that it is not proven.

mod placing;

use super::budget::Budget;
use super::contest::{Contest, KnownOrder, Winner};
use super::edge_graph::EdgeGraph;
use super::link_classes::{ClassLinks, Lacks, classes};
use super::space::Space;
use super::swaps::{LONG, SHORT, Swaps};
use crate::limits::MOST_FREE;
use crate::model::equation_2;
use crate::query::NoMatch;
use placing::{Counts, Placing};

/// A set with the best counts, and the vertex of each rank.
struct CountsMatch {
    mask: u32,
    order: Vec<usize>,
}

/// Whether a match lacks at most the limit that was asked about.
pub(super) enum Within {
    /// None does.
    No,
    /// One does.
    Yes,
    /// One lacks exactly the limit: the vertex of each rank, numbered within the set.
    Exactly(Vec<usize>),
}

/// What a pattern's search for sums knows about matches when links lack something by their class.
pub(super) trait ClassSums {
    /// Whether some match of `n` vertices lacks at most `limit` on these links.
    fn within(&self, links: &ClassLinks<'_>, n: usize, limit: u32) -> Within;

    /// The vertex of each rank, numbered within the set, of a match that lacks exactly `limit`; `None` if the search
    /// has no fast way to find one, or found none.
    fn quick_match(&self, links: &ClassLinks<'_>, n: usize, limit: u32) -> Option<Vec<usize>>;

    /// Every set that has a match which lacks exactly `limit`. `None` if the search cannot list them, or if some match
    /// lacks less.
    fn sets_at(&self, links: &ClassLinks<'_>, n: usize, limit: u32) -> Option<Vec<u32>>;
}

/// The best set under Equation 2; of sets with the same counts the one that wins ties. `sums` is `None` for patterns
/// without a search for sums.
///
/// # Errors
///
/// [`NoMatch::NotWithMapa2021`] if the budget ends before any match is found.
pub(super) fn best_set(
    contest: &Contest<'_>,
    pattern: &EdgeGraph,
    sums: Option<&dyn ClassSums>,
    budget: &mut Budget,
) -> Result<Winner, NoMatch> {
    let space = contest.space;
    let found = best(space, pattern, &contest.ordered(), sums, budget).ok_or(NoMatch::NotWithMapa2021)?;
    let order = Some(found.order.iter().map(|v| space.gpus[*v]).collect());
    Ok(Winner { mask: found.mask, tied: None, known: KnownOrder { order, ..KnownOrder::default() } })
}

/// The best order of all vertices under Equation 2.
///
/// # Errors
///
/// As [`best_set`].
pub(super) fn best_order(
    space: &Space,
    pattern: &EdgeGraph,
    sums: Option<&dyn ClassSums>,
    budget: &mut Budget,
) -> Result<Vec<usize>, NoMatch> {
    let all = (1_u32 << space.len()) - 1;
    let found = best(space, pattern, &[all], sums, budget).ok_or(NoMatch::NotWithMapa2021)?;
    Ok(found.order)
}

/// The first of these sets that has the best counts. `sets` is either the set of all vertices alone, or every set of as
/// many vertices as the pattern has ranks.
///
/// Half of the steps are for proofs. When they are used up, `budget` ends at 0, and the other half looks for any match
/// with the best counts for which one is found at once; `None` if there is none.
fn best(
    space: &Space,
    pattern: &EdgeGraph,
    sets: &[u32],
    sums: Option<&dyn ClassSums>,
    budget: &mut Budget,
) -> Option<CountsMatch> {
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
        let (list_after, swaps) = (list_after(sets.len()), &mut swaps);
        let mut search =
            CountsSearch { placing, swaps, space, sums, sets: None, list_after, refused: 0, counts };
        let found = |mask: u32, at: &[usize]| Some(CountsMatch { mask, order: pattern.in_rank_order(at) });
        if budget.0 > 0 && (sets.len() == 1 || search.on_any(all, budget)) {
            for set in sets {
                if let Some(at) = search.on(*set, budget) {
                    budget.0 += rest.0;
                    return found(*set, &at);
                }
                if budget.0 == 0 {
                    break;
                }
            }
        }
        if budget.0 == 0 {
            if let Some(at) = search.quickly(all, FEW_PLACED[0], &mut rest).flatten() {
                return found(at.iter().fold(0, |mask, v| mask | 1 << v), &at);
            }
            if rest.0 == 0 {
                break;
            }
        }
    }
    None
}

/// With these, a match that lacks least has the fewest PCIe links, or the fewest single NVLinks, and no double ones.
const FEWEST_PCIE: Lacks = [None, Some(0), Some(1)];
const FEWEST_SINGLE: Lacks = [None, Some(1), Some(0)];

/// Most placements before something else is tried.
const FEW_PLACED: [u32; 2] = [400, 2_000];

/// How many of so many sets are ruled out one by one before all that have a match are listed: listing takes about as
/// long as that.
fn list_after(sets: usize) -> Option<usize> {
    match sets {
        0..=1 => None,
        2..=100 => Some(1),
        _ => Some(2),
    }
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

/// The ways to find a match with given counts, the fast ones first.
struct CountsSearch<'a, 's> {
    placing: Placing<'a>,
    swaps: &'s mut Swaps<'a>,
    space: &'a Space,
    sums: Option<&'a dyn ClassSums>,
    /// The sets that can have a match, once they are listed.
    sets: Option<Vec<u32>>,
    /// How many sets must be ruled out one by one before they are listed; `None`: never, or it is done.
    list_after: Option<usize>,
    /// Sets that bounds have ruled out.
    refused: usize,
    counts: Counts,
}

impl CountsSearch<'_, '_> {
    /// Whether any vertices have a match.
    fn on_any(&mut self, all: u32, budget: &mut Budget) -> bool {
        if let Some(done) = self.quickly(all, FEW_PLACED[0], budget) {
            return done.is_some();
        }
        self.list_sets();
        match &self.sets {
            Some(sets) => !sets.is_empty(),
            None => self.slowly(all, budget).is_some(),
        }
    }

    /// The PCIe links that are wanted, if no double NVLinks are.
    fn wanted_pcie(&self) -> Option<u32> {
        let [x, _, z] = self.counts;
        u32::try_from(z).ok().filter(|_| x == 0)
    }

    fn n(&self) -> usize {
        self.placing.pattern.ranks()
    }

    fn links(&self, vertices: u32, lacks: Lacks) -> ClassLinks<'_> {
        ClassLinks { space: self.space, vertices, lacks }
    }

    fn list_sets(&mut self) {
        if self.list_after.take().is_some() {
            let all = (1 << self.space.len()) - 1;
            let sums = self.sums.zip(self.wanted_pcie());
            self.sets = sums.and_then(|(sums, z)| sums.sets_at(&self.links(all, FEWEST_PCIE), self.n(), z));
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

    /// The vertex of each place, or `Some(None)` if there is no match; `None` if `few` placements and some exchanges do
    /// not tell.
    fn quickly(&mut self, set: u32, few: u32, budget: &mut Budget) -> Option<Option<Vec<usize>>> {
        let few = few.min(budget.0);
        let mut left = Budget(few);
        let known = self.every_placement(set, &mut left);
        budget.0 -= few - left.0;
        known.or_else(|| {
            let at = self.by_fewest_pcie(set);
            at.or_else(|| self.swaps.find(set, self.counts, SHORT, budget).map(<[usize]>::to_vec)).map(Some)
        })
    }

    /// The vertex of each place of a match that a quick search for the fewest PCIe links finds.
    fn by_fewest_pcie(&self, set: u32) -> Option<Vec<usize>> {
        let (sums, z) = self.sums.zip(self.wanted_pcie())?;
        let links = self.links(set, FEWEST_PCIE);
        let order = links.in_space(sums.quick_match(&links, self.n(), z)?);
        Some(self.placing.pattern.in_place_order(&order))
    }

    fn slowly(&mut self, set: u32, budget: &mut Budget) -> Option<Vec<usize>> {
        if self.list_after.is_some_and(|after| self.refused >= after) {
            self.list_sets();
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

    /// What the fewest PCIe links and the fewest single links of a match without double ones say: `Some(None)` if these
    /// are more than wanted, a match if they are as many. `None`: neither.
    fn by_bounds(&self, set: u32) -> Option<Option<Vec<usize>>> {
        let [x, y, z] = self.counts.map(|c| u32::try_from(c).unwrap_or(u32::MAX));
        let sums = self.sums.filter(|_| x == 0)?;
        for (lacks, limit) in [(FEWEST_PCIE, z), (FEWEST_SINGLE, y)] {
            let links = self.links(set, lacks);
            match sums.within(&links, self.n(), limit) {
                Within::No => return Some(None),
                Within::Exactly(order) => {
                    return Some(Some(self.placing.pattern.in_place_order(&links.in_space(order))));
                }
                Within::Yes => {}
            }
        }
        None
    }

    /// The vertex of each place, or `Some(None)` if there is no match; `None` if the steps were used up.
    fn every_placement(&mut self, set: u32, budget: &mut Budget) -> Option<Option<Vec<usize>>> {
        self.placing.at.clear();
        let found = self.placing.place(set, self.counts, budget);
        (found || budget.0 > 0).then(|| found.then(|| self.placing.at.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::subsets::subsets;
    use super::*;
    use crate::limits::MOST_PLACED_LISTED;
    use topology::{Pattern, PatternEdge, System};

    /// Three groups of three ranks; each rank talks to the ranks of the two other groups.
    #[test]
    fn without_steps_nothing_is_tried() {
        let system = System::find("cubemesh-16").unwrap();
        let graph = system.graph(system.size).unwrap();
        let space = Space::new(&graph, graph.all()).unwrap();
        let pairs = (0..9).flat_map(|a| (0..a).map(move |b| (a, b))).filter(|(a, b)| a % 3 != b % 3);
        let edges = Pattern::Edges(pairs.map(|(a, b)| PatternEdge::new(a, b)).collect()).edges(9).unwrap();
        let pattern = EdgeGraph::new(&edges, 9);
        let sets: Vec<u32> = subsets(16, 9).collect();
        let found = |steps: u32| {
            let mut budget = Budget(steps);
            let found = best(&space, &pattern, &sets, None, &mut budget);
            (found.map(|best| best.mask.count_ones()), budget.0)
        };
        assert_eq!(found(0), (None, 0));
        assert_eq!(found(MOST_PLACED_LISTED), (Some(9), 0), "not proven");
    }
}
