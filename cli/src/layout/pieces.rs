//! A GPU as the pieces that are drawn: jobs' and idle instances, and the free units between them.

use placement::size::display_gb;
use placement::{Gpu, GpuState, Holder, Instance, JobId, Share};

use crate::paint::Owner;

/// A run of placement units that is one thing.
pub(crate) struct Piece {
    /// First unit.
    pub(crate) start: u8,
    /// Number of units.
    pub(crate) size: u8,
    pub(crate) owner: Owner,
    /// The instance's profile; `None` for a GPU that is not cut, and for free units.
    pub(crate) profile: Option<&'static str>,
    pub(crate) jobs: Vec<Job>,
}

/// A job on a piece.
pub(crate) struct Job {
    pub(crate) id: JobId,
    /// Memory in MiB and threads in percent, where it shares.
    pub(crate) share: Option<(u64, u8)>,
}

impl Piece {
    /// `job 12`, `mps 13 14`, `idle`, `free`.
    pub(crate) fn holder(&self) -> String {
        let jobs = self.ids();
        match self.owner {
            Owner::Isolated => format!("job {jobs}"),
            Owner::Shared => format!("mps {jobs}"),
            Owner::Whole => format!("whole, job {jobs}"),
            Owner::Idle | Owner::Free => self.owner.name().to_owned(),
        }
    }

    /// The jobs' ids alone.
    pub(crate) fn ids(&self) -> String {
        self.jobs.iter().map(|j| j.id.to_string()).collect::<Vec<_>>().join(" ")
    }

    /// The shares with their limits: `mps 13 (3.0 GB, 25 %), 14 (…)`; otherwise as [`Piece::holder`].
    pub(crate) fn detail(&self) -> String {
        let share = |j: &Job| match j.share {
            Some((mem, threads)) => format!("{} ({}, {threads} %)", j.id, display_gb(mem)),
            None => j.id.to_string(),
        };
        match self.owner {
            Owner::Shared => format!("mps {}", self.jobs.iter().map(share).collect::<Vec<_>>().join(", ")),
            _ => self.holder(),
        }
    }
}

/// The pieces of a GPU in the order of its units, without gaps.
pub(crate) fn of(gpu: &Gpu) -> Vec<Piece> {
    let all =
        |owner, jobs| vec![Piece { start: 0, size: gpu.model.placement_units, owner, profile: None, jobs }];
    match &gpu.state {
        GpuState::Free => all(Owner::Free, Vec::new()),
        GpuState::Whole(job) => all(Owner::Whole, vec![Job { id: *job, share: None }]),
        GpuState::Mps(shares) => all(Owner::Shared, jobs(shares)),
        GpuState::Mig(instances) => mig(gpu, instances),
    }
}

fn mig(gpu: &Gpu, instances: &[Instance]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = instances.iter().filter_map(|i| piece(gpu, i)).collect();
    pieces.sort_by_key(|p| p.start);
    let (mut whole, mut at) = (Vec::new(), 0);
    for piece in pieces {
        if piece.start > at {
            whole.push(free(at, piece.start - at));
        }
        at = piece.start + piece.size;
        whole.push(piece);
    }
    if at < gpu.model.placement_units {
        whole.push(free(at, gpu.model.placement_units - at));
    }
    whole
}

fn free(start: u8, size: u8) -> Piece {
    Piece { start, size, owner: Owner::Free, profile: None, jobs: Vec::new() }
}

fn piece(gpu: &Gpu, instance: &Instance) -> Option<Piece> {
    let profile = gpu.profile_of(instance)?;
    let (owner, jobs) = match &instance.holder {
        Holder::Isolated(job) => (Owner::Isolated, vec![Job { id: *job, share: None }]),
        Holder::Shared(shares) => (Owner::Shared, jobs(shares)),
        Holder::Idle => (Owner::Idle, Vec::new()),
    };
    Some(Piece { start: instance.start.0, size: profile.size, owner, profile: Some(&profile.name), jobs })
}

fn jobs(shares: &[Share]) -> Vec<Job> {
    shares.iter().map(|s| Job { id: s.job, share: Some((s.mem_mib, s.threads)) }).collect()
}
