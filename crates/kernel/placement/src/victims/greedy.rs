//! A good set of jobs for any number of them, made in a few ways of which the best counts.

use std::cmp::Reverse;

use node_state::{GpuState, Holder, Share};

use super::{Case, HostResources, MOST_SPARED, Pool, Pools};

/// Most jobs that are looked at to spare some of one pool.
const MOST_SPARED_OF_ONE: usize = 512;

/// The best set that one of these ways makes, ascending. `None`: not even the end of all jobs makes room.
///
/// 1. Jobs in their order, until there is room; then those that turn out to be unnecessary are spared.
/// 2. For each GPU that may make room, or for the GPUs whose emptying ends fewest jobs: its jobs, thinned in the same way;
///    then the jobs that have most of the cores and memory that are still lacking.
/// 3. For instances on several GPUs, where cores or memory are lacking: as 1, those that have most of it first.
pub(super) fn best(case: &Case<'_>, pools: &Pools) -> Option<Vec<usize>> {
    let all: Vec<usize> = (0..case.victims.len()).collect();
    let will_do = |jobs: &[bool]| {
        let going = || (0..jobs.len()).filter(|i| jobs[*i]);
        case.lacking_after(going()).is_nothing() && case.makes_room(&|i| jobs[i], case.node, case.ask)
    };
    let looks_at_node = MOST_SPARED as usize / case.node.gpus.len().max(1);
    let certain = thinned(case, &all, looks_at_node, &will_do)?;
    let largest = largest(case);
    let mut sets = Vec::new();
    match pools {
        Pools::Any(pools) => {
            let looks: usize = pools.iter().map(|pool| pool.node.gpus.len()).sum();
            let tries = MOST_SPARED as usize / looks.max(1);
            let is_spread = matches!(&pools[..], [pool] if pool.node.gpus.len() > 1);
            if is_spread && !largest.is_empty() {
                sets.extend(thinned(case, &and_the_rest(&largest, all.len()), tries, &will_do));
            }
            let sets_of = pools.iter().flat_map(|pool| of_pool(case, pool, tries));
            sets.extend(sets_of.filter_map(|set| with_room(case, &largest, set)));
        }
        Pools::Emptied(n, gpus) => {
            sets.extend(emptied(case, *n, gpus).and_then(|set| with_room(case, &largest, set)));
        }
    }
    // GPUs that may each be emptied are not yet a set that the request may have; and with the jobs that give back cores or memory,
    // the last may end that the request would have joined.
    let fits = |set: &Vec<usize>| case.makes_room(&|i| set.binary_search(&i).is_ok(), case.node, case.ask);
    let key = |set: &Vec<usize>| (set.len(), set.iter().rev().copied().collect::<Vec<_>>());
    sets.retain(|set| key(set) < key(&certain));
    sets.sort_by_key(key);
    sets.into_iter().take(looks_at_node).find(fits).or(Some(certain))
}

/// As few as can be had by taking jobs in this order, then sparing from the end, many at a time first. Ascending.
fn thinned(
    case: &Case<'_>,
    order: &[usize],
    mut tries: usize,
    will_do: &dyn Fn(&[bool]) -> bool,
) -> Option<Vec<usize>> {
    let mark = |jobs: &[usize], to: bool, set: &mut [bool]| jobs.iter().for_each(|i| set[*i] = to);
    let first = |n: usize| {
        let mut set = vec![false; case.victims.len()];
        mark(&order[..n], true, &mut set);
        set
    };
    if !will_do(&first(order.len())) {
        return None;
    }
    // The end of one more job hardly ever takes room away: what is returned was tried.
    let (mut too_few, mut needed) = (0, order.len());
    while too_few < needed {
        let n = usize::midpoint(too_few, needed);
        if will_do(&first(n)) {
            needed = n;
        } else {
            too_few = n + 1;
        }
    }
    let mut left = order[..needed].to_vec();
    let mut set = first(needed);
    let mut many = left.len().next_power_of_two() / 2;
    while many > 0 {
        let mut end = left.len();
        while end > 0 && tries > 0 {
            tries -= 1;
            let begin = end.saturating_sub(many);
            mark(&left[begin..end], false, &mut set);
            if will_do(&set) {
                left.drain(begin..end);
            } else {
                mark(&left[begin..end], true, &mut set);
            }
            end = begin;
        }
        many /= 2;
    }
    left.sort_unstable();
    Some(left)
}

