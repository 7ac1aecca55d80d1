//! The nodes that a request is asked about, in the state that they are in or said to be in.

use std::collections::HashMap;

use far::Micros;
use geometry::{JobId, Uid};
use node_state::{MigPolicy, Node};
use site_config::{GpuUse, NodePower, NodeSpec, SiteConfig, System};
use site_limits::Submission;

use super::ExplainArgs;
use super::request::RequestArgs;
use crate::allowance::{self, Allowance, Asker};
use crate::commands::layout;
use crate::globals::Globals;
use crate::node_answer::NodeOrder;
use crate::outcome::Failure;
use crate::runtimes::Learnt;
use crate::runtimes::ends::ends;
use crate::slurm::caller::{Caller, caller};
use crate::slurm::constraint::Constraint;
use crate::slurm::{gres_type, squeue};
use crate::slurm_nodes::{self, Among, Live, Present, Published};
use crate::{clock, layout_line, options, site, unknown_name};

/// How the nodes' state is known.
pub(super) enum NodesKnown {
    /// Slurm shows it.
    Now,
    /// They are taken as empty, because no Slurm answers: why.
    Unanswered(String),
    /// The options say it: a layout, a made-up node, or empty nodes.
    Said,
}

/// The nodes that are asked, and what is known of those who use them.
pub(super) struct AskedNodes {
    pub(super) config: SiteConfig,
    pub(super) live: Live,
    pub(super) seen: NodesKnown,
    pub(super) caller: Caller,
    /// A job of the caller, with what slurmctld knows of where it may run.
    pub(super) who: Submission,
    /// The jobs' numbers and users, `12 (bob)`.
    names: HashMap<JobId, String>,
    /// When jobs are expected to end, µs from now.
    pub(super) ends: HashMap<JobId, Micros>,
    /// The jobs on each node, with GPUs or without.
    pub(super) company: HashMap<String, Vec<JobId>>,
    /// Slurm's limits of the caller; `None`: it keeps none, or does not answer.
    pub(super) allowance: Option<Allowance>,
}

impl AskedNodes {
    pub(super) fn name(&self, job: JobId) -> Option<String> {
        self.names.get(&job).cloned()
    }

    /// How the nodes' state is known, for the answer's first line; nothing where the options say it.
    pub(super) fn header(&self) -> Option<String> {
        let Caller { user, partition, account, .. } = &self.caller;
        match &self.seen {
            NodesKnown::Said => None,
            NodesKnown::Unanswered(why) => {
                Some(format!("no Slurm answers here, so all nodes are taken as empty ({why})"))
            }
            NodesKnown::Now => {
                let of = |what: &str, name: &Option<String>| {
                    name.as_ref().map_or_else(String::new, |name| format!(", {what} {name}"))
                };
                Some(format!(
                    "as Slurm shows the nodes now, for {user}{}{}",
                    of("partition", partition),
                    of("account", account)
                ))
            }
        }
    }

    /// Nodes in the same state together, in this order: their names, and one of them.
    pub(super) fn alike(&self, order: &NodeOrder) -> Vec<(Vec<String>, &Node)> {
        let mut all: Vec<(usize, Vec<String>, &Node)> = Vec::new();
        for present in &self.live.nodes {
            match all.iter_mut().find(|(state, ..)| *state == present.state) {
                Some((_, names, _)) => names.push(present.name.clone()),
                None => all.push((present.state, vec![present.name.clone()], &present.node)),
            }
        }
        all.sort_by_key(|(_, names, _)| order.place(names));
        all.into_iter().map(|(_, names, node)| (names, node)).collect()
    }
}

