//! Grants of jobs, from the commit of an allocation to the end of the last epilog.

use geometry::{JobId, Uid};
use node_layout::layout_of;
use node_layout::{Layout, forget_idle, parse_layout, remember_idle};
use node_state::{Gpu, GpuState, Node, Purpose};
use protocol::wire::JobPlacement;
use protocol::{Grant, NodeGrant};
use site_limits::Submission;
use site_limits::amounts::{Amount, RunningJobs};

use super::Engine;

impl Engine {
    /// Makes a job's placement part of the state, instead of what it held before; nodes that are not managed are
    /// passed over. A grant that does not fit the state, after a change of configuration, is described in the answer,
    /// and its GPUs are blocked as far as nobody else is on them.
    pub(crate) fn commit(&mut self, uid: Uid, placement: &JobPlacement) -> Vec<String> {
        self.release(placement.job);
        self.unclaim(placement.job);
        let mut refused = Vec::new();
        for (name, given) in &placement.nodes {
            let Some(entry) = self.nodes.get_mut(name) else { continue };
            let grant = &given.grant;
            if let Err(e) = entry.node.apply(placement.job, uid, grant) {
                // It runs nevertheless: nobody else may have what it has.
                let blocked = block(&mut entry.node, placement.job, grant);
                refused.push(format!("{name}: {e}; {blocked} of its GPUs are kept for it alone"));
            }
            let before = entry.jobs.insert(placement.job, (uid, given.clone()));
            self.pool_grants += in_pool(given);
            self.pool_grants -= before.map_or(0, |(_, before)| in_pool(&before));
            entry.changed();
            self.held.entry(placement.job).or_default().extend(self.nodes.slot(name));
            self.recount(name);
        }
        refused
    }

    /// Ends what a job holds everywhere; the nodes that changed.
    pub(crate) fn release(&mut self, job: JobId) -> Vec<String> {
        let held = self.names_held(job);
        for name in &held {
            self.release_on(job, name);
        }
        held
    }

    /// Ends what a job holds on one node; true if it held something.
    pub(crate) fn release_on(&mut self, job: JobId, node: &str) -> bool {
        self.take_from(job, node).is_some()
    }

    /// Frees what a job has on a node, and returns it.
    fn take_from(&mut self, job: JobId, node: &str) -> Option<(Uid, NodeGrant)> {
        let slot = self.nodes.slot(node)?;
        let entry = &mut self.nodes[slot];
        let held = entry.jobs.remove(&job)?;
        entry.node.release(job);
        entry.changed();
        self.pool_grants -= in_pool(&held.1);
        if let Some(slots) = self.held.get_mut(&job) {
            slots.retain(|other| *other != slot);
            if slots.is_empty() {
                self.held.remove(&job);
            }
        }
        self.recount(node);
        Some(held)
    }

    /// Releases a job as [`Self::release`] does, but its epilogs follow: its places are shown as its own until
    /// [`Self::is_over`].
    pub(crate) fn begin_end(&mut self, job: JobId) -> Vec<String> {
        self.running.end(job);
        let held = self.names_held(job);
        for name in &held {
            let had = self.take_from(job, name);
            if let Some((slot, had)) = self.nodes.slot(name).zip(had) {
                self.nodes[slot].ending.insert(job, had);
                self.ending_on.insert(slot);
            }
            self.recount(name);
        }
        held
    }

    /// Counts a job that runs among those that limits add up, with what it has on each node.
    pub(crate) fn runs(&mut self, id: JobId, job: &Submission, held: Vec<(String, Amount)>) {
        self.running.begin(id, job, held, &self.config);
    }

    /// Counts no more what a running job had on a node.
    pub(crate) fn runs_on_less(&mut self, id: JobId, node: &str) {
        self.running.leave(id, node);
    }

    /// The running jobs that limits add up.
    pub(crate) fn running(&self) -> &RunningJobs {
        &self.running
    }

    /// The nodes on which jobs are ending.
    pub(crate) fn with_ending_jobs(&self) -> Vec<String> {
        self.ending_on.iter().map(|slot| self.nodes.name(*slot).to_owned()).collect()
    }

