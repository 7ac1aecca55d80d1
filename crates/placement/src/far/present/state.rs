//! The present state of one GPU, in the words of those who ask for a plan.

use crate::far::Micros;
use crate::ids::{GpuIndex, JobId};
use crate::layout::{GpuLayout, HolderLayout, Shares};

/// An instance that exists now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentInstance {
    /// Name of its profile, of whatever kind.
    pub profile: String,
    /// Its first unit.
    pub start: u8,
    /// When it is expected to be free, µs from now: 0 for an idle one, `None` if nobody knows. Centuries away
    /// is as unknown as `None`.
    pub until: Option<Micros>,
}

/// A GPU as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentGpu {
    /// The node's name. Only GPUs of one name wait for each other's reconfigurations.
    pub node: String,
    /// Its index on the node.
    pub index: GpuIndex,
    /// From when on anything at all may be done with it, µs from now: 0 for now, `None` for never, as with a drained
    /// node or a job of unknown end that has all of it.
    pub usable_from: Option<Micros>,
    /// Instances on it; none overlap.
    pub instances: Vec<PresentInstance>,
}

impl PresentGpu {
    /// A GPU without instances.
    #[must_use]
    pub fn empty(node: &str, index: u16) -> Self {
        Self { node: node.to_owned(), index: GpuIndex(index), usable_from: Some(0), instances: Vec::new() }
    }

    /// A GPU as a node's layout line tells it, with the expected end of every job that holds some of it (µs from now,
    /// `None` if unknown). Under MPS a GPU or an instance is free when the last of its jobs ends.
    #[must_use]
    pub fn of_layout(
        node: &str,
        index: GpuIndex,
        gpu: &GpuLayout,
        end: &dyn Fn(JobId) -> Option<Micros>,
    ) -> Self {
        let shares = |s: &Shares| {
            let ends = s.listed.iter().map(|share| end(share.job));
            if s.more > 0 { None } else { ends.collect::<Option<Vec<_>>>()?.into_iter().max() }
        };
        let mut present = Self::empty(node, index.0);
        match gpu {
            GpuLayout::Free => {}
            GpuLayout::Whole(job) => present.usable_from = end(*job),
            GpuLayout::Mps(s) => present.usable_from = shares(s),
            GpuLayout::Mig(instances) => {
                for i in instances {
                    let until = match &i.holder {
                        HolderLayout::Job(job) => end(*job),
                        HolderLayout::Mps(s) => shares(s),
                        HolderLayout::Idle => Some(0),
                    };
                    let (profile, start) = (i.profile.clone(), i.start.0);
                    present.instances.push(PresentInstance { profile, start, until });
                }
            }
        }
        present
    }
}
