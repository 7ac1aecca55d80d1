//! What tables tell where a search of few steps does not.

use super::form::Form;
use super::ranks::RANKS;
use super::space::Space;

/// Whether sets of `n` vertices have a match, by the slowest links that its edges may have.
pub(super) struct Tables<'a> {
    form: &'a Form,
    space: &'a Space,
    n: usize,
    levels: Vec<Level>,
}

/// What was asked about links of one rate or faster.
#[derive(Clone, Default)]
struct Level {
    asked: u32,
    /// The answer for every set.
    all: Option<Vec<bool>>,
}

/// So many sets are asked for one by one before the table of all sets is made, which takes as long as some.
const FEW_ASKED: u32 = 8;

impl<'a> Tables<'a> {
    /// For forms that have tables: paths, trees, ring+tree.
    pub(super) fn new(form: &'a Form, space: &'a Space, n: usize) -> Self {
        Self { form, space, n, levels: vec![Level::default(); space.levels.len()] }
    }

    fn level(&self, mbps: f64) -> usize {
        self.space.levels.partition_point(|level| f64::from(*level) < mbps)
    }

    /// The answer, where the table of all sets is there.
    pub(super) fn known(&self, set: u32, mbps: f64) -> Option<bool> {
        let all = self.levels.get(self.level(mbps))?.all.as_ref()?;
        if set.count_ones() as usize == self.n {
            return all.get(RANKS.of(set)).copied();
        }
        Some(all.contains(&true))
    }

    /// Whether a set of `n` vertices, or some `n` of all vertices, have a match on links that are as fast as this.
    pub(super) fn ask(&mut self, set: u32, mbps: f64) -> bool {
        let level = self.level(mbps);
        let Some(here) = self.levels.get_mut(level) else { return false };
        here.asked += 1;
        if here.asked <= FEW_ASKED && set.count_ones() as usize == self.n {
            return self.form.fits(&self.space.part(set), level, self.n).contains(&true);
        }
        here.all = Some(self.form.fits(self.space, level, self.n));
        self.known(set, mbps).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::super::model::BandwidthModel;
    use super::super::policy::{Query, choose, predict};
    use super::super::space::{count, subsets};
    use super::*;
    use topology::Selection;
    use topology::{GpuSet, HardwareGraph, Link, Pattern};

    /// Links of twelve GPUs on a grid, all different, those of neighbours faster.
    fn measured(seed: usize) -> HardwareGraph {
        let is_near = |a: usize, b: usize| b - a == 4 || (b - a == 1 && !b.is_multiple_of(4));
        let rate = |a: usize, b: usize| {
            let noise = ((a * 12 + b + seed) * 71 % 149) as f64 / 100.0;
            noise + if is_near(a, b) { 25.0 } else { 10.0 }
        };
        HardwareGraph::new(12, None, 6, &|a, b| Link::of_bandwidth(rate(a.min(b), a.max(b))))
    }

    /// Worth of the best set and how many have it, by tables of every level.
    fn by_tables(query: &Query<'_>) -> (f64, u64) {
        let space = Space::new(query.graph, query.free).unwrap();
        let form = Form::new(query.pattern, &query.pattern.edges(query.n).unwrap(), query.n);
        let mut slowest = vec![0; count(space.len(), query.n)];
        for (level, mbps) in space.levels.iter().enumerate() {
            let fits = form.fits(&space, level, query.n);
            slowest.iter_mut().zip(fits).filter(|(_, fits)| *fits).for_each(|(s, _)| *s = *mbps);
        }
        let sets = subsets(space.len(), query.n).zip(slowest);
        let worth = sets.map(|(mask, mbps)| predict(query, &space, f64::from(mbps), mask));
        worth.fold((f64::NEG_INFINITY, 0), |(best, tied), worth| match worth.total_cmp(&best) {
            Ordering::Greater => (worth, 1),
            Ordering::Equal => (best, tied + 1),
            Ordering::Less => (best, tied),
        })
    }

    #[test]
    fn the_search_agrees_with_tables_of_every_level() {
        for seed in 0..2 {
            let graph = measured(seed);
            for name in ["ring", "chain", "tree", "ring+tree"] {
                let pattern = Pattern::by_name(name).unwrap();
                for n in 2..=11 {
                    let query = Query {
                        graph: &graph,
                        free: graph.all(),
                        next: GpuSet::EMPTY,
                        n,
                        pattern: &pattern,
                        sensitive: true,
                        policy: Selection::Preserve,
                        model: BandwidthModel::default(),
                    };
                    let found = choose(&query).unwrap();
                    let (best, tied) = by_tables(&query);
                    let worth = found.scores.eff_bw.unwrap();
                    assert!((worth - best).abs() < 1e-9 && found.exact, "{name} {n}: {worth}, not {best}");
                    assert_eq!(found.tied_sets, Some(tied), "{name} {n}");
                }
            }
        }
    }
}
