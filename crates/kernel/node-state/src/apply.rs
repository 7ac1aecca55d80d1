//! Enters a grant into a node's state, and takes it out again.

use crate::state::{ComputeHold, Gpu, GpuState, Holder, Instance, Node, Seat, Share};
use geometry::{GpuIndex, JobId, Profile, Uid, coexist};
use gpu_rules::{MigPolicy, Purpose, clients};
use protocol::{ComputeSpec, Grant, MigSpec, ShareOn, TaskDevices};

/// Why a grant cannot be entered into a node's state: the grant is older than the state, or forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The job already has a grant on the node.
    #[error("job {0} already has a grant on this node")]
    AlreadyHere(JobId),
    /// The grant names neither an instance nor a GPU.
    #[error("the grant is empty")]
    Empty,
    /// The node has no such GPU.
    #[error("the node has no GPU {0}")]
    NoGpu(GpuIndex),
    /// The GPU's model does not have the profile, or no instance of it can start there.
    #[error("GPU {}: no profile {} at memory slice {}", .0.gpu, .0.profile, .0.start)]
    NoPlace(MigSpec),
    /// The GPU instance has no such compute instance.
    #[error("GPU {}: no compute instance {}c at {} in profile {}", .0.gpu, .1.slices, .1.start, .0.profile)]
    NoCompute(MigSpec, ComputeSpec),
    /// A job holds what the grant needs, or the node's MIG policy rules the grant out.
    #[error("GPU {0} is not free for this")]
    Busy(GpuIndex),
    /// The shares, or what the jobs of a GPU instance state, would add up to more memory than the device has.
    #[error("GPU {gpu}: {need} MiB asked, {left} MiB left")]
    Memory {
        /// The GPU that has, or contains, the device.
        gpu: GpuIndex,
        /// Memory of the share, MiB.
        need: u64,
        /// Memory not yet promised to other shares, MiB.
        left: u64,
    },
}

impl Node {
    /// Enters a grant into the state. Idle instances in its way are dropped.
    ///
    /// Checks what holds on any site: free slices, limits, memory. Who may share with whom is for `decide` to check.
    ///
    /// # Errors
    ///
    /// The grant does not fit this state, which then stays as it was.
    pub fn apply(&mut self, job: JobId, uid: Uid, grant: &Grant) -> Result<(), ApplyError> {
        if self.gpus_of(job).next().is_some() {
            return Err(ApplyError::AlreadyHere(job));
        }
        let mut next = self.gpus.clone();
        match grant {
            Grant::Mig(specs) if specs.is_empty() => return Err(ApplyError::Empty),
            Grant::Whole(gpus) if gpus.is_empty() => return Err(ApplyError::Empty),
            Grant::Mig(specs) => {
                for spec in specs {
                    place(&mut next, *spec, Holder::Isolated(job))?;
                }
            }
            Grant::Compute { within, part, mem_mib } => {
                let hold = ComputeHold { job, uid, part: *part, mem_mib: *mem_mib };
                add_compute(&mut next, *within, hold)?;
            }
            Grant::Mps { on, mem_mib, threads } => {
                let share = Share { job, uid, mem_mib: *mem_mib, threads: *threads };
                add_share(&mut next, *on, share)?;
            }
            Grant::Tasks(tasks) => match &tasks.on {
                TaskDevices::Pool(pool) if pool.is_empty() => return Err(ApplyError::Empty),
                TaskDevices::Own { gpus, .. } if gpus.is_empty() => return Err(ApplyError::Empty),
                TaskDevices::Own { gpus, .. } => take_whole(&mut next, gpus, job)?,
                TaskDevices::Pool(pool) => {
                    for place in pool {
                        add_seat(&mut next, place.on, Seat { job, uid, seats: place.seats })?;
                    }
                }
            },
            Grant::Whole(gpus) => take_whole(&mut next, gpus, job)?,
        }
        self.gpus = next;
        // It has what it claimed a device for.
        self.claims.retain(|claim| claim.job != job);
        Ok(())
    }

    /// Takes away all that a job has. Its instances become idle and its shares end; with the last share an instance
    /// becomes idle and a GPU free. Returns whether the job had anything.
    pub fn release(&mut self, job: JobId) -> bool {
        self.release_all(&|id| id == job)
    }