/// The site that is asked, and its nodes in the state that they are asked about.
pub(super) fn asked(args: &ExplainArgs, globals: &Globals) -> Result<AskedNodes, Failure> {
    let mut asked = match &args.model {
        Some((key, count)) => made_up(key, args.count.unwrap_or(*count), args, globals)?,
        None => configured(args, site::load(globals.config.as_deref())?)?,
    };
    if let Some(text) = &args.busy {
        let own = |_| Uid(rustix::process::getuid().as_raw());
        for present in &mut asked.live.nodes {
            present.idle = !text.contains("job");
            put(text, &mut present.node, &own).map_err(|why| {
                Failure::new(format!("--busy on {}: {why}", present.name)).hint("as sinfo -O extra prints it")
            })?;
        }
    }
    Ok(asked)
}

/// Puts a published layout onto a node; `owner` tells whose a job is.
fn put(line: &str, node: &mut Node, owner: &dyn Fn(JobId) -> Uid) -> Result<(), String> {
    let models: Vec<_> = node.gpus.iter().map(|g| g.model).collect();
    layout_line::take_over(&layout_line::read(line, &models)?, node, owner);
    Ok(())
}

/// A node that no file describes. It works without a tessera.toml, whose limits and defaults it takes if there is one.
fn made_up(key: &str, count: usize, args: &ExplainArgs, globals: &Globals) -> Result<AskedNodes, Failure> {
    let spec = described(key, count, &args.links)?;
    let name = format!("{count} x {}", spec.gpus[0].key);
    let nodes = vec![Present {
        name,
        node: site_limits::node_of(&spec),
        sick: Vec::new(),
        idle: true,
        weight: 0,
        state: 0,
        alike: 0,
    }];
    let config = match site::load(globals.config.as_deref()) {
        Ok(config) => SiteConfig { nodes: vec![spec], ..config },
        Err(_) => site_config::of_nodes(vec![spec]),
    };
    Ok(said(config, nodes, args))
}

fn said(config: SiteConfig, nodes: Vec<Present>, args: &ExplainArgs) -> AskedNodes {
    let caller =
        Caller { partition: args.partition.clone(), account: args.account.clone(), ..Caller::default() };
    let live = Live { nodes, ..Live::default() };
    let who = Submission {
        partitions: caller.partition.iter().cloned().collect(),
        account: caller.account.clone(),
        ..Submission::default()
    };
    AskedNodes {
        config,
        live,
        seen: NodesKnown::Said,
        caller,
        who,
        names: HashMap::new(),
        ends: HashMap::new(),
        company: HashMap::new(),
        allowance: None,
    }
}

fn described(key: &str, count: usize, links: &str) -> Result<NodeSpec, Failure> {
    let model = options::gpu_model(key)?;
    let system = System::find(links).ok_or_else(|| {
        let names: Vec<&str> = site_config::systems().iter().map(|s| s.name.as_str()).collect();
        Failure::new(format!("unknown interconnect {links:?}")).hint(format!("one of {}", names.join(", ")))
    })?;
    let graph = system.graph(count).ok_or_else(|| {
        Failure::new(format!("interconnect {links} links {} GPUs, not {count}", system.size))
    })?;
    let interconnect = system.name.clone();
    Ok(NodeSpec {
        names: vec!["asked".to_owned()],
        gpus: vec![model; count],
        mig: MigPolicy::Dynamic,
        uses: vec![GpuUse::AsMig; count],
        keep_uncut: 0,
        links: graph.into(),
        interconnect,
        memory_fence: false,
        power: NodePower::default(),
    })
}

