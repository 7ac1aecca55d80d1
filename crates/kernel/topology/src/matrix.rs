//! The links between a node's GPUs as a matrix of bandwidths.

use std::sync::Arc;

use geometry::GpuIndex;

use crate::graph::HardwareGraph;
use crate::link::Link;

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
    /// A matrix of `n` GPUs that all have the same bandwidth to each other, GB/s.
    #[must_use]
    pub fn uniform(n: usize, bw_gbps: f64) -> Self {
        Self::of_bandwidths(n, &|_, _| bw_gbps)
    }

    /// A matrix of `n` GPUs with these bandwidths between any two, GB/s: symmetric, finite and not negative. Kinds of links are told
    /// from them: see [`HardwareGraph::of_bandwidths`].
    #[must_use]
    pub fn of_bandwidths(n: usize, bw_gbps: &dyn Fn(usize, usize) -> f64) -> Self {
        let cell = |k: usize| if k / n == k % n { 0.0 } else { bw_gbps(k / n, k % n) };
        let graph = Arc::new(HardwareGraph::of_bandwidths(n, bw_gbps));
        Self { n, bw_gbps: (0..n * n).map(cell).collect(), graph }
    }

    /// The bandwidths of a graph's links.
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

    /// Number of GPUs, that is rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.n
    }

    /// True if the node has no GPU.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Bandwidth between two GPUs, GB/s; 0 if they are the same GPU or one of them is outside the matrix.
    #[must_use]
    pub fn bw_gbps(&self, a: GpuIndex, b: GpuIndex) -> f64 {
        let (a, b) = (usize::from(a.0), usize::from(b.0));
        if a < self.n && b < self.n { self.bw_gbps[a * self.n + b] } else { 0.0 }
    }
}