    /// Releases every job that is `gone`, in one pass.
    pub fn release_all(&mut self, gone: &dyn Fn(JobId) -> bool) -> bool {
        let mut had = false;
        for gpu in &mut self.gpus {
            let (lost, is_free) = match &mut gpu.state {
                GpuState::Free => (false, false),
                GpuState::Whole(holder) => (gone(*holder), gone(*holder)),
                GpuState::Mps(shares) => (drop_gone(shares, |s| s.job, gone), shares.is_empty()),
                GpuState::Tasks(seats) => (drop_gone(seats, |s| s.job, gone), seats.is_empty()),
                GpuState::Mig(instances) => {
                    let release = |had, i: &mut Instance| release_instance(&mut i.holder, gone) | had;
                    (instances.iter_mut().fold(false, release), false)
                }
            };
            if is_free {
                gpu.state = GpuState::Free;
            }
            had |= lost;
        }
        had
    }

    /// The GPUs on which a job has something, ascending.
    pub fn gpus_of(&self, job: JobId) -> impl Iterator<Item = GpuIndex> {
        let all = self.gpus.iter().enumerate();
        all.filter(move |(_, gpu)| has_job(&gpu.state, job))
            .map(|(i, _)| GpuIndex(u16::try_from(i).unwrap_or(u16::MAX)))
    }
}

fn has_job(state: &GpuState, job: JobId) -> bool {
    let shares_have = |shares: &[Share]| shares.iter().any(|s| s.job == job);
    let seats_have = |seats: &[Seat]| seats.iter().any(|s| s.job == job);
    match state {
        GpuState::Free => false,
        GpuState::Whole(holder) => *holder == job,
        GpuState::Mps(shares) => shares_have(shares),
        GpuState::Tasks(seats) => seats_have(seats),
        GpuState::Mig(instances) => instances.iter().any(|i| match &i.holder {
            Holder::Isolated(holder) => *holder == job,
            Holder::Shared(shares) => shares_have(shares),
            Holder::Compute(holds) => holds.iter().any(|h| h.job == job),
            Holder::Pool(seats) => seats_have(seats),
            Holder::Idle => false,
        }),
    }
}

fn gpu(gpus: &mut [Gpu], index: GpuIndex) -> Result<&mut Gpu, ApplyError> {
    gpus.get_mut(usize::from(index.0)).ok_or(ApplyError::NoGpu(index))
}

/// Puts an instance onto a GPU. An idle one of the same profile and place is reused; idle ones in the way are dropped.
fn place(gpus: &mut [Gpu], spec: MigSpec, holder: Holder) -> Result<(), ApplyError> {
    let gpu = gpu(gpus, spec.gpu)?;
    let (model, policy) = (gpu.model, gpu.policy);
    let profile = model.profile_by_id(spec.profile).filter(|p| p.starts.contains(&spec.start));
    let profile = profile.ok_or(ApplyError::NoPlace(spec))?;
    if policy == MigPolicy::Off {
        return Err(ApplyError::Busy(spec.gpu));
    }
    if gpu.purpose == Purpose::Static {
        return take_static(gpu, spec, holder);
    }
    if gpu.state == GpuState::Free {
        gpu.state = GpuState::Mig(Vec::new());
    }
    let GpuState::Mig(instances) = &mut gpu.state else { return Err(ApplyError::Busy(spec.gpu)) };
    let mask = profile.at(spec.start).mask();
    let profile_of = |i: &Instance| model.profile_by_id(i.profile);
    let overlaps = |i: &Instance| profile_of(i).is_none_or(|p| p.at(i.start).mask() & mask != 0);
    let excludes = |p: &Profile, i: &Instance| {
        i.profile != p.id && profile_of(i).is_some_and(|other| !coexist(p, other))
    };
    let held = || instances.iter().filter(|i| i.holder != Holder::Idle);
    let others = held().filter_map(|i| profile_of(i).map(|p| (p, i.start)));
    if held().any(|i| profile_of(i).is_none()) || !model.has_place_beside(others, (profile, spec.start)) {
        return Err(ApplyError::Busy(spec.gpu));
    }
    instances.retain(|i| i.holder != Holder::Idle || !(overlaps(i) || excludes(profile, i)));
    instances.push(Instance { profile: spec.profile, start: spec.start, holder });
    drop_idle_beyond_limits(model, profile, instances);
    instances.sort_by_key(|i| i.start);
    Ok(())
}

