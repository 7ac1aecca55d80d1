//! Checks that compute instances fit together into their GPU instance.

use geometry::{ComputeProfile, Profile};
use node_state::ComputeHold;

use crate::finding::{Finding, finding};

/// The compute slices of a compute instance.
pub(crate) fn slices_of(slices: u8, start: u8) -> Vec<u32> {
    (0..u32::from(slices)).map(|i| u32::from(start) + i).collect()
}

/// Checks the compute instances of one GPU instance, whatever led to them.
pub(crate) fn check_together(
    profile: &Profile,
    holds: &[ComputeHold],
    at: geometry::GpuIndex,
    out: &mut Vec<Finding>,
) {
    let mut taken: Vec<u32> = Vec::new();
    if holds.is_empty() {
        out.push(finding(at, "compute instances of nobody"));
    }
    let promised: u64 = holds.iter().map(|h| h.mem_mib).sum();
    if promised > profile.memory_mib {
        out.push(finding(at, format!("{promised} MiB stated of {}", profile.memory_mib)));
    }
    for hold in holds {
        let size = profile.compute.iter().find(|c| c.slices == hold.part.slices);
        let legal = |c: &ComputeProfile| c.starts.iter().any(|s| s.0 == hold.part.start.0);
        if !size.is_some_and(legal) {
            out.push(finding(at, format!("no {}c at {}", hold.part.slices, hold.part.start)));
        }
        let same = holds.iter().filter(|h| h.part.slices == hold.part.slices).count();
        if size.is_some_and(|c| same > c.max_instances as usize) {
            out.push(finding(
                at,
                format!("{same} compute instances of {}", geometry::counted(hold.part.slices, "slice")),
            ));
        }
        for slice in slices_of(hold.part.slices, hold.part.start.0) {
            if taken.contains(&slice) {
                out.push(finding(at, format!("compute slice {slice} in two compute instances")));
            }
            taken.push(slice);
        }
    }
}
