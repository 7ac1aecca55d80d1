//! An instance that a job is planned on.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::only_instance::OnlyInstance;

/// An instance of a site: `n1:3/2g.10gb@4`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) node: String,
    /// The GPU's number on its node.
    pub(super) gpu: usize,
    pub(super) profile: String,
    /// First unit.
    pub(super) start: u8,
}

impl Place {
    /// The place that Slurm's AdminComment gives a job of one MIG instance: `n1=mig:3/2g.10gb@4`.
    pub(super) fn got(text: &str) -> Option<Self> {
        let OnlyInstance { node, gpu, profile, start } = OnlyInstance::parse(text)?;
        let (node, profile) = (node.to_owned(), profile.to_owned());
        Some(Self { node, gpu: usize::from(gpu), profile, start })
    }

    /// The place on `node` that the rest of its text, `3/2g.10gb@4`, says.
    pub(super) fn parse(node: &str, text: &str) -> Option<Self> {
        let (gpu, instance) = text.split_once('/')?;
        let (profile, start) = instance.split_once('@')?;
        let (node, profile) = (node.to_owned(), profile.to_owned());
        Some(Self { node, gpu: gpu.parse().ok()?, profile, start: start.parse().ok()? })
    }
}

impl fmt::Display for Place {
    /// As tables show it: `n1:3 2g.10gb@4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} {}@{}", self.node, self.gpu, self.profile, self.start)
    }
}
