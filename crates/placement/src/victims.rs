//! Which jobs must end for a request to fit a node: the fewest, and of these the least important.
//!
//! # Problem
//! Of the jobs that may be ended, least important first, choose a set after whose end the request fits the node, and which
//! gives back the cores and memory that the job lacks there. Fewest jobs first; between sets of one size the one whose
//! most important job is least important, then the second most important, and so on.
//!
//! # Approach
//! A request that lies on one GPU needs jobs to go from one GPU: every set of the jobs there is tried, small ones first. A
//! request for several whole GPUs needs all jobs to go from some GPUs: every set of GPUs is tried. To each set that makes
//! room on the GPUs the fewest jobs are added that give back what is still lacking. As a set of jobs is a number whose
//! highest bit is its most important job, sets of one size are tried in ascending order.
//!
//! # Limits
//! slurmctld holds its locks meanwhile. At most [`MOST_WEIGHED`] GPUs are weighed, over all sets that are tried. Then, and with
//! more than 128 jobs, the best set known counts: at first the one that jobs make in their order, without those that turn
//! out to be unnecessary. To find that one has a limit of its own, [`MOST_SPARED`]; where that ends it, some of its jobs may be
//! unnecessary, and they still make room.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use geometry::{GpuIndex, JobId};
use node_state::{Ask, Node, Policy, Spread};
use protocol::Isolation;
use topology::{GpuSet, LinkMatrix};

use crate::decide::fits;

/// Most GPUs that are weighed, summed over all sets that are tried. Every set of the jobs of one GPU takes 1024 on a node with
/// eight GPUs and seven jobs on each. `cargo bench -p placement --bench victims` shows how long that takes.
pub const MOST_WEIGHED: u32 = 2048;
/// Most GPUs that are weighed to find jobs that can be spared.
pub const MOST_SPARED: u32 = 1024;

/// Cores and memory of a job on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Cores.
    pub cores: u64,
    /// Memory, MiB.
    pub memory_mib: u64,
}

impl Room {
    /// What is left of it without what is `given`, never below nothing.
    #[must_use]
    pub fn minus(self, given: Self) -> Self {
        Self {
            cores: self.cores.saturating_sub(given.cores),
            memory_mib: self.memory_mib.saturating_sub(given.memory_mib),
        }
    }

    fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// A job that may be ended, and what it gives back on the node beside GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The job.
    pub job: JobId,
    /// What it has of the node.
    pub has: Room,
}

/// The fewest and least important of `victims`, which come least important first, that must end for the request to fit
/// the node and for `lacks` to be given back there. `None`: not even the end of all would do.
#[must_use]
pub fn least_victims(
    node: &Node,
    ask: &Ask,
    policy: &Policy,
    victims: &[Victim],
    lacks: Room,
) -> Option<Vec<JobId>> {
    let places = victims.iter().zip(0..).map(|(v, i)| (v.job, i)).collect();
    let mut search = Search { node, ask, policy, victims, places, lacks, weighed: 0, best: None };
    let greedy = search.in_their_order()?;
    if victims.len() > 128 {
        return Some(greedy);
    }
    let known = (0..victims.len()).filter(|i| greedy.contains(&victims[*i].job));
    search.best = Some(known.fold(0, |set, i| set | 1 << i));
    let counts_gpus =
        matches!(ask.request.isolation, Isolation::Whole | Isolation::Auto | Isolation::Tasks { .. });
    match ask.request.gpus.filter(|n| *n > 1 && counts_gpus) {
        Some(n) => search.whole_gpus(n as usize),
        None => search.parts(),
    }
    let best = search.best.filter(|set| search.makes_room(*set, node, ask));
    Some(best.map_or(greedy, |set| search.jobs(set)))
}

/// Jobs by their place among the victims: bit `i` for the `i`-th.
type Set = u128;

/// Jobs of which some must go, and where the request must then fit.
struct Pool {
    node: Node,
    ask: Ask,
    jobs: Set,
}

fn without(node: &Node, jobs: &HashSet<JobId>) -> Node {
    let mut node = node.clone();
    node.release_all(&|job| jobs.contains(&job));
    node
}

struct Search<'a> {
    node: &'a Node,
    ask: &'a Ask,
    policy: &'a Policy,
    victims: &'a [Victim],
    places: HashMap<JobId, u32>,
    lacks: Room,
    weighed: u32,
    best: Option<Set>,
}

