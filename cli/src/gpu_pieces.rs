//! A GPU as the pieces to draw: the instances of jobs, idle instances, and the free units between them.

use geometry::size::display_gb;
use geometry::{JobId, Model, counted};
use node_layout::{ComputeLayout, GpuLayout, HolderLayout, InstanceLayout, Seats, Shares};

/// Owner of a piece of a GPU; decides its colour everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Isolated,
    Shared,
    /// In the pool of GPU tasks.
    Tasks,
    Idle,
    Whole,
    Free,
    /// Not ours to give.
    Slurm,
    /// Nobody's: the GPU is unhealthy, and gets no new jobs.
    Sick,
}

impl Owner {
    /// Every owner, in the order of legends.
    pub(crate) const ALL: [Self; 8] = [
        Self::Isolated,
        Self::Shared,
        Self::Tasks,
        Self::Idle,
        Self::Whole,
        Self::Free,
        Self::Slurm,
        Self::Sick,
    ];
    /// Owners that a terminal's legend explains; a GPU that is Slurm's or in the pool of GPU tasks says so itself.
    pub(crate) const IN_TEXT: [Self; 5] = [Self::Isolated, Self::Shared, Self::Idle, Self::Whole, Self::Free];

    /// Gives the owners of these pieces, in the order of legends.
    pub(crate) fn of<'a>(pieces: impl Iterator<Item = &'a Piece>) -> impl Iterator<Item = Self> {
        let there: Vec<Self> = pieces.map(|piece| piece.owner).collect();
        Self::ALL.into_iter().filter(move |owner| there.contains(owner))
    }

    /// Explains the owner in a legend.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Isolated => "one job's instance",
            Self::Shared => "shared (MPS)",
            Self::Tasks => "GPU tasks",
            Self::Idle => "idle, kept for reuse",
            Self::Whole => "whole GPU",
            Self::Free => "free",
            Self::Slurm => "left to Slurm",
            Self::Sick => "unhealthy",
        }
    }

    /// As the legend, the JSON and SVG classes say it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Isolated => "isolated",
            Self::Shared => "shared",
            Self::Tasks => "tasks",
            Self::Idle => "idle",
            Self::Whole => "whole",
            Self::Free => "free",
            Self::Slurm => "slurm",
            Self::Sick => "sick",
        }
    }
}

/// A run of placement units that is one thing.
pub(crate) struct Piece {
    /// First unit.
    pub(crate) start: u8,
    /// Number of units.
    pub(crate) size: u8,
    pub(crate) owner: Owner,
    /// The instance's profile; `None` for a GPU that is not cut, and for free units.
    pub(crate) profile: Option<String>,
    pub(crate) jobs: Vec<PieceJob>,
    /// Shares beyond those that the layout lists.
    pub(crate) more: usize,
    /// The job that gets it next.
    pub(crate) claimed: Option<JobId>,
}

/// A job on a piece.
pub(crate) struct PieceJob {
    pub(crate) id: JobId,
    /// Number in Slurm's commands, where that is another one: a task of an array, `4711_2`.
    pub(crate) task: Option<String>,
    /// Part that it has, if it shares.
    pub(crate) share: Option<Share>,
    /// Whose it is, where that is known and may be shown.
    pub(crate) user: Option<String>,
}

/// A job's part of what it shares with others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// Under MPS: memory in MiB, threads in percent.
    Mps(u64, u8),
    /// A compute instance: its slices, and the memory in MiB that the job states.
    Compute(u8, u64),
    /// Seats that are its own, where its GPU tasks share.
    Seats(u32),
}

impl PieceJob {
    /// Makes a job that shares with nobody.
    fn alone(id: JobId) -> Self {
        Self { id, task: None, share: None, user: None }
    }

    fn sharing(id: JobId, share: Share) -> Self {
        Self { id, task: None, share: Some(share), user: None }
    }

