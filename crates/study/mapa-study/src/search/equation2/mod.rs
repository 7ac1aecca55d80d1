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

mod counts_search;
mod placing;

use super::budget::Budget;
use super::contest::{Contest, KnownOrder, Winner};
use super::edge_graph::EdgeGraph;
use super::link_classes::classes;
use super::space::Space;
use super::swaps::Swaps;
use crate::limits::MOST_FREE;
use crate::unanswered::Unanswered;
pub(super) use counts_search::{ClassSums, Within};
use counts_search::{CountsSearch, FEW_PLACED};
use mapa::equation_2;
use placing::{Counts, Placing};

/// A set with the best counts, and the vertex of each rank.
struct CountsMatch {
    mask: u32,
    order: Vec<usize>,
}

/// The best set under Equation 2; of sets with the same counts the one that wins ties. `sums` is `None` for patterns
/// without a search for sums.
///
/// # Errors
///
/// [`Unanswered::OutOfSteps`] if the budget ends before any match is found.
pub(super) fn best_set(
    contest: &Contest<'_>,
    pattern: &EdgeGraph,
    sums: Option<&dyn ClassSums>,
    budget: &mut Budget,
) -> Result<Winner, Unanswered> {
    let space = contest.space;
    let found = best(space, pattern, &contest.ordered(), sums, budget).ok_or(Unanswered::OutOfSteps)?;
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
) -> Result<Vec<usize>, Unanswered> {
    let all = (1_u32 << space.len()) - 1;
    let found = best(space, pattern, &[all], sums, budget).ok_or(Unanswered::OutOfSteps)?;
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
        let edges =
            mapa::edges_of(&Pattern::Edges(pairs.map(|(a, b)| PatternEdge::new(a, b)).collect()), 9).unwrap();
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
