//! Costs of small jobs to large ones: GPUs and nodes without jobs, and places that are lost because free slices lie apart.
//!
//! # Problem
//! Two GPUs that are half used have together as many free slices as one free GPU, but no room for a job that needs a whole GPU.
//! Find for each shape of request how many jobs this costs.
//!
//! # Approach
//! Nodes with as many GPUs of one model are a group. Of each group and shape count:
//! - *now*: the jobs that would fit beside those that run, if only such jobs came;
//! - *packed*: the jobs that would fit if those that run had as many slices and memory units on as few GPUs, and these GPUs on as
//!   few nodes, as possible. Never less than *now*: a `4g.20gb` has one place on each GPU, so two half GPUs have more room for it
//!   than a whole one.
//!
//! What is lost to fragmentation is *packed* less *now*. It is the most that moving jobs could gain; the profiles of the jobs
//! that run may not go together as tightly.
//!
//! Idle instances are free. Nodes that take no jobs, GPUs that are left to Slurm or have fixed instances, and variants of
//! profiles do not count.

use std::collections::BTreeMap;

use geometry::{Model, Profile};
use protocol::Request;

mod shape;
mod words;

pub(crate) use shape::Shape;

use crate::cluster_snapshot::{GpuSeen, NodeSeen, slices_of_gpu};

/// Jobs of one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// Key of the GPU model.
    pub(crate) model: &'static str,
    pub(crate) shape: Shape,
    pub(crate) now: u32,
    pub(crate) packed: u32,
}

/// GPUs and nodes without jobs, and what the others cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wholeness {
    pub(crate) gpus: u32,
    pub(crate) of_gpus: u32,
    pub(crate) nodes: u32,
    pub(crate) of_nodes: u32,
    /// By model and size.
    pub(crate) places: Vec<Places>,
}

impl Places {
    pub(crate) fn lost(&self) -> u32 {
        self.packed - self.now
    }

    /// The part that is lost, percent.
    pub(crate) fn lost_percent(&self) -> u8 {
        u8::try_from(100 * u64::from(self.lost()) / u64::from(self.packed.max(1))).unwrap_or(100)
    }
}

/// Room that is left on a GPU.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// Free placement units, bit 0 for unit 0.
    units: u16,
    /// Free compute slices.
    slices: u32,
    cuttable: bool,
    whole: bool,
}

/// Nodes with as many GPUs of one model.
struct Group {
    model: &'static Model,
    /// GPUs of each node.
    nodes: Vec<Vec<Room>>,
}

