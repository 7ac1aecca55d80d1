//! When running jobs end: what a plan over the present state rests on.

use protocol::{AdminComment, Started};
use std::collections::HashMap;

use far::Micros;
use geometry::JobId;
use protocol::wire::parse_request;

use super::Learnt;
use crate::only_instance::OnlyInstance;
use crate::slurm::squeue::{NO_LIMIT_S, QueuedJob};

/// How many more seconds a late job is assumed to need at least.
const LEAST: u64 = 60;

/// How much longer each running job is expected to run, µs. Jobs without any known end are left out.
///
/// A job is expected to take, from its actual begin, as long as it was planned to, else as long as it says, else as long
/// as its job profile has taken. A job that is 5 minutes late is assumed to need 5 more, and at least one: so its end is
/// never unknown, and never "soon" for ever. The time limit is the latest end; for other jobs it is the only one.
pub(crate) fn ends(jobs: &[QueuedJob], learnt: &Learnt, now: u64) -> HashMap<JobId, Micros> {
    jobs.iter().filter_map(|job| Some((JobId(job.id), end(job, learnt, now)?))).collect()
}

fn end(job: &QueuedJob, learnt: &Learnt, now: u64) -> Option<Micros> {
    let expected = match job.state.as_str() {
        "RUNNING" => {
            expected(job, learnt).map(|end| if end > now { end } else { now + (now - end).max(LEAST) })
        }
        // Its end is behind it: what is left is its epilog.
        "COMPLETING" => None,
        _ => return None,
    };
    let limit = job.end.filter(|_| job.limit.is_none_or(|seconds| seconds < NO_LIMIT_S));
    let end = expected.into_iter().chain(limit).min()?;
    Some(end.saturating_sub(now).max(1) * 1_000_000)
}

/// When a running job should end, without its time limit.
fn expected(job: &QueuedJob, learnt: &Learnt) -> Option<u64> {
    let comment = AdminComment::parse(&job.comment);
    let started = comment.started()?;
    let planned = started.planned.map(|(begin, end)| end.saturating_sub(begin));
    let seconds = planned.or_else(|| said(&comment)).or_else(|| {
        learnt.seconds(job, started.job_profile.as_deref()?, OnlyInstance::parse(&started.got)?.profile)
    })?;
    Some(job.start? + seconds)
}

/// True if only past jobs can show how long this one runs.
pub(crate) fn needs_learnt(job: &QueuedJob) -> bool {
    let comment = AdminComment::parse(&job.comment);
    let learnt = |started: &Started| {
        started.job_profile.is_some() && started.planned.is_none() && said(&comment).is_none()
    };
    job.state == "RUNNING" && comment.started().is_some_and(learnt)
}

/// Seconds that a job says it takes on the instance it got. Its request follows the grant in the comment.
fn said(comment: &AdminComment) -> Option<u64> {
    let request = parse_request(comment.asks.as_deref()?).ok()?;
    let profile = OnlyInstance::parse(&comment.started()?.got)?.profile;
    let slices: u8 = profile.split_once("g.")?.0.parse().ok()?;
    request.times.iter().find(|t| t.slices == slices).map(|t| t.millis.div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurm::sacct::Past;
    use site_config::LearnFrom;

    fn job(id: u32, comment: &str, end: Option<u64>) -> QueuedJob {
        QueuedJob {
            id,
            state: "RUNNING".to_owned(),
            start: Some(1000),
            end,
            comment: comment.to_owned(),
            ..QueuedJob::default()
        }
    }

    #[test]
    fn ends_are_planned_ones_else_said_else_learnt_else_limits() {
        let got = "tessera: n1=mig:0/1g.5gb@0";
        let planned = |begin, end| format!("{got} planned={begin}-{end}: why");
        let asks = "; asks v1 iso=mig times=1g:70,2g:40";
        let jobs = [
            job(1, &planned(990, 1090), Some(9999)),
            job(2, &planned(990, 1090), Some(1080)),
            job(3, &format!("{}{asks}", planned(990, 1090)), None),
            job(4, &format!("{got}: why{asks}"), None),
            job(5, &format!("{got} job-profile=bert: why; asks v1 iso=mig job-profile=bert"), None),
            job(6, &format!("{got} job-profile=new: why"), Some(1300)),
            job(7, &format!("{got}: why"), Some(1200)),
            job(8, "somebody else's", None),
            job(9, "tessera: n1=mig:0/1g.5gb@0,0/1g.5gb@1: why; asks v1 iso=mig times=1g:70", None),
        ];
        let [job_profile, instance] = ["bert", "1g.5gb"].map(str::to_owned);
        let past = Past { user: String::new(), account: String::new(), job_profile, instance, seconds: 85 };
        let ends = ends(&jobs, &Learnt::of(vec![past], LearnFrom::User), 1050);
        let seconds = |id| ends.get(&JobId(id)).map(|us| us / 1_000_000);
        assert_eq!(
            [1, 2, 3, 4, 5, 6, 7, 8, 9].map(seconds),
            [Some(50), Some(30), Some(50), Some(20), Some(35), Some(250), Some(150), None, None]
        );
        let needs: Vec<u32> = jobs.iter().filter(|j| needs_learnt(j)).map(|j| j.id).collect();
        assert_eq!(needs, [5, 6]);
    }

    #[test]
    fn a_limit_of_a_year_is_none() {
        let of = |limit| {
            let job = QueuedJob { limit, ..job(1, "tessera: n1=mig:0/1g.5gb@0: why", Some(40_000_000)) };
            ends(&[job], &Learnt::nothing(LearnFrom::User), 1050).len()
        };
        assert_eq!([Some(365 * 86_400), Some(7 * 86_400), None].map(of), [0, 1, 1]);
    }

    #[test]
    fn a_late_job_is_later_the_later_it_is_but_within_its_limit() {
        let late = |now, end| {
            ends(
                &[job(1, "tessera: n1=mig:0/1g.5gb@0 planned=0-10: why", end)],
                &Learnt::nothing(LearnFrom::User),
                now,
            )[&JobId(1)]
                / 1_000_000
        };
        assert_eq!((late(1010, None), late(1100, None), late(1500, None)), (60, 90, 490));
        assert_eq!((late(1500, Some(1600)), late(1500, Some(1499))), (100, 1));
    }

    #[test]
    fn jobs_that_do_not_run_have_no_end() {
        let mut over = job(1, "tessera: n1=mig:0/1g.5gb@0 planned=0-9999: why", Some(1040));
        over.state = "COMPLETING".to_owned();
        let mut pending = job(2, "", Some(5000));
        pending.state = "PENDING".to_owned();
        let ends = ends(&[over, pending], &Learnt::nothing(LearnFrom::User), 1050);
        assert_eq!(ends, HashMap::from([(JobId(1), 1_000_000)]));
    }
}
