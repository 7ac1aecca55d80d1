//! Ring+tree by plain dynamic programming over subsets, for more GPUs than every order can be weighed of.
//!
//! Ranks below a rank of NCCL's tree are neighbours on the ring. So such a stretch of ranks meets the others in two
//! GPUs only: `above`, which its root and its near end have edges to, and `beyond`, next to its far end on the ring.

use std::ops::RangeInclusive;

use geometry::GpuIndex;
use mapa::Query;
use topology::{BandwidthModel, Coefficients, HardwareGraph, LinkClass, Selection};

use super::{Truth, eq2, left, sends};

/// Facts about the best order of some ranks.
trait Value: Clone {
    /// No order.
    fn none() -> Self;
    /// No edge.
    fn empty() -> Self;
    fn edge(graph: &HardwareGraph, a: GpuIndex, b: GpuIndex) -> Self;
    fn both(&self, other: &Self) -> Self;
    fn or(&mut self, other: Self);
}

/// The largest sum of links, MB/s.
#[derive(Clone, Copy)]
struct Sum(i64);

impl Value for Sum {
    fn none() -> Self {
        Self(i64::MIN / 4)
    }
    fn empty() -> Self {
        Self(0)
    }
    fn edge(graph: &HardwareGraph, a: GpuIndex, b: GpuIndex) -> Self {
        Self(i64::from(graph.link(a, b).unwrap().mb_s))
    }
    fn both(&self, other: &Self) -> Self {
        Self(self.0 + other.0)
    }
    fn or(&mut self, other: Self) {
        self.0 = self.0.max(other.0);
    }
}

/// The fastest slowest link, MB/s.
#[derive(Clone, Copy)]
struct Slowest(u32);

impl Value for Slowest {
    fn none() -> Self {
        Self(0)
    }
    fn empty() -> Self {
        Self(u32::MAX)
    }
    fn edge(graph: &HardwareGraph, a: GpuIndex, b: GpuIndex) -> Self {
        Self(graph.link(a, b).unwrap().mb_s)
    }
    fn both(&self, other: &Self) -> Self {
        Self(self.0.min(other.0))
    }
    fn or(&mut self, other: Self) {
        self.0 = self.0.max(other.0);
    }
}

/// Every possible count of double and single links: bits are the single ones, by the double ones.
#[derive(Clone)]
struct Counts(Vec<u32>);

impl Value for Counts {
    fn none() -> Self {
        Self(Vec::new())
    }
    fn empty() -> Self {
        Self(vec![1])
    }
    fn edge(graph: &HardwareGraph, a: GpuIndex, b: GpuIndex) -> Self {
        match graph.link(a, b).unwrap().class() {
            LinkClass::Double => Self(vec![0, 1]),
            LinkClass::Single => Self(vec![2]),
            LinkClass::Pcie => Self(vec![1]),
        }
    }
    fn both(&self, other: &Self) -> Self {
        let mut counts = vec![0; (self.0.len() + other.0.len()).saturating_sub(1)];
        for (x, singles) in self.0.iter().enumerate() {
            for y in (0..32).filter(|y| singles >> y & 1 == 1) {
                for (other_x, other_singles) in other.0.iter().enumerate() {
                    counts[x + other_x] |= other_singles << y;
                }
            }
        }
        Self(counts)
    }
    fn or(&mut self, other: Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }
}

/// The sets of `size` of `m` GPUs.
fn sets(m: usize, size: usize) -> Vec<usize> {
    (0..1_usize << m).filter(|set| set.count_ones() as usize == size).collect()
}

fn members(set: usize) -> Vec<usize> {
    (0..usize::BITS as usize).filter(|v| set >> v & 1 == 1).collect()
}

/// Every part of `set` that has `size` members.
fn parts(set: usize, size: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut part = set;
    loop {
        if part.count_ones() as usize == size {
            found.push(part);
        }
        if part == 0 {
            return found;
        }
        part = (part - 1) & set;
    }
}

/// Ranks left and right of the root of a stretch: its root is the largest power of two in it, counted from 1.
fn halves(size: usize) -> (usize, usize) {
    let root = (1..=size).rev().find(|rank| rank.is_power_of_two()).unwrap();
    (root - 1, size - root)
}

/// Stretches of one size: by set, `above` and `beyond`.
struct Stretches<V> {
    at: Vec<usize>,
    values: Vec<V>,
}

impl<V: Value> Stretches<V> {
    fn get(&self, set: usize, above: usize, beyond: usize) -> &V {
        &self.values[self.at[set] * 256 + above * 16 + beyond]
    }
}

struct Plain<V> {
    edges: Vec<Vec<V>>,
    by_size: Vec<Option<Stretches<V>>>,
}

impl<V: Value> Plain<V> {
    fn new(graph: &HardwareGraph, gpus: &[GpuIndex]) -> Self {
        let edge = |a: &GpuIndex, b: &GpuIndex| if a == b { V::none() } else { V::edge(graph, *a, *b) };
        let edges = gpus.iter().map(|a| gpus.iter().map(|b| edge(a, b)).collect()).collect();
        Self { edges, by_size: (0..8).map(|_| None).collect() }
    }

