//! Works out what past placements did to a site's instances.
//!
//! # Problem
//! Slurm's accounting has what each job got, with GPU, profile and place, and from when to when. Find when instances were made,
//! used again and destroyed, and how much of the GPUs jobs held.
//!
//! # Approach
//! The placements are entered and taken out again in the order of time, as slurmctld did it: [`Node::apply`] keeps the instance
//! of a job that ended as an idle one, and drops idle ones that are in a later job's way. Jobs that end come before jobs that
//! start in the same second.

use geometry::{JobId, Uid};
use node_state::slices::slices_for_gpu;
use node_state::{Gpu, GpuState, Holder, Node};
use protocol::Grant;

use crate::Instances;

/// A job's grants, and when it had them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// When it started, seconds.
    pub start: u64,
    /// When it ended; `None`: it still runs.
    pub end: Option<u64>,
    /// Nodes of the job, as places in the list of nodes, and its grant on each.
    pub parts: Vec<(usize, Grant)>,
}

/// Use of the GPUs between two instants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Jobs that started.
    pub started: u64,
    /// Instances made, used again and destroyed.
    pub instances: Instances,
    /// Compute slices that jobs held, times seconds. A GPU without MIG is held as a whole.
    pub held: u64,
    /// Compute slices of idle instances, times seconds.
    pub idle: u64,
}

/// Use of the GPUs, interval by interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// Intervals: one fewer than the edges.
    pub intervals: Vec<Interval>,
    /// Placements that do not fit what others of the time left: they are left out.
    pub misfits: usize,
}

/// Computes what the jobs did on the nodes, which are without jobs at first, between each two of the ascending `edges`.
#[must_use]
pub fn history(nodes: &[Node], placed: &[Placed], edges: &[u64]) -> History {
    let events = events(placed);
    let count = edges.len().saturating_sub(1);
    let misfits = 0;
    let mut past = Past {
        nodes: nodes.to_vec(),
        history: History { intervals: vec![Interval::default(); count], misfits },
    };
    let mut events = events.into_iter().peekable();
    // What was there before the first edge counts nowhere.
    while let Some((_, starts, job)) =
        events.next_if(|(time, ..)| edges.first().is_none_or(|edge| time < edge))
    {
        past.enter(None, starts, job, placed);
    }
    for (at, ends) in edges.windows(2).enumerate() {
        let (mut now, to) = (ends[0], ends[1]);
        while let Some((time, starts, job)) = events.next_if(|(time, ..)| *time < to) {
            past.pass(at, time - now);
            past.enter(Some(at), starts, job, placed);
            now = time;
        }
        past.pass(at, to - now);
    }
    past.history
}

/// Starts and ends in the order of time. Accounting has whole seconds: of one second, jobs that ran before it end first, then jobs that began
/// and ended in it come and go, one after the other, and then the others start.
fn events(placed: &[Placed]) -> Vec<(u64, bool, usize)> {
    let mut events = Vec::new();
    for (at, job) in placed.iter().enumerate() {
        let end = job.end.map(|end| end.max(job.start));
        let in_one_second = end == Some(job.start);
        events.push((job.start, if in_one_second { 1 } else { 2 }, at, true));
        events.extend(end.map(|end| (end, u8::from(in_one_second), at, false)));
    }
    events.sort_unstable_by_key(|(time, turn, at, starts)| (*time, *turn, *at, !starts));
    events.into_iter().map(|(time, _, at, starts)| (time, starts, at)).collect()
}

struct Past {
    nodes: Vec<Node>,
    history: History,
}

impl Past {
    /// A job starts or ends; `at` is the interval in which that counts.
    fn enter(&mut self, at: Option<usize>, starts: bool, job: usize, placed: &[Placed]) {
        let id = JobId(u32::try_from(job + 1).unwrap_or(u32::MAX));
        let mut done = Instances::default();
        let mut fits = true;
        for (node, grant) in &placed[job].parts {
            let Some(node) = self.nodes.get_mut(*node) else { continue };
            if !starts {
                node.release(id);
                continue;
            }
            let before = node.clone();
            fits &= node.apply(id, Uid(0), grant).is_ok();
            done += Instances::between(&before, node);
        }
        if !fits {
            self.history.misfits += 1;
        }
        if let Some(interval) = at.and_then(|at| self.history.intervals.get_mut(at)).filter(|_| starts) {
            interval.started += 1;
            interval.instances += done;
        }
    }

    /// So many seconds go by.
    fn pass(&mut self, at: usize, seconds: u64) {
        if seconds == 0 {
            return;
        }
        let now = self.nodes.iter().flat_map(|node| &node.gpus).map(used);
        let (held, idle) = now.fold((0, 0), |(held, idle), (h, i)| (held + h, idle + i));
        let interval = &mut self.history.intervals[at];
        interval.held += held * seconds;
        interval.idle += idle * seconds;
    }
}

/// Compute slices of a GPU that jobs hold, and those of idle instances.
fn used(gpu: &Gpu) -> (u64, u64) {
    let instances = match &gpu.state {
        GpuState::Free => return (0, 0),
        GpuState::Whole(_) | GpuState::Mps(_) | GpuState::Tasks(_) => {
            return (slices_for_gpu(Some(gpu.model)), 0);
        }
        GpuState::Mig(instances) => instances,
    };
    let slices = |idle: bool| -> u64 {
        let those = instances.iter().filter(|i| (i.holder == Holder::Idle) == idle);
        those.filter_map(|i| gpu.profile_of(i)).map(|p| u64::from(p.compute_slices)).sum()
    };
    (slices(false), slices(true))
}