    /// Gives the number that Slurm's commands show.
    pub(crate) fn number(&self) -> String {
        self.task.clone().unwrap_or_else(|| self.id.to_string())
    }
}

impl Piece {
    /// `job 12`, `mps 13 14`, `idle`, `free`.
    pub(crate) fn holder(&self) -> String {
        self.words(&self.ids())
    }

    fn words(&self, jobs: &str) -> String {
        match self.owner {
            Owner::Isolated => format!("job {jobs}"),
            Owner::Shared => format!("{} {jobs}", self.sharing()),
            Owner::Tasks => format!("tasks {jobs}{}", self.claim()),
            Owner::Whole => format!("whole, job {jobs}"),
            Owner::Idle | Owner::Free => self.owner.name().to_owned(),
            Owner::Slurm => "left to Slurm".to_owned(),
            Owner::Sick => "unhealthy".to_owned(),
        }
    }

    /// How the jobs share it: `mps`, or `ci` for compute instances.
    pub(crate) fn sharing(&self) -> &'static str {
        let compute = |j: &PieceJob| matches!(j.share, Some(Share::Compute(..)));
        if self.jobs.iter().any(compute) { "ci" } else { "mps" }
    }

    fn claim(&self) -> String {
        self.claimed.map_or_else(String::new, |job| format!(", then job {job}"))
    }

    /// Names the jobs with their users, if known: `mps 13 (alice), 14 (bob)`, or `mps 13 14 (alice)`.
    fn named(&self) -> String {
        match &self.jobs[..] {
            [first, _, ..] if first.user.is_some() && self.jobs.iter().all(|job| job.user == first.user) => {
                let user = first.user.as_deref().unwrap_or_default();
                self.words(&format!("{} ({user})", self.ids()))
            }
            jobs => {
                let between = if jobs.iter().any(|job| job.user.is_some()) { ", " } else { " " };
                self.words(&self.list(between, &|job| with(job, None)))
            }
        }
    }

    /// Lists the labels for its owner, the longest first.
    pub(crate) fn told(&self) -> [String; 4] {
        [self.detail(), self.named(), self.holder(), self.ids()]
    }

    /// The jobs' ids alone.
    pub(crate) fn ids(&self) -> String {
        self.list(" ", &PieceJob::number)
    }

    fn list(&self, between: &str, one: &dyn Fn(&PieceJob) -> String) -> String {
        let jobs = self.jobs.iter().map(one).collect::<Vec<_>>().join(between);
        if self.more > 0 { format!("{jobs} +{}", self.more) } else { jobs }
    }

    /// The shares with their limits: `mps 13 (alice, 3.0 GB, 25 %), 14 (…)`, `ci 15 (4c, 20.0 GB), 16 (…)`; otherwise who has it,
    /// with the users.
    pub(crate) fn detail(&self) -> String {
        let share = |j: &PieceJob| match j.share {
            Some(Share::Mps(mem, threads)) => with(j, Some(format!("{}, {threads} %", display_gb(mem)))),
            Some(Share::Compute(slices, mem)) => with(j, Some(format!("{slices}c, {}", display_gb(mem)))),
            Some(Share::Seats(n)) => with(j, Some(seats(n))),
            None => with(j, None),
        };
        if self.more > 0 {
            return self.named();
        }
        self.words(&self.jobs.iter().map(share).collect::<Vec<_>>().join(", "))
    }
}

/// `12`, `12 (alice)`, `12 (alice, 1 seat)`.
fn with(job: &PieceJob, part: Option<String>) -> String {
    let said: Vec<String> = job.user.iter().cloned().chain(part).collect();
    let number = job.number();
    if said.is_empty() { number } else { format!("{number} ({})", said.join(", ")) }
}

fn seats(n: u32) -> String {
    counted(n, "seat")
}

