//! The state of every GPU, as slurmctld's plugin keeps it.
//!
//! The truth is what running jobs' placements say: the state is rebuilt from them alone after a restart, and changes
//! at two moments only, the commit of an allocation and the end of a job. Idle instances are taken from the layout in
//! the node's `extra` again; one that is wrong there does no harm, since the node makes what it finds match.
//!
//! Answers to "could this request be placed here" are cached until the node changes, because slurmctld asks for every
//! pending job and node again in each round.

mod answers;
mod auto_cap;
mod back;
mod best;
mod claims;
mod holds;
mod keys;
mod node_cost;
mod nodes;
pub(crate) mod power;
mod question;
mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use decision_counts::decisions::Cached;
use geometry::{GpuIndex, JobId, Model, Uid};
use mapa::Memo;
use node_layout::ConfigInForce;
use node_state::{Gpu, Node, Purpose};
use placement::{Budgets, NodeCost, Room};
use protocol::{NodeGrant, Request, Said, Standing};
use site_config::SiteConfig;
use site_limits::amounts::RunningJobs;
use topology::GpuSet;

use crate::view::NodeSlot;
pub(crate) use answers::without;
pub(crate) use best::{SEARCHES, predicted};
pub(crate) use node_cost::{CostNow, Takes};
pub(crate) use nodes::Named;
pub(crate) use question::Question;
pub(crate) use standing::Heard;

/// Most cached answers per node; a site's jobs ask for far fewer shapes.
pub(crate) const CACHE_LIMIT: usize = 256;

/// Keeps an answer. Of [`CACHE_LIMIT`] answers all are forgotten first.
fn keep<K: Eq + std::hash::Hash, V>(kept: &mut HashMap<K, V>, key: K, value: V) {
    if kept.len() >= CACHE_LIMIT {
        kept.clear();
    }
    kept.insert(key, value);
}

/// Answers are looked up by the question's number in every test. The hashes have a seed of each process.
type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// The state of every GPU of the site.
pub(crate) struct Engine {
    config: SiteConfig,
    /// Sets of whole GPUs chosen before: nodes with the same links and free GPUs share them.
    memo: Arc<Mutex<Memo>>,
    nodes: nodes::Nodes,
    /// The nodes on which each job holds something.
    held: HashMap<JobId, Vec<NodeSlot>>,
    /// The nodes on which jobs are ending.
    ending_on: BTreeSet<NodeSlot>,
    /// Grants of seats in the pool of GPU tasks, on all nodes: without any there is no pool.
    pool_grants: usize,
    /// Numbers of questions, by which answers are kept.
    keys: keys::Keys,
    /// Answers for a node with nothing on it, by node set and question.
    ever: HashMap<(usize, question::Number), bool>,
    /// GB/s of the best set there.
    best_ever: HashMap<(usize, question::Number), f64>,
    /// The shards that a request counts for there under these limits, if it can have a part of a GPU.
    counted: HashMap<(usize, Request, Vec<usize>), Option<u32>>,
    /// The fingerprint of what the file says of each node set.
    files: Vec<u64>,
    /// Version of the file.
    version: ConfigInForce,
    claims: claims::Claims,
    budgets: Budgets,
    /// Running jobs, by limits that add them up.
    running: RunningJobs,
}

struct NodeEntry {
    spec: usize,
    node: Node,
    jobs: BTreeMap<JobId, (Uid, NodeGrant)>,
    /// Grants of jobs whose epilogs are not over. Their GPUs are free for others, who must not start before that.
    ending: BTreeMap<JobId, (Uid, NodeGrant)>,
    /// The most that is left for another job in the state as it is now.
    room: Room,
    /// Answers for the same state.
    now: HashMap<question::Number, bool>,
    /// GB/s of the best set, for the same state.
    best: HashMap<question::Number, f64>,
    /// Costs of the best choices and what they take, for the same state; `None`: no room. On a full cluster that is most of them, and
    /// every node has room for as many answers as there are shapes of request.
    costs: HashMap<question::Number, Option<Box<(NodeCost, Takes)>>>,
    /// Left to Slurm: what Slurm counts there are not the GPUs that the site describes.
    unmanaged: bool,
    /// The last word of its slurmd.
    said: Option<Said>,
    /// Last word of the node about unhealthy GPUs; empty if there is none.
    sick: String,
    /// Standing by that word; see [`Engine::hear`].
    standing: Standing,
}

