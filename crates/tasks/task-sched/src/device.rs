//! Capacity of a device, and the nodes that the papers measured.

use geometry::Model;

use crate::units::{Bytes, Warps};

/// A device's position in the pool, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub usize);

/// A GPU or a MIG instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Memory that tasks may take together.
    pub mem: Bytes,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Warps that one SM holds at a time.
    pub warps_per_sm: u16,
    /// Thread blocks that one SM holds at a time.
    pub blocks_per_sm: u16,
    /// Most jobs with a live task here; `None` for no limit.
    pub max_workers: Option<u32>,
}

/// The artifact counts a 16 GB Pascal or Volta GPU as this much; contexts take the rest.
const USABLE_16GB: Bytes = Bytes::from_mib(14_000);

/// CASE-MIG's workers per gigabyte class: 4 for 5 and 6 GB, 8 for 10 GB (section 3.1).
#[must_use]
pub fn workers_of(nominal_gb: u32) -> u32 {
    if nominal_gb < 10 { 4 } else { nominal_gb / 10 * 8 }
}

impl Device {
    /// A Tesla P100 of 16 GB.
    pub const P100: Device =
        Device { mem: USABLE_16GB, sms: 56, warps_per_sm: 64, blocks_per_sm: 32, max_workers: None };
    /// The instance of `profile` on `model`, both by name. Its memory is the profile's nominal gigabytes, 10^9 bytes each,
    /// or what the driver reports where that is less.
    #[must_use]
    pub fn instance(model: &str, profile: &str) -> Option<Device> {
        let profile = Model::find(model)?.profile(profile)?;
        let nominal = u64::from(profile.nominal_gb()) * 1_000_000_000;
        Some(Device {
            mem: Bytes(nominal).min(Bytes::from_mib(profile.memory_mib)),
            sms: profile.sm,
            max_workers: Some(workers_of(profile.nominal_gb())),
            ..Device::P100
        })
    }

    /// Warps that it holds at a time.
    #[must_use]
    pub fn warps(&self) -> Warps {
        Warps(u128::from(self.sms) * u128::from(self.warps_per_sm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_have_their_nominal_memory() {
        let of = |model, profile| Device::instance(model, profile).map(|d| (d.mem.0, d.sms, d.max_workers));
        assert_eq!(of("a30-24gb", "1g.6gb"), Some((6_000_000_000, 14, Some(4))));
        assert_eq!(of("a100-40gb", "2g.10gb"), Some((10_000_000_000, 28, Some(8))));
        assert_eq!(of("a100-40gb", "2g.11gb"), None);
    }
}
