//! Findings of the audit.

use std::fmt;

use geometry::GpuIndex;

/// Something that is not as it must be: a bug of Tessera, or a state that does not come from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The GPU concerned; `None`: the whole node or decision.
    pub gpu: Option<GpuIndex>,
    /// The fault, as a phrase.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gpu {
            Some(gpu) => write!(f, "GPU {gpu}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// A finding about this GPU, or about none.
pub(crate) fn finding(gpu: impl Into<Option<GpuIndex>>, what: impl Into<String>) -> Finding {
    Finding { gpu: gpu.into(), what: what.into() }
}
