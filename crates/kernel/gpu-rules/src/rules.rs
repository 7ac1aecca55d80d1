//! Purposes of a node's GPUs, who may share them, and which nodes fill first.

use geometry::Model;

/// Rule for partitioning a node's GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigPolicy {
    /// Always in MIG mode: instances only.
    On,
    /// Never in MIG mode.
    Off,
    /// The mode is switched on an idle GPU as jobs need it.
    Dynamic,
}

impl MigPolicy {
    /// The policy for one GPU of a node with this policy: a model without MIG is never in MIG mode.
    #[must_use]
    pub fn on(self, model: &Model) -> Self {
        if model.has_mig() { self } else { Self::Off }
    }
}

/// Purpose that the site keeps one GPU for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Whatever its [`MigPolicy`] allows.
    #[default]
    Any,
    /// Whole jobs only: neither instances nor shares.
    Whole,
    /// Shares of the GPU only, without MIG.
    Shares,
    /// The administrator's own instances. They are used as they are, and never made or destroyed.
    Static,
    /// Not ours: only jobs that use none of our options get it, as Slurm gives it to them, and the node never touches it.
    Slurm,
}

impl Purpose {
    /// Gives the policy that goes with it, for a GPU of this model on a node with this policy.
    #[must_use]
    pub fn policy(self, model: &Model, mig: MigPolicy) -> MigPolicy {
        match self {
            Self::Any => mig.on(model),
            Self::Static => MigPolicy::On,
            Self::Whole | Self::Shares | Self::Slurm => MigPolicy::Off,
        }
    }

    /// Tells whether some job may have such a GPU whole, with this policy.
    #[must_use]
    #[inline]
    pub fn is_ever_whole(self, policy: MigPolicy) -> bool {
        policy != MigPolicy::On && !matches!(self, Self::Static | Self::Shares)
    }

    /// As people read it, after "the GPU is".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Any => "for any job",
            Self::Whole => "for whole jobs only (gpu_use)",
            Self::Shares => "for shares only (gpu_use)",
            Self::Static => "cut by the site (static)",
            Self::Slurm => "left to Slurm (gpu_use)",
        }
    }
}

/// Jobs that may have compute instances in one GPU instance, whose memory nothing divides between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedMemory {
    /// Nobody's: compute instances are not given out.
    Never,
    /// Jobs of one user.
    #[default]
    SameUser,
    /// Everybody's.
    Any,
}

/// The order in which nodes fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Nodes that are used already: large jobs find whole nodes.
    Pack,
    /// Nodes with the fewest busy GPUs: jobs share a node's cores, memory and network with as few others as possible.
    Spread,
}
