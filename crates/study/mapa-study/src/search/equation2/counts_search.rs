//! Searches for a match with given counts of links, the fast ones first.

use super::placing::{Counts, Placing};
use crate::search::budget::Budget;
use crate::search::link_classes::{ClassLinks, Lacks};
use crate::search::space::Space;
use crate::search::swaps::{LONG, SHORT, Swaps};

/// Answer to the question if a match lacks at most a limit.
pub(in crate::search) enum Within {
    /// All lack more.
    No,
    /// Some match lacks no more.
    Yes,
    /// A match lacks exactly the limit: the vertex of each rank, numbered within the set.
    Exactly(Vec<usize>),
}

/// Facts that a pattern's search for sums knows about matches when links lack something by their class.
pub(in crate::search) trait ClassSums {
    /// Searches for a match of `n` vertices that lacks at most `limit` on these links.
    fn within(&self, links: &ClassLinks<'_>, n: usize, limit: u32) -> Within;

    /// The vertex of each rank, numbered within the set, of a match that lacks exactly `limit`; `None` if the search
    /// has no fast way to find one, or found none.
    fn quick_match(&self, links: &ClassLinks<'_>, n: usize, limit: u32) -> Option<Vec<usize>>;

    /// Every set that has a match which lacks exactly `limit`. `None` if the search cannot list them, or if some match
    /// lacks less.
    fn sets_at(&self, links: &ClassLinks<'_>, n: usize, limit: u32) -> Option<Vec<u32>>;
}

/// With these, a match that lacks least has the fewest PCIe links, or the fewest single NVLinks, and no double ones.
const FEWEST_PCIE: Lacks = [None, Some(0), Some(1)];
const FEWEST_SINGLE: Lacks = [None, Some(1), Some(0)];

/// Most placements before something else is tried.
pub(super) const FEW_PLACED: [u32; 2] = [400, 2_000];

/// The ways to find a match with given counts, the fast ones first.
pub(super) struct CountsSearch<'a, 's> {
    pub(super) placing: Placing<'a>,
    pub(super) swaps: &'s mut Swaps<'a>,
    pub(super) space: &'a Space,
    pub(super) sums: Option<&'a dyn ClassSums>,
    /// The sets that can have a match, once they are listed.
    pub(super) sets: Option<Vec<u32>>,
    /// How many sets must be ruled out one by one before they are listed; `None`: never, or it is done.
    pub(super) list_after: Option<usize>,
    /// Sets that bounds have ruled out.
    pub(super) refused: usize,
    pub(super) counts: Counts,
}

impl CountsSearch<'_, '_> {
    /// True if any vertices have a match.
    pub(super) fn on_any(&mut self, all: u32, budget: &mut Budget) -> bool {
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
    pub(super) fn on(&mut self, set: u32, budget: &mut Budget) -> Option<Vec<usize>> {
        if !self.placing.could(set, self.counts) || self.is_out(set) {
            return None;
        }
        self.quickly(set, FEW_PLACED[0], budget).unwrap_or_else(|| self.slowly(set, budget))
    }

    /// The vertex of each place, or `Some(None)` if there is no match; `None` if `few` placements and some exchanges do
    /// not tell.
    pub(super) fn quickly(&mut self, set: u32, few: u32, budget: &mut Budget) -> Option<Option<Vec<usize>>> {
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

    /// Answers from the fewest PCIe links and the fewest single links of a match without double ones: `Some(None)` if these
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
