//! The best set of at most 128 jobs, by trying sets in ascending order until a limit.

use node_state::{Ask, Node};

use super::{Case, HostResources, MOST_WEIGHED, Pool, Pools, greedy};

/// Jobs by their place among the victims: bit `i` for the `i`-th.
type Set = u128;

fn set_of(jobs: impl IntoIterator<Item = usize>) -> Set {
    jobs.into_iter().fold(0, |set, i| set | 1 << i)
}

fn members(set: Set) -> impl DoubleEndedIterator<Item = usize> + Clone {
    (0..Set::BITS as usize).filter(move |i| set >> i & 1 == 1)
}

/// A better set than the `known` one, or that; `None` if what was found does not make room on the whole node.
pub(super) fn better(case: &Case<'_>, pools: &Pools, known: &[usize]) -> Option<Vec<usize>> {
    let mut search =
        Search { case, largest: greedy::largest(case), weighed: 0, best: set_of(known.iter().copied()) };
    match pools {
        Pools::Any(pools) => search.parts(pools),
        Pools::Emptied(n, gpus) => {
            let mut gpus: Vec<Set> = gpus.iter().map(|jobs| set_of(jobs.iter().copied())).collect();
            gpus.sort_by_key(|set| (set.count_ones(), *set));
            search.of_gpus(&gpus, *n, 0);
        }
    }
    let best = search.best;
    search.makes_room(best, case.node, case.ask).then(|| members(best).collect())
}

struct Search<'a> {
    case: &'a Case<'a>,
    largest: Vec<usize>,
    weighed: u32,
    best: Set,
}

/// A pool, and which of its jobs are in every set that makes room.
struct Parts<'a> {
    pool: &'a Pool,
    jobs: Set,
    always: Set,
}

impl Search<'_> {
    fn makes_room(&self, set: Set, node: &Node, ask: &Ask) -> bool {
        self.case.makes_room(&|i| set >> i & 1 == 1, node, ask)
    }

    /// Counts so many more GPUs as weighed, and tells whether they may be.
    fn weigh(&mut self, gpus: usize) -> bool {
        self.weighed = self.weighed.saturating_add(u32::try_from(gpus).unwrap_or(u32::MAX));
        self.weighed <= MOST_WEIGHED
    }

    /// A set that makes room on the GPUs: with what is still lacking it may be the best.
    fn found(&mut self, set: Set) {
        let lacks = self.case.lacking_after(members(set));
        let more = self.best.count_ones().saturating_sub(set.count_ones());
        let least = (0..=more).find_map(|n| self.cover(!set, n, lacks));
        let in_order = || greedy::with_room(self.case, &self.largest, members(set).collect()).map(set_of);
        let Some(all) = least.map(|extra| set | extra).or_else(in_order) else { return };
        let key = |set: Set| (set.count_ones(), set);
        if key(all) >= key(self.best) {
            return;
        }
        // The end of a job that the request would have joined takes room away.
        let (node, ask) = (self.case.node, self.case.ask);
        if all == set || (self.weigh(node.gpus.len()) && self.makes_room(all, node, ask)) {
            self.best = all;
        }
    }

    /// The first set of `n` jobs out of `of` that has this.
    fn cover(&mut self, of: Set, n: u32, lacks: HostResources) -> Option<Set> {
        if n == 0 {
            return lacks.is_nothing().then_some(0);
        }
        if !self.weigh(1) {
            return None;
        }
        let victims = self.case.victims;
        let members: Vec<usize> = members(of).take_while(|i| *i < victims.len()).collect();
        // The most that `n` of them have, by either.
        let top = |have: &dyn Fn(&HostResources) -> u64| {
            let mut all: Vec<u64> = members.iter().map(|i| have(&victims[*i].has)).collect();
            all.sort_unstable_by(|a, b| b.cmp(a));
            all.iter().take(n as usize).sum::<u64>()
        };
        if top(&|r| r.cores) < lacks.cores || top(&|r| r.memory_mib) < lacks.memory_mib {
            return None;
        }
        for i in members {
            let below = of & ((1 << i) - 1);
            let rest = self.cover(below, n - 1, lacks.minus(victims[i].has));
            if let Some(rest) = rest {
                return Some(rest | 1 << i);
            }
        }
        None
    }

    /// Jobs have to go from one of the pools.
    fn parts(&mut self, pools: &[Pool]) {
        let pools: Vec<Parts<'_>> = pools.iter().map(|pool| self.needed(pool)).collect();
        for n in 0..=Set::BITS {
            if n > self.best.count_ones() {
                return;
            }
            for Parts { pool, jobs, always } in &pools {
                if let Some(more) = n.checked_sub(always.count_ones()) {
                    self.of_pool(pool, jobs & !always, more, *always);
                }
            }
        }
    }

    /// On one GPU, a job is needed if the end of all others there makes no room. On many, to ask for each job takes too long.
    fn needed<'p>(&mut self, pool: &'p Pool) -> Parts<'p> {
        let jobs = set_of(pool.jobs.iter().copied());
        let is_alone = pool.node.gpus.len() == 1;
        let mut is_needed = |i: &usize| {
            is_alone && self.weigh(1) && !self.makes_room(jobs & !(1 << i), &pool.node, &pool.ask)
        };
        let always = set_of(pool.jobs.iter().copied().filter(|i| is_needed(i)));
        Parts { pool, jobs, always }
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
        for i in members(of) {
            self.of_pool(pool, of & ((1 << i) - 1), n - 1, going | 1 << i);
        }
    }

    /// Tries every set of `n` more of these GPUs, whose jobs must all go.
    fn of_gpus(&mut self, gpus: &[Set], n: usize, going: Set) {
        if going.count_ones() > self.best.count_ones() || gpus.len() < n || !self.weigh(1) {
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
