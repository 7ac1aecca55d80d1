//! The state of every GPU, as slurmctld's plugin keeps it.
//!
//! The truth is what running jobs' placements say: the state is rebuilt from them alone after a restart, and changes
//! at two moments only, the commit of an allocation and the end of a job. Idle instances are taken from the layout in
//! the node's `extra` again; one that is wrong there does no harm, since the node makes what it finds match.
//!
//! Answers to "could this request be placed here" are cached until the node changes, because slurmctld asks for every
//! pending job and node again in each round.

mod auto_cap;
pub(crate) use auto_cap::CapOf;
mod back;
mod best;
mod claims;
pub(crate) mod power;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use audit::audit;
use geometry::{GpuIndex, JobId, Model, SHARD_MIB, Uid};
use mapa::Memo;
use node_state::{Ask, Decision, Gpu, GpuState, Holder, Kind, Node, Policy, Purpose, Spread, layout_of};
use placement::{Admission, Budgets, Room, Victim, decide_with, fits, least_victims};
use protocol::layout::ConfigInForce;
use protocol::moldable::PlannedStart;
use protocol::wire::{JobPlacement, encode_request};
use protocol::{Bandwidth, Grant, Isolation, Layout, NodeGrant, Plan, Request, parse_layout};
use site_config::SiteConfig;
use topology::GpuSet;

use crate::view::{GresKind, NodeView, Want};

pub(crate) use best::{SEARCHES, predicted};

/// Most cached answers per node; a site's jobs ask for far fewer shapes.
const CACHE_LIMIT: usize = 256;

/// The state of every GPU of the site.
pub(crate) struct Engine {
    config: SiteConfig,
    policy: Policy,
    /// Sets of whole GPUs chosen before: nodes with the same links and free GPUs share them.
    memo: Arc<Mutex<Memo>>,
    nodes: HashMap<String, NodeEntry>,
    /// Answers for a node with nothing on it, by node set and question.
    ever: HashMap<(usize, Key), bool>,
    /// GB/s of the best set there.
    best_ever: HashMap<(usize, Key), f64>,
    /// The shards that a request counts for there, if it can have a part of a GPU.
    counted: HashMap<(usize, String), Option<u32>>,
    /// Which version of the file this is.
    version: ConfigInForce,
    claims: claims::Claims,
    budgets: Budgets,
}

struct NodeEntry {
    spec: usize,
    node: Node,
    jobs: BTreeMap<JobId, (Uid, NodeGrant)>,
    /// What jobs had whose epilogs are not over. It is free for others, who must not start before that.
    ending: BTreeMap<JobId, (Uid, NodeGrant)>,
    /// Answers for the state as it is now.
    now: HashMap<Key, bool>,
    /// GB/s of the best set, for the same state.
    best: HashMap<Key, f64>,
    /// It is left to Slurm: what Slurm counts there are not the GPUs that the site describes.
    aside: bool,
}

impl NodeEntry {
    /// Forgets what was answered for the state before.
    fn changed(&mut self) {
        self.now.clear();
        self.best.clear();
    }
}

/// What a job wants from one node, as `decide` takes it.
#[derive(Clone)]
pub(crate) struct Question {
    /// The request, and who asks.
    pub(crate) ask: Ask,
    policy: Policy,
    key: Key,
    memo: Arc<Mutex<Memo>>,
    /// Where the user wants the instance, on whatever node.
    wish: Option<PlannedStart>,
    /// The planner's decision that the request follows.
    pub(crate) plan: Option<Plan>,
    /// The shards of a job that asks for nothing else.
    plain_shards: Option<u32>,
    /// The partition that its job is tested in.
    partition: Option<String>,
}

/// What an answer depends on, beside the node's state.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    request: String,
    /// Whose shares or compute instances it may join; `None` where it cannot join any.
    uid: Option<Uid>,
    shards: bool,
    /// Whether it may have GPUs that the site leaves to Slurm.
    plain: bool,
    /// The GPU that it waits for, beside others of its plan.
    only: Option<GpuIndex>,
    spread: Spread,
}

