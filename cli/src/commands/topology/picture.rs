//! Content of the picture, and the GPUs that are marked in it.

use geometry::GpuIndex;
use mapa::Match;
use topology::HardwareGraph;

use super::args::TopologyGraphArgs;

/// Links of the node, and the set chosen on it.
pub(super) struct Picture<'a> {
    pub(super) graph: &'a HardwareGraph,
    pub(super) args: &'a TopologyGraphArgs,
    pub(super) chosen: Option<&'a Match>,
    /// The set that Slurm takes by itself, if it is wanted.
    pub(super) slurms: Option<&'a Match>,
}

impl Picture<'_> {
    /// The class of a GPU: `busy`, `chosen` or none.
    pub(super) fn mark(&self, gpu: GpuIndex) -> &'static str {
        match self.chosen {
            _ if self.args.busy.contains(gpu) => "busy",
            Some(c) if c.gpus.contains(gpu) => "chosen",
            _ => "",
        }
    }
}
