//! `tessera explain`: what a request would get, and why.

mod args;
mod explained;
mod json;
mod request;
mod rivals;
mod text;
mod waits;

use admission::{Ruling, Submission};
use geometry::{JobId, Uid};
use node_state::{Ask, Kind, MigPolicy, Node, Policy, Spread};
use placement::decide;
use protocol::meaning::{Counted, SlurmAsks, as_counted, meaning};
use protocol::wire::encode_request;
use protocol::{Request, Size};
use serde_json::{Value, json};
use site_config::{GpuUse, NodeSpec, SiteConfig, System};

pub(crate) use args::ExplainArgs;
use explained::Explained;

use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::slurm::{scontrol, squeue};
use crate::{options, published, site};

/// The job that asks: no real job has this id.
const ASKER: JobId = JobId(0);

/// The user whose shares nobody may join who asks: no real user has this id.
const SOMEBODY: Uid = Uid(u32::MAX);

pub(crate) fn run(args: &ExplainArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let request = args.request.request().map_err(|refusals| {
        let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        refused(&lines.join("\n"))
    })?;
    if request.is_none() && args.request.gpus.is_none() {
        return Err(Failure::new("no request given")
            .hint("for example: tessera explain --gpu-isolation=mig --gpu-mem=10G"));
    }
    let (config, nodes) = nodes(args, globals)?;
    let job = Submission {
        request: request.as_ref().map(encode_request),
        tres: args.request.tres(),
        partitions: args.partition.iter().cloned().collect(),
        account: args.account.clone(),
        exclusive: args.request.exclusive,
        tasks_per_node: args.request.ntasks_per_node,
        ..Submission::default()
    };
    let (verdict, asked) = match admission::judge(&job, Some(&config)) {
        Ruling::Accepted { request, add } => (Ok(counted(&job, add)), request),
        Ruling::Untouched => match as_counted(request, counted(&job, None)) {
            Some(plain) => (Ok(counted(&job, None)), plain.request),
            None => return Ok(Outcome::ok("Tessera changes nothing: the job gets what Slurm gives it\n")),
        },
        // The nodes' reasons follow unless the request contradicts itself or a limit.
        Ruling::Refused(why) => match possible(&job, request, &config) {
            Some(request) => (Err(why), request),
            None => return Err(refused(&why)),
        },
    };
    let mut policy = Policy { sets: config.sets(args.partition.as_deref()), ..config.policy() };
    if matches!(verdict, Ok(Counted::Shards(_))) {
        // What Slurm counts in shards cannot become a whole GPU, which it counts as gpu.
        policy.auto.retain(|kind| *kind != Kind::Whole);
    }
    let explained: Vec<Explained> =
        nodes.into_iter().map(|(name, node)| explain(name, &node, &asked, &policy)).collect();
    let starts = explained.iter().any(|e| e.decision.chosen.is_some());
    let status = u8::from(verdict.is_err() || !starts);
    if args.json {
        let nodes: Vec<Value> = explained.iter().map(|e| json::node(e, verdict.as_ref().ok())).collect();
        let mut value = json!({ "request": encode_request(&asked), "nodes": nodes });
        if let Err(why) = &verdict {
            value["refused"] = why.as_str().into();
        }
        return Ok(Outcome::json(&value, status));
    }
    let blocks: Vec<String> =
        explained.iter().map(|e| text::block(e, verdict.as_ref().ok().copied())).collect();
    let refusal = verdict.err().map(|why| format!("refused at submission: {why}\n\n")).unwrap_or_default();
    Ok(Outcome { text: refusal + &blocks.join("\n"), status })
}

fn refused(why: &str) -> Failure {
    Failure::new(format!("refused at submission: {why}"))
}

