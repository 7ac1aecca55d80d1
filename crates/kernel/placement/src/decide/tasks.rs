//! Seats in the pool: devices that GPU tasks of several jobs share, each task placed when it begins.
//!
//! # Rules
//! A job takes a seat for each of its Slurm tasks on the node, all on devices of one GPU: Slurm finds a job's shards on a
//! node on one GPU. The module `reach` adds GPUs where the site lets a job use several. The seats of a device never add up
//! to more than it has ([`PoolPolicy::seats`]). A device that the job may use holds one of its processes. It has one user unless the site says
//! otherwise, because one MPS daemon serves one user. A device of the pool takes neither shares nor a job of its own, and one
//! that an isolated job has claimed takes no further job of GPU tasks.
//!
//! # Approach
//! The job joins the pool of the GPU whose seats are taken to the smallest part ([`geometry::load::Load`]) among those with enough free
//! seats, and may use every device of the pool there. Where no GPU has enough, one device more joins the pool: a free GPU, an
//! idle instance, or a new instance of the smallest profile with the memory and the seats that are missing. It is chosen as
//! for a share: see [`super::mps`]. The seats go to the devices so that they are taken to equal parts.
//!
//! # Source
//! CASE for MIG (GPGPU'22), algorithms 1 and 2: jobs without isolation start while workers are free, on no device in
//! particular; each task then goes to a device that no isolated job has.
//! Differs: workers are counted per device rather than for the machine, so that MPS's limit of clients holds on each.

mod reach;

use super::starts::{idle_instance, new_instances};
use super::view::View;
use decision_report::Cost;
use decision_report::report::{Candidate, Constraint, Fate, Report, SeatScore, ShareClass, Starts, Takes};
use geometry::Profile;
use geometry::load::{Load, fits};
use node_state::{Ask, GpuState, Holder, Kind, MigPolicy, Node, Policy, PoolDevice, PoolPolicy, Purpose};
use protocol::{MigSpec, PoolSeats, ShareOn};

/// The devices that the job may use.
pub(super) struct BestSeats {
    /// Ascending by GPU and start; the seats are all on one GPU.
    pub(super) on: Vec<PoolSeats>,
    pub(super) takes: Takes,
    pub(super) score: SeatScore,
    load: Load,
    /// The GPU, then the start of the device that is opened.
    place: (u16, u8),
}

impl BestSeats {
    /// Less is better.
    fn rank(&self) -> (ShareClass, Load, Cost, (u16, u8)) {
        (self.score.class, self.load, self.score.cost, self.place)
    }
}

struct Search<'a> {
    node: &'a Node,
    ask: &'a Ask,
    policy: &'a Policy,
    pool: PoolPolicy,
    /// Memory that a device must have, MiB.
    needed_mib: u64,
    report: &'a mut Report,
    best: Option<BestSeats>,
}

/// A device with the seats that it has and those that jobs have.
#[derive(Clone, Copy)]
struct Seated {
    on: ShareOn,
    of: u32,
    taken: u32,
}

