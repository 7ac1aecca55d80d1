//! The plugin's memory between hooks. Never more than a bounded number of jobs, whatever users submit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use decision_counts::decisions::Cached;
use geometry::JobId;
use node_layout::ConfigInForce;
use protocol::wire::JobPlacement;

use crate::engine::{Engine, Heard};
use crate::learnt::Learnt;
use crate::seen::{LastSeen, RawNode};
use crate::view::{JobView, NodeCounts, NodeView};

/// Everything that is remembered while the plugin places jobs.
pub(crate) struct Memory {
    /// State of every GPU.
    pub(crate) engine: Engine,
    /// The last decision, until its job starts or another test comes.
    pub(crate) pending: Option<Pending>,
    /// The ways that the last tests of jobs went.
    pub(crate) tried: Tried,
    /// The state knows all running jobs. Before that, the layouts from before a restart must stay readable.
    pub(crate) rebuilt: bool,
    /// Rebuilding has begun. Before that, slurmctld starts or reads its files, and no job starts.
    pub(crate) begun: bool,
    /// Slurm has told of a job a second time: slurmctld reads all jobs again, as a backup does that takes over once more.
    pub(crate) told_again: bool,
    /// Boot times of the nodes.
    pub(crate) boots: Boots,
    /// Requests that arrived, and the CPUs that jobs leave.
    pub(crate) learnt: Learnt,
    /// Nodes as they were read last.
    pub(crate) seen: LastSeen,
    /// The last glance.
    pub(crate) lately: Lately,
    /// Jobs that run.
    pub(crate) running: HashSet<JobId>,
    /// Slurm's counts of the nodes when the state was rebuilt.
    pub(crate) counts: Vec<NodeCounts>,
}

impl Memory {
    /// A site with nothing running.
    pub(crate) fn new(engine: Engine) -> Self {
        let learnt = Learnt::new(engine.site(), &[]);
        Self {
            engine,
            pending: None,
            tried: Tried::default(),
            rebuilt: false,
            begun: false,
            told_again: false,
            boots: Boots::default(),
            learnt,
            seen: LastSeen::default(),
            lately: Lately::default(),
            running: HashSet::new(),
            counts: Vec::new(),
        }
    }

    /// Tells whether it knows all running jobs by the file as it is, not by its last good version.
    pub(crate) fn is_rebuilt_from_file(&self) -> bool {
        self.rebuilt && self.engine.version() == ConfigInForce::Current
    }

    /// Begins to be rebuilt: from nothing, if it was before. The state by a last good version stays and is rebuilt as it is.
    pub(crate) fn begin(&mut self) {
        if self.is_rebuilt_from_file() {
            *self = Self::new(Engine::new(self.engine.site().clone()));
        }
        self.begun = true;
    }

    /// Takes Slurm's counts of the nodes, whose CPUs count if the file describes them.
    pub(crate) fn count(&mut self, counts: Vec<NodeCounts>) {
        let ours = counts.iter().filter(|node| self.engine.described_gpus(&node.node).is_some());
        let cpus: Vec<(usize, u32)> = ours.map(|node| (node.place, node.cpus)).collect();
        self.learnt = Learnt::new(self.engine.site(), &cpus);
        self.counts = counts;
    }

    /// Takes note that Slurm tells of a job's allocation. Of a job that does not run, or is known, only a slurmctld does that
    /// reads all jobs.
    pub(crate) fn told_of(&mut self, job: JobId, runs: bool) {
        self.told_again |= !runs || self.running.contains(&job);
    }

    /// Tells whether the state is of these nodes and of exactly these jobs that run.
    pub(crate) fn is_of(&self, counts: &[NodeCounts], running: impl Iterator<Item = JobId>) -> bool {
        let mut known = 0;
        let all_known = |job| {
            known += 1;
            self.running.contains(&job)
        };
        self.rebuilt
            && !self.told_again
            && self.counts == counts
            && { running }.all(all_known)
            && known == self.running.len()
    }

