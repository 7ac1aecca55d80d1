//! How many instances go to each GPU, from the best set of starts per GPU and count.

use super::view::View;
use node_state::Cost;

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

    /// How many instances go to each GPU when all `n` must be on one.
    pub(super) fn best_single(&self, n: usize) -> Option<Vec<usize>> {
        let cost = |g: &usize| self.cells.get(g * self.columns + n).copied().flatten().map(|c| c.cost);
        let fits = (0..self.rows()).filter(|_| n < self.columns).filter(|g| cost(g).is_some());
        let best = fits.min_by_key(|g| (cost(g), *g))?;
        Some((0..self.rows()).map(|g| if g == best { n } else { 0 }).collect())
    }

    /// How many instances go to each GPU when `n` may be on any. Dynamic programming from the last GPU to the first; `least[g][j]` is the
    /// least cost of `j` instances on GPUs `g..`.
    pub(super) fn best_joint(&self, n: usize) -> Option<Vec<usize>> {
        let (rows, wide) = (self.rows(), n + 1);
        let most = |row: &[Option<StartSet>]| row.iter().rposition(Option::is_some).unwrap_or(0);
        if self.cells.chunks(self.columns).map(most).sum::<usize>() < n {
            return None;
        }
        let mut least: Vec<Option<Cost>> = vec![None; (rows + 1) * wide];
        let mut take = vec![0_usize; rows * wide];
        least[rows * wide] = Some(Cost::default());
        for g in (0..rows).rev() {
            for j in 0..wide {
                let mut best: Option<StartSet> =
                    least[(g + 1) * wide + j].map(|cost| StartSet { starts: 0, cost });
                for count in 1..self.columns.min(j + 1) {
                    let Some(here) = self.cells[g * self.columns + count] else { continue };
                    let Some(rest) = least[(g + 1) * wide + j - count] else { continue };
                    let choice = StartSet { starts: here.starts, cost: here.cost + rest };
                    if best.is_none_or(|b| better(choice, b)) {
                        best = Some(choice);
                        take[g * wide + j] = count;
                    }
                }
                least[g * wide + j] = best.map(|b| b.cost);
            }
        }
        least[n]?;
        let mut left = n;
        let mut counts = Vec::with_capacity(rows);
        for g in 0..rows {
            let count = take[g * wide + left];
            counts.push(count);
            left -= count;
        }
        Some(counts)
    }
}
