//! The tables from which costs are read.

use crate::gpu::{GPU_DRAWS, unused_of_gpu};
use crate::mix::Mix;
use crate::node::{Grid, NODE_DRAWS, Unused, stranded};
use crate::shape::{NodeView, Shape};

/// Draws among which a request for several GPUs is looked for.
pub const SET_DRAWS: usize = 100;
/// Part of a set's residual that counts when a node loses its room for it.
const SET_PART: f64 = 0.5;
/// Most different tables of GPUs. Models that share none of the first ones have the table of all requests.
const MOST_MODELS: usize = 8;
/// Most steps of GPU capacity and of cores.
const MOST_STEPS: Grid = Grid { gpus: 80, cores: 64 };
/// Least steps, in thousandths: a tenth of a GPU, two cores.
const LEAST_GPUS: u32 = 100;
const LEAST_CORES: u32 = 2000;

/// The largest node of a cluster. A larger one counts as this large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// GPUs of a node.
    pub gpus: u8,
    /// Cores of a node, in thousandths.
    pub cores_milli: u32,
}

/// A shape of several GPUs, and what a node loses with its room for it, in millionths of a GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Set {
    pub(crate) gpus: u8,
    pub(crate) cores_milli: u32,
    pub(crate) worth: i64,
}

/// Table of all nodes whose model the same requests accept. Millionths of a GPU.
#[derive(Clone, Debug)]
pub(crate) struct OfModel {
    /// Residual by hundredths of a GPU.
    unused: Vec<i64>,
    pub(crate) sets: Vec<Set>,
}

/// Tables of a mix.
#[derive(Clone, Debug)]
pub struct Tables {
    of_model: Vec<OfModel>,
    /// By model: position in `of_model`.
    which: [u8; 64],
    stranded: Vec<i64>,
    grid: Grid,
    gpu_step: u32,
    core_step: u32,
}

impl Tables {
    /// Builds the tables of a mix for a cluster at once: some milliseconds, outside decisions. [`Building`] takes steps.
    #[must_use]
    pub fn new(mix: &Mix, largest: Extent) -> Self {
        let mut building = Building::new(mix, largest);
        while !building.draw(NODE_DRAWS) {}
        building.into_tables()
    }

    pub(crate) fn of(&self, node: &NodeView<'_>) -> &OfModel {
        &self.of_model[usize::from(self.which[usize::from(node.model & 63)])]
    }

    /// Reads what is expected to stay unused of a GPU of the node of which so much is left: millionths of a GPU.
    #[must_use]
    pub fn residual(&self, node: &NodeView<'_>, left_milli: u16) -> i64 {
        self.of(node).residual(left_milli)
    }

    /// Reads what a lack of cores strands: millionths of a GPU.
    #[must_use]
    pub fn stranded(&self, gpus_milli: u32, cores_milli: u32) -> i64 {
        let (gpus, gpu_part) = split(gpus_milli, self.gpu_step, self.grid.gpus);
        let (cores, core_part) = split(cores_milli, self.core_step, self.grid.cores);
        let at = |gpus: usize, cores: usize| {
            self.stranded[self.grid.at(gpus.min(self.grid.gpus), cores.min(self.grid.cores))]
        };
        let along = |gpus: usize| between(at(gpus, cores), at(gpus, cores + 1), core_part, self.core_step);
        between(along(gpus), along(gpus + 1), gpu_part, self.gpu_step)
    }
}

/// Tables of a mix that are not ready yet.
#[derive(Clone, Debug)]
pub struct Building {
    mix: Vec<(Shape, f64)>,
    of_node: Vec<(usize, usize, f64)>,
    unused: Unused,
    drawn: usize,
    gpu_step: u32,
    core_step: u32,
}

impl Building {
    /// Begins the tables of a mix for a cluster.
    #[must_use]
    pub fn new(mix: &Mix, largest: Extent) -> Self {
        let mix = mix.weights();
        let gpu_step = step(u32::from(largest.gpus) * 1000, MOST_STEPS.gpus, LEAST_GPUS);
        let core_step = step(largest.cores_milli, MOST_STEPS.cores, LEAST_CORES);
        let class = |&(shape, p): &(Shape, f64)| {
            (nearest(shape.total_milli(), gpu_step), nearest(shape.cores_milli, core_step), p)
        };
        let of_node: Vec<_> = mix.iter().map(class).collect();
        let unused = Unused::new(&of_node, MOST_STEPS);
        Self { mix, of_node, unused, drawn: 0, gpu_step, core_step }
    }

