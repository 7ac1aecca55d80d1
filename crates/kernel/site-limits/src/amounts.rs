//! Whole GPUs, slices and minutes that `[[limits]]` leave one job, and all running jobs together.
//!
//! # Problem
//! A job above a limit for one job never starts: its user is to hear that at once. One that only lacks what running jobs have
//! starts when they end: it waits, and its user is to hear which limit that is, and who has it.
//!
//! # Approach
//! [`least`] says what a job takes at the least, before anybody knows where it runs; [`never()`] holds that to the limits of one job and
//! to the whole of the others. [`RunningJobs`] adds up what running jobs have, and says what keeps another ([`RunningJobs::keeps`]). When
//! a job could start, both are asked again with what it would get.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::Add;

use geometry::size::gigabytes_as_mib;
use geometry::{JobId, Model, counted};
use node_state::InstanceLimit;
use node_state::slices::{OF_UNCUT_GPU, slices_for_gpu};
use protocol::{Isolation, Request};
use site_config::{Limit, Most, SiteConfig};

use crate::Submission;
use crate::counted::chooses;
use crate::limit::{instances_under, place, whom};
use crate::submission::{can_run, limits_of};
use crate::tres::Entry;

/// Jobs that a line names.
const MOST_NAMED: usize = 3;

/// Whole GPUs and compute slices, those of whole GPUs included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Whole GPUs.
    pub gpus: u64,
    /// Compute slices.
    pub slices: u64,
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (gpus, slices) = (self.gpus.saturating_add(other.gpus), self.slices.saturating_add(other.slices));
        Self { gpus, slices }
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// A number of a limit against a number of a job.
struct Measure {
    /// The key's end: `gpus` of `max_gpus`.
    key: &'static str,
    one: &'static str,
    most: Option<u64>,
    of: fn(Amount) -> u64,
}

fn measures(most: Most) -> [Measure; 2] {
    [
        Measure { key: "gpus", one: "whole GPU", most: most.gpus, of: |amount| amount.gpus },
        Measure { key: "slices", one: "slice", most: most.slices, of: |amount| amount.slices },
    ]
}

/// The least that a job takes on all its nodes, with this `request` or, without one of ours, with what Slurm has `counted`.
///
/// A lower bound: of several models that it may get the one with the fewest slices counts, of a number per task the number.
#[must_use]
pub fn least(request: Option<&Request>, counted: &[Entry], job: &Submission, config: &SiteConfig) -> Amount {
    let nodes = u64::from(job.nodes.max(1));
    let mut models: Vec<&'static Model> = Vec::new();
    for model in config.nodes.iter().filter(|spec| can_run(job, spec)).flat_map(|spec| &spec.gpus) {
        if !models.iter().any(|known| std::ptr::eq(*known, *model)) {
            models.push(model);
        }
    }
    let count = |name: &str| {
        let counts = counted.iter().filter(|entry| entry.name == name).map(|entry| entry.on(nodes));
        counts.fold(0, u64::saturating_add)
    };
    let (gpus, shards) = (count("gpu"), count("shard"));
    let request = request.filter(|request| request.isolation != Isolation::None);
    let whole = request
        .filter(|request| request.is_for_whole_gpus())
        .map(|r| nodes.saturating_mul(r.gpus.unwrap_or(1).into()));
    let gpus = match whole {
        _ if gpus > 0 => gpus,
        Some(gpus) => gpus,
        None if request.is_none() && shards == 0 && job.exclusive && !models.is_empty() => nodes,
        None => 0,
    };
    if gpus > 0 {
        let each = models.iter().map(|model| slices_for_gpu(Some(model))).min().unwrap_or(OF_UNCUT_GPU);
        return Amount { gpus, slices: gpus.saturating_mul(each) };
    }
    let slices = match request {
        Some(request) => {
            let limits = if chooses(request) { limits_of(job, config) } else { Vec::new() };
            // A need of more slices than a limit leaves is what is asked for here.
            let left = InstanceLimit { most_slices: None, ..instances_under(&limits) };
            part(request, &models, &left).saturating_mul(nodes)
        }
        None if shards > 0 => {
            let mib = gigabytes_as_mib(u32::try_from(shards / nodes).unwrap_or(u32::MAX));
            models.iter().map(|model| share(model, mib)).min().unwrap_or(0).saturating_mul(nodes)
        }
        None => 0,
    };
    Amount { gpus: 0, slices }
}