/// The nodes of tessera.toml: as Slurm shows them, where it answers and nothing else is said.
fn configured(args: &ExplainArgs, config: SiteConfig) -> Result<AskedNodes, Failure> {
    let wanted = args.node.as_deref().map(|list| layout::named(list, &config)).transpose()?;
    if args.empty || args.busy.is_some() {
        let nodes = empty(&config, wanted.as_deref(), args.request.excluded());
        return Ok(said(config, nodes, args));
    }
    let published = match Published::by_slurm() {
        Ok(published) => published,
        Err(failure) if args.live || args.request.needs_slurm() => return Err(failure),
        Err(failure) => {
            let nodes = empty(&config, wanted.as_deref(), args.request.excluded());
            let why = failure.what().lines().next().unwrap_or_default().to_owned();
            return Ok(AskedNodes { seen: NodesKnown::Unanswered(why), ..said(config, nodes, args) });
        }
    };
    let by_account = config.limits.iter().any(|limit| limit.account.is_some());
    let mut caller = caller(by_account && args.account.is_none());
    caller.partition = args.partition.clone().or(caller.partition);
    caller.account = args.account.clone().or(caller.account);
    let partitions = admission::distinct(caller.partition.as_deref().unwrap_or_default());
    unknown_name::partitions(&partitions, &|name| published.has_node_in(name))?;
    let mut who = published.submission(&config, partitions, caller.account.clone());
    who.user = Some(rustix::process::getuid().as_raw());
    as_sbatch_knows(args, &published)?;
    let among = Among {
        names: wanted.as_deref(),
        partitions: &who.partitions,
        excluded: args.request.excluded(),
        constraint: args.request.constraint.as_ref(),
        types: &gres_type::named(&args.request.tres().gpu_entries()).0,
        reservation: args.request.reservation.as_deref(),
        runs_s: args.request.runs_s(),
        user: None,
    };
    let live = slurm_nodes::nodes(&config, &published, among)?;
    let asker = Asker {
        user: &caller.user,
        account: caller.account.as_deref(),
        partition: allowance::single(who.partitions.iter().map(String::as_str)),
        qos: args.qos.as_deref().or(caller.qos.as_deref()),
        uid: who.user,
    };
    let allowance = allowance::ask(asker, &config)?;
    who.qos = allowance.as_ref().and_then(|allowance| allowance.qos.clone()).or_else(|| args.qos.clone());
    let jobs = squeue::jobs(None)?;
    let ends = ends(&jobs, &Learnt::nothing(config.learn_from), clock::epoch_seconds());
    let company = squeue::by_node(&jobs);
    let names = jobs.iter().map(|job| (JobId(job.id), job.named())).collect();
    Ok(AskedNodes { config, live, seen: NodesKnown::Now, caller, who, names, ends, company, allowance })
}

/// Checks what sbatch refuses to ask for.
fn as_sbatch_knows(args: &ExplainArgs, published: &Published) -> Result<(), Failure> {
    let RequestArgs { reservation, constraint, .. } = &args.request;
    let refused = |why: String, hint: &str| {
        Err(Failure::new(format!("refused at submission: {why}")).hint(hint.to_owned()))
    };
    let mut reservations = reservation.iter().flat_map(|list| list.split(','));
    if let Some(name) = reservations.find(|name| !published.has_reservation(name, clock::epoch_seconds())) {
        let why = format!("--reservation={name}: Slurm shows you no such reservation, or it has ended");
        return refused(why, "scontrol show reservations");
    }
    let types = gres_type::named(&args.request.tres().gpu_entries()).0;
    if let Some(name) = types.iter().find(|name| !published.has_gpu_type(name)) {
        return refused(format!("--gres: no node has GPUs of type {name}"), "sinfo -o '%N %G'");
    }
    let mut features = constraint.iter().flat_map(Constraint::features);
    match features.find(|feature| !published.has_feature(feature)) {
        Some(feature) => {
            refused(format!("--constraint: no node has the feature {feature}"), "sinfo -o '%N %f'")
        }
        None => Ok(()),
    }
}

fn empty(config: &SiteConfig, wanted: Option<&[String]>, excluded: &[String]) -> Vec<Present> {
    let named = config.nodes.iter().enumerate().flat_map(|(set, s)| s.names.iter().map(move |n| (set, s, n)));
    let asked = named
        .filter(|(_, _, name)| wanted.is_none_or(|wanted| wanted.contains(name)) && !excluded.contains(name));
    let present = |(state, spec, name): (usize, &NodeSpec, &String)| Present {
        name: name.clone(),
        node: site_limits::node_of(spec),
        sick: Vec::new(),
        idle: true,
        weight: 0,
        state,
        alike: state,
    };
    asked.map(present).collect()
}