    /// Looks at these nodes for a job.
    pub(crate) fn look<'a>(&mut self, nodes: impl Iterator<Item = RawNode<'a>>) -> Arc<Vec<NodeView>> {
        let Self { seen, engine, .. } = self;
        Arc::new(nodes.filter_map(|node| seen.look(engine, &node)).collect())
    }

    /// As [`Self::look`], for a test that only predicts: what was seen at these places of the node table in this second still counts.
    /// Thousands of submissions come with the same places. `now`: seconds since 1970.
    pub(crate) fn glance<'a>(
        &mut self,
        now: u64,
        places: Vec<usize>,
        read: impl FnMut(usize) -> Option<RawNode<'a>>,
    ) -> Arc<Vec<NodeView>> {
        if self.lately.second != now || self.lately.places != places {
            let nodes = self.look(places.iter().copied().filter_map(read));
            self.lately = Lately { second: now, places, nodes };
        }
        Arc::clone(&self.lately.nodes)
    }

    /// Looks at these nodes, and gives what those said whose records have changed since the last time.
    pub(crate) fn listen<'a>(&mut self, nodes: impl Iterator<Item = RawNode<'a>>) -> Vec<(String, Heard)> {
        self.seen.listen(&mut self.engine, nodes)
    }

    /// Tells how much is kept of each, and how much may be.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (Cached, [usize; 2])> {
        self.engine.kept().into_iter().chain([self.learnt.kept()])
    }

    /// Tells whether the last decision is for the job of this record.
    pub(crate) fn has_decided(&self, record: JobAddress) -> bool {
        self.pending.as_ref().is_some_and(|p| p.record == record)
    }
}

/// Nodes as a glance saw them.
#[derive(Debug, Default)]
pub(crate) struct Lately {
    /// Seconds since 1970.
    second: u64,
    /// Places in the node table.
    places: Vec<usize>,
    nodes: Arc<Vec<NodeView>>,
}

/// Boot times of the nodes, by their places in the node table, seconds since 1970. A new configuration, which may change
/// the places, starts a new memory.
#[derive(Debug, Default)]
pub(crate) struct Boots {
    /// Time at which the state was rebuilt: what booted before is not news.
    since: u64,
    known: Vec<u64>,
}

impl Boots {
    /// slurmctld computes the time of a boot anew from each registration's uptime. By less than this it is the same boot.
    const JITTER: u64 = 60;

    /// Notes the boot times that are known when the state is rebuilt.
    pub(crate) fn at(since: u64, nodes: &[(usize, u64)]) -> Self {
        let mut boots = Self { since, known: Vec::new() };
        for (node, booted) in nodes {
            let _ = boots.is_new(*node, *booted);
        }
        boots
    }

    /// Takes note of when a node booted, and says whether it has since the last time. 0: it has not registered.
    pub(crate) fn is_new(&mut self, node: usize, booted: u64) -> bool {
        if booted == 0 {
            return false;
        }
        if self.known.len() <= node {
            self.known.resize(node + 1, 0);
        }
        let before = std::mem::replace(&mut self.known[node], booted);
        let before = if before == 0 { self.since } else { before };
        booted > before.saturating_add(Self::JITTER)
    }
}

/// A job record: its address. An array task gets its id only when it starts, the address stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobAddress(pub(crate) usize);

/// A decision whose job has not started yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pending {
    pub(crate) record: JobAddress,
    pub(crate) placement: JobPlacement,
    /// Begin and end that its plan predicts, seconds since 1970.
    pub(crate) planned: Option<(u64, u64)>,
    /// Speed that its plan promises, percent of the job's speed alone.
    pub(crate) low: Option<u8>,
}

