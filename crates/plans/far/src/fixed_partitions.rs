//! The strategies that the paper compares with (section 6.5): a partition that never changes, and MISO's partitions.

use super::problem::{GpuNow, Held, Micros, Problem, ProblemError};
use super::schedule::{Op, OpKind, Run, Schedule};
use super::table::{NEVER, SearchTable, members};
use super::tree::MAX_NODES;

/// A plan together with the problem it solves, which differs from the given one in the instances that exist at the
/// beginning.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// The places of the partition, the same on every GPU.
    pub partition: Vec<usize>,
    /// The problem with the partition in place.
    pub problem: Problem,
    /// Runs only: a fixed partition has no reconfigurations.
    pub schedule: Schedule,
}

/// FixPart(P): all tasks in order of their index, each on the instance that is free first. The partition is made before
/// the plan begins and costs nothing, as in the paper. GPUs are taken as empty.
///
/// # Errors
///
/// [`ProblemError::Held`] if the places overlap, [`ProblemError::Nowhere`] if a task runs at none of their sizes.
pub fn fix_part(problem: &Problem, partition: &[usize]) -> Result<Fixed, ProblemError> {
    let mut problem = problem.clone();
    for gpu in &mut problem.gpus {
        let held = partition.iter().map(|&node| Held { node, until: Some(0) }).collect();
        *gpu = GpuNow { lane: gpu.lane, held, blocked: Vec::new() };
    }
    problem.busy.clear();
    problem.check()?;
    let places = (0..problem.gpus.len()).flat_map(|g| partition.iter().map(move |&p| (g, p)));
    let mut free: Vec<(Micros, usize, usize)> = places.map(|(g, p)| (0, g, p)).collect();
    let mut schedule = Schedule::default();
    for (task, t) in problem.tasks.iter().enumerate() {
        let time = |p: usize| t.times[problem.tree.nodes[p].class];
        let able = free.iter_mut().filter(|f| time(f.2).is_some());
        let (begin, gpu, node) = able.min_by_key(|f| f.0).ok_or(ProblemError::Nowhere { task })?;
        let end = *begin + time(*node).unwrap_or(0);
        schedule.runs.push(Run { task, gpu: *gpu, node: *node, begin: *begin, end });
        *begin = end;
    }
    Ok(Fixed { partition: partition.to_vec(), problem, schedule })
}

/// FixPartBest: the partition of all with the shortest makespan, the first of them on a tie. `None` if every partition
/// lacks a size that some task needs.
#[must_use]
pub fn fix_part_best(problem: &Problem) -> Option<Fixed> {
    let partitions = problem.tree.partitions();
    let plans = partitions.iter().filter_map(|p| fix_part(problem, p).ok());
    plans.min_by_key(|f| f.schedule.makespan())
}

/// MISO-opt: the next tasks in order of their index run at once, on the partition and in the assignment to its
/// instances that give the greatest sum of speedups (time at the smallest size over time at the given one); the next
/// partition follows as its places come free. `None` if a task runs at no size of any partition.
///
/// Source: FAR, section 6.5, after Li et al. (SoCC'22). With several GPUs the one that is free first takes the next
/// partition. GPUs are taken as empty.
#[must_use]
pub fn miso(problem: &Problem) -> Option<Schedule> {
    let table = SearchTable::new(problem);
    let partitions = problem.tree.partitions();
    let mut gpus: Vec<PartitionedGpu> = problem.gpus.iter().map(|g| PartitionedGpu::new(g.lane)).collect();
    let mut reconfig_end: Vec<(usize, Micros)> = Vec::new();
    let mut schedule = Schedule::default();
    let mut next = 0;
    while next < table.tasks() {
        let round =
            partitions.iter().filter_map(|p| assign(&table, p, next)).max_by(|a, b| a.0.total_cmp(&b.0))?;
        let (gpu, device) = gpus.iter_mut().enumerate().min_by_key(|(_, d)| d.end())?;
        next += round.1.len();
        let lane = match reconfig_end.iter().position(|(l, _)| *l == device.lane) {
            Some(known) => known,
            None => {
                reconfig_end.push((device.lane, 0));
                reconfig_end.len() - 1
            }
        };
        device.run(&table, gpu, &round.1, &mut reconfig_end[lane].1, &mut schedule);
    }
    schedule.runs.sort_by_key(|r| r.task);
    schedule.ops.sort_by_key(|o| (o.begin, o.end, o.kind));
    Some(schedule)
}