impl Question {
    /// Decides; a build with debug assertions has every decision audited by code that shares nothing with it.
    pub(crate) fn decide(&self, node: &Node) -> Decision {
        let ask = self.asked_of(node);
        let mut memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner);
        let decision = decide_with(node, &ask, &self.policy, &mut memo);
        drop(memo);
        if cfg!(debug_assertions) {
            let findings = audit(node, &ask, &self.policy, &decision);
            assert!(findings.is_empty(), "audit of {ask:?} on {}: {findings:?}", node.layout());
        }
        decision
    }

    /// What is asked of this node. Plain shards are the memory that they stand for on those of its GPUs that have so many:
    /// where memory goes to ECC, all shards of a GPU are less than the gigabytes that it is named by.
    fn asked_of(&self, node: &Node) -> Cow<'_, Ask> {
        let least = |count: u32| {
            let gpus = node.gpus.iter().filter(|gpu| gpu.model.shards() >= count);
            gpus.map(|gpu| gpu.model.shards_mib(count)).min()
        };
        match self.plain_shards.and_then(least).filter(|least| self.ask.request.mem_mib != Some(*least)) {
            Some(mem_mib) => {
                let request = Request { mem_mib: Some(mem_mib), ..self.ask.request.clone() };
                Cow::Owned(Ask { request, ..self.ask.clone() })
            }
            None => Cow::Borrowed(&self.ask),
        }
    }

    /// Whether anything would be chosen.
    pub(crate) fn fits(&self, node: &Node) -> bool {
        let fits = fits(node, &self.asked_of(node), &self.policy);
        if cfg!(debug_assertions) {
            assert_eq!(fits, self.decide(node).chosen.is_some(), "{:?} on {}", self.ask, node.layout());
        }
        fits
    }

    /// The question with the place that is wanted on this node. Whether it fits does not depend on that.
    pub(crate) fn on(mut self, node: &str) -> Self {
        self.ask.request.place = match &self.plan {
            Some(plan) => plan.start_on(node),
            None => self.wish,
        };
        self
    }

    /// The question with this limit to how instances may lie on the GPUs.
    pub(crate) fn spread(mut self, spread: Spread) -> Self {
        self.ask.spread = spread;
        self.key.spread = spread;
        self
    }

    /// The question with these GPUs permitted and no others.
    pub(crate) fn within(mut self, gpus: GpuSet) -> Self {
        self.ask.allowed = Some(self.ask.allowed.map_or(gpus, |allowed| allowed.and(gpus)));
        self
    }

    /// The question whether exactly these GPUs are free as whole ones.
    pub(crate) fn of_whole(mut self, gpus: GpuSet) -> Self {
        let count = u32::try_from(gpus.len()).ok();
        self.ask.request = Request { gpus: count, ..Request::new(Isolation::Whole) };
        self.plain_shards = None;
        self.ask.allowed = Some(gpus);
        self.ask.quotas.clear();
        self
    }

    /// Whether its job gets what no other job is on, so that it may have to wait for the pool of GPU tasks.
    pub(crate) fn is_isolated(&self) -> bool {
        !matches!(self.ask.request.isolation, Isolation::Mps | Isolation::Tasks { .. })
    }

    /// Whether the job wants good links between several GPUs, rather than GPUs near its cores.
    pub(crate) fn pays_for_links(&self) -> bool {
        let request = &self.ask.request;
        let needs = request.bandwidth.unwrap_or(self.policy.sets.bandwidth) == Bandwidth::Sensitive;
        needs && request.gpus.is_some_and(|n| n > 1)
    }
}

impl Engine {
    /// A site with nothing running.
    pub(crate) fn new(config: SiteConfig) -> Self {
        let mut nodes = HashMap::new();
        for (spec, set) in config.nodes.iter().enumerate() {
            for name in &set.names {
                let entry = NodeEntry {
                    spec,
                    node: set.to_node(),
                    jobs: BTreeMap::new(),
                    ending: BTreeMap::new(),
                    now: HashMap::new(),
                    best: HashMap::new(),
                    aside: false,
                };
                nodes.insert(name.clone(), entry);
            }
        }
        let budgets = admission::budgets_of(&config);
        Self {
            policy: config.policy(),
            budgets,
            config,
            nodes,
            ever: HashMap::new(),
            best_ever: HashMap::new(),
            counted: HashMap::new(),
            version: ConfigInForce::Current,
            claims: claims::Claims::default(),
            memo: Arc::default(),
        }
    }

    /// A site of which nothing is known, because `tessera.toml` is bad: Slurm places GPUs, and jobs with a request of ours
    /// wait.
    pub(crate) fn of_bad_file() -> Self {
        Self { version: ConfigInForce::Bad, ..Self::new(site_config::of_nodes(Vec::new())) }
    }