/// Gives a job an instance of the site's own, which must be there and idle.
fn take_static(gpu: &mut Gpu, spec: MigSpec, holder: Holder) -> Result<(), ApplyError> {
    let GpuState::Mig(instances) = &mut gpu.state else { return Err(ApplyError::Busy(spec.gpu)) };
    let here = instances.iter_mut().find(|i| i.profile == spec.profile && i.start == spec.start);
    let instance = here.ok_or(ApplyError::NoPlace(spec))?;
    if instance.holder != Holder::Idle {
        return Err(ApplyError::Busy(spec.gpu));
    }
    instance.holder = holder;
    Ok(())
}

/// Drops idle instances until no limit on counts is exceeded: an idle instance never stands in the way of a held one.
fn drop_idle_beyond_limits(model: &geometry::Model, profile: &Profile, instances: &mut Vec<Instance>) {
    let exceeded = |instances: &[Instance]| {
        let same = instances.iter().filter(|i| i.profile == profile.id).count();
        let compute =
            |i: &Instance| model.profile_by_id(i.profile).map_or(0, |p| u32::from(p.compute_slices));
        let compute: u32 = instances.iter().map(compute).sum();
        (same > profile.max_instances as usize, compute > u32::from(model.compute_slices))
    };
    loop {
        let (count, compute) = exceeded(instances);
        let goes = |i: &Instance| i.holder == Holder::Idle && ((count && i.profile == profile.id) || compute);
        match instances.iter().position(goes) {
            Some(at) if count || compute => instances.remove(at),
            _ => return,
        };
    }
}

fn add_share(gpus: &mut [Gpu], on: ShareOn, share: Share) -> Result<(), ApplyError> {
    let index = on.gpu();
    let fits = |shares: &[Share], memory_mib: u64| {
        let left = memory_mib.saturating_sub(shares.iter().map(|s| s.mem_mib).sum());
        let error = ApplyError::Memory { gpu: index, need: share.mem_mib, left };
        (share.mem_mib <= left).then_some(()).ok_or(error)
    };
    match on {
        ShareOn::Gpu(_) => {
            let gpu = gpu(gpus, index)?;
            let memory_mib = gpu.model.usable_mib();
            if let GpuState::Mps(shares) = &mut gpu.state {
                fits(shares, memory_mib)?;
                shares.push(share);
            } else if gpu.policy != MigPolicy::On && gpu.purpose != Purpose::Whole && !gpu.has_job() {
                fits(&[], memory_mib)?;
                gpu.state = GpuState::Mps(vec![share]);
            } else {
                return Err(ApplyError::Busy(index));
            }
        }
        ShareOn::Instance(spec) => {
            let target = gpu(gpus, index)?;
            let profile = target.model.profile_by_id(spec.profile).ok_or(ApplyError::NoPlace(spec))?;
            if let GpuState::Mig(instances) = &mut target.state {
                let here = instances.iter_mut().find(|i| i.profile == spec.profile && i.start == spec.start);
                if let Some(Instance { holder: Holder::Shared(shares), .. }) = here {
                    fits(shares, profile.memory_mib)?;
                    shares.push(share);
                    return Ok(());
                }
            }
            fits(&[], profile.memory_mib)?;
            place(gpus, spec, Holder::Shared(vec![share]))?;
        }
    }
    Ok(())
}

