//! A node's GPUs as the engine sees them.

use std::sync::Arc;

use crate::ids::{GpuIndex, JobId, Placement, ProfileId, Slice, Uid};
use crate::mapa::{HardwareGraph, Link};
use crate::model::{Model, Profile};

/// Whether a node's GPUs may be partitioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigPolicy {
    /// Always in MIG mode: instances only.
    On,
    /// Never in MIG mode.
    Off,
    /// The mode is switched on an idle GPU as jobs need it.
    Dynamic,
}

/// The links between a node's GPUs: bandwidths, and the hardware graph that also knows their kinds.
///
/// Bandwidths are GB/s (10^9 bytes per second) in one direction: n x n in NVML order, symmetric, zero diagonal.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkMatrix {
    n: usize,
    bw_gbps: Arc<[f64]>,
    graph: Arc<HardwareGraph>,
}

impl LinkMatrix {
    /// A matrix from rows. `None` unless square, symmetric, finite, non-negative and zero on the diagonal.
    ///
    /// Kinds of links are told from the bandwidths: see [`HardwareGraph::of_bandwidths`].
    #[must_use]
    pub fn from_rows(rows: &[Vec<f64>]) -> Option<Self> {
        let n = rows.len();
        let square = rows.iter().all(|r| r.len() == n);
        let valid = square
            && (0..n).all(|i| {
                rows[i][i] == 0.0
                    && (0..n).all(|j| {
                        rows[i][j].is_finite()
                            && rows[i][j] >= 0.0
                            && (rows[i][j] - rows[j][i]).abs() < f64::EPSILON
                    })
            });
        valid.then(|| Self::of_bandwidths(n, &|a, b| rows[a][b]))
    }

    /// A matrix of `n` GPUs that all have the same bandwidth to each other.
    #[must_use]
    pub fn uniform(n: usize, bw_gbps: f64) -> Self {
        Self::of_bandwidths(n, &|_, _| bw_gbps)
    }

    fn of_bandwidths(n: usize, bw_gbps: &dyn Fn(usize, usize) -> f64) -> Self {
        let cell = |k: usize| if k / n == k % n { 0.0 } else { bw_gbps(k / n, k % n) };
        let graph = Arc::new(HardwareGraph::of_bandwidths(n, bw_gbps));
        Self { n, bw_gbps: (0..n * n).map(cell).collect(), graph }
    }

    /// The links of a graph.
    #[must_use]
    pub fn of_graph(graph: Arc<HardwareGraph>) -> Self {
        let n = graph.len();
        let gpu = |i: usize| GpuIndex(u16::try_from(i).unwrap_or(u16::MAX));
        let cell = |k: usize| graph.link(gpu(k / n), gpu(k % n)).map_or(0.0, Link::gbps);
        Self { n, bw_gbps: (0..n * n).map(cell).collect(), graph }
    }

    /// The hardware graph: the best link of each pair with its kind.
    #[must_use]
    pub fn graph(&self) -> &Arc<HardwareGraph> {
        &self.graph
    }

    /// Number of GPUs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.n
    }

    /// True for a node without GPUs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Bandwidth between two GPUs, GB/s; 0 for a GPU and itself and for one outside the matrix.
    #[must_use]
    pub fn bw_gbps(&self, a: GpuIndex, b: GpuIndex) -> f64 {
        let (a, b) = (usize::from(a.0), usize::from(b.0));
        if a < self.n && b < self.n { self.bw_gbps[a * self.n + b] } else { 0.0 }
    }
}

/// A job's share of a GPU or instance under MPS. Memory is a hard limit, threads a soft one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Whose.
    pub job: JobId,
    /// The job's user: one MPS daemon serves one user unless the site says otherwise.
    pub uid: Uid,
    /// Memory, MiB.
    pub mem_mib: u64,
    /// Share of the device's SMs, percent, 1 to 100.
    pub threads: u8,
}

/// Who holds an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// One job alone.
    Isolated(JobId),
    /// Jobs that share it through MPS; never empty.
    Shared(Vec<Share>),
    /// Nobody: kept for the next job of its shape, destroyed when its slices are needed.
    Idle,
}

/// A MIG instance, as planned or existing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its profile.
    pub profile: ProfileId,
    /// Its first unit.
    pub start: Slice,
    /// Who holds it.
    pub holder: Holder,
}

/// What one GPU is used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuState {
    /// Nothing.
    Free,
    /// One job has all of it.
    Whole(JobId),
    /// Jobs share it through MPS, without MIG; never empty.
    Mps(Vec<Share>),
    /// It is partitioned; instances do not overlap. Empty or all idle: free to be used otherwise where the policy allows.
    Mig(Vec<Instance>),
}

/// One GPU of a node.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// Its model.
    pub model: &'static Model,
    /// Whether it may be partitioned.
    pub policy: MigPolicy,
    /// What it is used for.
    pub state: GpuState,
}

/// A node's GPUs, in NVML order, and the links between them.
#[derive(Clone, Debug)]
pub struct Node {
    /// In NVML order.
    pub gpus: Vec<Gpu>,
    /// As many rows as `gpus`.
    pub links: LinkMatrix,
}

impl Gpu {
    /// The profile of an instance on this GPU; `None` for an id that its model does not have.
    #[must_use]
    pub fn profile_of(&self, instance: &Instance) -> Option<&'static Profile> {
        self.model.profile_by_id(instance.profile)
    }

    /// Where an instance lies; `None` for a profile that this model does not have.
    #[must_use]
    pub fn placement_of(&self, instance: &Instance) -> Option<Placement> {
        self.profile_of(instance).map(|p| p.at(instance.start))
    }
}
