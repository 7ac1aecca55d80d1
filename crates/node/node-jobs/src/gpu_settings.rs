//! A GPU as the site describes it.

use geometry::{Model, ProfileId, Slice};
use gpu_rules::{MigPolicy, Purpose};
use site_config::{GpuUse, NodeSpec};

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
    /// Gives a GPU of this use under its node's `mig`.
    #[must_use]
    pub fn of(model: &'static Model, of: &GpuUse, mig: MigPolicy) -> Self {
        let (purpose, policy) = of.rules(model, mig);
        Self { model, policy, purpose, fixed: of.fixed().to_vec() }
    }

    /// Gives the GPUs of one of these nodes.
    #[must_use]
    pub fn all(spec: &NodeSpec) -> Vec<Self> {
        spec.gpus.iter().zip(&spec.uses).map(|(model, of)| Self::of(model, of, spec.mig)).collect()
    }
}
