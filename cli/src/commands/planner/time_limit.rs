//! The time limits of jobs that run slower beside others: raised, and given back.

use protocol::{AdminComment, RaisedLimit};

use crate::slurm::squeue::QueuedJob;

/// How many seconds a plan counts at least; `--once` has no next interval.
pub(super) const SHORTEST: u64 = 600;

/// Minutes in which so many seconds fit.
pub(super) fn minutes(seconds: u64) -> u32 {
    u32::try_from(seconds.div_ceil(60)).unwrap_or(u32::MAX)
}

/// The raise that the job still has; `None` if there is none, or somebody has set another limit since. A limit between the two is not
/// another one: Slurm lets users lower any limit, and a job must not keep what only the raise gave it.
fn raised(job: &QueuedJob) -> Option<RaisedLimit> {
    let now = minutes(job.limit?);
    AdminComment::parse(&job.comment).limit.filter(|raise| raise.own_min < now && now <= raise.raised_min)
}

/// The time limit that the job has without the planner, seconds; `None`: none.
pub(super) fn own(job: &QueuedJob) -> Option<u64> {
    raised(job).map_or(job.limit, |raise| Some(u64::from(raise.own_min) * 60))
}

/// Gives what to write so that the job has the limit `needs`, minutes, or its own if that is `None`: the raise for its AdminComment, and
/// the new limit in minutes, `None` if it has that already.
pub(super) fn to_have(job: &QueuedJob, needs: Option<u32>) -> (Option<RaisedLimit>, Option<u32>) {
    let (Some(now), Some(own)) = (job.limit.map(minutes), own(job).map(minutes)) else { return (None, None) };
    let to = needs.unwrap_or(own);
    let raise = (to != own).then_some(RaisedLimit { own_min: own, raised_min: to });
    (raise, (to != now).then_some(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(comment: &str, minutes: u64) -> QueuedJob {
        QueuedJob { limit: Some(minutes * 60), comment: comment.to_owned(), ..QueuedJob::default() }
    }

    #[test]
    fn a_raised_limit_is_not_the_jobs_own_unless_somebody_set_another() {
        let got = "n1=mig:0/7g.40gb@0/3c@0/mem=15000/cap=150 job-profile=lud low=27: why";
        for says in [
            "plan v1 size=1g.5gb until=5; asks v1 iso=mig",
            &format!("{got}; asks v1 iso=mig"),
            "asks v1 iso=mig",
        ] {
            let own = |minutes| own(&job(&format!("tessera: limit 10>36; {says}"), minutes)).unwrap() / 60;
            assert_eq!([36, 10, 5, 37, 600].map(own), [10, 10, 5, 37, 600], "{says}");
            assert_eq!(own(35), 10, "any user can lower 36 to 35");
        }
        assert_eq!(own(&QueuedJob { limit: None, ..job("tessera: limit 10>36", 0) }), None);
    }

    #[test]
    fn a_limit_is_raised_from_the_jobs_own_and_goes_back_to_it() {
        let raise = |own_min, raised_min| Some(RaisedLimit { own_min, raised_min });
        let plain = job("tessera: asks v1 iso=mig", 10);
        assert_eq!(to_have(&plain, Some(36)), (raise(10, 36), Some(36)));
        assert_eq!([Some(10), None].map(|needs| to_have(&plain, needs)), [(None, None); 2]);
        let raised = |minutes| job("tessera: limit 10>36; asks v1 iso=mig", minutes);
        assert_eq!(to_have(&raised(36), Some(36)), (raise(10, 36), None), "as it is");
        assert_eq!(to_have(&raised(36), Some(20)), (raise(10, 20), Some(20)));
        assert_eq!(to_have(&raised(36), None), (None, Some(10)));
        assert_eq!(to_have(&raised(600), Some(700)), (raise(600, 700), Some(700)));
        assert_eq!(to_have(&raised(600), None), (None, None), "an administrator's");
        let none = QueuedJob { limit: None, ..plain };
        assert_eq!([Some(36), None].map(|needs| to_have(&none, needs)), [(None, None); 2]);
    }
}
