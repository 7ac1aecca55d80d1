//! The present state of one GPU, in the words of those who ask for a plan.

use crate::Micros;
use geometry::GpuIndex;

/// An instance that exists now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentInstance {
    /// Name of its profile, of whatever kind.
    pub profile: String,
    /// Its first unit.
    pub start: u8,
    /// When it is expected to be free, µs from now: 0 for an idle one, `None` if nobody knows. Centuries away
    /// is as unknown as `None`.
    pub until: Option<Micros>,
}

/// A GPU as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentGpu {
    /// The node's name. Only GPUs of one name wait for each other's reconfigurations.
    pub node: String,
    /// Its index on the node.
    pub index: GpuIndex,
    /// From when on anything at all may be done with it, µs from now: 0 for now, `None` for never, as with a drained
    /// node or a job of unknown end that has all of it.
    pub usable_from: Option<Micros>,
    /// Instances on it; none overlap.
    pub instances: Vec<PresentInstance>,
}

impl PresentGpu {
    /// A GPU without instances.
    #[must_use]
    pub fn empty(node: &str, index: u16) -> Self {
        Self { node: node.to_owned(), index: GpuIndex(index), usable_from: Some(0), instances: Vec::new() }
    }
}
