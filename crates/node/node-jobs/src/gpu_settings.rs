//! A GPU as the site describes it.

use geometry::{Model, ProfileId, Slice};
use node_state::{Gpu, GpuState, MigPolicy, Purpose};

/// A GPU, as the site describes it.
#[derive(Clone, Debug)]
pub struct GpuSettings {
    /// The geometry to expect.
    pub model: &'static Model,
    /// The site's rule for partitioning it.
    pub policy: MigPolicy,
    /// The purpose that the site keeps it for.
    pub purpose: Purpose,
    /// The instances that a static GPU has: profile and start.
    pub fixed: Vec<(ProfileId, Slice)>,
}

impl GpuSettings {
    /// Reads the node's settings of a GPU from the site's description.
    #[must_use]
    pub fn of(gpu: &Gpu) -> Self {
        let fixed = match &gpu.state {
            GpuState::Mig(all) if gpu.purpose == Purpose::Static => {
                all.iter().map(|i| (i.profile, i.start)).collect()
            }
            _ => Vec::new(),
        };
        Self { model: gpu.model, policy: gpu.policy, purpose: gpu.purpose, fixed }
    }
}
