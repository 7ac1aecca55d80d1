//! The cost of a placement for the jobs that come later.
//!
//! # Problem
//! A profile usually fits at several places of several GPUs, and the places differ in what they leave to others: a `1g`
//! in the middle of an empty half rules out a `3g` there, one beside another `1g` does not.
//!
//! # Approach
//! Count what can still be placed, and lose as little of it as possible. Compare in this order:
//! 1. *size*: memory, then SMs, of the profile. It differs only between GPUs of different models;
//! 2. *opened*: GPUs on which there was no job before. A `whole` job, a 7-slice instance and a share of a GPU need an
//!    unused GPU, so partly used GPUs are filled first;
//! 3. *lost*: of the node's placements, the number that can no longer be made;
//! 4. *switched*: GPUs whose MIG mode must be switched on first (on an A100 that means a reset);
//! 5. *created*: instances to create; reusing an idle one of the same profile and place costs nothing;
//! 6. *destroyed*: idle instances in the way.
//!
//! Ties go to the lowest GPU, then the lowest start.
//!
//! # Terminology
//! A *placement* here is a (base profile, legal start) pair whose units are all free; the variants (`+me` and the
//! like) are left out because they repeat the base profiles' places. Idle instances are free units: they are
//! destroyed when something needs their place. An empty A100 has 18 placements, an empty A30 has 7.
//! Every component is a sum over GPUs, so choosing instances GPU by GPU and adding up is exact.
//!
//! # Source
//! Counting the possible placements of all profiles, and placing where most remain, is how NVIDIA's own default
//! placement is modelled ("configuration capability") in the work on GRMU, arXiv:2502.01909. Components 1, 2
//! and 4 to 6 are ours: that work has neither whole GPUs, nor mode switches, nor idle instances.

use std::ops::Add;

/// Cost of a placement; less is better, earlier fields first. See the module's documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost {
    /// The instances' parts of the framebuffer, summed, MiB.
    pub memory_mib: u64,
    /// The instances' SMs, summed.
    pub sm: u32,
    /// GPUs on which there is no job yet.
    pub opened: u32,
    /// Placements on the node that can no longer be made afterwards.
    pub lost: u32,
    /// GPUs whose MIG mode must be switched on.
    pub switched: u32,
    /// Instances that do not exist yet.
    pub created: u32,
    /// Idle instances that must be destroyed.
    pub destroyed: u32,
}

impl Cost {
    /// Returns the cost without the profile's size, for shares: a larger device leaves more to the next share.
    #[must_use]
    #[inline]
    pub fn without_size(self) -> Self {
        Self { memory_mib: 0, sm: 0, ..self }
    }
}

impl Add for Cost {
    type Output = Self;

    #[inline]
    fn add(self, b: Self) -> Self {
        Self {
            memory_mib: self.memory_mib + b.memory_mib,
            sm: self.sm + b.sm,
            opened: self.opened + b.opened,
            lost: self.lost + b.lost,
            switched: self.switched + b.switched,
            created: self.created + b.created,
            destroyed: self.destroyed + b.destroyed,
        }
    }
}