/// Ways on which a test leads Slurm to some nodes rather than others. Slurm may be unable to use those, for reasons that only
/// cons_tres knows. So a test that is to start a job goes none of the ways that the job's last such test went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ways {
    /// Nodes that preemption could free were held back.
    pub(crate) held_back: bool,
    /// The job was kept to the node that its plan names.
    pub(crate) planned: bool,
    /// The job was kept to nodes with the GPUs that it waits for.
    pub(crate) good: bool,
    /// The job was kept to GPUs with room for all of its instances.
    pub(crate) together: bool,
    /// The job was kept to nodes that all have power for it at once.
    pub(crate) powered: bool,
    /// Slurm chose this node, by its place in the node table, and the job had no place there beside the other nodes.
    pub(crate) vetoed: Option<usize>,
}

impl Ways {
    /// Joins the ways of both.
    pub(crate) fn and(self, more: Self) -> Self {
        Self {
            held_back: self.held_back || more.held_back,
            planned: self.planned || more.planned,
            good: self.good || more.good,
            together: self.together || more.together,
            powered: self.powered || more.powered,
            vetoed: self.vetoed.or(more.vetoed),
        }
    }
}

/// The ways that the last tests of jobs went, in each of their partitions and from 24.11 on with each of their QOS: Slurm tests a job
/// once for each.
#[derive(Debug, Default)]
pub(crate) struct Tried(HashMap<TestOf, Ways>);

/// A job, its partition and its QOS.
type TestOf = (JobId, Option<String>, Option<String>);

fn test_of(view: &JobView) -> TestOf {
    (view.id, view.partition.clone(), view.qos.clone())
}

impl Tried {
    /// Most jobs remembered at a time. All are forgotten when there would be more: that costs each of them one test at most.
    const LIMIT: usize = 4096;

    /// Adds ways to those that a job went in such a test, until [`Self::take`].
    pub(crate) fn add(&mut self, view: &JobView, ways: Ways) {
        if ways == Ways::default() {
            return;
        }
        if self.0.len() >= Self::LIMIT {
            self.0.clear();
        }
        let known = self.0.entry(test_of(view)).or_default();
        *known = known.and(ways);
    }

    /// Gives the node where a job had no place, without taking the job's ways.
    pub(crate) fn vetoed(&self, view: &JobView) -> Option<usize> {
        self.0.get(&test_of(view))?.vetoed
    }

