//! The nodes of a cloud: `State=CLOUD` in slurm.conf.

use super::lists::{BitString, Bits};

crate::slurmctlds! {
    /// slurmctld's list of them, from 23.02 on.
    struct Clouds {
        part bits: Bits;
        static nodes = c"cloud_node_bitmap", "src/slurmctld/slurmctld.h": *mut BitString;
    }
}

/// Tells whether a node, by its place in the node table, is one of a cloud. slurmctld reads the devices of those in its own gres.conf,
/// before they boot. Inside a hook.
#[must_use]
pub fn is_in_cloud(node: usize) -> bool {
    let Some(clouds) = Clouds::get() else { return false };
    // SAFETY: slurmctld.h: `extern bitstr_t *cloud_node_bitmap`; hooks run under the node lock.
    let bits = unsafe { clouds.nodes.read() };
    // SAFETY: null or live.
    unsafe { clouds.bits.at(bits) }.test(node)
}
