//! The problem as flat arrays, for the planners' inner loops.

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

pub(super) struct SearchTable<'a> {
    pub(super) problem: &'a Problem,
    /// Number of size classes.
    pub(super) classes: usize,
    /// Places per GPU.
    pub(super) places: usize,
    /// Sites of one GPU, as a power of two.
    shift: u32,
    /// Running time of (task, class) at `task * classes + class`.
    times: Vec<Micros>,
    place: [PlaceFacts; MAX_NODES],
    /// Places without a parent, and the numbers of a GPU that are no place.
    pub(super) roots: Places,
    /// Every lane once, ascending.
    pub(super) lanes: Vec<usize>,
    /// Per GPU, the places that will be free one day.
    pub(super) usable: Vec<Places>,
    /// See [`SearchTable::shares`].
    shares: Vec<u64>,
    /// What [`SearchTable::shares`] of all GPUs sum to.
    pub(super) whole: u64,
}

/// What inner loops need to know about one place.
#[derive(Clone, Copy, Default)]
pub(super) struct PlaceFacts {
    pub(super) class: usize,
    /// Compute slices of an instance there.
    pub(super) slices: u64,
    pub(super) parent: Option<usize>,
    pub(super) create: Micros,
    pub(super) destroy: Micros,
    pub(super) children: Places,
    /// Places that share a unit with this one, itself included.
    pub(super) overlap: Places,
    /// Leaves at or below this one: the paper's slices.
    pub(super) leaves: Places,
    /// Number of `leaves`.
    pub(super) width: u64,
}

impl<'a> SearchTable<'a> {
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
        let (classes, places) = (problem.tree.sizes.len(), nodes.len());
        let mut times = Vec::with_capacity(problem.tasks.len() * classes);
        problem.tasks.iter().for_each(|t| times.extend(t.times.iter().zip(&offered).map(time)));
        let (shares, whole) = shares(problem, &place);
        let whole = whole * problem.gpus.len() as u64;
        Self { problem, classes, places, shift, times, place, roots: parents, lanes, usable, shares, whole }
    }

    /// What a task of a class takes at least, per class of places: how many of these lie in its own.
    /// Scaled so that all places of any class on all GPUs are as much as [`SearchTable::whole`] (of one GPU, less than 2^8).
    pub(super) fn shares(&self, class: usize) -> &[u64] {
        &self.shares[class * self.classes..][..self.classes]
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

    /// The running times of each task, by class.
    pub(super) fn rows(&self) -> impl Iterator<Item = &[Micros]> {
        self.times.chunks_exact(self.classes)
    }

    /// Compute slices of a class.
    pub(super) fn slices_of(&self, class: usize) -> u64 {
        u64::from(self.problem.tree.sizes[class])
    }

    /// Slices times time.
    pub(super) fn work(&self, task: usize, class: usize) -> u64 {
        self.time(task, class) * self.slices_of(class)
    }

    /// A place of whichever GPU.
    pub(super) fn place(&self, place: usize) -> &PlaceFacts {
        &self.place[place]
    }

    pub(super) fn all_places(&self) -> Places {
        Places::MAX >> (Places::BITS as usize - self.places)
    }

    pub(super) fn at(&self, site: Site) -> &PlaceFacts {
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
fn places(problem: &Problem) -> [PlaceFacts; MAX_NODES] {
    let nodes = &problem.tree.nodes;
    let mut place = [PlaceFacts::default(); MAX_NODES];
    for (n, node) in nodes.iter().enumerate().rev() {
        let (mut children, mut leaves, mut below) = (0, 0, 0);
        for &c in &node.children {
            children |= 1 << c;
            leaves |= place[c].leaves;
            below |= place[c].overlap;
        }
        if children == 0 {
            leaves = 1 << n;
        }
        place[n] = PlaceFacts {
            class: node.class,
            slices: u64::from(node.size),
            parent: node.parent,
            create: problem.costs.create[node.class],
            destroy: problem.costs.destroy[node.class],
            children,
            overlap: below | 1 << n,
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

/// See [`SearchTable::shares`], by class and class; and what all places of a class sum to.
fn shares(problem: &Problem, place: &[PlaceFacts; MAX_NODES]) -> (Vec<u64>, u64) {
    let (nodes, classes) = (&problem.tree.nodes, problem.tree.sizes.len());
    let mut count = [0; MAX_NODES];
    let mut least = vec![u64::MAX; classes * classes];
    // Per place, how many places of each class are in it, itself included: eight bits each.
    let mut inside = [0u128; MAX_NODES];
    for (n, node) in nodes.iter().enumerate().rev() {
        inside[n] = members(place[n].children).fold(1 << (8 * node.class), |sum, c| sum + inside[c]);
        count[node.class] += 1;
        let least = &mut least[node.class * classes..][..classes];
        let here = inside[n].to_le_bytes();
        least.iter_mut().zip(here).for_each(|(least, here)| *least = u64::from(here).min(*least));
    }
    let whole = count[..classes].iter().fold(1, |whole, &count| lcm(whole, count));
    for (c, &count) in count[..classes].iter().enumerate() {
        least.iter_mut().skip(c).step_by(classes).for_each(|least| *least *= whole / count);
    }
    (least, whole)
}

fn lcm(a: u64, b: u64) -> u64 {
    (1..=b).map(|k| k * a).find(|m| m.is_multiple_of(b)).unwrap_or(a)
}

/// The members of a set of places, ascending.
pub(super) fn members(mut places: Places) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = places.trailing_zeros();
        places &= places.wrapping_sub(1);
        (next < Places::BITS).then_some(next as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use geometry::Model;

    #[test]
    fn shares_are_what_a_place_holds_of_each_size() {
        for model in Model::all().iter().filter(|m| m.has_mig()) {
            let problem = Problem::new(model, 1, Vec::new()).unwrap();
            let table = SearchTable::new(&problem);
            assert!(table.whole < 1 << 8, "{}: sums of the longest times stay within 64 bits", model.key);
            let root = table.shares(table.classes - 1);
            assert!(root.iter().all(|&share| share == table.whole), "{}: the whole GPU holds all", model.key);
        }
        let problem = Problem::new(Model::find("a100-40gb").unwrap(), 3, Vec::new()).unwrap();
        let table = SearchTable::new(&problem);
        let rows: Vec<&[u64]> = (0..table.classes).map(|class| table.shares(class)).collect();
        // Of 7, 3, 2, 1 and 1 places; 3@4 holds one place of two slices and three of one, less than 3@0.
        assert_eq!(rows[0], [6, 0, 0, 0, 0]);
        assert_eq!(rows[1], [12, 14, 0, 0, 0]);
        assert_eq!(rows[2], [18, 14, 21, 0, 0]);
        assert_eq!(rows[3], [24, 28, 21, 42, 0]);
        assert_eq!((rows[4], table.whole), (&[42; 5][..], 3 * 42));
    }
}
