//! Puts pending jobs of known applications together on one GPU, in the state and under the cap that its power model
//! chooses. Pure: jobs and GPUs in, plans out.
//!
//! # Problem
//!
//! Each GPU has a power model, each job the counters of its application. Which jobs share a GPU, on which parts, under which
//! cap? Arima et al. answer that for a given set of jobs (Problems 1 and 2); who goes together is ours.
//!
//! # Terminology
//!
//! - *Weighted speedup*: sum of the jobs' predicted speeds, each relative to the job alone on the GPU without cap. One
//!   job after the other reaches 1.
//! - *Low*: the speed that a job keeps in 95 of 100 cases. Time limits and promises rest on it.
//!
//! # Approach
//!
//! 1. Jobs that share a GPU already get partners for what is left of it. Their parts stay, their cap does not fall, and
//!    each keeps the low that it began with.
//! 2. Of the others, the one of highest priority gets the GPU that comes free first, and of the next 32 the
//!    partner with whom the weighted speedup is highest, if that exceeds 1; then more as long as it grows. One without counters, or
//!    without partner, gets a full-size instance alone, without cap.
//!
//! Only jobs that state their memory share a GPU, and on compute instances only those of one user, unless the site says
//! otherwise.

mod gather;
mod limit;
mod member;
mod parts;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use far::Micros;
use geometry::{GpuIndex, Model, Slice};
use power::Part;
use protocol::AppCounters;
use protocol::moldable::PlannedStart;
use protocol::plan::{Alone, PlannedPlace, Sharing};
use site_config::{Objective, Power};

use gather::gather;
pub(super) use limit::TimeLimit;
use member::{Fit, Member};
pub(super) use parts::full_size;

use super::time_limit::SHORTEST;

/// Among how many of the next jobs a partner is looked for.
const NEXT: usize = 32;
/// Within how many µs a GPU must come free for a job that could run elsewhere: as long as a plan counts at least.
const SOON: Micros = SHORTEST * 1_000_000;

/// Rules for the jobs of one partition that share GPUs under power caps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PowerPolicy {
    /// Aim with which a planner pairs the jobs.
    pub(super) objective: Objective,
    /// Each application keeps more than this part of its performance alone.
    pub(super) alpha: f64,
    /// True if cautious predictions must keep to `alpha` too.
    pub(super) guard: bool,
}

/// A pending job that may share a GPU.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) job: u32,
    pub(super) user: String,
    pub(super) app: String,
    /// Counters of the application that its user has recorded.
    pub(super) own: Vec<AppCounters>,
    /// Memory that it states, MiB.
    pub(super) mem_mib: Option<u64>,
    /// Partitions where it may run.
    pub(super) partitions: Vec<String>,
    /// GPU models that offer one of its sizes.
    pub(super) models: Vec<&'static Model>,
    /// A GPU that is no [`Board`] could take it, or one of a partition that does not pair.
    pub(super) elsewhere: bool,
    pub(super) policy: PowerPolicy,
    pub(super) limit: TimeLimit,
}

/// A job that has a part of a GPU.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) job: u32,
    pub(super) user: String,
    pub(super) app: String,
    pub(super) own: Vec<AppCounters>,
    pub(super) mem_mib: u64,
    pub(super) policy: PowerPolicy,
    pub(super) part: Part,
    /// First memory slice of its GPU instance, or first compute slice of its compute instance.
    pub(super) start: Slice,
    /// W; `None`: the GPU has the limit that it was found with.
    pub(super) cap_w: Option<u16>,
    /// Speed that it was promised, percent; `None`: nobody slows it down unless it has no time limit.
    pub(super) low: Option<u8>,
    pub(super) has_limit: bool,
}

/// A GPU with a power model.
#[derive(Clone, Debug)]
pub(super) struct Board {
    pub(super) node: String,
    pub(super) index: GpuIndex,
    pub(super) model: &'static Model,
    pub(super) power: Arc<power_study::Model>,
    /// The site's highest cap, W.
    pub(super) cap_w: Option<u16>,
    /// Partitions of its node.
    pub(super) partitions: Vec<String>,
    /// When the last job on it ends, µs from now; `None`: nobody knows.
    pub(super) free_at: Option<Micros>,
    /// The jobs that share it, if these are all that are there.
    pub(super) running: Vec<Running>,
}

/// Part of a GPU that a pending job is to get.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Paired {
    pub(super) job: u32,
    pub(super) size: String,
    pub(super) place: PlannedPlace,
    /// µs from now; `None`: nobody knows.
    pub(super) begin: Option<Micros>,
    pub(super) sharing: Sharing,
    /// The time limit that it needs, seconds; `None`: none.
    pub(super) limit_s: Option<u64>,
}

