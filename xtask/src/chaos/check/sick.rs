//! An unhealthy GPU gets no new job, and everything else goes on.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::owners::Devices;
use crate::chaos::seen::{Job, Seen, Task};

/// Clock ticks in a second.
const TICKS: u64 = 100;

/// A run of a job: its id, and how often it was requeued before.
type JobRun = (u32, u32);

/// A GPU that its node leaves out, and what has run on it since.
#[derive(Debug)]
pub(in crate::chaos) struct LeftOut {
    pub(in crate::chaos) node: String,
    /// Number and UUID of the GPU.
    pub(in crate::chaos) gpu: u32,
    uuid: String,
    /// True if the jobs that were on it are requeued.
    requeues: bool,
    /// True if a job may have been requeued for an earlier fault.
    pub(in crate::chaos) is_disturbed: bool,
    /// When slurmctld knew it: seconds since 1970, and clock ticks since boot.
    since: (u64, u64),
    /// Runs that were on this GPU before, and those on the node's other GPUs.
    before: BTreeSet<JobRun>,
    others: BTreeSet<JobRun>,
    /// Start of each process that was seen on it since, in seconds since 1970, by job and order.
    begun: BTreeMap<(u32, Option<u32>), u64>,
    /// Jobs whose processes began on the node's other GPUs meanwhile.
    elsewhere: BTreeSet<u32>,
    was_unfit: bool,
}

impl LeftOut {
    /// `before` is what was seen before the GPU became unhealthy; `None`: the node has no such GPU.
    pub(in crate::chaos) fn new(
        before: &Seen,
        devices: &Devices,
        node: &str,
        gpu: u32,
        requeues: bool,
    ) -> Option<Self> {
        let seen = before.nodes.iter().find(|seen| seen.name == node)?;
        let uuid = seen.gpus.iter().find(|known| known.index == gpu)?.uuid.clone();
        let mut left_out = Self {
            node: node.to_owned(),
            gpu,
            uuid,
            requeues,
            is_disturbed: false,
            since: (u64::MAX, u64::MAX),
            before: BTreeSet::new(),
            others: BTreeSet::new(),
            begun: BTreeMap::new(),
            elsewhere: BTreeSet::new(),
            was_unfit: seen.takes_no_gpu_jobs,
        };
        for task in before.tasks.iter().filter(|task| task.node == node && !task.devices.is_empty()) {
            let is_it = |job: &&Job| (job.id, job.order) == (task.job, task.order) && job.state == "RUNNING";
            let Some(job) = before.jobs.iter().find(is_it) else { continue };
            let runs = if left_out.has(task, devices) { &mut left_out.before } else { &mut left_out.others };
            runs.insert((job.id, job.restarts));
        }
        left_out.others = &left_out.others - &left_out.before;
        Some(left_out)
    }

    /// slurmctld knows that the GPU is left out. Jobs that it places from now on, by seconds since 1970 and ticks since boot, are new.
    pub(in crate::chaos) fn is_known(&mut self, seconds: u64, ticks: u64) {
        self.since = (seconds, ticks);
    }

    fn has(&self, task: &Task, devices: &Devices) -> bool {
        let mut uuids = task.devices.iter().map(|name| devices.uuid(&task.node, name));
        uuids.any(|uuid| devices.gpu(&uuid) == self.uuid)
    }

    /// Notes the processes that began on the GPU since.
    pub(in crate::chaos) fn note(&mut self, tasks: &[Task], devices: &Devices) {
        let (seconds, ticks) = self.since;
        let fresh = tasks.iter().filter(|task| task.node == self.node && task.since > ticks);
        for task in fresh.filter(|task| !task.devices.is_empty()) {
            if self.has(task, devices) {
                self.begun.insert((task.job, task.order), seconds + (task.since - ticks) / TICKS);
            } else {
                self.elsewhere.insert(task.job);
            }
        }
    }

    /// How many jobs were on it before, and how many began on the node's other GPUs meanwhile.
    pub(in crate::chaos) fn counts(&self) -> (usize, usize) {
        (self.before.len(), self.elsewhere.len())
    }
}

/// Finds what is wrong while the GPU is left out.
pub(in crate::chaos) fn sick_gpu(seen: &Seen, left_out: &LeftOut) -> Vec<Finding> {
    let mut found = Vec::new();
    let gpu = format!("{}: GPU {}", left_out.node, left_out.gpu);
    let mut tell = |rule, seen: String| found.push(Finding::new(rule, gpu.clone(), seen));
    let Some(node) = seen.nodes.iter().find(|node| node.name == left_out.node) else { return found };
    if !node.left_out.contains(&left_out.gpu) {
        tell("sick GPU not left out", format!("slurmctld leaves {:?} out", node.left_out));
    }
    if node.takes_no_gpu_jobs && !left_out.was_unfit {
        tell("node unfit for a sick GPU", "its other GPUs get no jobs".to_owned());
    }
    for ((id, order), begun) in &left_out.begun {
        let job = seen.jobs.iter().find(|job| (job.id, job.order) == (*id, *order));
        let Some(placed) = job.and_then(|job| job.start) else { continue };
        // A job that was placed before, or that has been placed again since its process began, proves nothing.
        if placed > left_out.since.0 && placed <= begun + 1 {
            tell(
                "sick GPU used",
                format!(
                    "job {id} (order {order:?}) was placed there at {placed}, after {:?}",
                    left_out.since
                ),
            );
        }
    }
    let is_still =
        |run: &&JobRun| seen.jobs.iter().any(|job| (job.id, job.restarts) == **run && job.state == "RUNNING");
    let was_requeued = |run: &&JobRun| seen.jobs.iter().any(|job| job.id == run.0 && job.restarts > run.1);
    if left_out.requeues {
        let stay: Vec<&JobRun> = left_out.before.iter().filter(is_still).collect();
        if !stay.is_empty() {
            tell("job stays on a lost GPU", format!("{stay:?} (job, restarts)"));
        }
    }
    let spared = if left_out.requeues { None } else { Some(&left_out.before) };
    let spared = left_out.others.iter().chain(spared.into_iter().flatten());
    let gone: Vec<&JobRun> = spared.filter(was_requeued).collect();
    if !gone.is_empty() && !left_out.is_disturbed {
        tell("job requeued for nothing", format!("{gone:?} (job, restarts)"));
    }
    found
}
