//! The profiles that a GPU offers while it keeps its MIG mode.

use std::collections::HashMap;

use geometry::ProfileId;

use crate::gpu_ids::NvmlIndex;

/// A GPU instance profile as the driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveProfile {
    /// The id that creating and listing take; the profile query takes another number.
    pub id: ProfileId,
    /// Empty where the driver is too old to name profiles.
    pub name: String,
    /// Compute slices of an instance.
    pub slices: u32,
    /// Number of instances of it that a GPU holds according to the driver.
    pub instances: u32,
    /// Streaming multiprocessors of an instance.
    pub sm: u32,
    /// Memory of an instance, MiB.
    pub memory_mib: u64,
}

/// Facts that do not change while a GPU keeps its mode; each item takes a dozen calls to find out.
#[derive(Default)]
pub(super) struct KnownProfiles {
    pub(super) profiles: HashMap<NvmlIndex, Vec<LiveProfile>>,
    /// Compute instance profiles of a GPU instance profile: (id, slices), largest first.
    pub(super) compute: HashMap<(NvmlIndex, u32), Vec<(u32, u32)>>,
}
