//! Plans that are taken back, and time limits with them.

use protocol::{AdminComment, CommentBody, Plan};

use super::{Plans, SHORTEST, change};
use crate::commands::planner::report::Report;
use crate::commands::planner::{jobs, time_limit};
use crate::slurm::squeue;

impl Plans<'_> {
    /// Takes plans of shared GPUs back for which no GPU is left: whoever was to be beside these jobs may be elsewhere.
    pub(in super::super) fn without_place<'j>(
        &mut self,
        jobs: impl Iterator<Item = &'j squeue::QueuedJob>,
        report: &mut Report,
    ) {
        for job in jobs {
            let comment = AdminComment::parse(&job.comment);
            if comment.plan().is_some_and(Plan::is_bound) {
                self.withdraw(job, "no GPU is left for it in this round", report);
            }
        }
    }

    /// Gives jobs that wait and have no plan any more their own time limits back: those that are held, for example, or were requeued.
    pub(in super::super) fn give_limits_back(&mut self, jobs: &[squeue::QueuedJob], report: &mut Report) {
        for job in jobs.iter().filter(|job| job.waits()) {
            if AdminComment::parse(&job.comment).limit.is_some() && !report.judged.contains(&job.id) {
                self.withdraw(job, "not planned in this round", report);
            }
        }
    }

    /// Withdraws a plan whose place is free although the job does not start, and does not plan it again at once. The node
    /// lacks cores, memory or something else, and without a plan the job may start elsewhere.
    pub(super) fn take_back(&mut self, job: &squeue::QueuedJob, why: &str, now: u64, report: &mut Report) {
        self.stuck.insert(job.id, now + SHORTEST);
        self.withdraw(job, why, report);
    }

    /// Withdraws a plan that would run into a limit: the requested size may be within a limit on shards that the planned
    /// one exceeds.
    pub(in super::super) fn without_limited(
        &mut self,
        jobs: &[squeue::QueuedJob],
        now: u64,
        report: &mut Report,
    ) {
        for job in jobs.iter().filter(|job| jobs::is_limited(job)) {
            let comment = AdminComment::parse(&job.comment);
            if comment.plan().is_some() && comment.asks.is_some() {
                self.take_back(job, &format!("a limit keeps it waiting ({})", job.reason), now, report);
            }
        }
    }

    /// Takes the job's plan out of its AdminComment, which keeps the rest, and gives its own time limit back.
    fn withdraw(&mut self, job: &squeue::QueuedJob, why: &str, report: &mut Report) {
        report.judged.insert(job.id);
        let before = AdminComment::parse(&job.comment);
        if before.asks.is_none() {
            return;
        }
        let (_, own_limit) = time_limit::to_have(job, None);
        let told = match (before.plan(), own_limit) {
            (Some(_), None) => "its plan is withdrawn".to_owned(),
            (Some(_), Some(minutes)) => format!("its plan is withdrawn; time limit {minutes} min again"),
            (None, Some(minutes)) => format!("time limit {minutes} min again"),
            (None, None) => "its time limit counts as its own".to_owned(),
        };
        let stays = !matches!(before.says, CommentBody::Plan(_) | CommentBody::UnreadablePlan(..));
        let says = if stays { before.says.clone() } else { CommentBody::Nothing };
        let mut fields = vec![format!("AdminComment={}", AdminComment { limit: None, says, ..before })];
        fields.extend(own_limit.map(|minutes| format!("TimeLimit={minutes}")));
        let done = if self.args.dry_run { Ok(()) } else { change(job, &fields) };
        let id = job.number();
        report.lines.push(match done {
            Ok(()) => format!("job {id}: {why}: {told}\n"),
            Err(refused) => {
                report.failed = true;
                format!("job {id}: slurmctld refuses to withdraw its plan: {refused}\n")
            }
        });
    }
}