    /// Which version of the file this is.
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
        self.nodes.iter().filter(|(_, e)| !e.aside).map(|(name, _)| name.as_str())
    }

    /// The site's configuration.
    pub(crate) fn site(&self) -> &SiteConfig {
        &self.config
    }

    /// Leaves a node to Slurm from now on: it counts as not managed.
    pub(crate) fn step_aside(&mut self, node: &str) {
        if let Some(entry) = self.nodes.get_mut(node) {
            entry.aside = true;
        }
        self.recount(node);
    }

    fn managed(&self, node: &str) -> Option<&NodeEntry> {
        self.nodes.get(node).filter(|e| !e.aside)
    }

    /// The number of GPUs that the site describes on a node, managed or not.
    pub(crate) fn described_gpus(&self, node: &str) -> Option<u64> {
        self.nodes.get(node).map(|e| e.node.gpus.len() as u64)
    }

    /// The model of a GPU.
    pub(crate) fn model_of(&self, node: &str, gpu: GpuIndex) -> Option<&'static Model> {
        self.nodes.get(node)?.node.gpus.get(usize::from(gpu.0)).map(|g| g.model)
    }

    /// Of these GPUs, those that the site leaves to Slurm.
    pub(crate) fn left_to_slurm(&self, node: &str, gpus: GpuSet) -> GpuSet {
        self.those(node, gpus, |gpu| gpu.purpose == Purpose::Slurm)
    }

    /// Of these GPUs, those that a job may have whole if nobody else is on them: an exclusive job has all of a node's in
    /// Slurm's accounts.
    pub(crate) fn to_be_had_whole(&self, node: &str, gpus: GpuSet) -> GpuSet {
        self.those(node, gpus, Gpu::is_ever_whole)
    }

    fn those(&self, node: &str, gpus: GpuSet, which: impl Fn(&Gpu) -> bool) -> GpuSet {
        let Some(entry) = self.nodes.get(node) else { return GpuSet::EMPTY };
        gpus.iter().filter(|g| entry.node.gpus.get(usize::from(g.0)).is_some_and(&which)).collect()
    }

    /// Whether the site leaves some GPU of the node to Slurm.
    pub(crate) fn leaves_some(&self, node: &str) -> bool {
        self.managed(node).is_some_and(|e| e.node.gpus.iter().any(|g| g.purpose == Purpose::Slurm))
    }

    /// Whether a job asks for more plain shards than any device of the node has: later Slurms can take them from several.
    pub(crate) fn exceeds_devices(&self, node: &str, question: &Question) -> bool {
        let gpus = self.managed(node).map(|entry| &entry.node.gpus);
        question.plain_shards.zip(gpus).is_some_and(|(n, gpus)| gpus.iter().all(|g| g.model.shards() < n))
    }

    /// Makes a question of what a job wants, with the site's defaults filled in.
    pub(crate) fn question(&self, job: JobId, uid: Uid, want: &Want) -> Question {
        let mut ask = Ask::new(job, uid, want.request.clone());
        let wish = ask.request.place.take();
        ask.spread = Spread::ALIKE;
        ask.plain = !want.managed;
        let bound = want.plan.as_ref().filter(|plan| plan.is_bound()).and_then(|plan| plan.place.as_ref());
        let only = bound.map(|place| place.start.gpu);
        ask.allowed = only.map(|gpu| [gpu].into_iter().collect());
        let mut policy = self.policy.clone();
        policy.sets = self.config.sets(want.partition.as_deref());
        if want.kind == GresKind::Shard {
            // Slurm accounts for it by shards: a whole GPU would be used behind its back.
            policy.auto.retain(|k| *k != Kind::Whole);
        }
        let joins =
            matches!(ask.request.isolation, Isolation::Mps | Isolation::Tasks { .. } | Isolation::Auto)
                || ask.request.compute_name().is_some();
        let key = Key {
            request: encode_request(&ask.request),
            uid: joins.then_some(uid),
            shards: want.kind == GresKind::Shard,
            plain: ask.plain,
            only,
            spread: ask.spread,
        };
        let shards = || u32::try_from(ask.request.mem_mib? / SHARD_MIB).ok();
        let plain_shards = if ask.plain && want.kind == GresKind::Shard { shards() } else { None };
        Question {
            ask,
            policy,
            key,
            memo: Arc::clone(&self.memo),
            wish,
            plan: want.plan.clone(),
            plain_shards,
            partition: want.partition.clone(),
        }
    }

    /// Whether the request can be placed on the node as it is now; `None`: the node is not managed.
    pub(crate) fn fits_now(&mut self, node: &str, question: &Question) -> Option<bool> {
        let entry = self.nodes.get_mut(node).filter(|e| !e.aside)?;
        if let Some(known) = entry.now.get(&question.key) {
            return Some(*known);
        }
        let fits = question.fits(&entry.node);
        if entry.now.len() >= CACHE_LIMIT {
            entry.now.clear();
        }
        entry.now.insert(question.key.clone(), fits);
        Some(fits)
    }

    /// Whether the request could be placed on the node with nothing else on it; `None`: the node is not managed.
    pub(crate) fn fits_ever(&mut self, node: &str, question: &Question) -> Option<bool> {
        let spec = self.managed(node)?.spec;
        let key = (spec, question.key.clone());
        if let Some(known) = self.ever.get(&key) {
            return Some(*known);
        }
        let fits = question.fits(&self.config.nodes.get(spec)?.to_node());
        if self.ever.len() >= CACHE_LIMIT {
            self.ever.clear();
        }
        self.ever.insert(key, fits);
        Some(fits)
    }

    /// Whether a plan's place on its node could be had now; false without a place.
    pub(crate) fn has_planned_place(&self, question: &Question) -> bool {
        let place = question.plan.as_ref().and_then(|p| p.place.as_ref());
        place.and_then(|p| Some((p, self.managed(&p.node)?))).is_some_and(|(place, entry)| {
            let decision = question.clone().on(&place.node).decide(&entry.node);
            decision.report.planned == Some((place.start, true))
        })
    }

    /// The shards that a request counts for in Slurm, on whichever of these nodes counts fewest; `None`: none of them
    /// could ever serve it with a part of a GPU.
    pub(crate) fn shards(&mut self, request: &Request, names: &[String]) -> Option<u32> {
        let specs: BTreeSet<usize> = names.iter().filter_map(|n| self.managed(n)).map(|e| e.spec).collect();
        specs.into_iter().filter_map(|spec| self.shards_of_spec(spec, request)).min()
    }

    fn shards_of_spec(&mut self, spec: usize, request: &Request) -> Option<u32> {
        let key = (spec, encode_request(request));
        if let Some(known) = self.counted.get(&key) {
            return *known;
        }
        let node = self.config.nodes.get(spec)?.to_node();
        let counted = match placement::admits_ever(&node, request, &self.policy) {
            Ok(Admission::Shards(count)) => Some(count),
            Ok(Admission::Gpus(_)) | Err(_) => None,
        };
        if self.counted.len() >= CACHE_LIMIT {
            self.counted.clear();
        }
        self.counted.insert(key, counted);
        counted
    }

    /// Whether some of `victims` hold something on the node and the request could be placed there without them.
    pub(crate) fn fits_without(&self, node: &str, question: &Question, victims: &HashSet<JobId>) -> bool {
        let Some(entry) = self.nodes.get(node) else { return false };
        entry.jobs.keys().any(|id| victims.contains(id)) && question.fits(&without(&entry.node, victims))
    }

    /// The fewest and least important of `victims`, which come least important first, that must go beside those that are
    /// `going`, for the request to fit the node and for it to have what it `lacks` there. `None`: that would not help, or
    /// the node is not managed.
    pub(crate) fn least_victims(
        &self,
        node: &str,
        question: &Question,
        going: &[JobId],
        victims: &[Victim],
        lacks: Room,
    ) -> Option<Vec<JobId>> {
        let node = without(&self.managed(node)?.node, &going.iter().copied().collect());
        least_victims(&node, &question.asked_of(&node), &question.policy, victims, lacks)
    }

    /// Whether the request would fit the node once these are gone.
    pub(crate) fn fits_once_gone(&self, node: &str, question: &Question, gone: &[JobId]) -> bool {
        let gone = gone.iter().copied().collect();
        self.managed(node).is_some_and(|entry| question.fits(&without(&entry.node, &gone)))
    }

    /// Slurm's own accounts do not let the request be placed on the node as it is now: not asked again until it
    /// changes, or other nodes would never get a turn.
    pub(crate) fn refused(&mut self, node: &str, question: &Question) {
        if let Some(entry) = self.nodes.get_mut(node) {
            entry.now.insert(question.key.clone(), false);
        }
    }

    /// The same for nodes of which each has room alone: not asked again until one of their power budgets has changed.
    pub(crate) fn refused_everywhere(&mut self, nodes: &[NodeView], question: &Question) {
        nodes.iter().for_each(|node| self.refused(&node.name, question));
    }

    /// The node's state; `None`: it is not managed.
    pub(crate) fn node(&self, name: &str) -> Option<&Node> {
        self.managed(name).map(|e| &e.node)
    }

    /// The jobs that hold something on the node.
    pub(crate) fn jobs_on(&self, name: &str) -> Vec<JobId> {
        self.nodes.get(name).map(|e| e.jobs.keys().copied().collect()).unwrap_or_default()
    }

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
            entry.jobs.insert(placement.job, (uid, given.clone()));
            entry.changed();
            self.recount(name);
        }
        refused
    }

    /// Ends what a job holds everywhere; the nodes that changed.
    pub(crate) fn release(&mut self, job: JobId) -> Vec<String> {
        let held: Vec<String> =
            self.nodes.iter().filter(|(_, e)| e.jobs.contains_key(&job)).map(|(n, _)| n.clone()).collect();
        for name in &held {
            self.release_on(job, name);
        }
        held
    }

    /// Ends what a job holds on one node; true if it held something.
    pub(crate) fn release_on(&mut self, job: JobId, node: &str) -> bool {
        self.take_from(job, node).is_some()
    }

    /// What a job has had on a node, which it now gives back.
    fn take_from(&mut self, job: JobId, node: &str) -> Option<(Uid, NodeGrant)> {
        let entry = self.nodes.get_mut(node)?;
        let held = entry.jobs.remove(&job)?;
        entry.node.release(job);
        entry.changed();
        self.recount(node);
        Some(held)
    }

    /// The same as [`Self::release`] for a job whose epilogs follow: its places are shown as its own until
    /// [`Self::is_over`].
    pub(crate) fn begin_end(&mut self, job: JobId) -> Vec<String> {
        let held: Vec<String> =
            self.nodes.iter().filter(|(_, e)| e.jobs.contains_key(&job)).map(|(n, _)| n.clone()).collect();
        for name in &held {
            let had = self.take_from(job, name);
            if let Some((entry, had)) = self.nodes.get_mut(name).zip(had) {
                entry.ending.insert(job, had);
            }
            self.recount(name);
        }
        held
    }

    /// The nodes on which jobs are ending.
    pub(crate) fn with_ending_jobs(&self) -> Vec<String> {
        self.nodes.iter().filter(|(_, e)| !e.ending.is_empty()).map(|(name, _)| name.clone()).collect()
    }

    /// All epilogs on a node are over.
    pub(crate) fn is_over(&mut self, node: &str) {
        if let Some(entry) = self.nodes.get_mut(node) {
            entry.ending.clear();
        }
        self.recount(node);
    }

    /// Whether a job holds anything.
    pub(crate) fn holds(&self, job: JobId) -> bool {
        self.nodes.values().any(|e| e.jobs.contains_key(&job))
    }

    /// Takes over the idle instances that a layout published earlier names; what is not a layout is ignored.
    pub(crate) fn remember_idle(&mut self, node: &str, published: &str) {
        let Some(entry) = self.nodes.get_mut(node) else { return };
        if let Ok(layout) = parse_layout(published) {
            entry.node.remember_idle(&layout);
            entry.changed();
        }
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

fn without(node: &Node, jobs: &HashSet<JobId>) -> Node {
    let mut node = node.clone();
    node.release_all(&|job| jobs.contains(&job));
    node
}

/// Gives a job its grant's GPUs whole, where nobody else is on them; how many.
fn block(node: &mut Node, job: JobId, grant: &Grant) -> usize {
    let idle = |state: &GpuState| match state {
        GpuState::Free => true,
        GpuState::Mig(list) => list.iter().all(|i| i.holder == Holder::Idle),
        GpuState::Whole(_) | GpuState::Mps(_) | GpuState::Tasks(_) => false,
    };
    let mut blocked = 0;
    let may_be = |gpu: &&mut Gpu| idle(&gpu.state) && gpu.purpose != Purpose::Static;
    for index in grant.gpus() {
        if let Some(gpu) = node.gpus.get_mut(usize::from(index.0)).filter(may_be) {
            gpu.state = GpuState::Whole(job);
            blocked += 1;
        }
    }
    blocked
}
