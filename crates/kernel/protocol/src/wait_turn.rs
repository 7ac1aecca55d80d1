//! A job that lets worse GPUs pass: whether it takes a set that it could have, or waits for a better one.
//!
//! A sensitive job for several whole GPUs of a node, or its site for it, may ask to wait for a set whose predicted
//! bandwidth is above a threshold. The wait begins when the job could first start on a set that is not. Other jobs may
//! pass it meanwhile. When the time is over, the job takes what there is. It never waits for what none of its nodes
//! could give even when empty.
//!
//! The end of the wait stands in the job's AdminComment, which Slurm saves and shows, so that a restarted slurmctld
//! knows it: `tessera: waits until 2026-11-21T10:20:00Z for GPUs above 25 GB/s: 20.0 GB/s on n1 now`. A job whose
//! AdminComment somebody else has written does not wait. A requeued job waits anew. The tasks of an array wait together.

use crate::admin_comment::{AdminComment, Waits};
use crate::set_wait::SetWait;

/// Decision of a job about a set that it could have now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Starts on the set.
    Take,
    /// Waits for a better set.
    Wait {
        /// Latest end of the wait, seconds since 1970.
        until: u64,
        /// True if the wait begins now.
        begins: bool,
    },
}

impl SetWait {
    /// Decides what a job does at `now`, seconds since 1970, if it could start on a set with the predicted bandwidth
    /// `gbps`. No set of its nodes has more than `best_gbps` even when they are empty. `comment` is its AdminComment.
    #[must_use]
    pub fn turn(self, gbps: f64, best_gbps: f64, comment: &AdminComment, now: u64) -> Turn {
        if self.seconds == 0 || self.is_met_by(gbps) || !self.is_met_by(best_gbps) || !comment.is_ours() {
            return Turn::Take;
        }
        match comment.waits_until() {
            None => Turn::Wait { until: now + u64::from(self.seconds), begins: true },
            Some(until) if now < until => Turn::Wait { until, begins: false },
            Some(_) => Turn::Take,
        }
    }

    /// Why a job takes a set that is not above its threshold, for its user. `best_gbps` and `comment` are as for
    /// [`Self::turn`].
    #[must_use]
    pub fn why_taken(self, best_gbps: f64, comment: &AdminComment) -> String {
        let above = self.above_gbps();
        if !self.is_met_by(best_gbps) {
            format!("no set in its reach is above {above} GB/s")
        } else if comment.waits_until().is_some() {
            format!("its wait for more than {above} GB/s is over")
        } else {
            format!("it could not wait for more than {above} GB/s")
        }
    }

    /// The AdminComment of a job that begins to wait; it could now have a set with `gbps` on `node`.
    #[must_use]
    pub fn begins(self, until: u64, gbps: f64, node: &str) -> Waits {
        let what = format!("for GPUs above {} GB/s: {gbps:.1} GB/s on {node} now", self.above_gbps());
        Waits { until, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin_comment::CommentBody;

    #[test]
    fn a_job_waits_once_and_only_for_what_there_can_be() {
        let wait = SetWait::parse("25GB/s,1:00").unwrap();
        let began = AdminComment::from(CommentBody::Waits(wait.begins(1060, 10.0, "n1")));
        let (empty, foreign) = (AdminComment::parse(""), AdminComment::parse("by the site"));
        assert_eq!(
            began.to_string(),
            "tessera: waits until 1970-01-01T00:17:40Z for GPUs above 25 GB/s: 10.0 GB/s on n1 now"
        );
        assert_eq!(began.waits_until(), Some(1060));
        assert_eq!(wait.turn(10.0, 50.0, &empty, 1000), Turn::Wait { until: 1060, begins: true });
        assert_eq!(wait.turn(25.0, 50.0, &began, 1059), Turn::Wait { until: 1060, begins: false });
        assert_eq!(wait.turn(10.0, 50.0, &began, 1060), Turn::Take, "the time is over");
        assert_eq!(wait.turn(25.001, 50.0, &began, 1001), Turn::Take, "a better set");
        assert_eq!(wait.turn(10.0, 25.0, &empty, 1000), Turn::Take, "no set is above");
        assert_eq!(wait.turn(10.0, 50.0, &foreign, 1000), Turn::Take, "nowhere to keep it");
        assert_eq!(SetWait::NONE.turn(0.0, 50.0, &empty, 1000), Turn::Take);
        assert_eq!(wait.why_taken(50.0, &began), "its wait for more than 25 GB/s is over");
        assert_eq!(wait.why_taken(25.0, &empty), "no set in its reach is above 25 GB/s");
        assert_eq!(wait.why_taken(50.0, &foreign), "it could not wait for more than 25 GB/s");
        let ran_before = AdminComment::parse("tessera: n1=whole:0,1: ring of 2");
        assert_eq!(wait.turn(10.0, 50.0, &ran_before, 5), Turn::Wait { until: 65, begins: true });
    }
}
