//! Decides by the site's rules which users are warned and which jobs end.

use site_config::{Idle, IdleEnd, IdleRule};

use crate::held_job::HeldJob;
use crate::memory::{IdleMemory, Warned};

/// Most jobs that are ended at once: if the samples are wrong, this is the damage until an administrator sees it.
const MOST_ENDS: usize = 10;
/// Most times that Slurm is asked to end a job.
const MOST_REFUSALS: u32 = 3;

/// Something to do about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleStep {
    /// The job's user is warned.
    Warn {
        /// The job.
        job: u32,
        /// Idle time, seconds.
        idle_s: u64,
        /// End that is announced, and how long after the warning it comes, in seconds.
        end: Option<(IdleEnd, u64)>,
    },
    /// Ended.
    End {
        /// The job.
        job: u32,
        /// Idle time, seconds.
        idle_s: u64,
        /// The way in which it ends.
        end: IdleEnd,
    },
}

/// The first rule that is for a job.
#[must_use]
pub fn rule_of<'a>(job: &HeldJob, rules: &'a Idle) -> Option<&'a IdleRule> {
    let is = |wanted: &Option<String>, has: &str| wanted.as_deref().is_none_or(|wanted| wanted == has);
    // Slurm writes accounts in small letters.
    let account = |rule: &IdleRule| {
        rule.account.as_deref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(&job.account))
    };
    rules.rules.iter().find(|rule| {
        is(&rule.partition, &job.partition) && account(rule) && rule.kind.is_none_or(|kind| kind == job.kind)
    })
}

/// Steps that are due now, those of jobs that are idle longest first. Jobs whose user could not be told so far come last, so that they
/// leave others their warnings.
///
/// There is none for a job that is suspended, that uses a GPU on any of its nodes, that is a component of a heterogeneous job, or that has a
/// silent node. No job ends without a warning that announced this in the same stretch of idleness, nor before the time that it announced. The
/// time for which the job was suspended since then is added to that.
#[must_use]
pub fn verdict(jobs: &[HeldJob], memory: &IdleMemory, rules: &Idle, now: u64) -> Vec<IdleStep> {
    let mut due: Vec<(u64, &HeldJob)> = jobs
        .iter()
        .filter(|job| job.runs && !job.in_het)
        .filter_map(|job| Some((job.idle_s(now)?, job)))
        .collect();
    let untold = |job: &HeldJob| memory.of(job).is_some_and(|warned| !warned.told);
    due.sort_by_cached_key(|(idle_s, job)| (untold(job), std::cmp::Reverse(*idle_s), job.job));
    let (mut warnings, mut ends) = (memory.room(now), MOST_ENDS);
    let mut steps = Vec::new();
    for (idle_s, job) in due {
        let Some(step) = step(job, idle_s, memory, rules, now) else { continue };
        let left = if matches!(step, IdleStep::Warn { .. }) { &mut warnings } else { &mut ends };
        if *left > 0 {
            *left -= 1;
            steps.push(step);
        }
    }
    steps
}

fn step(job: &HeldJob, idle_s: u64, memory: &IdleMemory, rules: &Idle, now: u64) -> Option<IdleStep> {
    let rule = rule_of(job, rules)?;
    // What Slurm would refuse is not announced.
    let end = rule.end.filter(|(end, _)| *end != IdleEnd::Requeue || job.can_requeue);
    let announced = memory.of(job).filter(|warned| warned.told && says(warned, end));
    let Some(warned) = announced else {
        return (idle_s >= rule.warn_after_s).then_some(IdleStep::Warn { job: job.job, idle_s, end });
    };
    let (promise, (end, after_s)) = (warned.promise?, end?);
    let suspended_s = job.suspended_s.saturating_sub(warned.suspended_s);
    // The rule may give more time than it did.
    let from = promise.at.max(warned.at.saturating_add(after_s)).saturating_add(suspended_s);
    (now >= from && warned.refused < MOST_REFUSALS).then_some(IdleStep::End { job: job.job, idle_s, end })
}

/// Tells whether a warning announced what the rule says now. A rule that does less is not announced again.
fn says(warned: &Warned, end: Option<(IdleEnd, u64)>) -> bool {
    end.is_none_or(|(end, _)| warned.promise.is_some_and(|promise| promise.end == end))
}
