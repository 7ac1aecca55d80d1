//! The problem as flat tables, for the planners' inner loops.

use super::problem::{Micros, Problem};

/// A time no plan reaches: a task at a size it cannot run on. Sums of a hundred still fit.
pub(super) const NEVER: Micros = 1 << 56;

/// A place of one of the GPUs: `gpu * places per GPU + place`.
pub(super) type Site = usize;

pub(super) struct Table<'a> {
    pub(super) problem: &'a Problem,
    /// Number of size classes.
    pub(super) classes: usize,
    /// Places per GPU.
    pub(super) places: usize,
    /// Running time of (task, class) at `task * classes + class`.
    times: Vec<Micros>,
}

impl<'a> Table<'a> {
    pub(super) fn new(problem: &'a Problem) -> Self {
        let times = problem.tasks.iter().flat_map(|t| t.times.iter().map(|t| t.unwrap_or(NEVER))).collect();
        Self { problem, classes: problem.tree.sizes.len(), places: problem.tree.nodes.len(), times }
    }

    pub(super) fn tasks(&self) -> usize {
        self.problem.tasks.len()
    }

    pub(super) fn sites(&self) -> usize {
        self.places * self.problem.gpus.len()
    }

    /// Compute slices of all GPUs.
    pub(super) fn slices(&self) -> u64 {
        u64::from(self.problem.tree.slices) * self.problem.gpus.len() as u64
    }

    pub(super) fn time(&self, task: usize, class: usize) -> Micros {
        self.times[task * self.classes + class]
    }

    /// Slices times time.
    pub(super) fn work(&self, task: usize, class: usize) -> u64 {
        self.time(task, class) * u64::from(self.problem.tree.sizes[class])
    }

    pub(super) fn class(&self, site: Site) -> usize {
        self.problem.tree.nodes[site % self.places].class
    }

    pub(super) fn gpu(&self, site: Site) -> usize {
        site / self.places
    }

    pub(super) fn parent(&self, site: Site) -> Option<Site> {
        let parent = self.problem.tree.nodes[site % self.places].parent?;
        Some(site - site % self.places + parent)
    }

    pub(super) fn children(&self, site: Site) -> impl Iterator<Item = Site> + '_ {
        let base = site - site % self.places;
        self.problem.tree.nodes[site % self.places].children.iter().map(move |&c| base + c)
    }

    /// Whether no part of one site is part of the other.
    pub(super) fn overlap(&self, a: Site, b: Site) -> bool {
        let mask = |s: Site| self.problem.tree.nodes[s % self.places].mask;
        self.gpu(a) == self.gpu(b) && mask(a) & mask(b) != 0
    }

    pub(super) fn create(&self, site: Site) -> Micros {
        self.problem.costs.create[self.class(site)]
    }

    pub(super) fn destroy(&self, site: Site) -> Micros {
        self.problem.costs.destroy[self.class(site)]
    }
}
