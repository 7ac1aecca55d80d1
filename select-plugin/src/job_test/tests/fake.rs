//! A Slurm made of answers.

use std::cell::{Cell, OnceCell};
use std::collections::HashSet;

use geometry::JobId;
use placement::HostResources;
use topology::GpuSet;

use crate::slurm::Slurm;
use crate::view::{ChosenView, EntryChoice, NodeView};

/// Slurm's answers; a field for each question.
#[derive(Clone, Default)]
pub(super) struct Fake {
    pub(super) nodes: Vec<NodeView>,
    pub(super) reach: OnceCell<Vec<String>>,
    /// Number of times that the nodes were read.
    pub(super) reads: Cell<u32>,
    pub(super) victims: Vec<JobId>,
    pub(super) preempted: Option<HashSet<JobId>>,
    /// Cores of jobs on every node.
    pub(super) cores: Vec<(JobId, u64)>,
    pub(super) lacks_cores: u64,
    pub(super) choices: Vec<ChosenView>,
    /// Numbers of GPUs that it knows of nodes.
    pub(super) gpus: Vec<(String, u64)>,
    pub(super) ends: Vec<(JobId, i64)>,
    /// Nodes on which an epilog is not over.
    pub(super) completing: Vec<String>,
    /// Jobs that wait.
    pub(super) pending: Vec<JobId>,
    pub(super) start_time: i64,
    pub(super) asked_from: i64,
    pub(super) in_backfill: bool,
    pub(super) forgets_shards: bool,
    pub(super) now: u64,
}

impl Fake {
    /// With these nodes, in the order of their indices, at second 1000.
    pub(super) fn with(names: &[&str]) -> Self {
        let node = |(index, name): (usize, &&str)| NodeView {
            index,
            name: (*name).into(),
            slot: None,
            config: 7,
            completing: false,
            registered: true,
            unfit: false,
            required: false,
        };
        Self { nodes: names.iter().enumerate().map(node).collect(), now: 1000, ..Self::default() }
    }

    /// With this choice of devices on a node, as bits.
    pub(super) fn choosing(mut self, node: &str, chosen: u64, available: u64) -> Self {
        let entry = EntryChoice {
            chosen: GpuSet::from_bits(chosen),
            available: GpuSet::from_bits(available),
            ..EntryChoice::default()
        };
        let near = GpuSet::from_bits(u64::MAX);
        self.choices.push(ChosenView { name: node.to_owned(), entries: vec![entry], near });
        self
    }
}

impl Slurm for Fake {
    fn nodes(&self) -> &[NodeView] {
        self.reads.set(self.reads.get() + 1);
        &self.nodes
    }

    fn within_reach(&self) -> &[String] {
        self.reach.get_or_init(|| self.nodes.iter().map(|n| n.name.to_string()).collect())
    }

    fn victims(&self) -> Vec<JobId> {
        self.victims.clone()
    }

    fn preempted(&self) -> Option<HashSet<JobId>> {
        self.preempted.clone()
    }

    fn rooms(&self, _: &NodeView, jobs: &[JobId]) -> Vec<HostResources> {
        let of = |job: &JobId| self.cores.iter().find(|(id, _)| id == job).map_or(0, |(_, cores)| *cores);
        jobs.iter().map(|job| HostResources { cores: of(job), memory_mib: 0 }).collect()
    }

    fn lacks(&self, nodes: &[&NodeView]) -> Vec<HostResources> {
        vec![HostResources { cores: self.lacks_cores, memory_mib: 0 }; nodes.len()]
    }

    fn choice(&self, node: &NodeView) -> Option<ChosenView> {
        self.choices.iter().find(|c| *c.name == *node.name).cloned()
    }

    fn gpus(&self, node: &NodeView) -> Option<u64> {
        self.gpus.iter().find(|(name, _)| **name == *node.name).map(|(_, gpus)| *gpus)
    }

    fn end_of(&self, job: JobId) -> i64 {
        self.ends.iter().find(|(id, _)| *id == job).map_or(0, |(_, end)| *end)
    }

    fn completing(&self) -> HashSet<String> {
        self.completing.iter().cloned().collect()
    }

    fn is_pending(&self, job: JobId) -> bool {
        self.pending.contains(&job)
    }

    fn says_start(&self) -> i64 {
        self.start_time
    }

    fn asked_from(&self) -> i64 {
        self.asked_from
    }

    fn forgets_shards(&self) -> bool {
        self.forgets_shards
    }

    fn in_backfill(&self) -> bool {
        self.in_backfill
    }

    fn now(&self) -> u64 {
        self.now
    }
}
