//! The problem as flat tables, for the planners' inner loops.

use super::problem::{GpuNow, Micros, Problem};
use super::tree::MAX_NODES;

/// A time no plan reaches, whose work still fits: a task at a size it cannot run on. Plans end before twice
/// [`MAX_TOTAL`](super::problem::MAX_TOTAL) and their reconfigurations.
pub(super) const NEVER: Micros = 1 << 59;

/// A place of one of the GPUs: the GPU in the upper bits, the place in the lower ones. Numbers between the last place of a
/// GPU and the first of the next are no site: no task is ever there.
pub(super) type Site = usize;

/// A set of places of one GPU, bit 0 for place 0.
pub(super) type Places = u32;

pub(super) struct Table<'a> {
    pub(super) problem: &'a Problem,
    /// Number of size classes.
    pub(super) classes: usize,
    /// Places per GPU.
    pub(super) places: usize,
    /// Sites of one GPU, as a power of two.
    shift: u32,
    /// Running time of (task, class) at `task * classes + class`.
    times: Vec<Micros>,
    place: [Place; MAX_NODES],
    /// Places without a parent, and the numbers of a GPU that are no place.
    pub(super) roots: Places,
    /// Every lane once, ascending.
    pub(super) lanes: Vec<usize>,
    /// Per GPU, the places that will be free one day.
    pub(super) usable: Vec<Places>,
}

/// What is asked of one place again and again.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) class: usize,
    pub(super) parent: Option<usize>,
    pub(super) create: Micros,
    pub(super) destroy: Micros,
    pub(super) children: Places,
    /// Places that share a unit with this one, itself included.
    pub(super) overlap: Places,
    /// Leaves at or below this one: the paper's slices.
    pub(super) leaves: Places,
    /// How many these are.
    pub(super) width: u64,
}

impl<'a> Table<'a> {
    pub(super) fn new(problem: &'a Problem) -> Self {
        let nodes = &problem.tree.nodes;
        let shift = nodes.len().next_power_of_two().trailing_zeros();
        let place = places(problem);
        let parents: Places =
            (0..1usize << shift).filter(|&n| place[n].parent.is_none()).map(|n| 1 << n).sum();
        let all = Places::MAX >> (Places::BITS as usize - nodes.len());
        let free = |gpu: &GpuNow| {
            let held = gpu.held.iter().filter(|h| h.until.is_none()).map(|h| nodes[h.node].mask);
            let blocked = gpu.blocked.iter().filter(|b| b.until.is_none()).map(|b| b.mask);
            match held.chain(blocked).fold(0, |all, mask| all | mask) {
                0 => all,
                stuck => (0..nodes.len()).filter(|&n| nodes[n].mask & stuck == 0).map(|n| 1 << n).sum(),
            }
        };
        let usable: Vec<Places> = problem.gpus.iter().map(free).collect();
        let anywhere = usable.iter().fold(0, |all, places| all | places);
        // A size whose every place is held for ever is no size any more.
        let mut offered = [false; MAX_NODES];
        members(anywhere).for_each(|n| offered[nodes[n].class] = true);
        let mut lanes: Vec<usize> = problem.gpus.iter().map(|g| g.lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        let time = |(t, ok): (&Option<Micros>, &bool)| t.filter(|_| *ok).unwrap_or(NEVER);
        let times = problem.tasks.iter().flat_map(|t| t.times.iter().zip(&offered).map(time)).collect();
        let (classes, places) = (problem.tree.sizes.len(), nodes.len());
        Self { problem, classes, places, shift, times, place, roots: parents, lanes, usable }
    }

    pub(super) fn tasks(&self) -> usize {
        self.problem.tasks.len()
    }

    pub(super) fn gpus(&self) -> usize {
        self.problem.gpus.len()
    }

    /// The first site of a GPU.
    pub(super) fn base(&self, gpu: usize) -> Site {
        gpu << self.shift
    }

    /// The place of a site on its GPU.
    pub(super) fn node(&self, site: Site) -> usize {
        site & ((1 << self.shift) - 1)
    }

    pub(super) fn sites(&self) -> usize {
        self.gpus() << self.shift
    }

    /// Compute slices of all GPUs.
    pub(super) fn slices(&self) -> u64 {
        u64::from(self.problem.tree.slices) * self.gpus() as u64
    }

    pub(super) fn time(&self, task: usize, class: usize) -> Micros {
        self.times[task * self.classes + class]
    }

    /// Slices times time.
    pub(super) fn work(&self, task: usize, class: usize) -> u64 {
        self.time(task, class) * u64::from(self.problem.tree.sizes[class])
    }

    /// A place of whichever GPU.
    pub(super) fn place(&self, place: usize) -> &Place {
        &self.place[place]
    }

    pub(super) fn all_places(&self) -> Places {
        Places::MAX >> (Places::BITS as usize - self.places)
    }

    pub(super) fn at(&self, site: Site) -> &Place {
        &self.place[self.node(site)]
    }

    pub(super) fn class(&self, site: Site) -> usize {
        self.at(site).class
    }

    pub(super) fn gpu(&self, site: Site) -> usize {
        site >> self.shift
    }

    pub(super) fn is_usable(&self, site: Site) -> bool {
        self.usable[self.gpu(site)] >> self.node(site) & 1 == 1
    }

    pub(super) fn parent(&self, site: Site) -> Option<Site> {
        Some(site - self.node(site) + self.at(site).parent?)
    }
}

/// The places of the tree, then empty ones.
fn places(problem: &Problem) -> [Place; MAX_NODES] {
    let nodes = &problem.tree.nodes;
    let mut place = [Place::default(); MAX_NODES];
    for (n, node) in nodes.iter().enumerate().rev() {
        let below = node
            .children
            .iter()
            .fold((0, 0), |(leaves, below), &c| (leaves | place[c].leaves, below | place[c].overlap));
        let leaves = if below.0 == 0 { 1 << n } else { below.0 };
        place[n] = Place {
            class: node.class,
            parent: node.parent,
            create: problem.costs.create[node.class],
            destroy: problem.costs.destroy[node.class],
            children: node.children.iter().map(|c| 1 << c).sum(),
            overlap: below.1 | 1 << n,
            leaves,
            width: u64::from(leaves.count_ones()),
        };
    }
    // So far what is below; in a tree what is above is all that remains.
    let mut above = [0; MAX_NODES];
    for (n, node) in nodes.iter().enumerate() {
        above[n] = node.parent.map_or(0, |p| above[p] | 1 << p);
        place[n].overlap |= above[n];
    }
    place
}

/// The members of a set of places, ascending.
pub(super) fn members(mut places: Places) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = places.trailing_zeros();
        places &= places.wrapping_sub(1);
        (next < Places::BITS).then_some(next as usize)
    })
}
