//! The grant for one job on one node, with the report of how it was chosen.

use protocol::Grant;
use protocol::set_summary::SetSummary;

use crate::report::{Fate, Report};

/// Grant of one job on one node, and its reasons.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a decision nobody reads is a GPU nobody gets"]
pub struct Decision {
    /// `None`: nothing fits now. `report` names the constraint that ruled out each candidate.
    pub chosen: Option<Grant>,
    /// Every candidate weighed, in the order weighed.
    pub report: Report,
}

impl Decision {
    /// Summarises the job's set of whole GPUs for its user; `None` if no policy chose one.
    #[must_use]
    pub fn set_summary(&self) -> Option<SetSummary> {
        let Some(Fate::Set(score)) = self.report.best.filter(|_| self.chosen.is_some()) else {
            return None;
        };
        let eff_bw = score.scores.eff_bw.filter(|_| score.scores.bounds.is_some());
        Some(SetSummary::new(score.pattern, score.sensitive, score.policy, score.model.name(), eff_bw))
    }
}