    /// Draws so many times more, and tells whether these are enough.
    #[must_use]
    pub fn draw(&mut self, draws: usize) -> bool {
        let draws = draws.min(NODE_DRAWS - self.drawn);
        (0..draws).for_each(|_| self.unused.draw());
        self.drawn += draws;
        self.drawn == NODE_DRAWS
    }

    /// Finishes the tables.
    #[must_use]
    pub fn into_tables(self) -> Tables {
        let Self { mix, of_node, unused, gpu_step, core_step, .. } = self;
        let gpu = f64::from(gpu_step) / 1000.0;
        let stranded = stranded(unused.into_left(), &of_node, MOST_STEPS);
        let stranded = stranded.into_iter().map(|steps| millionths(steps * gpu)).collect();
        let (of_model, which) = models(&mix);
        Tables { of_model, which, stranded, grid: MOST_STEPS, gpu_step, core_step }
    }
}

impl OfModel {
    fn new(mix: &[(Shape, f64)]) -> Self {
        let parts: Vec<(usize, f64)> = mix
            .iter()
            .filter(|(shape, _)| shape.gpus == 1)
            .map(|&(shape, p)| (usize::from(shape.milli.div_ceil(10)), p))
            .collect();
        let unused = unused_of_gpu(&parts, GPU_DRAWS);
        let sets = mix.iter().filter(|(shape, _)| shape.gpus > 1).map(|&(shape, p)| {
            let comes = 1.0 - (0..SET_DRAWS).fold(1.0, |none, _| none * (1.0 - p));
            let worth = millionths(SET_PART * comes * f64::from(shape.gpus) * unused[100]);
            Set { gpus: shape.gpus, cores_milli: shape.cores_milli, worth }
        });
        let sets = sets.collect();
        Self { unused: unused.into_iter().map(millionths).collect(), sets }
    }

    /// Reads the residual of a GPU, between hundredths on a line.
    pub(crate) fn residual(&self, left_milli: u16) -> i64 {
        let left = left_milli.min(1000);
        let (whole, rest) = (usize::from(left / 10), i64::from(left % 10));
        let next = self.unused[(whole + 1).min(100)];
        (self.unused[whole] * (10 - rest) + next * rest) / 10
    }
}

/// Makes a table for each set of requests that accept a model, and says which model has which. The first is that of all
/// requests, and what is beyond [`MOST_MODELS`] has it, too.
fn models(mix: &[(Shape, f64)]) -> (Vec<OfModel>, [u8; 64]) {
    let mut known = vec![vec![true; mix.len()]];
    let mut which = [0; 64];
    for (which, model) in which.iter_mut().zip(0_u8..) {
        let accepted: Vec<bool> = mix.iter().map(|(shape, _)| shape.models.has(model)).collect();
        let at = known.iter().position(|one| *one == accepted).or_else(|| {
            let has_room = known.len() < MOST_MODELS;
            has_room.then(|| known.push(accepted)).map(|()| known.len() - 1)
        });
        *which = at.and_then(|at| u8::try_from(at).ok()).unwrap_or(0);
    }
    let tables = known.iter().map(|accepted| {
        let mine: Vec<(Shape, f64)> =
            mix.iter().zip(accepted).filter(|one| *one.1).map(|one| *one.0).collect();
        OfModel::new(&mine)
    });
    (tables.collect(), which)
}

/// Computes the step in which `most` thousandths are at most so many steps.
fn step(most: u32, steps: usize, least: u32) -> u32 {
    most.div_ceil(u32::try_from(steps).unwrap_or(u32::MAX)).max(least)
}

/// Divides a number into whole steps and a rest; beyond the table it is the last step.
fn split(number: u32, step: u32, most: usize) -> (usize, i64) {
    let whole = usize::try_from(number / step).unwrap_or(usize::MAX);
    if whole >= most { (most, 0) } else { (whole, i64::from(number % step)) }
}

/// Reads a line between two points that are `step` apart.
fn between(first: i64, second: i64, part: i64, step: u32) -> i64 {
    first + (second - first) * part / i64::from(step)
}

fn nearest(number: u32, step: u32) -> usize {
    usize::try_from((u64::from(number) + u64::from(step / 2)) / u64::from(step)).unwrap_or(usize::MAX)
}

#[expect(clippy::cast_possible_truncation, reason = "residuals are at most 255 GPUs")]
fn millionths(gpus: f64) -> i64 {
    (gpus * 1e6).round() as i64
}
