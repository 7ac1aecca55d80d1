//! A share of a GPU or instance through MPS.
//!
//! # Rules
//! Memory is a hard limit: the shares on a device never add up to more than it holds (`Model::usable_mib` for a GPU
//! outside MIG mode). A device has no more shares than MPS serves clients there. Threads are a soft one between jobs; but a job that asks for a part of the GPU's SMs gets no share of an
//! instance that has fewer, and of a larger instance that part of its threads. The site's default is a part of the device, whatever that is, and
//! rules none out. A device has one user unless the site says otherwise, because one MPS
//! daemon serves one user. An instance that a job has to itself takes no shares; other instances of that GPU may.
//!
//! # Approach
//! Classes of devices, best first: shared already with threads to spare; to be opened (a free GPU, an idle instance,
//! a new one of the smallest fitting profile on a GPU that is always in MIG mode); a new instance on a GPU that
//! happens to be in MIG mode; shared already with all threads promised. Within the first and last class the
//! least loaded device ([`geometry::load::Load`], as for tasks), within the others the one whose opening costs least
//! ([`decision_report::cost`], size not counted: what one share leaves of a device, the next can have). Ties: lowest GPU, then
//! lowest start.
//!
//! # Source
//! Algorithm 3 of CASE (PPoPP'22) and algorithm 2 of its MIG version (GPGPU'22): memory hard, then the device with
//! the fewest in-use warps, none that has an isolated job.
//! Differs: they range over all devices, so a new task goes to an empty GPU whenever there is one. On a shared
//! cluster an empty GPU is what whole-GPU and MIG jobs need, so we range over the devices already shared first and
//! open another only when their threads are all promised. Load is the threads promised, not what kernels run at the
//! moment, as a part of the device: the fewest warps would send a share to a small instance that is nearly full. Memory
//! may be filled ([`geometry::load::fits`]).

use super::profile_choice::{Profiles, Want};
use super::starts::{idle_instance, new_instances};
use super::view::{View, first_job};
use decision_report::Cost;
use decision_report::report::{Candidate, Constraint, Fate, Report, ShareClass, ShareScore, Starts, Takes};
use geometry::load::{Load, fits};
use geometry::{JobId, Profile, Slice};
use node_state::{
    Ask, GpuState, Holder, InstanceLimit, Kind, MigPolicy, Policy, Purpose, Seat, Share, clients,
};
use protocol::{MigSpec, ShareOn};

/// The best device for the share, and the share there.
pub(super) struct BestShare {
    pub(super) on: ShareOn,
    pub(super) threads: u8,
    pub(super) takes: Takes,
    pub(super) score: ShareScore,
    load: Load,
}

impl BestShare {
    /// Less is better.
    fn rank(&self) -> (ShareClass, Load, Cost, (u16, u8)) {
        (self.score.class, self.load, self.score.cost, place(self.on))
    }
}

/// The load of a device by the threads of its shares, percent together.
fn promised_threads(percent: u32) -> Load {
    Load::new(percent.into(), 100)
}

/// The threads of a share, percent of the device: what is asked of the GPU, else the site's default, else the share's part of the memory,
/// rounded up.
///
/// # Errors
///
/// The device is an instance with fewer SMs than asked.
fn threads(
    (ask, policy): (&Ask, &Policy),
    view: &View<'_>,
    device: &Device,
    mem_mib: u64,
) -> Result<u8, Constraint> {
    let percent =
        |part: u64, of: u64| u8::try_from((part * 100).div_ceil(of.max(1)).clamp(1, 100)).unwrap_or(100);
    let Some(asked) = ask.request.threads else {
        return Ok(policy.mps_threads.unwrap_or_else(|| percent(mem_mib, device.memory_mib)).clamp(1, 100));
    };
    if device.profile.is_none() {
        return Ok(asked.clamp(1, 100));
    }
    let (need, has) = (view.model.least_sm(asked), device.sm);
    if has < need {
        return Err(Constraint::TooFewSms { need, has });
    }
    Ok(percent(u64::from(asked) * u64::from(view.model.mig_sm()), 100 * u64::from(has)))
}

