//! Lookup tables for the cases that the step-limited search leaves open: which sets have a match on fast links.

use super::set_positions::POSITIONS;
use super::space::Space;

/// A pattern for which one pass over all subsets says which of them have a match.
pub(super) trait FitTable {
    /// For each set of `n` vertices, in the order of [`subsets`](super::subsets::subsets), whether the pattern fits on
    /// it using only links of at least this level.
    fn fits(&self, space: &Space, level: usize, n: usize) -> Vec<bool>;
}

/// Tables of the sets of `n` vertices that have a match, by the slowest link that its edges may use.
pub(super) struct LevelTables<'a> {
    pattern: &'a dyn FitTable,
    space: &'a Space,
    n: usize,
    levels: Vec<Level>,
}

/// Facts about matches on links of one level or faster.
#[derive(Clone, Default)]
struct Level {
    /// Questions so far.
    asked: u32,
    /// The answer for every set, once the table is made.
    all: Option<Vec<bool>>,
}

/// Questions about single sets before the table of all sets is made: it takes as long as about that many.
const FEW_ASKED: u32 = 8;

impl<'a> LevelTables<'a> {
    pub(super) fn new(pattern: &'a dyn FitTable, space: &'a Space, n: usize) -> Self {
        Self { pattern, space, n, levels: vec![Level::default(); space.levels.len()] }
    }

    fn level(&self, mb_s: f64) -> usize {
        self.space.levels.partition_point(|level| f64::from(*level) < mb_s)
    }

    /// The answer to [`LevelTables::ask`], if the table of all sets has been made.
    pub(super) fn known(&self, set: u32, mb_s: f64) -> Option<bool> {
        let all = self.levels.get(self.level(mb_s))?.all.as_ref()?;
        if set.count_ones() as usize == self.n {
            return all.get(POSITIONS.of(set)).copied();
        }
        Some(all.contains(&true))
    }

    /// Answers if a set has a match on links of at least this rate; for a set of more than `n` vertices, whether any `n`
    /// vertices of the space have one.
    pub(super) fn ask(&mut self, set: u32, mb_s: f64) -> bool {
        let level = self.level(mb_s);
        let Some(here) = self.levels.get_mut(level) else { return false };
        here.asked += 1;
        if here.asked <= FEW_ASKED && set.count_ones() as usize == self.n {
            return self.pattern.fits(&self.space.part(set), level, self.n).contains(&true);
        }
        here.all = Some(self.pattern.fits(self.space, level, self.n));
        self.known(set, mb_s).unwrap_or(false)
    }
}
