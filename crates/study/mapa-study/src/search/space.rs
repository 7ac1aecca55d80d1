//! The free GPUs as vertices: numbered without gaps, with dense tables of their links.

use geometry::GpuIndex;
use topology::{GpuSet, HardwareGraph, Link, LinkClass};

use super::number::{Number, Scale, Weights};
use super::subsets::bits;
use crate::limits::MOST_FREE;
use topology::{BandwidthModel, Bounds};

/// Sums over the bits of a set by table, one for its low byte and one for its high byte.
type ByteSums = [Vec<u32>; 2];

/// At most 16 free GPUs and the links between them.
pub(crate) struct Space {
    /// The GPU of each vertex, ascending.
    pub(crate) gpus: Vec<GpuIndex>,
    /// MB/s; 0 from a vertex to itself.
    pub(super) weight: Vec<[u32; MOST_FREE]>,
    /// Index of each link's bandwidth in `levels`.
    pub(super) level: Vec<[u8; MOST_FREE]>,
    /// Class of each link.
    pub(super) class: Vec<[LinkClass; MOST_FREE]>,
    /// Every bandwidth that occurs, ascending.
    pub(super) levels: Vec<u32>,
    sends: Vec<u32>,
    all: Vec<ByteSums>,
    nvlink: Vec<ByteSums>,
    /// Bandwidth worth keeping: see [`HardwareGraph::kept_mb_s`].
    kept: Vec<ByteSums>,
    /// Vertices that each vertex reaches by its best PCIe links, best first: (bandwidth, vertices).
    pcie: Vec<Vec<(u32, u32)>>,
}

impl Space {
    /// `None` for more than 16 GPUs.
    pub(crate) fn new(graph: &HardwareGraph, free: GpuSet) -> Option<Self> {
        let gpus: Vec<GpuIndex> = free.iter().collect();
        let m = gpus.len();
        if m > MOST_FREE {
            return None;
        }
        let link = |a: usize, b: usize| graph.link(gpus[a], gpus[b]);
        let pairs = || (0..m).flat_map(|a| (a + 1..m).map(move |b| (a, b)));
        let mut levels: Vec<u32> = pairs().filter_map(|(a, b)| link(a, b)).map(|l| l.mb_s).collect();
        levels.sort_unstable();
        levels.dedup();
        let mut weight = vec![[0; MOST_FREE]; m];
        let mut level = vec![[0; MOST_FREE]; m];
        let mut class = vec![[LinkClass::Pcie; MOST_FREE]; m];
        for (a, b) in (0..m).flat_map(|a| (0..m).map(move |b| (a, b))) {
            let Some(found) = link(a, b) else { continue };
            weight[a][b] = found.mb_s;
            // At most 120 pairs.
            level[a][b] = u8::try_from(levels.partition_point(|l| *l < found.mb_s)).unwrap_or(u8::MAX);
            class[a][b] = found.class();
        }
        let of = |worth: &dyn Fn(Link) -> u32| {
            let row = |a: usize| (0..m).map(|b| link(a, b).map_or(0, worth)).collect::<Vec<_>>();
            (0..m).map(|a| byte_sums(m, &row(a))).collect::<Vec<_>>()
        };
        let all = of(&|l| l.mb_s);
        let nvlink = of(&|l| if l.class() == LinkClass::Pcie { 0 } else { l.mb_s });
        let kept = of(&|l| graph.kept_mb_s(l));
        let sends = gpus.iter().map(|g| graph.sends_mb_s(*g)).collect();
        let pcie = (0..m)
            .map(|a| best_pcie(m, &|b| link(a, b).filter(|l| l.class() == LinkClass::Pcie).map(|l| l.mb_s)));
        let pcie = pcie.collect();
        Some(Self { gpus, weight, level, class, levels, sends, all, nvlink, kept, pcie })
    }

