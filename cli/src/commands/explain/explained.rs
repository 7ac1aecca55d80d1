//! The answer to a request on one node, before it is written as text or JSON.

use decision_report::Decision;
use placement::{Admission, Never};
use protocol::{SetWait, Size};

use super::memory::ExplainedMemory;
use super::rivals::Rival;

/// The answer to a request on a node, or on several in the same state.
pub(super) struct Explained {
    pub(super) names: Vec<String>,
    pub(super) decision: Decision,
    /// The count that the node alone would give, or the reason why it could never satisfy the request.
    pub(super) ever: Result<Admission, Never>,
    /// The level that limits the job's memory, if it gets anything.
    pub(super) memory: Option<ExplainedMemory>,
    /// The job would first wait for better GPUs.
    pub(super) waits: Option<SetWait>,
    /// For a set of whole GPUs: what others would choose.
    pub(super) rivals: Vec<Rival>,
    /// Sizes that a planner may choose instead; only for a moldable job.
    pub(super) sizes: Vec<Size>,
}