/// What Slurm counts for a job per node, to which submission adds `add`.
fn counted(job: &Submission, add: Option<(&'static str, u32)>) -> Counted {
    match add {
        Some(("shard", shards)) => Counted::Shards(u64::from(shards)),
        Some((_, gpus)) => Counted::Gpus(u64::from(gpus)),
        None => Counted::Gpus(job.tres.gpu_entries().iter().map(|entry| entry.count).sum()),
    }
}

/// What a refused request means, if only the nodes are in its way.
fn possible(job: &Submission, request: Option<Request>, config: &SiteConfig) -> Option<Request> {
    let slurm = SlurmAsks { tres: &job.tres, exclusive: job.exclusive };
    let request = meaning(request?, slurm, &config.defaults.of_requests()).ok()?;
    Some(request).filter(|request| admission::refusal(request, job, config).is_none())
}

fn explain(name: String, node: &Node, request: &Request, policy: &Policy) -> Explained {
    let uid = Uid(rustix::process::getuid().as_raw());
    // Slurm 22.05 gives all of a job's shards on a node from one GPU; the controller asks the same way.
    let ask = Ask { spread: Spread::ALIKE, ..Ask::new(ASKER, uid, request.clone()) };
    let ever = placement::admits_ever(node, request, policy);
    let decision = decide(node, &ask, policy);
    let rivals = rivals::of(node, &ask, policy, &decision);
    let mut sizes: Vec<Size> = node.gpus.iter().flat_map(|g| request.sizes_on(g.model)).collect();
    sizes.sort_by_key(|s| (s.profile.compute_slices, &s.profile.name));
    sizes.dedup_by_key(|s| &s.profile.name);
    let waits = waits::of(node, &ask, policy, &decision);
    Explained { name, decision, ever, waits, rivals, sizes }
}

/// The site that is asked, and its nodes in the state that they are asked about.
fn nodes(args: &ExplainArgs, globals: &Globals) -> Result<(SiteConfig, Vec<(String, Node)>), Failure> {
    let (config, mut nodes) = match &args.model {
        Some(key) => {
            let spec = described(key, args.count, &args.links)?;
            let nodes = vec![(format!("{} x {}", args.count, spec.gpus[0].key), spec.to_node())];
            // --model works without a tessera.toml.
            let config = match site::load(globals.config.as_deref()) {
                Ok(config) => SiteConfig { nodes: vec![spec], ..config },
                Err(_) => site_config::of_nodes(vec![spec]),
            };
            (config, nodes)
        }
        None => {
            let config = site::load(globals.config.as_deref())?;
            let nodes = configured(args, &config)?;
            (config, nodes)
        }
    };
    if let Some(text) = &args.busy {
        let own = |_| Uid(rustix::process::getuid().as_raw());
        for (name, node) in &mut nodes {
            put(text, node, &own).map_err(|why| {
                Failure::new(format!("--busy on {name}: {why}")).hint("as sinfo -O extra prints it")
            })?;
        }
    }
    Ok((config, nodes))
}

/// Puts a published layout onto a node; `owner` tells whose a job is.
fn put(line: &str, node: &mut Node, owner: &dyn Fn(JobId) -> Uid) -> Result<(), String> {
    let models: Vec<_> = node.gpus.iter().map(|g| g.model).collect();
    published::take_over(&published::read(line, &models)?, node, owner);
    Ok(())
}

fn described(key: &str, count: usize, links: &str) -> Result<NodeSpec, Failure> {
    let model = options::gpu_model(key)?;
    let system = System::find(links).ok_or_else(|| {
        let names: Vec<&str> = site_config::systems().iter().map(|s| s.name.as_str()).collect();
        Failure::new(format!("unknown interconnect {links:?}")).hint(format!("one of {}", names.join(", ")))
    })?;
    let matrix = system.matrix(count).ok_or_else(|| {
        Failure::new(format!("interconnect {links} links {} GPUs, not {count}", system.size))
    })?;
    let interconnect = system.name.clone();
    Ok(NodeSpec {
        names: vec!["asked".to_owned()],
        gpus: vec![model; count],
        mig: MigPolicy::Dynamic,
        uses: vec![GpuUse::AsMig; count],
        keep_uncut: 0,
        links: matrix,
        interconnect,
    })
}

/// Named nodes, or the first of each set; with `--live` in the state that the controller publishes.
fn configured(args: &ExplainArgs, config: &SiteConfig) -> Result<Vec<(String, Node)>, Failure> {
    let (layouts, owners) =
        if args.live { (scontrol::layouts()?, squeue::owners()?) } else { Default::default() };
    let owner = |job: JobId| owners.get(&job).copied().unwrap_or(SOMEBODY);
    let names: Vec<&str> = match &args.node {
        Some(name) => vec![name],
        None if args.live => config.nodes.iter().flat_map(|s| &s.names).map(String::as_str).collect(),
        None => config.nodes.iter().filter_map(|s| s.names.first()).map(String::as_str).collect(),
    };
    let state = |name: &str| {
        let mut node = config.node(name).ok_or_else(|| site::unknown_node(name, config))?.to_node();
        if let Some(text) = layouts.get(name) {
            put(text, &mut node, &owner).map_err(|why| Failure::new(format!("layout of {name}: {why}")))?;
        }
        Ok((name.to_owned(), node))
    };
    names.into_iter().map(state).collect()
}