/// Counts the nodes that take jobs.
pub(crate) fn wholeness(nodes: &[&NodeSeen]) -> Wholeness {
    let mut all = Wholeness::default();
    let mut groups: BTreeMap<(&str, usize), Group> = BTreeMap::new();
    for node in nodes.iter().filter(|node| !node.in_use().is_away()) {
        let gpus: Vec<&GpuSeen> = node.gpus.iter().flatten().filter(|gpu| gpu.state() != "slurm").collect();
        if gpus.is_empty() {
            continue;
        }
        let whole = gpus.iter().filter(|gpu| gpu.is_free()).count();
        all.gpus += count(whole);
        all.of_gpus += count(gpus.len());
        all.nodes += u32::from(whole == gpus.len());
        all.of_nodes += 1;
        let mut by_model: BTreeMap<&str, (&'static Model, Vec<Room>)> = BTreeMap::new();
        for gpu in gpus {
            by_model.entry(&gpu.model.key).or_insert((gpu.model, Vec::new())).1.push(room(gpu));
        }
        for (key, (model, rooms)) in by_model {
            let group = groups.entry((key, rooms.len())).or_insert(Group { model, nodes: Vec::new() });
            group.nodes.push(rooms);
        }
    }
    for places in groups.values().flat_map(Group::places) {
        let same = |known: &&mut Places| known.model == places.model && known.shape == places.shape;
        match all.places.iter_mut().find(same) {
            Some(known) => {
                known.now += places.now;
                known.packed += places.packed;
            }
            None => all.places.push(places),
        }
    }
    all
}

fn room(gpu: &GpuSeen) -> Room {
    Room {
        units: gpu.free_units(),
        slices: gpu.both().free,
        cuttable: gpu.can.be_cut,
        whole: gpu.can.be_whole,
    }
}

impl Group {
    /// Each shape that the GPUs could have.
    fn places(&self) -> Vec<Places> {
        let mut all = Vec::new();
        if self.rooms().any(|room| room.cuttable) {
            let profiles = self.model.profiles.iter().filter(|profile| !profile.is_variant());
            all.extend(profiles.map(|profile| self.of_profile(profile)));
        }
        let size = self.nodes.first().map_or(0, Vec::len);
        if self.rooms().any(|room| room.whole) {
            all.extend(numbers(size).map(|n| self.of_gpus(n)));
        }
        all
    }

    fn rooms(&self) -> impl Iterator<Item = &Room> {
        self.nodes.iter().flatten()
    }

    fn of_profile(&self, profile: &'static Profile) -> Places {
        let rooms: Vec<&Room> = self.rooms().filter(|room| room.cuttable).collect();
        let now = rooms.iter().map(|room| most(profile, room.units)).sum();
        let each = most(profile, all_units(self.model));
        let (gpus, units, slices) = packed(self.model, &rooms);
        let by_slices = slices.checked_div(u32::from(profile.compute_slices)).unwrap_or(each);
        let rest = each.min(units / u32::from(profile.size.max(1))).min(by_slices);
        self.entry(Shape::Instance(profile), now, gpus * each + rest)
    }

    /// Jobs with `n` whole GPUs of one node.
    fn of_gpus(&self, n: u32) -> Places {
        let free = |node: &Vec<Room>| {
            count(node.iter().filter(|room| room.whole && room.units == all_units(self.model)).count())
        };
        let now = self.nodes.iter().map(|node| free(node) / n).sum();
        let rooms: Vec<&Room> = self.rooms().filter(|room| room.whole).collect();
        let size = self.nodes.iter().map(|node| count(node.iter().filter(|room| room.whole).count())).max();
        let size = size.unwrap_or(0).max(1);
        let (gpus, ..) = packed(self.model, &rooms);
        self.entry(Shape::Gpus(n), now, gpus / size * (size / n) + gpus % size / n)
    }

    fn entry(&self, shape: Shape, now: u32, packed: u32) -> Places {
        Places { model: &self.model.key, shape, now, packed: packed.max(now) }
    }
}

/// The free GPUs, and the units and slices that are free in addition, if all that is in use were on as few GPUs as possible.
fn packed(model: &Model, rooms: &[&Room]) -> (u32, u32, u32) {
    let (of_gpu, slices_of_gpu) = (u32::from(model.placement_units), slices_of_gpu(model));
    let units: u32 = rooms.iter().map(|room| room.units.count_ones()).sum();
    let slices: u32 = rooms.iter().map(|room| room.slices).sum();
    let gpus = (units / of_gpu.max(1)).min(slices / slices_of_gpu.max(1));
    (gpus, units - gpus * of_gpu, slices - gpus * slices_of_gpu)
}

/// The most instances of a profile that fit into free units. They all have one length, so the first place that is free is never
/// worse than a later one.
fn most(profile: &Profile, mut units: u16) -> u32 {
    let mut n = 0;
    for start in &profile.starts {
        let place = profile.at(*start).mask();
        if units & place == place {
            units &= !place;
            n += 1;
        }
    }
    n
}

fn all_units(model: &Model) -> u16 {
    (0..model.placement_units).fold(0, |mask, unit| mask | 1_u16.checked_shl(unit.into()).unwrap_or(0))
}

/// 1, 2, 4 and so on, and at last all GPUs of a node.
fn numbers(size: usize) -> impl Iterator<Item = u32> {
    let size = count(size);
    let powers = std::iter::successors(Some(1_u32), |n| n.checked_mul(2)).take_while(move |n| *n < size);
    powers.chain((size > 0).then_some(size))
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Wholeness {
    /// Tells whether a request fits nowhere now, and would if the jobs that run were packed. A number of GPUs is rounded up to the next
    /// shape; of a share, of GPU tasks and of what `auto` may choose nothing is said.
    pub(crate) fn is_lost(&self, request: &Request) -> bool {
        let serve = || self.places.iter().filter(|places| places.shape.serves(request));
        let n = request.instances.max(1);
        !serve().any(|places| places.now >= n) && serve().any(|places| places.packed >= n)
    }
}

#[cfg(test)]
mod tests;