/// Finds the devices for a job of GPU tasks.
pub(super) fn search(
    node: &Node,
    views: &[View<'_>],
    (ask, policy): (&Ask, &Policy),
    pool: PoolPolicy,
    report: &mut Report,
) -> Option<BestSeats> {
    let needed_mib = pool.needed_mib(ask.request.mem_mib);
    let mut search = Search { node, ask, policy, pool, needed_mib, report, best: None };
    for view in views {
        search.gpu(view);
    }
    let best = search.best.take()?;
    Some(search.with_further_gpus(views, best))
}

impl Search<'_> {
    fn gpu(&mut self, view: &View<'_>) {
        if let Some(why) = view.withheld(self.ask) {
            return self.rule_out(view, None, why);
        }
        if matches!(view.purpose, Purpose::Whole | Purpose::Slurm) {
            return self.rule_out(view, None, Constraint::KeptFor(view.purpose));
        }
        let joined = self.joinable(view);
        let (of, taken) = joined.iter().fold((0, 0), |(of, taken), d| (of + d.of, taken + d.taken));
        let free = of.saturating_sub(taken);
        if free >= self.ask.request.seats {
            return self.join(view, &joined);
        }
        if let Some(kept) = view.kept_uncut {
            return self.rule_out(view, None, kept);
        }
        if !joined.is_empty() {
            let need = self.ask.request.seats;
            self.rule_out(view, None, Constraint::SeatsTaken { need, free });
        }
        match view.state {
            GpuState::Whole(job) => self.rule_out(view, None, Constraint::Taken(*job)),
            GpuState::Mps(shares) => {
                let job = shares.first().map(|s| s.job);
                job.into_iter().for_each(|job| self.rule_out(view, None, Constraint::SharedBy(job)));
            }
            GpuState::Tasks(_) => {}
            GpuState::Free if view.policy != MigPolicy::On => {
                let device = (ShareOn::Gpu(view.gpu), None);
                self.open(view, &joined, device, ShareClass::Open, Ok(view.opened()));
            }
            GpuState::Free => self.new_instances(view, &joined),
            GpuState::Mig(_) => {
                self.instances(view, &joined);
                if view.purpose != Purpose::Static {
                    self.new_instances(view, &joined);
                }
            }
        }
    }

    /// The devices of the pool on a GPU that the job may use.
    fn joinable(&mut self, view: &View<'_>) -> Vec<Seated> {
        let Some(gpu) = self.node.gpus.get(usize::from(view.gpu.0)) else { return Vec::new() };
        let mut found = Vec::new();
        for device in gpu.pool(view.gpu) {
            match self.why_not_joined(view, &device) {
                Some(why) => self.rule_out(view, Some((device.on, device.profile)), why),
                None => found.push(Seated {
                    on: device.on,
                    of: self.pool.seats(view.model, device.profile),
                    taken: device.taken(),
                }),
            }
        }
        found
    }

    fn why_not_joined(&self, view: &View<'_>, device: &PoolDevice<'_>) -> Option<Constraint> {
        if let Some(claim) = self.node.claim_on(device.on) {
            return Some(Constraint::ClaimedBy(claim.job));
        }
        let other = device.jobs.iter().find(|seat| seat.uid != self.ask.uid);
        if let Some(other) = other.filter(|_| !self.policy.share_between_users) {
            return Some(Constraint::OtherUser(other.uid));
        }
        self.too_little(view, device.profile)
    }

    fn too_little(&self, view: &View<'_>, profile: Option<&Profile>) -> Option<Constraint> {
        let has = profile.map_or(view.model.usable_mib(), |p| p.memory_mib);
        let too_little = Constraint::TooLittleMemory { need: self.needed_mib, has };
        (!fits(self.needed_mib, has)).then(|| beside_context(too_little, self.pool))
    }

    fn instances(&mut self, view: &View<'_>, joined: &[Seated]) {
        for instance in view.instances() {
            let Some(profile) = view.model.profile_by_id(instance.profile) else { continue };
            let on = ShareOn::Instance(MigSpec { gpu: view.gpu, profile: profile.id, start: instance.start });
            let idle = || idle_instance(view, profile, instance.start);
            let cost = match &instance.holder {
                Holder::Pool(_) => continue,
                Holder::Isolated(job) => Err(Constraint::IsolatedFor(*job)),
                Holder::Shared(shares) => shares.first().map_or_else(idle, |s| Err(Constraint::Taken(s.job))),
                Holder::Compute(holds) => {
                    holds.first().map_or_else(idle, |h| Err(Constraint::IsolatedFor(h.job)))
                }
                Holder::Idle => idle(),
            };
            self.open(view, joined, (on, Some(profile)), ShareClass::Open, cost);
        }
    }

    fn new_instances(&mut self, view: &View<'_>, joined: &[Seated]) {
        let profile = match view.mig.and_then(|()| self.smallest(view, joined)) {
            Ok(profile) => profile,
            Err(constraint) => return self.rule_out(view, None, constraint),
        };
        let class = if view.policy == MigPolicy::On { ShareClass::Open } else { ShareClass::Carve };
        for (start, cost) in new_instances(view, profile) {
            let on = ShareOn::Instance(MigSpec { gpu: view.gpu, profile: profile.id, start });
            self.open(view, joined, (on, Some(profile)), class, cost);
        }
    }

    /// The smallest base profile with the memory and the seats that a further device needs.
    fn smallest(&self, view: &View<'_>, joined: &[Seated]) -> Result<&'static Profile, Constraint> {
        let need = self.missing(joined);
        let base = || view.model.profiles.iter().filter(|p| !p.is_variant());
        let seats = |p: &Profile| self.pool.seats(view.model, Some(p));
        let with_memory = || base().filter(|p| self.too_little(view, Some(p)).is_none());
        if let Some(found) = with_memory().find(|p| seats(p) >= need) {
            return Ok(found);
        }
        let largest = base().max_by_key(|p| p.memory_mib);
        Err(match with_memory().map(seats).max() {
            Some(has) => Constraint::TooFewSeats { need, has },
            None => {
                let has = largest.map_or(0, |p| p.memory_mib);
                beside_context(Constraint::TooLittleMemory { need: self.needed_mib, has }, self.pool)
            }
        })
    }

    /// Seats that the devices of the pool do not have free.
    fn missing(&self, joined: &[Seated]) -> u32 {
        let free: u32 = joined.iter().map(|d| d.of.saturating_sub(d.taken)).sum();
        self.ask.request.seats.saturating_sub(free)
    }

    fn join(&mut self, view: &View<'_>, joined: &[Seated]) {
        let (of, taken) = joined.iter().fold((0, 0), |(of, taken), d| (of + d.of, taken + d.taken));
        let score = SeatScore { class: ShareClass::Join, taken, of, cost: Cost::default() };
        let takes = Takes::of_units(0, view.units());
        let load = Load::new(taken.into(), of.into());
        let on = dealt(joined.to_vec(), self.ask.request.seats);
        self.weigh(view, None, BestSeats { on, takes, score, load, place: (view.gpu.0, 0) });
    }

    /// Weighs a device that joins the pool with those that the job may use already, unless something stands in the way.
    fn open(
        &mut self,
        view: &View<'_>,
        joined: &[Seated],
        (on, profile): Device,
        class: ShareClass,
        cost: Result<Cost, Constraint>,
    ) {
        let device = Some((on, profile));
        let cost = match cost {
            Ok(cost) => cost,
            Err(why) => return self.rule_out(view, device, why),
        };
        if let Some(claim) = self.node.claim_on(on) {
            return self.rule_out(view, device, Constraint::ClaimedBy(claim.job));
        }
        if let Some(why) = self.too_little(view, profile) {
            return self.rule_out(view, device, why);
        }
        let (need, has) = (self.missing(joined), self.pool.seats(view.model, profile));
        if has < need {
            return self.rule_out(view, device, Constraint::TooFewSeats { need, has });
        }
        let takes = Takes::of_units(profile.map_or(view.units(), |p| u32::from(p.size)), view.units());
        let mut all = joined.to_vec();
        all.push(Seated { on, of: has, taken: 0 });
        let start = on.start().unwrap_or(0);
        let on = dealt(all, self.ask.request.seats);
        let score = SeatScore { class, taken: 0, of: has, cost };
        let load = Load::new(0, 1);
        self.weigh(view, device, BestSeats { on, takes, score, load, place: (view.gpu.0, start) });
    }

    fn weigh(&mut self, view: &View<'_>, device: Option<Device>, seats: BestSeats) {
        self.report.push(candidate(view, device, Fate::Seats(seats.score)));
        if self.best.as_ref().is_none_or(|best| seats.rank() < best.rank()) {
            self.best = Some(seats);
        }
    }

    fn rule_out(&mut self, view: &View<'_>, device: Option<Device>, constraint: Constraint) {
        self.report.push(candidate(view, device, Fate::Ruled(constraint)));
    }
}

/// Reduces a constraint to what a process's own tasks lack, for people: the memory of its context does not concern them.
pub(super) fn beside_context(constraint: Constraint, pool: PoolPolicy) -> Constraint {
    match constraint {
        Constraint::TooLittleMemory { need, has } => Constraint::TooLittleMemory {
            need: need.saturating_sub(pool.context_mib),
            has: has.saturating_sub(pool.context_mib),
        },
        other => other,
    }
}

type Device = (ShareOn, Option<&'static Profile>);

fn candidate(view: &View<'_>, device: Option<Device>, fate: Fate) -> Candidate {
    let instances = match device {
        Some((ShareOn::Instance(spec), Some(profile))) => {
            Some((profile, Starts(1_u16.checked_shl(u32::from(spec.start.0)).unwrap_or(0))))
        }
        _ => None,
    };
    Candidate { kind: Kind::Tasks, gpu: view.gpu, instances, fate }
}

/// Deals `n` seats to these devices, one by one to the device whose seats are taken to the smallest part; of equal ones to
/// the first. All devices stay in the list, by start.
fn dealt(mut devices: Vec<Seated>, n: u32) -> Vec<PoolSeats> {
    devices.sort_by_key(|d| d.on.start());
    let mut dealt: Vec<PoolSeats> = devices.iter().map(|d| PoolSeats { on: d.on, seats: 0 }).collect();
    for _ in 0..n {
        let room = devices.iter_mut().zip(&mut dealt).filter(|(d, _)| d.taken < d.of);
        let Some((device, place)) = room.min_by_key(|(d, _)| Load::new(d.taken.into(), d.of.into())) else {
            break;
        };
        device.taken += 1;
        place.seats += 1;
    }
    dealt
}