impl Search<'_> {
    fn jobs(&self, set: Set) -> Vec<JobId> {
        self.victims.iter().zip(0..).filter(|(_, i)| set >> i & 1 == 1).map(|(v, _)| v.job).collect()
    }

    fn makes_room(&self, set: Set, node: &Node, ask: &Ask) -> bool {
        let mut node = node.clone();
        node.release_all(&|job| self.places.get(&job).is_some_and(|i| *i < Set::BITS && set >> i & 1 == 1));
        fits(&node, ask, self.policy)
    }

    fn lacking_after(&self, set: Set) -> Room {
        let going = self.victims.iter().zip(0..).filter(|(_, i)| set >> i & 1 == 1);
        going.fold(self.lacks, |lacks, (v, _)| lacks.minus(v.has))
    }

    /// As few as can be had by taking them in their order, then sparing from the most important down, many at a time first.
    fn in_their_order(&self) -> Option<Vec<JobId>> {
        let will_do = |victims: &[Victim]| {
            let lacks = victims.iter().fold(self.lacks, |lacks, v| lacks.minus(v.has));
            let jobs = victims.iter().map(|v| v.job).collect();
            lacks.is_nothing() && fits(&without(self.node, &jobs), self.ask, self.policy)
        };
        if !will_do(self.victims) {
            return None;
        }
        // The end of one more job takes no room away.
        let (mut too_few, mut needed) = (0, self.victims.len());
        while too_few < needed {
            let n = usize::midpoint(too_few, needed);
            if will_do(&self.victims[..n]) {
                needed = n;
            } else {
                too_few = n + 1;
            }
        }
        let mut left = self.victims[..needed].to_vec();
        let mut tries = MOST_SPARED as usize / self.node.gpus.len().max(1);
        let mut many = left.len().next_power_of_two() / 2;
        while many > 0 {
            let mut end = left.len();
            while end > 0 && tries > 0 {
                tries -= 1;
                let begin = end.saturating_sub(many);
                let rest = [&left[..begin], &left[end..]].concat();
                if will_do(&rest) {
                    left = rest;
                }
                end = begin;
            }
            many /= 2;
        }
        Some(left.into_iter().map(|v| v.job).collect())
    }

    /// Whether so many more GPUs may be weighed.
    fn weigh(&mut self, gpus: usize) -> bool {
        self.weighed = self.weighed.saturating_add(u32::try_from(gpus).unwrap_or(u32::MAX));
        self.weighed <= MOST_WEIGHED
    }

    fn most(&self) -> u32 {
        self.best.map_or(u32::MAX, Set::count_ones)
    }

    /// A set that makes room on the GPUs: with what is still lacking it may be the best.
    fn found(&mut self, set: Set) {
        let lacks = self.lacking_after(set);
        let more = self.most().saturating_sub(set.count_ones());
        let least = (0..=more).find_map(|n| self.cover(!set, n, lacks));
        let Some(extra) = least.or_else(|| self.largest(!set, lacks)) else { return };
        let key = |set: Set| (set.count_ones(), set);
        if self.best.is_none_or(|best| key(set | extra) < key(best)) {
            self.best = Some(set | extra);
        }
    }

    /// The first set of `n` jobs out of `of` that has this.
    fn cover(&mut self, of: Set, n: u32, lacks: Room) -> Option<Set> {
        if n == 0 {
            return lacks.is_nothing().then_some(0);
        }
        if !self.weigh(1) {
            return None;
        }
        let members: Vec<usize> = (0..self.victims.len()).filter(|i| of >> i & 1 == 1).collect();
        // The most that `n` of them have, by either.
        let top = |have: &dyn Fn(&Room) -> u64| {
            let mut all: Vec<u64> = members.iter().map(|i| have(&self.victims[*i].has)).collect();
            all.sort_unstable_by(|a, b| b.cmp(a));
            all.iter().take(n as usize).sum::<u64>()
        };
        if top(&|r| r.cores) < lacks.cores || top(&|r| r.memory_mib) < lacks.memory_mib {
            return None;
        }
        for i in members {
            let below = of & ((1 << i) - 1);
            let rest = self.cover(below, n - 1, lacks.minus(self.victims[i].has));
            if let Some(rest) = rest {
                return Some(rest | 1 << i);
            }
        }
        None
    }

    /// Jobs out of `of` that have this, those that give most of it first; where [`Self::cover`] has found none in time.
    fn largest(&self, mut of: Set, mut lacks: Room) -> Option<Set> {
        let mut chosen = 0;
        while !lacks.is_nothing() {
            let part = |has: u64, lacks: u64| {
                (u128::from(has.min(lacks)) << 32).checked_div(lacks.into()).unwrap_or(0)
            };
            let gives =
                |v: &Victim| part(v.has.cores, lacks.cores) + part(v.has.memory_mib, lacks.memory_mib);
            let members = self.victims.iter().zip(0..).filter(|(v, i)| of >> i & 1 == 1 && gives(v) > 0);
            // Of equals, the least important.
            let (best, i) = members.max_by_key(|(v, i)| (gives(v), Reverse(*i)))?;
            lacks = lacks.minus(best.has);
            of &= !(1 << i);
            chosen |= 1 << i;
        }
        Some(chosen)
    }

    /// The victims that have something on a GPU.
    fn on(&self, gpu: GpuIndex) -> Set {
        let here = |v: &Victim| self.node.gpus_of(v.job).any(|g| g == gpu);
        self.victims.iter().zip(0..).filter(|(v, _)| here(v)).fold(0, |set, (_, i)| set | 1 << i)
    }

    fn gpus(&self) -> impl Iterator<Item = GpuIndex> + use<> {
        (0_u16..).take(self.node.gpus.len()).map(GpuIndex)
    }

    /// A request on one GPU; or one for instances on several, for which jobs may have to go from any.
    fn parts(&mut self) {
        let one_gpu = self.ask.spread == Spread::OneGpu || self.ask.request.instances <= 1;
        let pools: Vec<Pool> = if one_gpu {
            self.gpus().map(|gpu| self.pool_of(gpu)).collect()
        } else {
            let all = self.gpus().fold(0, |set, gpu| set | self.on(gpu));
            vec![Pool { node: self.node.clone(), ask: self.ask.clone(), jobs: all }]
        };
        let pools: Vec<Pool> =
            pools.into_iter().filter(|pool| self.makes_room(pool.jobs, &pool.node, &pool.ask)).collect();
        for n in 0..=128 {
            if n > self.most() {
                return;
            }
            for pool in &pools {
                self.of_pool(pool, pool.jobs, n, 0);
            }
        }
    }

    /// The jobs of one GPU, and the question whether the request fits that. Where nothing ties the GPU to the others, it is
    /// looked at alone.
    fn pool_of(&self, gpu: GpuIndex) -> Pool {
        let jobs = self.on(gpu);
        let only: GpuSet = [gpu].into_iter().collect();
        let allowed = Some(self.ask.allowed.map_or(only, |of| of.and(only)));
        let is_tied = self.node.keep_uncut > 0 || self.ask.request.place.is_some();
        match self.node.gpus.get(usize::from(gpu.0)).filter(|_| !is_tied && self.ask.permits(gpu)) {
            Some(one) => {
                let links = LinkMatrix::uniform(1, 0.0);
                let node = Node { gpus: vec![one.clone()], links, keep_uncut: 0, claims: Vec::new() };
                let ask = Ask { allowed: None, next: GpuSet::EMPTY, ..self.ask.clone() };
                Pool { node, ask, jobs }
            }
            None => Pool { node: self.node.clone(), ask: Ask { allowed, ..self.ask.clone() }, jobs },
        }
    }

    /// Tries every set of `n` more jobs of a pool beside those that are `going`.
    fn of_pool(&mut self, pool: &Pool, of: Set, n: u32, going: Set) {
        if of.count_ones() < n || self.weighed > MOST_WEIGHED {
            return;
        }
        if n == 0 {
            if self.weigh(pool.node.gpus.len()) && self.makes_room(going, &pool.node, &pool.ask) {
                self.found(going);
            }
            return;
        }
        for i in (0..self.victims.len()).filter(|i| of >> i & 1 == 1) {
            self.of_pool(pool, of & ((1 << i) - 1), n - 1, going | 1 << i);
        }
    }

    /// A request for `n` whole GPUs.
    fn whole_gpus(&mut self, n: usize) {
        let mut one = self.ask.clone();
        one.request.gpus = Some(1);
        one.request.seats = one.request.seats.div_ceil(u32::try_from(n.max(1)).unwrap_or(u32::MAX));
        one.quotas.clear();
        let emptied = without(self.node, &self.victims.iter().map(|v| v.job).collect());
        let may = |gpu: &GpuIndex| {
            let only: GpuSet = [*gpu].into_iter().collect();
            let ask = Ask { allowed: Some(one.allowed.map_or(only, |of| of.and(only))), ..one.clone() };
            fits(&emptied, &ask, self.policy)
        };
        let mut gpus: Vec<Set> = self.gpus().filter(may).map(|gpu| self.on(gpu)).collect();
        gpus.sort_by_key(|set| (set.count_ones(), *set));
        self.of_gpus(&gpus, n, 0);
    }

    /// Tries every set of `n` more of these GPUs, whose jobs must all go.
    fn of_gpus(&mut self, gpus: &[Set], n: usize, going: Set) {
        if going.count_ones() > self.most() || gpus.len() < n || !self.weigh(1) {
            return;
        }
        if n == 0 {
            return self.found(going);
        }
        for (i, gpu) in gpus.iter().enumerate() {
            self.of_gpus(&gpus[i + 1..], n - 1, going | gpu);
        }
    }
}