    fn stretches(&self, size: usize) -> &Stretches<V> {
        self.by_size[size].as_ref().unwrap()
    }

    /// Works out the stretches of this size, and those that they consist of.
    fn fill(&mut self, size: usize) {
        if size == 0 || self.by_size[size].is_some() {
            return;
        }
        let (left, right) = halves(size);
        self.fill(left);
        self.fill(right);
        let m = self.edges.len();
        let (mut at, mut values) = (vec![usize::MAX; 1 << m], Vec::new());
        for (position, set) in sets(m, size).into_iter().enumerate() {
            at[set] = position;
            values.resize((position + 1) * 256, V::none());
            for root in members(set) {
                for near in parts(set & !(1 << root), left) {
                    self.add(set, root, near, &mut values[position * 256..]);
                }
            }
        }
        self.by_size[size] = Some(Stretches { at, values });
    }

    /// The stretch on `set` with this root, and its left half on `near`, for every `above` and `beyond`.
    fn add(&self, set: usize, root: usize, near: usize, values: &mut [V]) {
        let (m, far) = (self.edges.len(), set & !near & !(1 << root));
        let outside: Vec<usize> = (0..m).filter(|v| set >> v & 1 == 0).collect();
        let to_beyond = |beyond: &usize| match far.count_ones() {
            0 => self.edges[root][*beyond].clone(),
            size => self.stretches(size as usize).get(far, root, *beyond).clone(),
        };
        let right: Vec<V> = outside.iter().map(to_beyond).collect();
        for above in &outside {
            // One rank alone is both root and near end: one edge.
            let mut left = self.edges[root][*above].clone();
            if near != 0 {
                left = left.both(self.stretches(near.count_ones() as usize).get(near, root, *above));
            }
            for (beyond, right) in outside.iter().zip(&right).filter(|(beyond, _)| *beyond != above) {
                values[above * 16 + beyond].or(left.both(right));
            }
        }
    }

    /// For each set of `n`, by its number, the best of its orders.
    fn best(&mut self, n: usize) -> Vec<V> {
        let m = self.edges.len();
        let (left, right) = halves(n - 1);
        self.fill(left);
        self.fill(right);
        let mut best = vec![V::none(); 1 << m];
        for on_left in sets(m, left) {
            for top in (0..m).filter(|v| on_left >> v & 1 == 0) {
                let others = ((1_usize << m) - 1) & !on_left & !(1 << top);
                for on_right in parts(others, right) {
                    for zero in members(others & !on_right) {
                        let mut value =
                            self.edges[top][zero].both(self.stretches(left).get(on_left, top, zero));
                        if right > 0 {
                            value = value.both(self.stretches(right).get(on_right, top, zero));
                        }
                        best[on_left | on_right | 1 << top | 1 << zero].or(value);
                    }
                }
            }
        }
        best
    }
}

/// Returns the worth of the best set of each number of GPUs, from 4 on, to greedy, or to preserve for a sensitive job.
pub fn best(query: &Query<'_>, numbers: RangeInclusive<usize>) -> Vec<Truth> {
    let gpus: Vec<GpuIndex> = query.free.iter().collect();
    match (query.policy, query.model) {
        (Selection::Greedy, _) => {
            truths(query, &gpus, numbers, |_: &[GpuIndex], sum: &Sum| sum.0 as f64 / 1000.0)
        }
        (_, BandwidthModel::Bottleneck(c)) => {
            truths(query, &gpus, numbers, |set: &[GpuIndex], slow: &Slowest| {
                predicted(query.graph, set, c, slow)
            })
        }
        (_, BandwidthModel::Mapa2021) => {
            truths(query, &gpus, numbers, |set: &[GpuIndex], counts: &Counts| best_counts(set.len(), counts))
        }
    }
}

fn predicted(graph: &HardwareGraph, set: &[GpuIndex], c: Coefficients, slowest: &Slowest) -> f64 {
    sends(graph, set, c, f64::from(slowest.0) / 1000.0)
}

fn best_counts(n: usize, counts: &Counts) -> f64 {
    let edges = mapa::edges_of(&topology::Pattern::RingTree, n).unwrap().len();
    let each = counts.0.iter().enumerate();
    let each =
        each.flat_map(|(x, singles)| (0..32).filter(move |y| singles >> y & 1 == 1).map(move |y| (x, y)));
    each.map(|(x, y)| eq2([x, y, edges - x - y].map(|c| c as f64))).fold(f64::NEG_INFINITY, f64::max)
}

fn truths<V: Value>(
    query: &Query<'_>,
    gpus: &[GpuIndex],
    numbers: RangeInclusive<usize>,
    worth: impl Fn(&[GpuIndex], &V) -> f64,
) -> Vec<Truth> {
    let mut plain = Plain::<V>::new(query.graph, gpus);
    let of = |n: usize| {
        let best = plain.best(n);
        let mut truth = Truth { worth: f64::NEG_INFINITY, tied: 0, left: [0; 3] };
        for mask in sets(gpus.len(), n) {
            let set: Vec<GpuIndex> = members(mask).into_iter().map(|v| gpus[v]).collect();
            truth.weigh(worth(&set, &best[mask]), || left(query, &set));
        }
        truth
    };
    numbers.map(of).collect()
}