struct Search<'a> {
    ask: &'a Ask,
    policy: &'a Policy,
    mem_mib: u64,
    report: &'a mut Report,
    best: Option<BestShare>,
}

/// A GPU or instance that could hold the share.
struct Device {
    on: ShareOn,
    profile: Option<&'static Profile>,
    memory_mib: u64,
    sm: u32,
}

/// Finds the best device for a share of `mem_mib`.
pub(super) fn search(
    views: &[View<'_>],
    ask: &Ask,
    policy: &Policy,
    mem_mib: u64,
    report: &mut Report,
) -> Option<BestShare> {
    let sm_percent = ask.request.threads.unwrap_or(0);
    let mut profiles = Profiles::new(Want {
        profile: None,
        mem_mib,
        sm_percent,
        least_work: None,
        limit: InstanceLimit::NONE,
    });
    let mut search = Search { ask, policy, mem_mib, report, best: None };
    for view in views {
        search.gpu(view, &mut profiles);
    }
    search.best
}

impl Search<'_> {
    fn gpu(&mut self, view: &View<'_>, profiles: &mut Profiles<'_>) {
        if let Some(why) = view.withheld(self.ask) {
            return self.rule_out(view, None, why);
        }
        if matches!(view.purpose, Purpose::Whole | Purpose::Slurm) {
            return self.rule_out(view, None, Constraint::KeptFor(view.purpose));
        }
        if let Some(kept) = view.kept_uncut {
            return self.rule_out(view, None, kept);
        }
        let whole = Device {
            on: ShareOn::Gpu(view.gpu),
            profile: None,
            memory_mib: view.model.usable_mib(),
            sm: view.model.full_gpu_sm,
        };
        match view.state {
            GpuState::Whole(job) => self.rule_out(view, None, Constraint::Taken(*job)),
            GpuState::Mps(shares) => self.join(view, &whole, shares),
            GpuState::Tasks(seats) => self.in_pool(view, None, seats),
            GpuState::Free if view.policy != MigPolicy::On => {
                self.open(view, &whole, ShareClass::Open, Ok(view.opened()));
            }
            GpuState::Free => self.new_instances(view, profiles),
            GpuState::Mig(_) if view.purpose == Purpose::Static => self.instances(view),
            GpuState::Mig(_) => {
                self.instances(view);
                self.new_instances(view, profiles);
            }
        }
    }

    fn instances(&mut self, view: &View<'_>) {
        for instance in view.instances() {
            let Some(profile) = view.model.profile_by_id(instance.profile) else { continue };
            let device = Device::instance(view, profile, instance.start);
            let cost = match &instance.holder {
                Holder::Shared(shares) => {
                    self.join(view, &device, shares);
                    continue;
                }
                Holder::Pool(seats) => {
                    self.in_pool(view, Some(&device), seats);
                    continue;
                }
                Holder::Isolated(_) | Holder::Compute(_) => {
                    Err(Constraint::IsolatedFor(first_job(&instance.holder).unwrap_or(JobId(0))))
                }
                Holder::Idle => idle_instance(view, profile, instance.start),
            };
            self.open(view, &device, ShareClass::Open, cost);
        }
    }

    fn new_instances(&mut self, view: &View<'_>, profiles: &mut Profiles<'_>) {
        let profile = match profiles.of(view).and_then(|p| view.mig.map(|()| p)) {
            Ok(profile) => profile,
            Err(constraint) => return self.rule_out(view, None, constraint),
        };
        let class = if view.policy == MigPolicy::On { ShareClass::Open } else { ShareClass::Carve };
        for (start, cost) in new_instances(view, profile) {
            self.open(view, &Device::instance(view, profile, start), class, cost);
        }
    }

    fn join(&mut self, view: &View<'_>, device: &Device, shares: &[Share]) {
        let other =
            shares.iter().find(|s| s.uid != self.ask.uid).filter(|_| !self.policy.share_between_users);
        if let Some(other) = other {
            return self.rule_out(view, Some(device), Constraint::OtherUser(other.uid));
        }
        let promised: u64 = shares.iter().map(|s| s.mem_mib).sum();
        let left = device.memory_mib.saturating_sub(promised);
        if !fits(self.mem_mib, left) {
            let constraint = Constraint::MemoryPromised { need: self.mem_mib, left };
            return self.rule_out(view, Some(device), constraint);
        }
        let most = clients(view.model, device.profile);
        if shares.len() >= most as usize {
            return self.rule_out(view, Some(device), Constraint::NoClientLeft(most));
        }
        let in_use: u32 = shares.iter().map(|s| u32::from(s.threads)).sum();
        let threads = match threads((self.ask, self.policy), view, device, self.mem_mib) {
            Ok(threads) => threads,
            Err(too_few) => return self.rule_out(view, Some(device), too_few),
        };
        let crowded = in_use + u32::from(threads) > self.policy.max_threads;
        let score = ShareScore {
            class: if crowded { ShareClass::Oversubscribe } else { ShareClass::Join },
            in_use_sm_percent: u64::from(in_use) * u64::from(device.sm),
            cost: Cost::default(),
        };
        let takes = Takes { oversubscribed: crowded, ..Takes::of_units(0, view.units()) };
        let share = BestShare { on: device.on, threads, takes, score, load: promised_threads(in_use) };
        self.weigh(view, device, share);
    }

    fn in_pool(&mut self, view: &View<'_>, device: Option<&Device>, seats: &[Seat]) {
        let job = seats.first().map_or(JobId(0), |s| s.job);
        self.rule_out(view, device, Constraint::InPool(job));
    }

    /// Weighs a device that has no shares, unless something stands in the way.
    fn open(&mut self, view: &View<'_>, device: &Device, class: ShareClass, cost: Result<Cost, Constraint>) {
        let cost = match cost {
            Ok(cost) => cost,
            Err(why) => return self.rule_out(view, Some(device), why),
        };
        if !fits(self.mem_mib, device.memory_mib) {
            let has = device.memory_mib;
            let constraint = Constraint::TooLittleMemory { need: self.mem_mib, has };
            return self.rule_out(view, Some(device), constraint);
        }
        let threads = match threads((self.ask, self.policy), view, device, self.mem_mib) {
            Ok(threads) => threads,
            Err(too_few) => return self.rule_out(view, Some(device), too_few),
        };
        let units = device.profile.map_or(view.units(), |p| u32::from(p.size));
        let takes = Takes::of_units(units, view.units());
        let score = ShareScore { class, in_use_sm_percent: 0, cost };
        let share = BestShare { on: device.on, threads, takes, score, load: promised_threads(0) };
        self.weigh(view, device, share);
    }

    fn weigh(&mut self, view: &View<'_>, device: &Device, share: BestShare) {
        self.report.push(device.candidate(view, Fate::Share(share.score)));
        if self.best.as_ref().is_none_or(|best| share.rank() < best.rank()) {
            self.best = Some(share);
        }
    }

    fn rule_out(&mut self, view: &View<'_>, device: Option<&Device>, constraint: Constraint) {
        let fate = Fate::Ruled(constraint);
        self.report.push(match device {
            Some(device) => device.candidate(view, fate),
            None => Candidate { kind: Kind::Mps, gpu: view.gpu, instances: None, fate },
        });
    }
}

impl Device {
    fn instance(view: &View<'_>, profile: &'static Profile, start: Slice) -> Self {
        let on = ShareOn::Instance(MigSpec { gpu: view.gpu, profile: profile.id, start });
        Self { on, profile: Some(profile), memory_mib: profile.memory_mib, sm: profile.sm }
    }

    fn candidate(&self, view: &View<'_>, fate: Fate) -> Candidate {
        let instances = match (self.on, self.profile) {
            (ShareOn::Instance(spec), Some(profile)) => Some((profile, Starts(1 << spec.start.0))),
            _ => None,
        };
        Candidate { kind: Kind::Mps, gpu: view.gpu, instances, fate }
    }
}

/// Sort key among equally good devices: lowest GPU, then lowest start.
fn place(on: ShareOn) -> (u16, u8) {
    match on {
        ShareOn::Gpu(gpu) => (gpu.0, 0),
        ShareOn::Instance(spec) => (spec.gpu.0, spec.start.0),
    }
}