    /// All epilogs on a node are over.
    pub(crate) fn is_over(&mut self, node: &str) {
        if let Some(slot) = self.nodes.slot(node) {
            self.nodes[slot].ending.clear();
            self.ending_on.remove(&slot);
        }
        self.recount(node);
    }

    pub(crate) fn holds(&self, job: JobId) -> bool {
        self.held.contains_key(&job)
    }

    fn names_held(&self, job: JobId) -> Vec<String> {
        self.held.get(&job).into_iter().flatten().map(|slot| self.nodes.name(*slot).to_owned()).collect()
    }

    /// Takes over the idle instances that a layout published earlier names; what is not a layout is ignored.
    pub(crate) fn remember_idle(&mut self, node: &str, published: &str) {
        let Some(entry) = self.nodes.get_mut(node) else { return };
        if let Ok(layout) = parse_layout(published) {
            remember_idle(&mut entry.node, &layout);
            entry.changed();
        }
    }

    /// Drops the idle instances of a node that has booted; whether there were any.
    pub(crate) fn forget_idle(&mut self, node: &str) -> bool {
        let Some(entry) = self.nodes.get_mut(node) else { return false };
        let any = forget_idle(&mut entry.node) > 0;
        if any {
            entry.changed();
        }
        any
    }

    /// The node's layout for `sinfo`; `None`: it is not managed.
    pub(crate) fn layout(&self, node: &str) -> Option<String> {
        let entry = self.managed(node)?;
        let mut shown = entry.node.clone();
        // A place that somebody else has by now is shown as his.
        let still =
            entry.ending.iter().filter(|(job, (uid, given))| shown.apply(**job, *uid, &given.grant).is_ok());
        let ending = still.map(|(job, _)| *job).collect();
        let watts = self.watts_on(node);
        Some(Layout { config: self.version, ending, watts, ..layout_of(&shown) }.to_string())
    }
}

/// Counts a grant as one of seats in the pool: 1 or 0.
fn in_pool(given: &NodeGrant) -> usize {
    usize::from(matches!(given.grant, Grant::Tasks(_)))
}

/// Gives a job its grant's GPUs whole, where nobody else is on them; how many.
fn block(node: &mut Node, job: JobId, grant: &Grant) -> usize {
    let mut blocked = 0;
    let may_be = |gpu: &&mut Gpu| !gpu.has_job() && gpu.purpose != Purpose::Static;
    for index in grant.gpus() {
        if let Some(gpu) = node.gpus.get_mut(usize::from(index.0)).filter(may_be) {
            gpu.state = GpuState::Whole(job);
            blocked += 1;
        }
    }
    blocked
}

#[cfg(test)]
mod tests {
    use geometry::{GpuIndex, Slice};
    use protocol::{MigSpec, PoolSeats, ShareOn, TaskDevices, TaskGrant};

    use super::*;

    fn engine() -> Engine {
        let text = "[tasks]\n[[nodes]]\nnames = \"a1\"\ngpu = \"a30-24gb\"\ncount = 1\nmig = \"on\"\n";
        Engine::of_tests(text)
    }

    /// A seat of the pool on the first `1g.6gb`.
    fn seat(engine: &Engine) -> NodeGrant {
        let profile = engine.model_of("a1", GpuIndex(0)).unwrap().profile("1g.6gb").unwrap().id;
        let on = ShareOn::Instance(MigSpec { gpu: GpuIndex(0), profile, start: Slice(0) });
        let on = TaskDevices::Pool(vec![PoolSeats { on, seats: 1 }]);
        Grant::Tasks(TaskGrant { on, mem_mib: None, probes: true }).into()
    }

    #[test]
    fn a_grant_of_the_pool_counts_once_on_each_node() {
        let mut engine = engine();
        let job = JobId(12);
        let seat = seat(&engine);
        let node = || ("a1".to_owned(), seat.clone());
        // The text of a placement cannot name a node twice. The count does not rely on that: the second grant replaces the first.
        let twice = JobPlacement { job, nodes: vec![node(), node()] };
        engine.commit(Uid(1000), &twice);
        assert_eq!(engine.pool_grants, 1);
        engine.commit(Uid(1000), &twice);
        assert_eq!(engine.pool_grants, 1, "it holds the same as before");
        engine.release(job);
        assert_eq!((engine.pool_grants, engine.held.len()), (0, 0));
    }
}
