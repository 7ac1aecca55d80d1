//! Phase 3 of FAR: moves and swaps between instances of one size (Algorithm 2).
//!
//! Source: FAR, section 3.3, Algorithm 2. Differs: with several GPUs a root has alternatives too, so the search stops at
//! a root only when nothing can be moved from it; the number of iterations is bounded by [`ITERATIONS`].

use super::problem::Micros;
use super::table::{SearchTable, Site, members};
use super::task_lists::TaskLists;

/// Iterations after which refinement stops; the paper asks for a bound and reports one to five operations in all.
const ITERATIONS: usize = 1000;

/// How often Algorithm 2 changed something (Table 6 of the paper).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// Tasks moved to another instance.
    pub moves: usize,
    /// Pairs of tasks swapped.
    pub swaps: usize,
}

/// Refines `lists`, whose schedule frees leaf `s` at `ends[s]` (indexed by site; only leaves count).
pub(super) fn refine(table: &SearchTable<'_>, lists: &mut TaskLists, ends: &mut [Micros]) -> Operations {
    lists.sort(table);
    let mut operations = Operations::default();
    let mut queue = Vec::new();
    for _ in 0..ITERATIONS {
        let all = (0..table.sites()).filter(|&s| table.at(s).leaves == 1 << table.node(s));
        let makespan = all.clone().map(|s| ends[s]).max().unwrap_or(0);
        queue.clear();
        queue.extend(all.filter(|&s| ends[s] == makespan));
        let mut next = 0;
        while let Some(&site) = queue.get(next) {
            next += 1;
            if let Some(step) = find_step(table, lists, ends, site, makespan) {
                step.apply(table, lists, ends, &mut operations);
                continue;
            }
            match table.parent(site) {
                None => return operations,
                Some(parent) if !queue.contains(&parent) => queue.push(parent),
                Some(_) => {}
            }
        }
    }
    operations
}

/// The leaves of a site: the paper's slices.
fn leaves<'a>(table: &'a SearchTable<'a>, site: Site) -> impl Iterator<Item = Site> + 'a {
    let base = table.base(table.gpu(site));
    members(table.at(site).leaves).map(move |l| base + l)
}

fn end(table: &SearchTable<'_>, ends: &[Micros], site: Site) -> Micros {
    leaves(table, site).map(|l| ends[l]).max().unwrap_or(0)
}

/// A move (`back` is `None`) or a swap, by positions in the two lists.
struct Swap {
    from: Site,
    to: Site,
    there: usize,
    back: Option<usize>,
}

impl Swap {
    fn apply(
        &self,
        table: &SearchTable<'_>,
        lists: &mut TaskLists,
        ends: &mut [Micros],
        operations: &mut Operations,
    ) {
        let class = table.class(self.from);
        let there = lists.take(self.from, self.there);
        let mut shift = table.time(there as usize, class);
        if let Some(back) = self.back {
            let back = lists.take(self.to, back);
            shift -= table.time(back as usize, class);
            lists.put(table, self.from, back);
            operations.swaps += 1;
        } else {
            operations.moves += 1;
        }
        lists.put(table, self.to, there);
        leaves(table, self.from).for_each(|l| ends[l] -= shift);
        leaves(table, self.to).for_each(|l| ends[l] += shift);
    }
}

/// Lines 11 to 20 of Algorithm 2: the best move, else the best swap, from `site` to the alternative that ends first.
fn find_step(
    table: &SearchTable<'_>,
    lists: &TaskLists,
    ends: &[Micros],
    site: Site,
    makespan: Micros,
) -> Option<Swap> {
    let class = table.class(site);
    let mine = lists.at(site);
    if mine.is_empty() {
        return None;
    }
    let same = |&s: &Site| s != site && table.class(s) == class && table.is_usable(s);
    let to = (0..table.sites()).filter(same).min_by_key(|&s| end(table, ends, s))?;
    let margin = makespan.saturating_sub(end(table, ends, to));
    let length = |t: u32| table.time(t as usize, class);
    let fits = mine.partition_point(|&t| length(t) >= margin);
    if fits < mine.len() {
        let below_half = mine.partition_point(|&t| 2 * length(t) > margin);
        let near = [below_half.checked_sub(1), Some(below_half)].into_iter().flatten();
        let near = near.filter(|&p| p >= fits && p < mine.len());
        let there = near.min_by_key(|&p| (2 * length(mine[p])).abs_diff(margin)).unwrap_or(fits);
        return Some(Swap { from: site, to, there, back: None });
    }
    swap(mine, lists.at(to), &length, margin).map(|(there, back)| Swap {
        from: site,
        to,
        there,
        back: Some(back),
    })
}

/// The pair whose difference is positive, below `margin` and nearest to half of it. Both lists are longest first, so the
/// wanted partner only moves down as the task does.
fn swap(
    mine: &[u32],
    theirs: &[u32],
    length: &impl Fn(u32) -> Micros,
    margin: Micros,
) -> Option<(usize, usize)> {
    let mut best = None;
    let mut low = 0;
    for (there, &k) in mine.iter().enumerate() {
        // First partner at which the doubled difference is no less than the margin; the best is it or the one before.
        while low < theirs.len() && 2 * length(k).saturating_sub(length(theirs[low])) < margin {
            low += 1;
        }
        for back in [low.checked_sub(1), Some(low)].into_iter().flatten().filter(|&b| b < theirs.len()) {
            let difference = length(k).saturating_sub(length(theirs[back]));
            if difference > 0 && difference < margin {
                let score = (2 * difference).abs_diff(margin);
                if best.is_none_or(|(least, _, _)| score < least) {
                    best = Some((score, there, back));
                }
            }
        }
        // The next task is shorter, so its differences are smaller and `low` can only grow.
    }
    best.map(|(_, there, back)| (there, back))
}