/// Gives a job a compute instance in a GPU instance that has some already, or in a new or idle one. The site's own
/// instances stay whole.
fn add_compute(gpus: &mut [Gpu], within: MigSpec, hold: ComputeHold) -> Result<(), ApplyError> {
    let target = gpu(gpus, within.gpu)?;
    let profile = target.model.profile_by_id(within.profile).ok_or(ApplyError::NoPlace(within))?;
    let size = profile.compute(hold.part.slices).filter(|size| size.starts.contains(&hold.part.start));
    let size = size.ok_or(ApplyError::NoCompute(within, hold.part))?;
    if target.purpose == Purpose::Static {
        return Err(ApplyError::Busy(within.gpu));
    }
    let here = match &mut target.state {
        GpuState::Mig(instances) => {
            instances.iter_mut().find(|i| i.profile == within.profile && i.start == within.start)
        }
        _ => None,
    };
    let mut alone = Vec::new();
    let joined = match here {
        Some(Instance { holder: Holder::Compute(holds), .. }) => Some(holds),
        _ => None,
    };
    let holds = joined.as_deref().map_or(&alone[..], |holds| &holds[..]);
    let left = profile.memory_mib.saturating_sub(holds.iter().map(|h| h.mem_mib).sum());
    if hold.mem_mib > left {
        return Err(ApplyError::Memory { gpu: within.gpu, need: hold.mem_mib, left });
    }
    let same = holds.iter().filter(|h| h.part.slices == size.slices).count();
    if holds.iter().any(|h| h.part.mask() & hold.part.mask() != 0) || same >= size.max_instances as usize {
        return Err(ApplyError::Busy(within.gpu));
    }
    match joined {
        Some(holds) => {
            holds.push(hold);
            holds.sort_by_key(|h| h.part.start);
            Ok(())
        }
        None => {
            alone.push(hold);
            place(gpus, within, Holder::Compute(alone))
        }
    }
}

/// Gives a job whole GPUs that nobody is on.
fn take_whole(gpus: &mut [Gpu], whole: &[GpuIndex], job: JobId) -> Result<(), ApplyError> {
    for index in whole {
        let gpu = gpu(gpus, *index)?;
        if gpu.policy == MigPolicy::On || gpu.purpose == Purpose::Shares || gpu.has_job() {
            return Err(ApplyError::Busy(*index));
        }
        gpu.state = GpuState::Whole(job);
    }
    Ok(())
}

/// Lets a job use a device of the pool, which joins the pool if it is not there yet.
fn add_seat(gpus: &mut [Gpu], on: ShareOn, seat: Seat) -> Result<(), ApplyError> {
    let target = gpu(gpus, on.gpu())?;
    let profile = match on {
        ShareOn::Gpu(_) => None,
        ShareOn::Instance(spec) => target.model.profile_by_id(spec.profile),
    };
    let device = target.pool(on.gpu()).find(|device| device.on == on);
    let taken = device.map_or(0, |device| device.taken());
    if taken.saturating_add(seat.seats) > clients(target.model, profile) {
        return Err(ApplyError::Busy(on.gpu()));
    }
    match on {
        ShareOn::Gpu(index) => {
            if let GpuState::Tasks(seats) = &mut target.state {
                seats.push(seat);
            } else if target.policy != MigPolicy::On && target.purpose != Purpose::Whole && !target.has_job()
            {
                target.state = GpuState::Tasks(vec![seat]);
            } else {
                return Err(ApplyError::Busy(index));
            }
        }
        ShareOn::Instance(spec) => {
            if let GpuState::Mig(instances) = &mut target.state {
                let here = instances.iter_mut().find(|i| i.profile == spec.profile && i.start == spec.start);
                if let Some(Instance { holder: Holder::Pool(seats), .. }) = here {
                    seats.push(seat);
                    return Ok(());
                }
            }
            place(gpus, spec, Holder::Pool(vec![seat]))?;
        }
    }
    Ok(())
}

/// Drops from a list what jobs have that are `gone`. Returns whether there was any.
fn drop_gone<T>(all: &mut Vec<T>, job: impl Fn(&T) -> JobId, gone: &dyn Fn(JobId) -> bool) -> bool {
    let before = all.len();
    all.retain(|one| !gone(job(one)));
    all.len() < before
}

/// Releases what jobs that are `gone` have in an instance, which is idle if no other job has something there. Returns whether they had
/// anything.
fn release_instance(holder: &mut Holder, gone: &dyn Fn(JobId) -> bool) -> bool {
    let (had, is_idle) = match holder {
        Holder::Isolated(owner) => (gone(*owner), gone(*owner)),
        Holder::Shared(shares) => (drop_gone(shares, |s| s.job, gone), shares.is_empty()),
        Holder::Compute(holds) => (drop_gone(holds, |h| h.job, gone), holds.is_empty()),
        Holder::Pool(seats) => (drop_gone(seats, |s| s.job, gone), seats.is_empty()),
        Holder::Idle => (false, false),
    };
    if is_idle {
        *holder = Holder::Idle;
    }
    had
}
