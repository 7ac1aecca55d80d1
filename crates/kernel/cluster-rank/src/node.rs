//! The part of a node's GPUs that is expected to stay unused, and how much of it for lack of cores.

/// Draws after which what is left of a node counts as unused.
pub const NODE_DRAWS: usize = 100;

/// Steps in which a node's GPU capacity and cores are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// GPU capacity from 0 to this many steps.
    pub gpus: usize,
    /// Cores from 0 to this many steps.
    pub cores: usize,
}

impl Grid {
    /// Finds the place in a table of the grid.
    #[must_use]
    pub fn at(&self, gpus: usize, cores: usize) -> usize {
        gpus * (self.cores + 1) + cores
    }
}

/// Capacity that is expected to be left at each point of a grid, draw by draw.
#[derive(Clone, Debug)]
pub(crate) struct Unused {
    grid: Grid,
    classes: Vec<(usize, usize, f64)>,
    /// In steps of GPU capacity.
    left: Vec<f64>,
    before: Vec<f64>,
}

impl Unused {
    /// Begins with nothing drawn.
    pub(crate) fn new(classes: &[(usize, usize, f64)], grid: Grid) -> Self {
        let of = |gpus: usize| std::iter::repeat_n(steps(gpus), grid.cores + 1);
        let left: Vec<f64> = (0..=grid.gpus).flat_map(of).collect();
        Self { grid, classes: merged(classes, grid), before: left.clone(), left }
    }

    /// Draws once more.
    pub(crate) fn draw(&mut self) {
        let row = self.grid.cores + 1;
        self.before.copy_from_slice(&self.left);
        for &(gpus, cores, p) in &self.classes {
            for left in gpus..=self.grid.gpus {
                let from = &self.before[(left - gpus) * row..][..row - cores];
                let here = &self.before[left * row + cores..(left + 1) * row];
                let sums = &mut self.left[left * row + cores..(left + 1) * row];
                for ((sum, from), here) in sums.iter_mut().zip(from).zip(here) {
                    *sum += p * (from - here);
                }
            }
        }
    }

    /// Returns what is left at each point of the grid.
    pub(crate) fn into_left(self) -> Vec<f64> {
        self.left
    }
}

/// Computes for each point of the grid, in steps of GPU capacity, what is expected to be left after so many draws.
///
/// A class is a number of steps of GPU capacity and of cores, with the probability that a draw is of it. A draw that does
/// not fit takes nothing.
#[must_use]
pub fn unused_of_node(classes: &[(usize, usize, f64)], grid: Grid, draws: usize) -> Vec<f64> {
    let mut unused = Unused::new(classes, grid);
    (0..draws).for_each(|_| unused.draw());
    unused.into_left()
}

/// Computes what a lack of cores adds, from what is left after [`NODE_DRAWS`] draws: less the same without the limit of cores.
pub(crate) fn stranded(mut left: Vec<f64>, classes: &[(usize, usize, f64)], grid: Grid) -> Vec<f64> {
    let free: Vec<_> = classes.iter().map(|&(gpus, _, p)| (gpus, 0, p)).collect();
    let unlimited = unused_of_node(&free, Grid { cores: 0, ..grid }, NODE_DRAWS);
    left.iter_mut().enumerate().for_each(|(at, unused)| *unused -= unlimited[at / (grid.cores + 1)]);
    left
}

/// Adds up classes of the same size, and leaves out those that never fit.
fn merged(classes: &[(usize, usize, f64)], grid: Grid) -> Vec<(usize, usize, f64)> {
    let fits = |one: &&(usize, usize, f64)| one.0 <= grid.gpus && one.1 <= grid.cores;
    let mut all: Vec<_> = classes.iter().filter(fits).copied().collect();
    all.sort_by_key(|one| (one.0, one.1));
    all.dedup_by(|next, kept| {
        let same = (next.0, next.1) == (kept.0, kept.1);
        kept.2 += if same { next.2 } else { 0.0 };
        same
    });
    all
}

fn steps(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::MAX, f64::from)
}
