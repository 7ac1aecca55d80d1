//! The layout of nodes: their GPUs drawn as slices.

pub(crate) mod json;
pub(crate) mod svg;
pub(crate) mod text;