/// The fewest slices of parts of GPUs of these models on a node, at least 1, with the instances that limits have `left`.
fn part(request: &Request, models: &[&'static Model], left: &InstanceLimit) -> u64 {
    let (memory, threads) = (request.mem_mib.unwrap_or(0), request.threads.unwrap_or(0));
    let instance = |model: &Model| {
        let has = model.profiles.iter().filter(|profile| {
            let memory_mib = profile.memory_mib.max(profile.nominal_mib());
            memory_mib >= memory && profile.sm >= model.least_sm(threads) && left.allows(profile)
        });
        has.map(|profile| u64::from(profile.compute_slices)).min()
    };
    let on = |model: &&Model| match &request.isolation {
        Isolation::Mig(Some(name)) => match model.compute_profile(name) {
            Some((_, part)) => Some(u64::from(part.slices)),
            None => model.profile(name).map(|profile| u64::from(profile.compute_slices)),
        },
        Isolation::Mig(None) => instance(model),
        Isolation::Mps => Some(share(model, memory)),
        Isolation::Auto => Some(share(model, memory)).into_iter().chain(instance(model)).min(),
        _ => None,
    };
    let sizes = models.iter().flat_map(|model| request.sizes_on(model));
    let sizes = sizes.filter(|size| left.allows(size.profile));
    let sizes = sizes.map(|size| u64::from(size.profile.compute_slices)).min();
    let one = sizes.or_else(|| models.iter().filter_map(on).min()).unwrap_or(1).max(1);
    let several = if is_counted(request) { request.instances.max(1) } else { 1 };
    one.saturating_mul(several.into())
}

/// Tells whether a request has several instances, each with slices of its own.
fn is_counted(request: &Request) -> bool {
    matches!(request.isolation, Isolation::Mig(_))
}

/// The slices that a share of so much memory counts for at the least.
fn share(model: &Model, mem_mib: u64) -> u64 {
    let slices = slices_for_gpu(Some(model));
    slices.saturating_mul(mem_mib).div_ceil(model.total_memory_mib.max(1)).clamp(1, slices)
}

/// Why no end of other jobs lets a job with this need start: the limit, its place and what would fit; `None`: none forbids it.
#[must_use]
pub fn never(need: Amount, job: &Submission, config: &SiteConfig) -> Option<String> {
    if need == Amount::default() {
        return None;
    }
    limits_of(job, config).into_iter().find_map(|limit| over(need, job.minutes, limit))
}

fn over(need: Amount, minutes: Option<u32>, limit: &Limit) -> Option<String> {
    let whom = whom(limit);
    let one = Above { who: "it needs", bounds: "a job may have", kind: "max", most: limit.per_job };
    one.words(need, limit)
        .or_else(|| running("it needs", limit).words(need, limit))
        .or_else(|| too_long(minutes?, limit, &whom))
}

/// Says that components of one job, which start together, need more than a limit lets run; `None`: they do not.
#[must_use]
pub fn together_over(sum: Amount, limit: &Limit) -> Option<String> {
    running("the components of this job start together and need", limit).words(sum, limit)
}

fn running(who: &'static str, limit: &Limit) -> Above {
    let bounds = if limit.each_user {
        "running jobs of one user together may have"
    } else {
        "running jobs together may have"
    };
    Above { who, bounds, kind: "running", most: limit.running }
}

/// Words of a need above the amounts of a limit.
struct Above {
    who: &'static str,
    bounds: &'static str,
    /// The key's begin: `max` of `max_gpus`.
    kind: &'static str,
    most: Most,
}

impl Above {
    fn words(&self, need: Amount, limit: &Limit) -> Option<String> {
        let Self { who, bounds, kind, most } = self;
        measures(*most).into_iter().find_map(|Measure { key, one, most, of }| {
            let most = most.filter(|most| of(need) > *most)?;
            let (needs, place) = (counted(of(need), one), place(limit, &format!("{kind}_{key}")));
            Some(format!("{who} {needs}, and {} {bounds} at most {most} ({place})", whom(limit)))
        })
    }
}

fn too_long(minutes: u32, limit: &Limit, whom: &str) -> Option<String> {
    let most = limit.max_time_min.filter(|most| minutes > *most)?;
    let has = if minutes == UNLIMITED {
        "no time limit".to_owned()
    } else {
        format!("a time limit of {}", counted(minutes, "minute"))
    };
    let place = place(limit, "max_time_min");
    Some(format!("it has {has}, and {whom} a job may have at most {most} ({place}): use --time={most}"))
}

/// Minutes of a job that may run for ever.
pub const UNLIMITED: u32 = u32::MAX;

/// The time limit of a job, minutes: what it `asks` for, else the default of its partition, else the partition's `most`. All three as
/// Slurm writes them: `unset` is Slurm's number for what nobody has said.
#[must_use]
pub fn time_limit(asks: u32, default: u32, most: u32, unset: u32) -> u32 {
    [asks, default, most].into_iter().find(|minutes| *minutes != unset).unwrap_or(UNLIMITED)
}

/// A limit, and the user whose jobs alone it adds up.
type LimitKey = (usize, Option<u32>);

/// Running jobs by what limits add up of them.
///
/// Only jobs that such a limit is for are kept, so a site without one keeps nothing.
#[derive(Clone, Debug, Default)]
pub struct RunningJobs {
    jobs: BTreeMap<JobId, HeldAmounts>,
    sums: BTreeMap<LimitKey, LimitSum>,
}

/// Amounts of running jobs under a limit. Each test of a job that the limit is for asks for the whole, so that is kept.
#[derive(Clone, Debug, Default)]
struct LimitSum {
    all: Amount,
    jobs: BTreeMap<JobId, Amount>,
}

impl LimitSum {
    /// Gives a job this amount instead of what it had; `None`: it has ended.
    fn set(&mut self, id: JobId, has: Option<Amount>) {
        let before = match has {
            Some(has) => self.jobs.insert(id, has),
            None => self.jobs.remove(&id),
        };
        let (before, has) = (before.unwrap_or_default(), has.unwrap_or_default());
        self.all.gpus = (self.all.gpus + has.gpus).saturating_sub(before.gpus);
        self.all.slices = (self.all.slices + has.slices).saturating_sub(before.slices);
    }
}

#[derive(Clone, Debug)]
struct HeldAmounts {
    keys: Vec<LimitKey>,
    nodes: Vec<(String, Amount)>,
}

impl RunningJobs {
    /// Counts a job that runs, with what it has on each node, instead of what it had before.
    pub fn begin(&mut self, id: JobId, job: &Submission, nodes: Vec<(String, Amount)>, config: &SiteConfig) {
        self.end(id);
        let keys: Vec<LimitKey> =
            limits_of(job, config).into_iter().filter_map(|limit| key(limit, job)).collect();
        if !keys.is_empty() && nodes.iter().any(|(_, amount)| *amount != Amount::default()) {
            self.jobs.insert(id, HeldAmounts { keys, nodes });
            self.recount(id);
        }
    }

    /// Counts a job no more.
    pub fn end(&mut self, id: JobId) {
        for key in self.jobs.remove(&id).into_iter().flat_map(|held| held.keys) {
            if let Some(sums) = self.sums.get_mut(&key) {
                sums.set(id, None);
                if sums.jobs.is_empty() {
                    self.sums.remove(&key);
                }
            }
        }
    }

    /// Counts no more what a job had on a node.
    pub fn leave(&mut self, id: JobId, node: &str) {
        if let Some(held) = self.jobs.get_mut(&id) {
            held.nodes.retain(|(name, _)| name != node);
            self.recount(id);
        }
    }

    fn recount(&mut self, id: JobId) {
        let Some(held) = self.jobs.get(&id) else { return };
        let all: Amount = held.nodes.iter().map(|(_, amount)| *amount).sum();
        for key in &held.keys {
            self.sums.entry(*key).or_default().set(id, Some(all));
        }
    }

    /// Gives the amounts of running jobs under a limit that adds up; none under any other.
    #[must_use]
    pub fn used(&self, limit: &Limit, job: &Submission) -> BTreeMap<JobId, Amount> {
        key(limit, job).and_then(|key| self.sums.get(&key)).map(|sums| sums.jobs.clone()).unwrap_or_default()
    }

    /// Why a job with this need has to wait for the end of others: the limit, its use and who has it; `None`: none keeps it.
    #[must_use]
    pub fn keeps(&self, need: Amount, job: &Submission, config: &SiteConfig) -> Option<String> {
        limits_of(job, config).into_iter().find_map(|limit| {
            let LimitSum { all: used, jobs } = self.sums.get(&key(limit, job)?)?;
            measures(limit.running).into_iter().find_map(|measure| {
                let Measure { key, one, most, of } = measure;
                let most = most.filter(|most| of(need) > 0 && of(*used).saturating_add(of(need)) > *most)?;
                let (whom, place) = (whom(limit), place(limit, &format!("running_{key}")));
                let users = named(jobs, of);
                let own = if limit.each_user { "its user's running jobs" } else { "running jobs" };
                let used = of(*used);
                let most = counted(most, one);
                Some(format!("{whom} {own} have {used} of {most} ({place}): {users}; it needs {}", of(need)))
            })
        })
    }
}

fn key(limit: &Limit, job: &Submission) -> Option<LimitKey> {
    (limit.running != Most::default()).then_some((limit.number, job.user.filter(|_| limit.each_user)))
}

/// `job 12 has 7, job 15 has 5 and 2 more jobs have 3`, those with most first. It is written in each test of a job that waits, so the
/// others are not sorted.
fn named(jobs: &BTreeMap<JobId, Amount>, of: fn(Amount) -> u64) -> String {
    let mut all: Vec<(JobId, u64)> =
        jobs.iter().map(|(id, has)| (*id, of(*has))).filter(|(_, n)| *n > 0).collect();
    let most_first = |(id, n): &(JobId, u64)| (Reverse(*n), *id);
    if all.len() > MOST_NAMED {
        all.select_nth_unstable_by_key(MOST_NAMED - 1, most_first);
    }
    let firsts = all.len().min(MOST_NAMED);
    all[..firsts].sort_by_key(most_first);
    let mut words: Vec<String> =
        all.iter().take(MOST_NAMED).map(|(id, n)| format!("job {} has {n}", id.0)).collect();
    let more: Vec<u64> = all.iter().skip(MOST_NAMED).map(|(_, n)| *n).collect();
    if !more.is_empty() {
        let have = if more.len() == 1 { "has" } else { "have" };
        words.push(format!("{} {have} {}", counted(more.len(), "more job"), more.iter().sum::<u64>()));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests;
