//! From the present state to the planners' problem, and from their schedule back.

use super::{After, Present, PresentInstance, PresentOp, PresentPlace, PresentRun};
use crate::problem::{Blocked, Busy, GpuNow, Held, MAX_TOTAL, Micros, Problem};
use crate::schedule::{Op, OpKind, Run, Schedule};
use crate::tree::TreeNode;
use geometry::Slice;

/// Most units of a GPU: as many as a mask has bits.
const UNITS: usize = 16;

/// The destruction of an instance whose profile plans do not use.
struct Removal {
    /// Which of the GPUs given.
    gpu: usize,
    /// Which of its instances.
    instance: usize,
    begin: Micros,
    end: Micros,
}

/// An instant that is known and near enough to plan with.
fn known(instant: Option<Micros>) -> Option<Micros> {
    // Half of it, so that what is planned before a job's end still fits behind it.
    instant.filter(|&at| at <= MAX_TOTAL / 2)
}

impl Present {
    /// The GPUs that can be used one day; the problem has these, in this order.
    fn used(&self) -> Vec<usize> {
        (0..self.gpus.len()).filter(|&g| known(self.gpus[g].usable_from).is_some()).collect()
    }

    fn mask(&self, instance: &PresentInstance) -> u16 {
        self.model.profile(&instance.profile).map_or(0, |p| p.at(Slice(instance.start)).mask())
    }

    /// The place of the tree that an instance is an instance of; `None` for other profiles.
    fn node_of(&self, instance: &PresentInstance) -> Option<usize> {
        let same = |n: &TreeNode| n.start == instance.start && n.profile == instance.profile;
        self.tree.nodes.iter().position(same)
    }

    /// The planners' problem, without tasks.
    pub(super) fn problem(&self) -> Problem {
        let (tree, costs) = (self.tree.clone(), self.costs.clone());
        let mut problem = Problem { tree, costs, gpus: Vec::new(), busy: Vec::new(), tasks: Vec::new() };
        let removals = self.removals();
        for gpu in self.used() {
            problem.gpus.push(self.gpu_now(gpu, &removals));
        }
        let busy = |r: &Removal| Busy { lane: self.lanes[r.gpu], begin: r.begin, end: r.end };
        problem.busy = removals.iter().map(busy).collect();
        problem
    }

    fn gpu_now(&self, gpu: usize, removals: &[Removal]) -> GpuNow {
        let from = known(self.gpus[gpu].usable_from).unwrap_or(0);
        let mut now = GpuNow { lane: self.lanes[gpu], ..GpuNow::default() };
        if from > 0 {
            let all = self.tree.nodes.iter().fold(0, |all, n| all | n.mask);
            now.blocked.push(Blocked { mask: all, until: Some(from) });
        }
        for (k, instance) in self.gpus[gpu].instances.iter().enumerate() {
            if let Some(node) = self.node_of(instance) {
                now.held.push(Held { node, until: known(instance.until).map(|until| until.max(from)) });
            } else {
                let removal = removals.iter().find(|r| r.gpu == gpu && r.instance == k);
                now.blocked.push(Blocked { mask: self.mask(instance), until: removal.map(|r| r.end) });
            }
        }
        now
    }

    /// When instances of other profiles are destroyed: each as soon as it is free, one after another on each node.
    fn removals(&self) -> Vec<Removal> {
        let mut due: Vec<(Micros, usize, usize)> = Vec::new();
        for gpu in self.used() {
            let from = known(self.gpus[gpu].usable_from).unwrap_or(0);
            for (k, instance) in self.gpus[gpu].instances.iter().enumerate() {
                if let Some(until) = known(instance.until).filter(|_| self.node_of(instance).is_none()) {
                    due.push((until.max(from), gpu, k));
                }
            }
        }
        due.sort_unstable();
        let mut lane_free = vec![0; self.gpus.len()];
        let removal = |(free, gpu, instance): (Micros, usize, usize)| {
            let lane = &mut lane_free[self.lanes[gpu]];
            let begin = free.max(*lane);
            *lane = begin + self.removal_time(&self.gpus[gpu].instances[instance]);
            Removal { gpu, instance, begin, end: *lane }
        };
        due.into_iter().map(removal).collect()
    }