    /// Takes a job's ways: it may go all of them in the test after this one, or Slurm can start it.
    pub(crate) fn take(&mut self, view: &JobView) -> Ways {
        self.0.remove(&test_of(view)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use site_limits::NodeGres;

    use super::*;

    #[test]
    fn a_boot_is_new_once_and_not_for_a_second_more_of_uptime() {
        let mut boots = Boots::at(1_000_000, &[(0, 900_000)]);
        assert!(!boots.is_new(0, 0), "it has not registered");
        assert!(!boots.is_new(0, 900_001) && !boots.is_new(0, 899_999));
        assert!(boots.is_new(0, 950_000), "later than the boot that was known");
        assert!(!boots.is_new(0, 950_000) && !boots.is_new(0, 950_002));
        assert!(!boots.is_new(0, 0) && !boots.is_new(0, 950_001), "the boot before is still known");
        assert!(!boots.is_new(0, 800_000), "a clock that was set back is no boot");
        // A node that registers for the first time since slurmctld's start.
        assert!(!boots.is_new(7, 999_000), "it booted before");
        assert!(boots.is_new(9, 1_000_100), "it booted while slurmctld ran");
        assert!(boots.is_new(7, 1_000_100));
    }

    fn memory() -> Memory {
        let text = "[[nodes]]\nnames = \"n[1-2]\"\ngpu = \"a100-40gb\"\ncount = 2\n";
        Memory::new(Engine::of_tests(text))
    }

    #[test]
    fn a_state_is_of_its_nodes_and_of_the_jobs_that_run() {
        let counts = |cpus: [u32; 2]| -> Vec<NodeCounts> {
            let node = |(place, cpus)| NodeCounts {
                place,
                node: format!("n{}", place + 1),
                counted: NodeGres::default(),
                cpus,
            };
            cpus.into_iter().enumerate().map(node).collect()
        };
        let mut memory = memory();
        memory.count(counts([8, 8]));
        memory.running.extend([JobId(1), JobId(2)]);
        let of = |memory: &Memory, cpus, running: &[u32]| {
            memory.is_of(&counts(cpus), running.iter().copied().map(JobId))
        };
        assert!(!of(&memory, [8, 8], &[1, 2]), "it does not know all jobs yet");
        memory.rebuilt = true;
        assert!(of(&memory, [8, 8], &[2, 1]));
        for (cpus, running) in
            [([8, 9], &[1, 2][..]), ([8, 8], &[1]), ([8, 8], &[1, 2, 3]), ([8, 8], &[1, 3]), ([8, 8], &[])]
        {
            assert!(!of(&memory, cpus, running), "{cpus:?} {running:?}");
        }
        assert!(!memory.is_of(&counts([8, 8])[..1], [1, 2].into_iter().map(JobId)));
        memory.told_of(JobId(3), true);
        assert!(of(&memory, [8, 8], &[1, 2]), "a job that is new");
        memory.told_of(JobId(2), true);
        assert!(!of(&memory, [8, 8], &[1, 2]));
        memory.told_again = false;
        memory.told_of(JobId(4), false);
        assert!(!of(&memory, [8, 8], &[1, 2]));
    }

    #[test]
    fn what_is_rebuilt_begins_with_nothing_unless_only_the_last_good_version_is_known() {
        let known = || {
            let mut memory = Memory { rebuilt: true, told_again: true, ..memory() };
            memory.running.insert(JobId(1));
            memory
        };
        let mut anew = known();
        anew.begin();
        assert!(anew.begun && !anew.rebuilt && !anew.told_again && anew.running.is_empty());
        assert_eq!(anew.engine.node_names().count(), 2, "the file is the same");
        let mut last_good = known();
        last_good.engine.is_last_good();
        last_good.begin();
        assert!(last_good.begun && last_good.rebuilt && last_good.running.contains(&JobId(1)));
    }

    #[test]
    fn a_glance_counts_for_a_second_and_for_its_places_alone() {
        let mut memory = memory();
        let mut read = Vec::new();
        let names = [b"n1", b"n2"];
        let mut glance = |now, places: &[usize]| {
            let views = memory.glance(now, places.to_vec(), |index| {
                read.push((now, index));
                let name = &names.get(index)?[..];
                let (extra, started, booted) = (&b""[..], 5, 0);
                let (config, completing, required) = (7, false, false);
                let in_cloud = false;
                Some(RawNode { index, name, extra, started, booted, config, in_cloud, completing, required })
            });
            views.iter().map(|view| view.index).collect::<Vec<_>>()
        };
        for (now, places) in [(10, &[0, 1][..]), (10, &[0, 1]), (10, &[1]), (10, &[1]), (9, &[1]), (11, &[1])]
        {
            assert_eq!(glance(now, places), places);
        }
        assert_eq!(glance(11, &[]), [0_usize; 0]);
        assert_eq!(read, [(10, 0), (10, 1), (10, 1), (9, 1), (11, 1)]);
    }

    #[test]
    fn ways_are_taken_once_and_bounded() {
        let mut tried = Tried::default();
        let good = Ways { good: true, ..Ways::default() };
        let view = |id, partition: &str| JobView {
            id: JobId(id),
            partition: Some(partition.to_owned()),
            ..JobView::of_tests()
        };
        tried.add(&view(1, "a"), good);
        tried.add(&view(1, "a"), Ways { planned: true, ..Ways::default() });
        assert_eq!(tried.take(&view(1, "b")), Ways::default(), "another partition has other nodes");
        assert_eq!(tried.take(&view(1, "a")), Ways { good: true, planned: true, ..Ways::default() });
        assert_eq!(tried.take(&view(1, "a")), Ways::default());
        (0..10_000).for_each(|id| tried.add(&view(id, "a"), good));
        assert!(tried.0.len() <= Tried::LIMIT);
        let known = tried.0.len();
        tried.add(&view(20_000, "a"), Ways::default());
        assert_eq!(tried.0.len(), known, "nothing to remember");
    }
}
