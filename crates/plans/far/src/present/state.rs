//! The present state of one GPU, in the terms of the caller: node, profile, start.

use crate::problem::Micros;
use geometry::GpuIndex;

/// An instance that exists now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentInstance {
    /// Name of its profile; any profile of the model.
    pub profile: String,
    /// First placement unit.
    pub start: u8,
    /// When it should come free, µs from now: 0 if it is idle, `None` if nobody knows. An instant centuries away counts as
    /// `None`.
    pub until: Option<Micros>,
}

/// A GPU as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentGpu {
    /// The node's name. Only GPUs of one name wait for each other's reconfigurations.
    pub node: String,
    /// Index on the node.
    pub index: GpuIndex,
    /// When the plan may first touch it, µs from now: 0 for now, `None` for never, as on a drained node or under a job of
    /// unknown end that uses the whole GPU.
    pub usable_from: Option<Micros>,
    /// Instances on it; they do not overlap.
    pub instances: Vec<PresentInstance>,
}

impl PresentGpu {
    /// A GPU without instances that the plan may use now.
    #[must_use]
    pub fn empty(node: &str, index: u16) -> Self {
        Self { node: node.to_owned(), index: GpuIndex(index), usable_from: Some(0), instances: Vec::new() }
    }
}
