//! The layout of nodes: their GPUs drawn as slices.

pub(crate) mod json;
pub(crate) mod pieces;
pub(crate) mod svg;
pub(crate) mod text;

use geometry::Model;
use protocol::layout::GpuLayout;

/// One node to draw.
pub(crate) struct Drawn {
    pub(crate) name: String,
    /// The interconnect's name, for the title.
    pub(crate) links: String,
    /// In NVML order.
    pub(crate) gpus: Vec<(&'static Model, GpuLayout)>,
    /// What the reader should know of where the state comes from.
    pub(crate) note: Option<String>,
}