/// The best assignment of the tasks from `next` on to the instances of a partition: sum of speedups and (place, task).
fn assign(table: &SearchTable<'_>, partition: &[usize], next: usize) -> Option<(f64, Vec<(usize, usize)>)> {
    let count = partition.len().min(table.tasks() - next);
    // Per set of instances taken by the first tasks, the best sum and the instance the last of them took.
    let mut best: Vec<Option<(f64, usize)>> = vec![None; 1 << partition.len()];
    best[0] = Some((0.0, 0));
    let mut full = None;
    for set in 0..best.len() {
        let Some((sum, _)) = best[set] else { continue };
        let done = set.count_ones() as usize;
        if done == count {
            full = full.filter(|&f: &usize| best[f].is_some_and(|(s, _)| s >= sum)).or(Some(set));
            continue;
        }
        for (i, &place) in partition.iter().enumerate().filter(|(i, _)| set >> i & 1 == 0) {
            let Some(speedup) = speedup(table, next + done, place) else { continue };
            let slot = &mut best[set | 1 << i];
            if slot.is_none_or(|(s, _)| sum + speedup > s) {
                *slot = Some((sum + speedup, i));
            }
        }
    }
    let (mut set, mut pairs) = (full?, Vec::new());
    let sum = best[set]?.0;
    for task in (next..next + count).rev() {
        let i = best[set]?.1;
        pairs.push((partition[i], task));
        set &= !(1 << i);
    }
    pairs.reverse();
    Some((sum, pairs))
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of times; only compared")]
fn speedup(table: &SearchTable<'_>, task: usize, place: usize) -> Option<f64> {
    let time = table.time(task, table.place(place).class);
    let slowest = (0..table.classes).map(|c| table.time(task, c)).find(|&t| t < NEVER)?;
    (time < NEVER).then(|| slowest as f64 / time as f64)
}

/// One GPU while MISO's partitions follow one another.
struct PartitionedGpu {
    lane: usize,
    /// Per place: when its instance is free; `None` without one.
    alive: [Option<Micros>; MAX_NODES],
}

impl PartitionedGpu {
    fn new(lane: usize) -> Self {
        Self { lane, alive: [None; MAX_NODES] }
    }

    fn end(&self) -> Micros {
        self.alive.iter().flatten().copied().max().unwrap_or(0)
    }

    /// Makes the instances that are missing, first those whose places are free first, and runs one task on each.
    fn run(
        &mut self,
        table: &SearchTable<'_>,
        gpu: usize,
        round: &[(usize, usize)],
        reconfig_end: &mut Micros,
        schedule: &mut Schedule,
    ) {
        let mut order = round.to_vec();
        order.sort_by_key(|&(place, _)| {
            self.in_way(table, place).filter_map(|p| self.alive[p]).max().unwrap_or(0)
        });
        let mut op = |kind, node: usize, begin: Micros, length| {
            schedule.ops.push(Op { kind, gpu, node, begin, end: begin + length });
            begin + length
        };
        for (place, task) in order {
            if self.alive[place].is_none() {
                let mut old: Vec<usize> =
                    self.in_way(table, place).filter(|&p| self.alive[p].is_some()).collect();
                old.sort_by_key(|&p| self.alive[p]);
                for p in old {
                    let begin = (*reconfig_end).max(self.alive[p].take().unwrap_or(0));
                    *reconfig_end = op(OpKind::Destroy, p, begin, table.place(p).destroy);
                }
                *reconfig_end = op(OpKind::Create, place, *reconfig_end, table.place(place).create);
                self.alive[place] = Some(*reconfig_end);
            }
            let begin = self.alive[place].unwrap_or(0);
            let end = begin + table.time(task, table.place(place).class);
            schedule.runs.push(Run { task, gpu, node: place, begin, end });
            self.alive[place] = Some(end);
        }
    }

    fn in_way(&self, table: &SearchTable<'_>, place: usize) -> impl Iterator<Item = usize> + use<> {
        members(table.place(place).overlap)
    }
}
