//! Places where an instance could be.

use geometry::GpuIndex;
use node_state::Node;
use protocol::MigSpec;

/// Every legal start of every profile of every GPU.
pub fn every_place(node: &Node) -> impl Iterator<Item = MigSpec> {
    node.gpus.iter().zip(0_u16..).flat_map(|(gpu, i)| {
        gpu.model.profiles.iter().flat_map(move |profile| {
            let spec = move |start| MigSpec { gpu: GpuIndex(i), profile: profile.id, start };
            profile.starts.iter().copied().map(spec)
        })
    })
}