    /// Number of vertices.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.gpus.len()
    }

    /// The links among some vertices, for searches of one set. Its tables of sums are empty.
    pub(super) fn part(&self, mask: u32) -> Self {
        let members: Vec<usize> = bits(mask).collect();
        fn pick<T: Copy>(rows: &[[T; MOST_FREE]], members: &[usize], fill: T) -> Vec<[T; MOST_FREE]> {
            let row = |a: &usize| std::array::from_fn(|i| members.get(i).map_or(fill, |b| rows[*a][*b]));
            members.iter().map(row).collect()
        }
        Self {
            gpus: members.iter().map(|v| self.gpus[*v]).collect(),
            weight: pick(&self.weight, &members, 0),
            level: pick(&self.level, &members, 0),
            class: pick(&self.class, &members, LinkClass::Pcie),
            levels: self.levels.clone(),
            sends: Vec::new(),
            all: Vec::new(),
            nvlink: Vec::new(),
            kept: Vec::new(),
            pcie: Vec::new(),
        }
    }

    /// The GPUs of a set of vertices.
    pub(crate) fn gpu_set(&self, mask: u32) -> GpuSet {
        bits(mask).map(|v| self.gpus[v]).collect()
    }

    /// Sum of a vertex's links to a set, MB/s.
    #[inline]
    pub(super) fn to_set(&self, v: usize, mask: u32) -> u32 {
        sum(&self.all[v], mask)
    }

    /// Sum of the links among a set, MB/s.
    #[inline]
    pub(crate) fn among(&self, mask: u32) -> u32 {
        bits(mask).map(|v| self.to_set(v, mask)).sum::<u32>() / 2
    }

    /// Bandwidth worth keeping of a vertex's links to a set, MB/s.
    #[inline]
    pub(super) fn kept_to_set(&self, v: usize, mask: u32) -> u32 {
        sum(&self.kept[v], mask)
    }

    /// Bandwidth worth keeping of the links among a set, MB/s.
    #[inline]
    pub(super) fn kept_among(&self, mask: u32) -> u32 {
        bits(mask).map(|v| self.kept_to_set(v, mask)).sum::<u32>() / 2
    }

    /// The least that a member of a set can send to the others, MB/s; see [`HardwareGraph::sends_within`].
    #[inline]
    pub(super) fn sends(&self, mask: u32) -> u32 {
        let of = |v: usize| {
            let pcie = self.pcie[v].iter().find(|(_, to)| to & mask != 0).map_or(0, |(mb_s, _)| *mb_s);
            sum(&self.nvlink[v], mask).min(self.sends[v]).saturating_add(pcie)
        };
        bits(mask).map(of).min().unwrap_or(0)
    }

    /// EffBW of a set whose match has a slowest edge of this rate, GB/s; under Equation 2, which knows no slowest edge, the
    /// rate itself.
    #[inline]
    pub(super) fn predict(&self, model: BandwidthModel, slowest_mb_s: f64, mask: u32) -> f64 {
        match model {
            BandwidthModel::Bottleneck(c) => c.predict(Bounds { slowest_mb_s, sends_mb_s: self.sends(mask) }),
            BandwidthModel::Mapa2021 => slowest_mb_s,
        }
    }

    /// The vertices that each vertex is linked to at this level or better.
    pub(super) fn adjacent(&self, level: usize) -> Vec<u32> {
        let near = |a: usize, b: usize| a != b && usize::from(self.level[a][b]) >= level;
        let m = self.len();
        (0..m).map(|a| (0..m).filter(|b| near(a, *b)).fold(0, |set, b| set | 1 << b)).collect()
    }

    /// How sums over the links of this space are counted.
    pub(super) fn scale(&self) -> Scale {
        Scale::new(&self.levels)
    }

    /// Returns the lacks of the links of at least this level.
    pub(super) fn weights<T: Number>(&self, level: usize, scale: &Scale) -> Weights<T> {
        let m = self.len();
        let of = |a: usize, b: usize| {
            let linked = a != b && b < m && usize::from(self.level[a][b]) >= level;
            if linked { scale.lacks(self.weight[a][b]) } else { T::NONE }
        };
        Weights::new((0..m).map(|a| std::array::from_fn(|b| of(a, b))).collect())
    }
}

fn byte_sums(m: usize, worth: &[u32]) -> ByteSums {
    [0, 8].map(|base| {
        let width = m.saturating_sub(base).min(8);
        let mut sums = vec![0_u32; 1 << width];
        for mask in 1..sums.len() {
            let low = mask.trailing_zeros() as usize;
            sums[mask] = sums[mask & (mask - 1)].saturating_add(worth[base + low]);
        }
        sums
    })
}

#[inline]
fn sum(sums: &ByteSums, mask: u32) -> u32 {
    let [low, high] = sums;
    let at = |table: &[u32], i: u32| table.get(i as usize).copied().unwrap_or(0);
    at(low, mask & 0xff).saturating_add(at(high, mask >> 8))
}

fn best_pcie(m: usize, link: &dyn Fn(usize) -> Option<u32>) -> Vec<(u32, u32)> {
    let mut best: Vec<(u32, u32)> = Vec::new();
    for b in 0..m {
        let Some(mb_s) = link(b) else { continue };
        match best.iter_mut().find(|(bw, _)| *bw == mb_s) {
            Some((_, to)) => *to |= 1 << b,
            None => best.push((mb_s, 1 << b)),
        }
    }
    best.sort_unstable_by_key(|(mb_s, _)| std::cmp::Reverse(*mb_s));
    best
}
