//! The members of a group, and how a group would run on a GPU.

use geometry::Slice;
use node_state::SharedMemory;
use power::{Cap, Features, Memory, Part};
use power_study::{Candidate, Problem, Question, choose_among};
use protocol::plan::Alone;
use site_config::{Objective, Power};

use super::parts::{Lies, lay_out};
use super::{Board, PowerPolicy, Running, TimeLimit, Waiting, percent};

/// A job of a group.
#[derive(Clone, Debug)]
pub(super) struct Member<'a> {
    pub(super) job: u32,
    user: &'a str,
    app: &'a str,
    features: Features,
    mem_mib: u64,
    policy: PowerPolicy,
    stands: Stands<'a>,
}

/// State of a member: running or yet to begin.
#[derive(Clone, Debug)]
enum Stands<'a> {
    Waits(TimeLimit),
    Runs(&'a Running),
}

/// How a group runs; each list in the order of its members.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fit {
    pub(super) speedup: f64,
    /// W; `None`: a member has no cap, so the GPU keeps the limit that it was found with.
    pub(super) cap_w: Option<u16>,
    pub(super) lies: Vec<Lies>,
    pub(super) speeds: Vec<Speed>,
    /// Time limits, seconds; `None`: none, or the job runs already.
    pub(super) limits_s: Vec<Option<u64>>,
}

/// A member's speed, relative to the job alone on the GPU without cap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Speed {
    pub(super) predicted: f64,
    pub(super) low: f64,
}

impl<'a> Member<'a> {
    /// A pending job as a member on this GPU, or why it has to be alone there.
    pub(super) fn waiting(job: &'a Waiting, board: &Board, site: &Power) -> Result<Self, Alone> {
        let features =
            site.features(board.power.inputs(), &job.app, &job.own).map_err(|_| Alone::Unprofiled)?;
        board.power.range().holds(&features, board.power.basis()).map_err(|_| Alone::Unlike)?;
        Ok(Self {
            job: job.job,
            user: &job.user,
            app: &job.app,
            features,
            mem_mib: job.mem_mib.ok_or(Alone::NoMemory)?,
            policy: job.policy,
            stands: Stands::Waits(job.limit),
        })
    }

    /// The jobs that share a GPU, as members; `None`: the model cannot tell about one of them.
    pub(super) fn all_running(board: &'a Board, site: &Power) -> Option<Vec<Self>> {
        let one = |job: &'a Running| {
            let features = site.features(board.power.inputs(), &job.app, &job.own).ok()?;
            board.power.range().holds(&features, board.power.basis()).ok()?;
            Some(Self {
                job: job.job,
                user: &job.user,
                app: &job.app,
                features,
                mem_mib: job.mem_mib,
                policy: job.policy,
                stands: Stands::Runs(job),
            })
        };
        board.running.iter().map(one).collect()
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.stands, Stands::Runs(_))
    }

    fn running(&self) -> Option<&Running> {
        if let Stands::Runs(job) = &self.stands { Some(job) } else { None }
    }

    /// The time limit that it needs at this speed. `Err`: it may not run so slowly.
    fn at_speed(&self, low: f64) -> Result<Option<u64>, ()> {
        match &self.stands {
            Stands::Waits(limit) => limit.for_speed(low),
            Stands::Runs(job) if !job.has_limit => Ok(None),
            Stands::Runs(job) => match job.low {
                Some(promised) if percent(low) >= promised => Ok(None),
                _ => Err(()),
            },
        }
    }
}

/// The best way to run a group on a GPU; `None`: there is none. The first member's partition says what is best.
pub(super) fn weigh(board: &Board, members: &[Member<'_>], site: &Power) -> Option<Fit> {
    let policy = members.first()?.policy;
    let apps: Vec<String> = members.iter().map(|m| m.app.to_owned()).collect();
    let features: Vec<Features> = members.iter().map(|m| m.features).collect();
    let caps = Caps::of(board, members)?;
    let question = Question {
        apps: &apps,
        features: &features,
        problem: match policy.objective {
            Objective::Efficiency if !caps.is_found => Problem::Efficiency,
            _ => Problem::Throughput(caps.throughput),
        },
        alpha: members.iter().map(|m| m.policy.alpha).fold(0.0, f64::max),
        guard: policy.guard,
    };
    let fits = |candidate: &Candidate| fit(board, members, site, &caps, candidate);
    let chosen = choose_among(&board.power, &question, |c| fits(c).is_some()).ok()??;
    fits(&chosen)
}

/// Caps that a group may have, W.
struct Caps {
    least: u32,
    most: u32,
    /// The cap of Problem 1.
    throughput: Cap,
    /// A member runs without a cap: the limit is what it was found as.
    is_found: bool,
}

impl Caps {
    fn of(board: &Board, members: &[Member<'_>]) -> Option<Self> {
        let highest = *board.power.caps().last()?;
        let running = || members.iter().filter_map(Member::running);
        let is_found = running().any(|job| job.cap_w.is_none());
        let least = running().filter_map(|job| job.cap_w).max().map_or(0, u32::from);
        let most = board.cap_w.map_or(highest.watts(), u32::from).max(least);
        Some(Self { least, most, throughput: Cap::new(most).ok()?, is_found })
    }
}

/// How the group runs if this candidate is legal.
fn fit(
    board: &Board,
    members: &[Member<'_>],
    site: &Power,
    caps: &Caps,
    candidate: &Candidate,
) -> Option<Fit> {
    let watts = candidate.cap.watts();
    let parts = candidate.state.parts();
    if !(caps.least..=caps.most).contains(&watts) || !stays(members, parts) {
        return None;
    }
    let fixed: Vec<Option<Slice>> = members.iter().map(|m| Some(m.running()?.start)).collect();
    let lies = lay_out(board.model, parts, &fixed)?;
    if !has_memory(members, parts, &lies, site.shared_memory) {
        return None;
    }
    let lows = candidate.low.as_ref().unwrap_or(&candidate.rperf);
    let speeds: Vec<Speed> =
        candidate.rperf.iter().zip(lows).map(|(p, low)| Speed { predicted: *p, low: *low }).collect();
    let limits = members.iter().zip(&speeds).map(|(m, speed)| m.at_speed(speed.low));
    let limits_s = limits.collect::<Result<Vec<_>, ()>>().ok()?;
    let cap_w = if caps.is_found { None } else { Some(u16::try_from(watts).ok()?) };
    Some(Fit { speedup: candidate.throughput, cap_w, lies, speeds, limits_s })
}

/// True if all that run keep their parts.
fn stays(members: &[Member<'_>], parts: &[Part]) -> bool {
    members.iter().zip(parts).all(|(m, part)| m.running().is_none_or(|job| job.part == *part))
}

/// True if the memory that the members state is there for them. In one GPU instance they all draw on the same memory.
fn has_memory(members: &[Member<'_>], parts: &[Part], lies: &[Lies], shared: SharedMemory) -> bool {
    let is_shared = parts.iter().any(|part| part.memory == Memory::Shared);
    if !is_shared {
        return members.iter().zip(lies).all(|(m, lies)| m.mem_mib <= lies.memory_mib);
    }
    let may_share = match shared {
        SharedMemory::Never => false,
        SharedMemory::SameUser => members.windows(2).all(|two| two[0].user == two[1].user),
        SharedMemory::Any => true,
    };
    let sum = members.iter().fold(0_u64, |sum, m| sum.saturating_add(m.mem_mib));
    may_share && lies.first().is_some_and(|within| sum <= within.memory_mib)
}