/// The pieces of a GPU in the order of its units, without gaps.
pub(crate) fn of(model: &Model, gpu: &GpuLayout) -> Vec<Piece> {
    let all = |owner, jobs: Vec<PieceJob>, more| {
        let size = model.placement_units;
        Piece { start: 0, size, owner, profile: None, jobs, more, claimed: None }
    };
    match gpu {
        GpuLayout::Free => vec![all(Owner::Free, Vec::new(), 0)],
        GpuLayout::Slurm => vec![all(Owner::Slurm, Vec::new(), 0)],
        GpuLayout::Whole(job) => vec![all(Owner::Whole, vec![PieceJob::alone(*job)], 0)],
        GpuLayout::Mps(shares) => vec![all(Owner::Shared, jobs(shares), shares.more)],
        GpuLayout::Tasks(pool) => {
            vec![Piece { claimed: pool.claimed, ..all(Owner::Tasks, seated(pool), pool.more) }]
        }
        GpuLayout::Mig(instances) => mig(model, instances),
    }
}

fn mig(model: &Model, instances: &[InstanceLayout]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = instances.iter().filter_map(|i| piece(model, i)).collect();
    pieces.sort_by_key(|p| p.start);
    let (mut whole, mut at) = (Vec::new(), 0);
    for piece in pieces {
        if piece.start > at {
            whole.push(free(at, piece.start - at));
        }
        at = piece.start + piece.size;
        whole.push(piece);
    }
    if at < model.placement_units {
        whole.push(free(at, model.placement_units - at));
    }
    whole
}

fn free(start: u8, size: u8) -> Piece {
    Piece { start, size, owner: Owner::Free, profile: None, jobs: Vec::new(), more: 0, claimed: None }
}

/// `None` for a profile that the model does not have, which the reader of a layout has refused already.
fn piece(model: &Model, instance: &InstanceLayout) -> Option<Piece> {
    let profile = model.profile(&instance.profile)?;
    let (owner, jobs, more, claimed) = match &instance.holder {
        HolderLayout::Job(job) => (Owner::Isolated, vec![PieceJob::alone(*job)], 0, None),
        HolderLayout::Mps(shares) => (Owner::Shared, jobs(shares), shares.more, None),
        HolderLayout::Compute(parts) => {
            let job = |p: &ComputeLayout| PieceJob::sharing(p.job, Share::Compute(p.part.slices, p.mem_mib));
            (Owner::Shared, parts.iter().map(job).collect(), 0, None)
        }
        HolderLayout::Tasks(pool) => (Owner::Tasks, seated(pool), pool.more, pool.claimed),
        HolderLayout::Idle => (Owner::Idle, Vec::new(), 0, None),
    };
    let profile_name = Some(profile.name.clone());
    let (start, size) = (instance.start.0, profile.size);
    Some(Piece { start, size, owner, profile: profile_name, jobs, more, claimed })
}

fn jobs(shares: &Shares) -> Vec<PieceJob> {
    shares.listed.iter().map(|s| PieceJob::sharing(s.job, Share::Mps(s.mem_mib, s.threads))).collect()
}

fn seated(pool: &Seats) -> Vec<PieceJob> {
    pool.listed.iter().map(|(job, seats)| PieceJob::sharing(*job, Share::Seats(*seats))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_of_several_shares_is_named_once() {
        let shared = |users: [Option<&str>; 2]| {
            let job = |(id, user): (u32, Option<&str>)| PieceJob {
                user: user.map(str::to_owned),
                ..PieceJob::sharing(JobId(id), Share::Mps(2862, 25))
            };
            let jobs = [13, 14].into_iter().zip(users).map(job).collect();
            Piece { owner: Owner::Shared, jobs, ..free(0, 8) }.named()
        };
        assert_eq!(shared([Some("alice"), Some("alice")]), "mps 13 14 (alice)");
        assert_eq!(shared([Some("alice"), Some("bob")]), "mps 13 (alice), 14 (bob)");
        assert_eq!(shared([None, None]), "mps 13 14");
    }
}
