//! The number of instances for each GPU, from the best set of starts per GPU and count.

use super::view::View;
use decision_report::Cost;

/// The best set of starts for a number of instances on one GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct StartSet {
    /// Bit `i` for a start at placement unit `i`.
    pub(super) starts: u16,
    pub(super) cost: Cost,
}

/// Less cost first, then the starts that come first in lexicographic order: at the lowest start where two sets
/// differ, the one that has it.
pub(super) fn better(a: StartSet, b: StartSet) -> bool {
    (a.cost, std::cmp::Reverse(a.starts.reverse_bits()))
        < (b.cost, std::cmp::Reverse(b.starts.reverse_bits()))
}

/// The best set per GPU (row) and number of instances (column).
pub(super) struct Table {
    columns: usize,
    cells: Vec<Option<StartSet>>,
}

/// No GPU has more places at which an instance may start.
const MAX_STARTS: usize = 16;

impl Table {
    /// An empty table for `n` instances; `None` if no node with this number of GPUs has room for them.
    pub(super) fn new(gpus: usize, n: usize) -> Option<Self> {
        if n > gpus.saturating_mul(MAX_STARTS) {
            return None;
        }
        let columns = n.min(MAX_STARTS) + 1;
        Some(Self { columns, cells: vec![None; gpus * columns] })
    }

    /// The cells of one GPU; cell `i` is for `i` instances, `None` where they do not fit.
    pub(super) fn row(&mut self, view: &View<'_>) -> &mut [Option<StartSet>] {
        let at = usize::from(view.gpu.0) * self.columns;
        &mut self.cells[at..at + self.columns]
    }

    /// Copies the row of a GPU on which every set of starts costs the same.
    pub(super) fn copy_row(&mut self, from: &View<'_>, to: &View<'_>) {
        let at = usize::from(from.gpu.0) * self.columns;
        self.cells.copy_within(at..at + self.columns, usize::from(to.gpu.0) * self.columns);
    }

    fn rows(&self) -> usize {
        self.cells.len() / self.columns
    }

    /// Number of instances on each GPU when all `n` must be on one.
    pub(super) fn best_single(&self, n: usize) -> Option<Vec<usize>> {
        let cost = |g: &usize| self.cells.get(g * self.columns + n).copied().flatten().map(|c| c.cost);
        let fits = (0..self.rows()).filter(|_| n < self.columns).filter(|g| cost(g).is_some());
        let best = fits.min_by_key(|g| (cost(g), *g))?;
        Some((0..self.rows()).map(|g| if g == best { n } else { 0 }).collect())
    }

    /// Number of instances on each GPU when as few GPUs as possible carry the same number each, at most `most_each`, and at
    /// most `most_opened` of the GPUs in `opens` get some. Of the GPUs that have room, the cheapest are taken: what one
    /// costs does not depend on the others, and a GPU that may not be opened any more can be left out at no loss.
    pub(super) fn best_alike(
        &self,
        n: usize,
        most_each: u32,
        opens: &[bool],
        most_opened: usize,
    ) -> Option<Vec<usize>> {
        let most_each = usize::try_from(most_each).unwrap_or(usize::MAX).min(self.columns - 1);
        let each = (1..=most_each).rev().filter(|each| n.is_multiple_of(*each));
        each.filter(|each| n / each <= self.rows())
            .find_map(|each| self.cheapest(n / each, each, opens, most_opened))
    }

    /// The cheapest `gpus` GPUs with room for `each` instances.
    fn cheapest(&self, gpus: usize, each: usize, opens: &[bool], most_opened: usize) -> Option<Vec<usize>> {
        let cost = |g: usize| self.cells[g * self.columns + each].map(|set| (set.cost, g));
        let mut fits: Vec<(Cost, usize)> = (0..self.rows()).filter_map(cost).collect();
        fits.sort_unstable();
        let mut left = most_opened;
        let mut may_be_opened = |g: usize| {
            !opens[g]
                || left.checked_sub(1).is_some_and(|rest| {
                    left = rest;
                    true
                })
        };
        let chosen: Vec<usize> =
            fits.into_iter().map(|(_, g)| g).filter(|g| may_be_opened(*g)).take(gpus).collect();
        let counts = (0..self.rows()).map(|g| if chosen.contains(&g) { each } else { 0 }).collect();
        (chosen.len() == gpus).then_some(counts)
    }

    /// Number of instances on each GPU when `n` may be on any, and at most `most_opened` of the GPUs in `opens` get some.
    /// Dynamic programming from the last GPU to the first; `least[g][b][j]` is the least cost of `j` instances on GPUs
    /// `g..`, of which `b` may be opened.
    pub(super) fn best_joint(&self, n: usize, opens: &[bool], most_opened: usize) -> Option<Vec<usize>> {
        // Without a limit that can bind there is nothing to count.
        let counts = most_opened < n.min(opens.iter().filter(|o| **o).count());
        let deep = if counts { most_opened + 1 } else { 1 };
        let wide = n + 1;
        let at = |b: usize, j: usize| b * wide + j;
        let rows = self.rows();
        let most = |row: &[Option<StartSet>]| row.iter().rposition(Option::is_some).unwrap_or(0);
        if self.cells.chunks(self.columns).map(most).sum::<usize>() < n {
            return None;
        }
        let plane = deep * wide;
        let mut least: Vec<Option<Cost>> = vec![None; (rows + 1) * plane];
        let mut take = vec![0_usize; rows * plane];
        (0..deep).for_each(|b| least[rows * plane + at(b, 0)] = Some(Cost::default()));
        let opened = |g: usize, count: usize| usize::from(deep > 1 && count > 0 && opens[g]);
        for g in (0..rows).rev() {
            for (b, j) in (0..deep).flat_map(|b| (0..wide).map(move |j| (b, j))) {
                let here = g * plane + at(b, j);
                let rest = |b: usize, j: usize| least[(g + 1) * plane + at(b, j)];
                let mut best: Option<StartSet> = rest(b, j).map(|cost| StartSet { starts: 0, cost });
                for count in 1..self.columns.min(j + 1) {
                    let Some(set) = self.cells[g * self.columns + count] else { continue };
                    let Some(left) = b.checked_sub(opened(g, count)) else { continue };
                    let Some(rest) = rest(left, j - count) else { continue };
                    let choice = StartSet { starts: set.starts, cost: set.cost + rest };
                    if best.is_none_or(|b| better(choice, b)) {
                        best = Some(choice);
                        take[here] = count;
                    }
                }
                least[here] = best.map(|b| b.cost);
            }
        }
        least[at(deep - 1, n)]?;
        let (mut left, mut may_open) = (n, deep - 1);
        let mut counts = Vec::with_capacity(rows);
        for g in 0..rows {
            let count = take[g * plane + at(may_open, left)];
            counts.push(count);
            left -= count;
            may_open -= opened(g, count);
        }
        Some(counts)
    }
}