    /// Like any instance of as many compute slices.
    fn removal_time(&self, instance: &PresentInstance) -> Micros {
        let slices = self.model.profile(&instance.profile).map_or(0, |p| p.compute_slices);
        let class = self.tree.sizes.iter().position(|&s| s >= slices);
        class.and_then(|c| self.costs.destroy.get(c)).copied().unwrap_or(0)
    }

    fn place(&self, gpu: usize, node: usize) -> PresentPlace {
        let node = &self.tree.nodes[node];
        let profile = self.model.profile(&node.profile).map_or("", |p| p.name.as_str());
        PresentPlace { gpu, profile, size: node.size, start: node.start }
    }

    /// The runs of a schedule whose tasks are `planned`.
    pub(super) fn runs(&self, schedule: &Schedule, planned: &[usize]) -> Vec<PresentRun> {
        let used = self.used();
        let mut last: Vec<[Option<After>; UNITS]> = used.iter().map(|&g| self.taken_now(g)).collect();
        let mut runs: Vec<&Run> = schedule.runs.iter().collect();
        runs.sort_unstable_by_key(|r| r.begin);
        let present = |r: &Run| {
            let mask = self.tree.nodes[r.node].mask;
            let mine = last[r.gpu].iter_mut().enumerate().filter(|(u, _)| mask >> u & 1 == 1);
            let task = planned[r.task];
            let mut after: Vec<After> =
                mine.filter_map(|(_, before)| before.replace(After::Task(task))).collect();
            after.sort_unstable();
            after.dedup();
            PresentRun { task, at: self.place(used[r.gpu], r.node), begin: r.begin, end: r.end, after }
        };
        let mut runs: Vec<PresentRun> = runs.into_iter().map(present).collect();
        runs.sort_unstable_by_key(|r| r.task);
        runs
    }

    /// Who has each unit of a GPU now.
    fn taken_now(&self, gpu: usize) -> [Option<After>; UNITS] {
        let gpu = &self.gpus[gpu];
        let whole = known(gpu.usable_from).filter(|&from| from > 0).map(|_| After::Gpu);
        let mut taken = [whole; UNITS];
        for (k, instance) in gpu.instances.iter().enumerate().filter(|(_, i)| i.until != Some(0)) {
            let mask = self.mask(instance);
            let mine = taken.iter_mut().enumerate().filter(|(u, _)| mask >> u & 1 == 1);
            mine.for_each(|(_, holder)| *holder = Some(After::Instance(k)));
        }
        taken
    }

    /// The reconfigurations of a schedule, and the removals that its runs need.
    pub(super) fn ops(&self, schedule: &Schedule, runs: &[PresentRun]) -> Vec<PresentOp> {
        let used = self.used();
        let op = |o: &Op| {
            let at = self.place(used[o.gpu], o.node);
            PresentOp { kind: o.kind, at, begin: o.begin, end: o.end }
        };
        let mut ops: Vec<PresentOp> = schedule.ops.iter().map(op).collect();
        for removal in self.removals() {
            let instance = &self.gpus[removal.gpu].instances[removal.instance];
            let Some(profile) = self.model.profile(&instance.profile) else { continue };
            let mask = profile.at(Slice(instance.start)).mask();
            let in_way = |r: &PresentRun| r.at.gpu == removal.gpu && self.mask_of(&r.at) & mask != 0;
            if runs.iter().any(in_way) {
                let (gpu, size, start) = (removal.gpu, profile.compute_slices, instance.start);
                let at = PresentPlace { gpu, profile: &profile.name, size, start };
                ops.push(PresentOp { kind: OpKind::Destroy, at, begin: removal.begin, end: removal.end });
            }
        }
        ops.sort_by_key(|o| (o.begin, o.end, o.kind));
        ops
    }

    fn mask_of(&self, place: &PresentPlace) -> u16 {
        self.model.profile(place.profile).map_or(0, |p| p.at(Slice(place.start)).mask())
    }
}