/// Plans for jobs in the order of their priority. Jobs for which no GPU is left have none, nor do those that [`may_wait`] rules out.
pub(super) fn decide(waiting: &[Waiting], boards: &[Board], site: &Power) -> Vec<Paired> {
    let mut queue: Vec<&Waiting> = waiting.iter().collect();
    let mut plans = Vec::new();
    for board in boards.iter().filter(|b| !b.running.is_empty()) {
        let Some(here) = Member::all_running(board, site) else { continue };
        let least =
            if here.len() == 1 { 1.0 } else { member::weigh(board, &here, site).map_or(1.0, |f| f.speedup) };
        plans.extend(beside(board, here, least, &mut queue, site));
    }
    let mut free: Vec<&Board> =
        boards.iter().filter(|b| b.running.is_empty() || !gets_more(b, &plans)).collect();
    free.sort_by_key(|b| (b.free_at.is_none(), b.free_at));
    for board in free {
        let first = queue.iter().position(|job| may_run(job, board) && may_wait(job, board));
        let Some(at) = first else { continue };
        let first = queue.remove(at);
        plans.extend(fresh(board, first, &mut queue, site));
    }
    plans
}

/// True if jobs are about to start beside those that a board has.
fn gets_more(board: &Board, plans: &[Paired]) -> bool {
    plans.iter().any(|p| p.place.node == board.node && p.place.start.gpu == board.index)
}

fn may_run(job: &Waiting, board: &Board) -> bool {
    job.partitions.iter().any(|p| board.partitions.contains(p))
        && job.models.iter().any(|model| model.key == board.model.key)
}

/// Tells whether a job may be bound to a GPU until that comes free: meanwhile it starts on no other, which it could have sooner if any may
/// take it that these plans are not about.
fn may_wait(job: &Waiting, board: &Board) -> bool {
    !job.elsewhere || board.free_at.is_some_and(|at| at < SOON)
}

/// Partners from the queue for jobs that have a GPU, or get it when it comes free.
fn beside<'w>(
    board: &Board,
    here: Vec<Member<'w>>,
    least: f64,
    queue: &mut Vec<&'w Waiting>,
    site: &Power,
) -> Vec<Paired> {
    let at_once = here.iter().any(Member::is_running);
    let may_join = |job: &&Waiting| may_run(job, board) && (at_once || may_wait(job, board));
    let next: Vec<&Waiting> = queue.iter().copied().filter(may_join).take(NEXT).collect();
    let others: Vec<Option<Member<'_>>> =
        next.iter().map(|job| Member::waiting(job, board, site).ok()).collect();
    let group = |places: &[usize]| -> Option<Vec<Member<'w>>> {
        let more = places.iter().map(|at| others[*at].clone()).collect::<Option<Vec<_>>>()?;
        Some([here.clone(), more].concat())
    };
    let weigh = |places: &[usize]| {
        let fit = member::weigh(board, &group(places)?, site)?;
        Some((fit.speedup, fit))
    };
    let Some((places, fit)) = gather(others.len(), least, weigh) else { return Vec::new() };
    let members = group(&places).unwrap_or_default();
    queue.retain(|job| members.iter().all(|m| m.job != job.job));
    told(board, &members, &fit)
}

/// The plans of a job that opens a GPU, and of its partners.
fn fresh<'w>(board: &Board, first: &'w Waiting, queue: &mut Vec<&'w Waiting>, site: &Power) -> Vec<Paired> {
    let why = match Member::waiting(first, board, site) {
        Err(why) => why,
        Ok(member) => {
            let plans = beside(board, vec![member], 1.0, queue, site);
            if !plans.is_empty() {
                return plans;
            }
            Alone::NoPartner
        }
    };
    alone(board, first, why).into_iter().collect()
}

/// A full-size instance.
fn alone(board: &Board, job: &Waiting, why: Alone) -> Option<Paired> {
    let whole = full_size(board.model)?;
    Some(Paired {
        job: job.job,
        size: whole.name.clone(),
        place: place(board, *whole.starts.first()?),
        begin: board.free_at,
        sharing: Sharing { alone: Some(why), ..Sharing::default() },
        limit_s: job.limit.own_s,
    })
}

fn place(board: &Board, start: Slice) -> PlannedPlace {
    PlannedPlace { node: board.node.clone(), start: PlannedStart { gpu: board.index, start } }
}

/// The plans of those members that wait.
fn told(board: &Board, members: &[Member<'_>], fit: &Fit) -> Vec<Paired> {
    // Nobody has begun: they start when the GPU comes free. Beside others they start now.
    let begin = if members.iter().any(Member::is_running) { Some(0) } else { board.free_at };
    let plan = |(at, member): (usize, &Member<'_>)| {
        let with = members.iter().filter(|other| other.job != member.job).map(|other| other.job).collect();
        let sharing = Sharing {
            cap_w: fit.cap_w,
            with,
            speed: Some(percent(fit.speeds[at].predicted)),
            low: Some(percent(fit.speeds[at].low)),
            alone: None,
        };
        let lies = &fit.lies[at];
        Paired {
            job: member.job,
            size: lies.size.clone(),
            place: place(board, lies.start),
            begin,
            sharing,
            limit_s: fit.limits_s[at],
        }
    };
    members.iter().enumerate().filter(|(_, m)| !m.is_running()).map(plan).collect()
}

/// Whole percent, rounded down: what is promised must not be more than is predicted.
fn percent(part: f64) -> u8 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let percent = (part * 100.0).floor().clamp(0.0, 255.0) as u8;
    percent
}