impl NodeEntry {
    /// Forgets what was answered for the state before.
    fn changed(&mut self) {
        self.room = Room::of(&self.node);
        self.now.clear();
        self.best.clear();
        self.costs.clear();
    }
}

impl Engine {
    /// A site with nothing running.
    pub(crate) fn new(config: SiteConfig) -> Self {
        let mut nodes = nodes::Nodes::default();
        for (spec, set) in config.nodes.iter().enumerate() {
            for name in &set.names {
                let node = site_limits::node_of(set);
                let entry = NodeEntry {
                    spec,
                    room: Room::of(&node),
                    node,
                    jobs: BTreeMap::new(),
                    ending: BTreeMap::new(),
                    now: HashMap::default(),
                    best: HashMap::default(),
                    costs: HashMap::default(),
                    unmanaged: false,
                    said: None,
                    sick: String::new(),
                    standing: Standing::Same,
                };
                nodes.insert(name, entry);
            }
        }
        let budgets = site_limits::budgets_of(&config);
        Self {
            budgets,
            files: config.nodes.iter().map(|set| config.fingerprint_of(set)).collect(),
            config,
            nodes,
            held: HashMap::default(),
            ending_on: BTreeSet::new(),
            pool_grants: 0,
            keys: keys::Keys::default(),
            ever: HashMap::default(),
            best_ever: HashMap::default(),
            counted: HashMap::default(),
            version: ConfigInForce::Current,
            claims: claims::Claims::default(),
            memo: Arc::default(),
            running: RunningJobs::default(),
        }
    }

    /// A site of which nothing is known, because `tessera.toml` is bad: Slurm places GPUs, and jobs with a request of ours
    /// wait.
    pub(crate) fn of_bad_file() -> Self {
        Self { version: ConfigInForce::Bad, ..Self::new(site_config::of_nodes(Vec::new())) }
    }

    /// Version of the file.
    pub(crate) fn version(&self) -> ConfigInForce {
        self.version
    }

    /// The file has become bad, and this is its last good version.
    pub(crate) fn is_last_good(&mut self) {
        if self.version == ConfigInForce::Current {
            self.version = ConfigInForce::LastGood;
        }
    }

