//! The answer to a submission or a change: fields to write into its description, and perhaps a refusal.
//!
//! Effects are written in their order. Those of a refused change are written as well: a placement that somebody has put
//! into it goes in any case.

use admission::Refusal;
use decision_counts::decisions::Reason;
use protocol::set_summary::MATCH_ENV;
use protocol::wire::{CHANGE_ENV, PLACEMENT_ENV, REQUEST_ENV, WHY_ENV};
use slurmctld_rt::spank_env::is_named;

/// A change to the job's description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Removes every placement from the SPANK environment, and sets the request there if one is given.
    Env(Option<String>),
    /// Replaces the AdminComment.
    Comment(String),
    /// Replaces the list of GRES per node.
    PerNode(String),
    /// Names no list of GRES per node any more.
    SamePerNode,
    /// Takes from a change the flags by which slurmctld notes that it takes licenses away: a user could have set them.
    KeepLicenses,
}

impl Effect {
    /// Tells whether [`Effect::Env`] removes an entry of the SPANK environment: anything that claims to be a placement, its
    /// reason, its match or a change of the request, and the old request where there is a new one.
    pub(crate) fn drops(entry: &str, request: Option<&str>) -> bool {
        [PLACEMENT_ENV, WHY_ENV, MATCH_ENV, CHANGE_ENV].iter().any(|name| is_named(entry, name))
            || request.is_some() && is_named(entry, REQUEST_ENV)
    }
}

/// A change to a pending job's record, beside what Slurm makes of the description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OnRecord {
    /// Gives a variable of the SPANK environment this value, or removes it.
    Variable(&'static str, Option<String>),
    /// Replaces the AdminComment.
    Comment(String),
}

/// Decision about a submission or a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) effects: Vec<Effect>,
    /// Changes to the job's record; none of a submission.
    pub(crate) on_record: Vec<OnRecord>,
    /// Why it is refused: for the user, and for the log.
    pub(crate) refused: Option<Refusal>,
    /// Advice for the user of an accepted job.
    pub(crate) note: Option<String>,
}

impl Answer {
    /// Accepts, after these effects.
    pub(crate) fn accepted(effects: Vec<Effect>) -> Self {
        Self { effects, on_record: Vec::new(), refused: None, note: None }
    }

    /// Refuses; effects are written all the same.
    pub(crate) fn refused(effects: Vec<Effect>, why: Refusal) -> Self {
        Self { effects, on_record: Vec::new(), refused: Some(why), note: None }
    }

    /// Gives the outcome to count: yes, or why not. `None`: nothing of Tessera's was asked.
    pub(crate) fn counts(&self) -> Option<Result<(), Reason>> {
        let given = |effect: &Effect| matches!(effect, Effect::Env(Some(_)) | Effect::PerNode(_));
        match &self.refused {
            Some(refusal) => Some(Err(refusal.reason)),
            None => self.effects.iter().any(given).then_some(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_claims_to_be_ours_goes_from_the_environment() {
        let forged =
            ["TESSERA_PLACEMENT=x", "SPANK_TESSERA_WHY=x", "TESSERA_MATCH=x", "TESSERA_CHANGE=|v1 iso=whole"];
        assert!(forged.iter().all(|entry| Effect::drops(entry, None)));
        assert!(!Effect::drops("TESSERA_REQUEST=x", None) && Effect::drops("TESSERA_REQUEST=x", Some("v1")));
        assert!(!Effect::drops("TESSERA_GPU=x", Some("v1")));
    }
}
