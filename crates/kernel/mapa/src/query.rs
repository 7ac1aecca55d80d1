//! The question that a policy answers, and its answer.

use geometry::GpuIndex;
use topology::{GpuSet, HardwareGraph, Pattern, Selection};

use crate::edges::PatternError;
use crate::limits::MOST_FREE;
use topology::{BandwidthModel, Scores};

/// GPUs of one node that a job may get, and the job's wishes.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The GPUs of the node and the links between them.
    pub graph: &'a HardwareGraph,
    /// GPUs to choose from.
    pub free: GpuSet,
    /// The GPUs that should come back first, empty if nobody knows: they break ties. Free ones are ignored.
    pub next: GpuSet,
    /// Number of GPUs that the job needs.
    pub n: usize,
    /// Pairs of the job's ranks that talk to each other.
    pub pattern: &'a Pattern,
    /// True if the job runs faster with more bandwidth between its GPUs.
    pub sensitive: bool,
    /// Rule by which one set is better than another.
    pub policy: Selection,
    /// Model that predicts EffBW.
    pub model: BandwidthModel,
}

/// The GPUs that a job gets, which rank runs on which of them, and what that scores.
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    /// The GPUs that the job gets.
    pub gpus: GpuSet,
    /// The GPU of each rank.
    pub order: Vec<GpuIndex>,
    /// Links by class, AggBW and EffBW.
    pub scores: Scores,
    /// Bandwidth of the links that remain among the other free GPUs (Equation 3), GB/s.
    pub preserved_bw: f64,
    /// Number of sets that the policy rates as high as this one, itself included.
    ///
    /// `None` where counting them takes longer than deciding: where the answer is not exact, or more than 128 sets may be as
    /// good.
    pub tied_sets: Option<u64>,
    /// Nothing is better. False if a search ran into its limit, which happens on more than eight GPUs alone.
    pub exact: bool,
}

/// Why no set was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMatch {
    /// The job asked for no GPU.
    #[error("0 GPUs asked for")]
    Nothing,
    /// Fewer GPUs are free than the job asked for.
    #[error("{} free, {n} asked for", geometry::counted(*free, "GPU"))]
    TooFew {
        /// GPUs that are free.
        free: usize,
        /// GPUs that the job asked for.
        n: usize,
    },
    /// More free GPUs, with different links, than an exact search takes.
    #[error("{0} free GPUs with different links: the search takes {MOST_FREE}")]
    TooMany(usize),
    /// An edge list names ranks that the job does not have.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}
