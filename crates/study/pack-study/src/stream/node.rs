//! A node while a stream runs: its jobs, and what it has answered since they last changed.

use std::cell::RefCell;
use std::collections::HashMap;

use geometry::{JobId, Uid};
use mapa::Memo;
use node_state::{GpuState, Holder, Node, Policy};
use placement::fits;
use protocol::Grant;
use replay::Instances;

use super::class::{Class, Want};
use super::rule::{BestPlace, Rule};
use super::site::StreamNode;

/// A job on the node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobHere {
    pub(crate) job: JobId,
    pub(crate) end_ms: u64,
    cpus: u32,
    mem_mib: u64,
    /// It has all GPUs of the node.
    all: bool,
}

impl JobHere {
    /// Cores and memory of the node.
    pub(crate) fn asks(&self) -> (u32, u64) {
        (self.cpus, self.mem_mib)
    }
}

pub(crate) struct NodeState {
    pub(crate) node: Node,
    pub(crate) cpus: u32,
    pub(crate) mem_mib: u64,
    pub(crate) running: Vec<JobHere>,
    /// By request, what it wants here.
    wants: RefCell<HashMap<usize, Want>>,
    /// By request, the place that a job gets.
    places: HashMap<usize, Option<BestPlace>>,
    /// By class, when there is room if no other job comes; `None`: never.
    soonest: HashMap<usize, Option<u64>>,
    memo: Memo,
}

impl NodeState {
    pub(crate) fn new(spec: &StreamNode) -> Self {
        Self {
            node: spec.node.clone(),
            cpus: spec.cpus,
            mem_mib: spec.mem_mib,
            running: Vec::new(),
            wants: RefCell::default(),
            places: HashMap::new(),
            soonest: HashMap::new(),
            memo: Memo::default(),
        }
    }

    pub(crate) fn has_cores(&self, class: &Class) -> bool {
        self.cpus >= class.cpus && self.mem_mib >= class.mem_mib
    }

    /// Reads what the jobs of a class want of this node.
    pub(crate) fn want(&self, class: &Class, policy: &Policy) -> Want {
        let read = || class.want(&self.node, policy);
        class
            .named(&self.node)
            .unwrap_or_else(|| *self.wants.borrow_mut().entry(class.ask_at).or_insert_with(read))
    }

    /// Counts the GPUs that a job of this class takes here, an instance as its part of the memory slices. Shares count as none:
    /// they take no fixed part.
    pub(crate) fn gpus(&self, class: &Class, policy: &Policy) -> f64 {
        let units = self.node.gpus.first().map_or(1, |gpu| gpu.model.placement_units);
        match self.want(class, policy) {
            Want::Instance(profile) => f64::from(profile.size) / f64::from(units),
            Want::Whole(n) => f64::from(u32::try_from(n).unwrap_or(u32::MAX)),
            Want::Other => 0.0,
        }
    }

    /// Tells whether only jobs that take the whole node are on it, if any.
    pub(crate) fn is_kept_whole(&self) -> bool {
        self.running.iter().all(|job| job.all)
    }

    /// Chooses the place that a job would get here now.
    pub(crate) fn place(&mut self, class: &Class, rule: Rule, policy: &Policy) -> Option<&BestPlace> {
        if !self.has_cores(class) {
            return None;
        }
        let want = self.want(class, policy);
        let (node, cpus, memo) = (&self.node, self.cpus, &mut self.memo);
        let place = || rule.place((node, cpus), (class, want), policy, memo);
        self.places.entry(class.ask_at).or_insert_with(place).as_ref()
    }

    /// Finds when a job of class `at` has room here at the latest, if no other job comes.
    pub(crate) fn soonest(&mut self, at: usize, class: &Class, policy: &Policy) -> Option<u64> {
        if let Some(known) = self.soonest.get(&at) {
            return *known;
        }
        self.running.sort_by_key(|job| (job.end_ms, job.job));
        let mut later = self.node.clone();
        let (mut cpus, mut mem_mib) = (self.cpus, self.mem_mib);
        let room = |node: &Node, cpus: u32, mem: u64| {
            cpus >= class.cpus && mem >= class.mem_mib && fits(node, &class.ask, policy)
        };
        let mut found = room(&later, cpus, mem_mib).then_some(0);
        let mut jobs = self.running.iter();
        while let (None, Some(job)) = (found, jobs.next()) {
            later.release(job.job);
            cpus += job.cpus;
            mem_mib += job.mem_mib;
            found = room(&later, cpus, mem_mib).then_some(job.end_ms);
        }
        self.soonest.insert(at, found);
        found
    }

    /// Enters a job. `None`: its grant does not fit.
    pub(crate) fn start(
        &mut self,
        job: JobId,
        grant: &Grant,
        class: &Class,
        end_ms: u64,
    ) -> Option<Instances> {
        let before = self.node.clone();
        self.node.apply(job, Uid(1000), grant).ok()?;
        let all = matches!(grant, Grant::Whole(gpus) if gpus.len() == self.node.gpus.len());
        let running = JobHere { job, end_ms, cpus: class.cpus, mem_mib: class.mem_mib, all };
        self.running.push(running);
        self.cpus -= class.cpus;
        self.mem_mib -= class.mem_mib;
        self.changed();
        Some(Instances::between(&before, &self.node))
    }

    pub(crate) fn end(&mut self, job: JobId) {
        self.node.release(job);
        if let Some(at) = self.running.iter().position(|running| running.job == job) {
            let gone = self.running.remove(at);
            self.cpus += gone.cpus;
            self.mem_mib += gone.mem_mib;
        }
        self.changed();
    }

    fn changed(&mut self) {
        self.places.clear();
        self.soonest.clear();
    }

    /// Counts GPUs with jobs.
    pub(crate) fn busy(&self) -> usize {
        self.node.gpus.iter().filter(|gpu| gpu.has_job()).count()
    }

    /// Tells whether an idle instance of the profile that `grant` has lies where a job of `class` could get it.
    pub(crate) fn has_idle_for(&self, grant: &Grant, class: &Class) -> bool {
        let Grant::Mig(specs) = grant else { return false };
        let [spec] = &specs[..] else { return false };
        let model = self.node.gpus.get(usize::from(spec.gpu.0)).map(|gpu| gpu.model);
        self.has_cores(class)
            && self.node.gpus.iter().any(|gpu| {
                let GpuState::Mig(all) = &gpu.state else { return false };
                let same = |i: &&node_state::Instance| i.profile == spec.profile && i.holder == Holder::Idle;
                model.is_some_and(|model| model.key == gpu.model.key) && all.iter().any(|i| same(&i))
            })
    }
}
