//! The scoring of a device: hard memory, and how busy it is. GPU tasks and the shares of jobs are packed by these two, so that
//! they cannot drift apart.

use std::cmp::Ordering;

/// Tells whether a device with this much memory promised to nobody takes something of `mem`, in the same unit. Memory may
/// be filled: both are limits, not measurements.
#[must_use]
pub fn fits(mem: u64, free: u64) -> bool {
    mem <= free
}

/// Compute promised on a device, as a part of what the device holds at a time. Less is better; devices of any size and
/// model compare.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    promised: u128,
    capacity: u128,
}

impl Load {
    /// `promised` of `capacity`, in warps, percent or any other unit. It may exceed the capacity. Both stay below 2^64
    /// in practice; the comparison of larger ones saturates.
    #[must_use]
    pub fn new(promised: u128, capacity: u128) -> Load {
        Load { promised, capacity: capacity.max(1) }
    }
}

impl Ord for Load {
    fn cmp(&self, other: &Load) -> Ordering {
        let [ours, theirs] = [(self.promised, other.capacity), (other.promised, self.capacity)]
            .map(|(a, b)| a.saturating_mul(b));
        ours.cmp(&theirs)
    }
}

impl PartialOrd for Load {
    fn partial_cmp(&self, other: &Load) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Load {
    fn eq(&self, other: &Load) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Load {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_compare_as_parts() {
        assert!(Load::new(100, 896) > Load::new(200, 5120));
        assert_eq!(Load::new(1, 2), Load::new(50, 100));
        assert_eq!(Load::new(0, 0), Load::new(0, 7));
        assert!(Load::new(130, 100) > Load::new(1, 1));
        assert!(fits(5, 5) && !fits(6, 5) && fits(0, 0));
    }
}
