//! The pending jobs that may be planned.

use protocol::wire::parse_request;
use protocol::{AdminComment, Request};

use crate::slurm::squeue::{QueuedJob, is_limit};

/// A pending moldable job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pending {
    pub(super) job: QueuedJob,
    pub(super) request: Request,
    /// The request's text, which the comment keeps.
    pub(super) asks: String,
}

/// Jobs of equal standing: the only ones whose order is the planner's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Standing {
    pub(super) user: String,
    account: String,
    pub(super) partition: String,
    qos: String,
}

impl Pending {
    pub(super) fn standing(&self) -> Standing {
        Standing {
            user: self.job.user.clone(),
            account: self.job.account.clone(),
            partition: self.job.partition.clone(),
            qos: self.job.qos.clone(),
        }
    }
}

/// True if the job waits by a limit of its user, account or QOS.
pub(super) fn is_limited(job: &QueuedJob) -> bool {
    job.state == "PENDING" && is_limit(&job.reason)
}

/// The job as one to plan; `None` if it is not a planner's business.
pub(super) fn pending(job: &QueuedJob) -> Option<Pending> {
    // Only what waits for its turn or for room. Anything else (held, a dependency, a begin time, a limit) is somebody's
    // decision; without a reason the scheduler has not looked yet.
    let waits = ["Priority", "Resources", "None", ""].contains(&job.reason.as_str());
    // An array whose tasks squeue does not list in full cannot be changed without those that run.
    let plain = job.het.is_none()
        && job.to_change().is_some()
        && ["1", "1-1"].contains(&job.n_nodes.as_str())
        && job.reservation.is_empty();
    if job.state != "PENDING" || job.priority == 0 || !waits || !plain {
        return None;
    }
    let comment = Some(AdminComment::parse(&job.comment)).filter(AdminComment::is_ours)?;
    let asks = comment.asks?;
    let request = parse_request(&asks).ok()?;
    // A place in the request is another plan's.
    let planned_elsewhere = request.place.is_some() || request.instances != 1 || !request.is_moldable();
    (!planned_elsewhere).then(|| Pending { job: job.clone(), request, asks })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(comment: &str) -> QueuedJob {
        QueuedJob {
            id: 1,
            state: "PENDING".to_owned(),
            reason: "Priority".to_owned(),
            priority: 5,
            n_nodes: "1".to_owned(),
            comment: comment.to_owned(),
            ..QueuedJob::default()
        }
    }

    #[test]
    fn a_request_is_found_before_and_after_a_plan() {
        for comment in [
            "tessera: asks v1 iso=mig times=1g:60,2g:35",
            "tessera: plan v1 size=2g.10gb until=5; asks v1 iso=mig times=1g:60,2g:35",
        ] {
            let found = pending(&job(comment)).unwrap();
            assert_eq!(found.asks, "v1 iso=mig times=1g:60,2g:35");
            assert_eq!(found.request.times.len(), 2);
        }
    }

    #[test]
    fn what_is_not_the_planners_business() {
        let good = job("tessera: asks v1 iso=mig times=1g:60");
        assert!(pending(&good).is_some());
        let array = QueuedJob { array: Some((1, "1-3".to_owned())), ..good.clone() };
        assert!(pending(&array).is_some_and(|p| p.job.waiting() == 3));
        let others = [
            QueuedJob { state: "RUNNING".to_owned(), ..good.clone() },
            QueuedJob { priority: 0, ..good.clone() },
            QueuedJob { reason: "JobHeldUser".to_owned(), ..good.clone() },
            QueuedJob { reason: "Dependency".to_owned(), ..good.clone() },
            QueuedJob { reason: "BeginTime".to_owned(), ..good.clone() },
            QueuedJob { reason: "QOSMaxJobsPerUserLimit".to_owned(), ..good.clone() },
            QueuedJob { reservation: "maint".to_owned(), ..good.clone() },
            QueuedJob { n_nodes: "2-2".to_owned(), ..good.clone() },
            QueuedJob { n_nodes: "1-2".to_owned(), ..good.clone() },
            QueuedJob { het: Some(1), ..good.clone() },
            QueuedJob { array: Some((1, "1,3,5,...".to_owned())), ..good.clone() },
            job("somebody else's comment"),
            job(""),
            job("tessera: asks v1 iso=mig:1g.5gb"),
            job("tessera: asks v1 iso=mig times=1g:60 place=0@0"),
            job("tessera: asks v1 iso=mig inst=2 times=1g:60"),
            job("tessera: asks nonsense"),
        ];
        for job in others {
            assert_eq!(pending(&job), None, "{job:?}");
        }
    }
}
