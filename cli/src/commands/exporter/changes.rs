//! Changes from one sample of the cluster to the next: instances made, unmade and used again, jobs started, and how busy
//! each GPU was.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use geometry::JobId;

use crate::cluster_snapshot::{ClusterSnapshot, NodeSeen, kind};
use crate::fragmentation::{Places, Wholeness, wholeness};
use crate::gpu_pieces::Owner;
use crate::slurm::squeue::QueuedJob;

/// Looks that a GPU's history goes back.
pub(super) const HISTORY: usize = 120;

/// Instances of a node, counted since the exporter began.
#[derive(Clone, Copy, Default)]
pub(super) struct Instances {
    pub(super) created: u64,
    pub(super) destroyed: u64,
    /// Idle ones that a job got.
    pub(super) reused: u64,
}

/// A job that has started: its kind, and the seconds from its submission to its start.
pub(super) type Started = (&'static str, u64);

/// A node's instances: GPU, profile and first unit, and whether a job has it.
type Known = HashMap<(usize, String, u8), bool>;

/// Everything that is counted over time.
#[derive(Default)]
pub(super) struct Changes {
    /// By node.
    pub(super) instances: BTreeMap<String, Instances>,
    /// By node, each GPU: parts of its slices that jobs had, in percent, the newest last.
    pub(super) busy: HashMap<String, Vec<VecDeque<u8>>>,
    /// GPUs without jobs, in percent, the newest last.
    pub(super) whole: VecDeque<u8>,
    /// By model and shape, the places that are lost to fragmentation, in percent, the newest last.
    pub(super) lost: BTreeMap<(String, String), VecDeque<u8>>,
    known: HashMap<String, Known>,
    /// By node, the jobs that are ending, and when a look first saw it, in seconds since 1970.
    ending: HashMap<String, HashMap<JobId, u64>>,
    /// Jobs that the last look saw, and whether they were pending.
    jobs: HashMap<u32, bool>,
}

impl Changes {
    /// Counts what is new and returns the jobs that have started since the last look. Of what came and went between two looks
    /// nothing is known.
    pub(super) fn add(&mut self, seen: &ClusterSnapshot) -> Vec<Started> {
        for node in &seen.nodes {
            self.add_node(node);
            self.add_ending(node, seen.at);
        }
        self.add_places(&wholeness(&seen.nodes.iter().collect::<Vec<_>>()));
        let started = seen.jobs.iter().filter(|job| self.has_started(job));
        let waits = started.filter_map(|job| Some((kind(job)?, job.start?.saturating_sub(job.submit?))));
        let waits = waits.collect();
        self.jobs = seen.jobs.iter().map(|job| (job.id, job.waits())).collect();
        waits
    }

    /// Tells whether a job waited at the last look and has started since. A task of an array gets a number of its own then, and one that was
    /// cancelled while it waited has no nodes.
    fn has_started(&self, job: &QueuedJob) -> bool {
        let before = self.jobs.get(&job.id).or_else(|| self.jobs.get(&job.array.as_ref()?.0));
        before == Some(&true) && (job.state == "RUNNING" || !job.waits() && !job.nodes.is_empty())
    }

    fn add_ending(&mut self, node: &NodeSeen, at: u64) {
        // What cannot be read has not changed.
        if node.gpus.is_err() {
            return;
        }
        let before = self.ending.remove(&node.name).unwrap_or_default();
        let since = |job: &JobId| (*job, before.get(job).copied().unwrap_or(at));
        self.ending.insert(node.name.clone(), node.health.ending.iter().map(since).collect());
    }

    /// Returns for how many seconds the job that has been ending longest on a node has been seen, 0 without one.
    pub(super) fn ending_longest(&self, node: &NodeSeen, now: u64) -> u64 {
        let since = self.ending.get(&node.name).and_then(|jobs| jobs.values().min());
        since.map_or(0, |since| now.saturating_sub(*since))
    }

    fn add_places(&mut self, whole: &Wholeness) {
        push(&mut self.whole, percent(whole.gpus, whole.of_gpus));
        let key = |places: &Places| (places.model.to_owned(), places.shape.to_string());
        let keys: BTreeSet<_> = whole.places.iter().map(key).collect();
        self.lost.retain(|known, _| keys.contains(known));
        for places in &whole.places {
            push(self.lost.entry(key(places)).or_default(), places.lost_percent());
        }
    }

    fn add_node(&mut self, node: &NodeSeen) {
        // What cannot be read has not changed.
        let Ok(gpus) = &node.gpus else { return };
        let now: Known = gpus
            .iter()
            .enumerate()
            .flat_map(|(g, gpu)| {
                gpu.instances().map(move |(p, start, held)| ((g, p.to_owned(), start), held))
            })
            .collect();
        let count = self.instances.entry(node.name.clone()).or_default();
        if let Some(before) = self.known.get(&node.name) {
            let new = |known: &Known, key| !known.contains_key(key);
            count.created += now.keys().filter(|key| new(before, key)).count() as u64;
            count.destroyed += before.keys().filter(|key| new(&now, key)).count() as u64;
            count.reused +=
                now.iter().filter(|(key, held)| **held && before.get(key) == Some(&false)).count() as u64;
        }
        self.known.insert(node.name.clone(), now);
        let busy = self.busy.entry(node.name.clone()).or_default();
        busy.resize_with(gpus.len(), VecDeque::new);
        for (history, gpu) in busy.iter_mut().zip(gpus) {
            let slices = gpu.slices();
            let held = |owner: Owner| !matches!(owner, Owner::Free | Owner::Idle);
            let (total, held) = slices
                .iter()
                .fold((0, 0), |(all, busy), (owner, n)| (all + n, busy + if held(*owner) { *n } else { 0 }));
            push(history, percent(held, total));
        }
    }
}

/// Adds the newest value of a history, and drops the oldest of a full one.
fn push(history: &mut VecDeque<u8>, value: u8) {
    if history.len() == HISTORY {
        history.pop_front();
    }
    history.push_back(value);
}

fn percent(part: u32, all: u32) -> u8 {
    u8::try_from(100 * u64::from(part) / u64::from(all.max(1))).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_snapshot::tests::{job, seen};

    fn of(jobs: Vec<QueuedJob>) -> ClusterSnapshot {
        ClusterSnapshot { jobs, ..seen() }
    }

    #[test]
    fn a_job_that_hangs_is_told_from_jobs_that_end_one_after_the_other() {
        let mut changes = Changes::default();
        let mut longest = |at, ending: &[u32], is_known: bool| {
            let mut seen = ClusterSnapshot { at, ..seen() };
            seen.nodes[0].health.ending = ending.iter().copied().map(JobId).collect();
            if !is_known {
                seen.nodes[0].gpus = Err("no layout published".to_owned());
            }
            changes.add(&seen);
            changes.ending_longest(&seen.nodes[0], at)
        };
        assert_eq!(longest(1000, &[], true), 0);
        assert_eq!(longest(1010, &[7], true), 0);
        assert_eq!(longest(1020, &[8, 7], true), 10);
        assert_eq!(longest(1030, &[9], true), 0);
        assert_eq!(longest(1040, &[], false), 10);
        assert_eq!(longest(2830, &[9, 10], true), 1800);
    }

    #[test]
    fn tasks_of_arrays_have_started_once_and_who_was_cancelled_never_has() {
        let mut changes = Changes::default();
        let on = |job: QueuedJob, nodes: &str| QueuedJob { nodes: nodes.to_owned(), ..job };
        let task = |id, state, tasks: &str, nodes: &str| {
            on(
                QueuedJob {
                    array: Some((30, tasks.to_owned())),
                    ..job(id, "alice", state, "iso=mig:1g.5gb")
                },
                nodes,
            )
        };
        let waits = |id| job(id, "bob", "PENDING", "iso=mps mem=4769");
        assert_eq!(changes.add(&of(vec![task(30, "PENDING", "0-2", ""), waits(40), waits(41)])), []);
        let cancelled = QueuedJob { start: Some(99_000), ..job(40, "bob", "CANCELLED", "iso=mps mem=4769") };
        let now = vec![
            task(30, "PENDING", "1-2", ""),
            task(31, "RUNNING", "0", "n1"),
            cancelled.clone(),
            on(job(41, "bob", "RUNNING", "iso=mps mem=4769"), "n4"),
        ];
        assert_eq!(changes.add(&of(now)), [("mig", 400), ("mps", 400)]);
        let later = vec![task(31, "RUNNING", "0", "n1"), task(30, "RUNNING", "2", "n1"), cancelled];
        assert_eq!(changes.add(&of(later)), [("mig", 400)]);
    }
}
