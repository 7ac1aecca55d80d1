//! Shapes of requests.

use std::fmt;

use geometry::{Profile, counted};
use protocol::{Isolation, Request};

/// Instance or GPUs that a job gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An instance.
    Instance(&'static Profile),
    /// So many whole GPUs of one node.
    Gpus(u32),
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance(profile) => f.write_str(&profile.name),
            Self::Gpus(n) => f.write_str(&counted(*n, "GPU")),
        }
    }
}

impl Shape {
    /// Tells whether a job with this request could use it.
    pub(super) fn serves(self, request: &Request) -> bool {
        match (self, &request.isolation) {
            (Self::Instance(profile), Isolation::Mig(Some(name))) => profile.name == *name,
            (Self::Instance(profile), Isolation::Mig(None)) => {
                request.mem_mib.is_some_and(|mem| profile.memory_mib >= mem)
            }
            (Self::Gpus(n), Isolation::Whole) => n >= request.gpus.unwrap_or(1),
            _ => false,
        }
    }
}
