//! What a request gets on one node, before it is written as text or JSON.

use decision_report::Decision;
use decision_report::report::KindTried;
use placement::{Admission, Never};
use protocol::{SetWait, Size};

use super::memory::ExplainedMemory;
use super::rivals::Rival;

/// One node, or several in the same state, and what the request gets there.
pub(super) struct Explained {
    pub(super) names: Vec<String>,
    pub(super) decision: Decision,
    /// What the node alone would count for it, or why the node could never satisfy it.
    pub(super) ever: Result<Admission, Never>,
    /// What holds the job to its memory, if it gets anything.
    pub(super) memory: Option<ExplainedMemory>,
    /// The job would first wait for better GPUs.
    pub(super) waits: Option<SetWait>,
    /// For a set of whole GPUs: what others would choose.
    pub(super) rivals: Vec<Rival>,
    /// What a planner may choose instead, by size; only for a moldable job.
    pub(super) sizes: Vec<Size>,
}

/// What trying a kind of isolation came to, in words.
pub(super) fn outcome(tried: &KindTried) -> String {
    match tried.outcome {
        Ok(takes) => takes.to_string(),
        Err(Some(why)) => format!("not tried: {why}"),
        Err(None) => "nothing fits".to_owned(),
    }
}