/// Sets of a pool's jobs that make room there: from the least important up and, where jobs hold different amounts, from the
/// largest down.
fn of_pool(case: &Case<'_>, pool: &Pool, tries: usize) -> Vec<Vec<usize>> {
    let will_do = |jobs: &[bool]| case.makes_room(&|i| jobs[i], &pool.node, &pool.ask);
    let mut by_size: Vec<(u64, usize)> = pool.jobs.iter().map(|i| (held(case, pool, *i), *i)).collect();
    let mut orders = vec![pool.jobs.clone()];
    if by_size.windows(2).any(|two| two[0].0 != two[1].0) {
        by_size.sort_by_key(|(size, i)| (Reverse(*size), *i));
        orders.push(by_size.into_iter().map(|(_, i)| i).collect());
    }
    // The largest of many shares make the fewest: little is left to spare.
    let tries = (tries / orders.len()).min(MOST_SPARED_OF_ONE / pool.jobs.len().max(1));
    orders.iter().filter_map(|order| thinned(case, order, tries, &will_do)).collect()
}

/// Memory that a job has on a pool's GPUs, MiB; an instance counts by its memory.
fn held(case: &Case<'_>, pool: &Pool, job: usize) -> u64 {
    let job = case.victims[job].job;
    let of = |shares: &[Share]| shares.iter().filter(|s| s.job == job).map(|s| s.mem_mib).sum::<u64>();
    let on = |gpu: &node_state::Gpu| match &gpu.state {
        GpuState::Mps(shares) => of(shares),
        GpuState::Mig(instances) => {
            let has = |i: &node_state::Instance| match &i.holder {
                Holder::Isolated(holder) if *holder == job => gpu.profile_of(i).map_or(0, |p| p.memory_mib),
                Holder::Shared(shares) => of(shares),
                _ => 0,
            };
            instances.iter().map(has).sum()
        }
        GpuState::Free | GpuState::Whole(_) | GpuState::Tasks(_) => 0,
    };
    pool.node.gpus.iter().map(on).sum()
}

/// The jobs of `n` GPUs, each time those of the GPU that adds fewest, then the least important. `None`: too few GPUs.
fn emptied(case: &Case<'_>, n: usize, gpus: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut going = vec![false; case.victims.len()];
    let mut left: Vec<&Vec<usize>> = gpus.iter().collect();
    for _ in 0..n {
        let adds =
            |gpu: &[usize]| -> Vec<usize> { gpu.iter().copied().filter(|i| !going[*i]).rev().collect() };
        let (place, more) = (0..left.len())
            .map(|place| (place, adds(left[place])))
            .min_by(|(_, a), (_, b)| (a.len(), a).cmp(&(b.len(), b)))?;
        left.swap_remove(place);
        more.into_iter().for_each(|i| going[i] = true);
    }
    Some((0..going.len()).filter(|i| going[*i]).collect())
}

/// All jobs that have something of what is lacking, those with the largest part of it first; of equals, the least important.
pub(super) fn largest(case: &Case<'_>) -> Vec<usize> {
    let part =
        |has: u64, lacks: u64| (u128::from(has.min(lacks)) << 32).checked_div(lacks.into()).unwrap_or(0);
    let gives =
        |has: HostResources| part(has.cores, case.lacks.cores) + part(has.memory_mib, case.lacks.memory_mib);
    let mut jobs: Vec<(u128, usize)> = case.victims.iter().map(|v| gives(v.has)).zip(0..).collect();
    jobs.retain(|(gives, _)| *gives > 0);
    jobs.sort_unstable_by_key(|(gives, i)| (Reverse(*gives), *i));
    jobs.into_iter().map(|(_, i)| i).collect()
}

/// These jobs first, then all others in their order.
fn and_the_rest(first: &[usize], jobs: usize) -> Vec<usize> {
    let mut is_first = vec![false; jobs];
    first.iter().for_each(|i| is_first[*i] = true);
    first.iter().copied().chain((0..jobs).filter(|i| !is_first[*i])).collect()
}

/// The set and, of the `largest`, as many as give back what it still lacks. Ascending.
pub(super) fn with_room(case: &Case<'_>, largest: &[usize], mut set: Vec<usize>) -> Option<Vec<usize>> {
    let lacks = case.lacking_after(set.iter().copied());
    let mut given = HostResources::default();
    let mut extra = Vec::new();
    let mut others = largest.iter().filter(|i| set.binary_search(i).is_err());
    while !lacks.minus(given).is_nothing() {
        let i = *others.next()?;
        given = given.plus(case.victims[i].has);
        extra.push(i);
    }
    // Where two things are lacking, there may be enough of one before the other: not all who gave that one must go.
    for place in (0..extra.len()).rev() {
        let without = given.minus(case.victims[extra[place]].has);
        if lacks.minus(without).is_nothing() {
            given = without;
            extra.remove(place);
        }
    }
    set.extend(extra);
    set.sort_unstable();
    Some(set)
}