    /// Names of all managed nodes.
    pub(crate) fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter(|(_, e)| !e.unmanaged).map(|(name, _)| name)
    }

    /// The site's configuration.
    pub(crate) fn site(&self) -> &SiteConfig {
        &self.config
    }

    /// Leaves a node to Slurm from now on: it counts as not managed.
    pub(crate) fn leave_unmanaged(&mut self, node: &str) {
        if let Some(entry) = self.nodes.get_mut(node) {
            entry.unmanaged = true;
        }
        self.recount(node);
    }

    /// A node's slot, for a view of it; `None`: the file does not describe it.
    pub(crate) fn slot<N: Named + ?Sized>(&self, node: &N) -> Option<NodeSlot> {
        self.nodes.slot(node)
    }

    fn managed<N: Named + ?Sized>(&self, node: &N) -> Option<&NodeEntry> {
        self.nodes.get(node).filter(|e| !e.unmanaged)
    }

    /// The number of GPUs that the site describes on a node, managed or not.
    pub(crate) fn described_gpus(&self, node: &str) -> Option<u64> {
        self.nodes.get(node).map(|e| e.node.gpus.len() as u64)
    }

    pub(crate) fn model_of(&self, node: &str, gpu: GpuIndex) -> Option<&'static Model> {
        self.nodes.get(node)?.node.gpus.get(usize::from(gpu.0)).map(|g| g.model)
    }

    /// Returns those of these GPUs that the site leaves to Slurm.
    pub(crate) fn left_to_slurm(&self, node: &str, gpus: GpuSet) -> GpuSet {
        self.those(node, gpus, |gpu| gpu.purpose == Purpose::Slurm)
    }

    /// Returns those of these GPUs that a job may have whole if no other job is on them: an exclusive job has all of a node's in
    /// Slurm's accounts.
    pub(crate) fn to_be_had_whole(&self, node: &str, gpus: GpuSet) -> GpuSet {
        self.those(node, gpus, Gpu::is_ever_whole)
    }

    fn those(&self, node: &str, gpus: GpuSet, which: impl Fn(&Gpu) -> bool) -> GpuSet {
        let Some(entry) = self.nodes.get(node) else { return GpuSet::EMPTY };
        gpus.iter().filter(|g| entry.node.gpus.get(usize::from(g.0)).is_some_and(&which)).collect()
    }

    /// Tells whether the site leaves some GPU of the node to Slurm.
    pub(crate) fn leaves_some<N: Named + ?Sized>(&self, node: &N) -> bool {
        self.managed(node).is_some_and(|e| e.node.gpus.iter().any(|g| g.purpose == Purpose::Slurm))
    }

    /// Tells whether a job asks for more plain shards than any device of the node has: later Slurms can take them from several.
    pub(crate) fn exceeds_devices<N: Named + ?Sized>(&self, node: &N, question: &Question) -> bool {
        let gpus = self.managed(node).map(|entry| &entry.node.gpus);
        question
            .ask
            .plain_shards()
            .zip(gpus)
            .is_some_and(|(n, gpus)| gpus.iter().all(|g| g.model.shards() < n))
    }

    /// The node's state; `None`: Slurm alone places jobs there.
    pub(crate) fn node<N: Named + ?Sized>(&self, node: &N) -> Option<&Node> {
        self.managed(node).filter(|e| e.standing == Standing::Same).map(|e| &e.node)
    }

    /// The fingerprint of what the file says of a node.
    #[cfg(test)]
    pub(crate) fn fingerprint(&self, node: &str) -> u64 {
        self.nodes.get(node).and_then(|entry| self.files.get(entry.spec)).copied().unwrap_or_default()
    }

    /// A site with nothing running, of a `tessera.toml` without errors.
    #[cfg(test)]
    pub(crate) fn of_tests(file: &str) -> Self {
        let (config, errors) = site_config::parse("t", file, &|_| Err(std::io::ErrorKind::NotFound.into()));
        assert_eq!(errors, []);
        Self::new(config.unwrap())
    }

    /// The most answers that are kept in one place.
    #[cfg(test)]
    pub(crate) fn most_kept(&self) -> usize {
        let of_nodes = self.nodes.iter().flat_map(|(_, e)| [e.now.len(), e.best.len(), e.costs.len()]);
        of_nodes.chain([self.ever.len(), self.best_ever.len(), self.counted.len()]).max().unwrap_or(0)
    }

    /// Tells how many requests have a number, and how many answers and sets are kept, each with the most that there may be.
    pub(crate) fn kept(&self) -> [(Cached, [usize; 2]); 3] {
        let of_nodes = self.nodes.iter().map(|(_, e)| e.now.len() + e.best.len() + e.costs.len());
        let of_kinds = [self.ever.len(), self.best_ever.len(), self.counted.len()];
        let most = CACHE_LIMIT * (3 * self.nodes.iter().count() + of_kinds.len());
        let answers = of_nodes.sum::<usize>() + of_kinds.iter().sum::<usize>();
        let sets = self.memo.lock().unwrap_or_else(PoisonError::into_inner).count();
        [(Cached::Requests, self.keys.count()), (Cached::Answers, [answers, most]), (Cached::GpuSets, sets)]
    }

    /// The jobs that hold something on the node.
    pub(crate) fn jobs_on(&self, name: &str) -> Vec<JobId> {
        self.nodes.get(name).map(|e| e.jobs.keys().copied().collect()).unwrap_or_default()
    }
}
