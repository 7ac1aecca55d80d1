//! `tessera explain`: what a request would get, and why.

mod args;
mod explained;
mod json;
mod request;
mod rivals;
mod text;
mod waits;

use placement::admit::Admission;
use placement::planned::Size;
use placement::{Ask, Isolation, JobId, Kind, MigPolicy, Node, Policy, Request, Uid, decide, wire};
use serde_json::{Value, json};
use site_config::{Limit, SiteConfig, System};

pub(crate) use args::ExplainArgs;
use explained::Explained;

use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::slurm::scontrol;
use crate::{options, published, site};

/// The job that asks: no real job has this id.
const ASKER: (JobId, Uid) = (JobId(0), Uid(0));

pub(crate) fn run(args: &ExplainArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let request = args.request.request().ok_or_else(|| {
        Failure::new("no request given")
            .hint("for example: tessera explain --gpu-isolation=mig --gpu-mem=10G")
    })?;
    if let Some(why) = args.request.contradiction() {
        return Err(Failure::new(format!("refused at submission: {why}")));
    }
    let Site { nodes, mut policy, default, limits } = nodes(args, globals)?;
    // As the controller does it at submission.
    let request = match (&request.isolation, request.gpus) {
        (Isolation::Auto, Some(_)) => Request { isolation: Isolation::Whole, ..request },
        (Isolation::Auto, None) if request.is_moldable() || request.place.is_some() => {
            Request { isolation: Isolation::Mig(None), ..request }
        }
        (Isolation::Auto, None) if !request.isolation_typed => Request { isolation: default, ..request },
        _ => request,
    };
    for limit in &limits {
        if let Some(why) = limit.refusal(&request) {
            return Err(Failure::new(format!("refused at submission: {why}")));
        }
        policy.auto.retain(|kind| limit.allows(&isolation_of(*kind)));
    }
    let explained: Vec<Explained> =
        nodes.into_iter().map(|(name, node)| explain(name, &node, &request, &policy)).collect();
    let status = u8::from(explained.iter().all(|e| e.decision.chosen.is_none()));
    if args.json {
        let nodes: Vec<Value> = explained.iter().map(json::node).collect();
        return Ok(Outcome::json(
            &json!({ "request": wire::encode_request(&request), "nodes": nodes }),
            status,
        ));
    }
    let blocks: Vec<String> = explained.iter().map(text::block).collect();
    Ok(Outcome { text: blocks.join("\n"), status })
}

fn isolation_of(kind: Kind) -> Isolation {
    match kind {
        Kind::Mig => Isolation::Mig(None),
        Kind::Mps => Isolation::Mps,
        Kind::Whole => Isolation::Whole,
    }
}

fn explain(name: String, node: &Node, request: &Request, policy: &Policy) -> Explained {
    // Slurm 22.05 gives all of a job's shards on a node from one GPU; the controller asks the same way.
    let ask = Ask { same_gpu_only: true, ..Ask::new(ASKER.0, ASKER.1, request.clone()) };
    let ever = placement::admits_ever(node, request, policy, ask.same_gpu_only);
    let mut policy = policy.clone();
    if matches!(ever, Ok(Admission::Shards(_))) {
        // What Slurm counts in shards cannot become a whole GPU, which it counts as gpu.
        policy.auto.retain(|kind| *kind != Kind::Whole);
    }
    let decision = decide(node, &ask, &policy);
    let rivals = rivals::of(node, &ask, &policy, &decision);
    let mut sizes: Vec<Size> = node.gpus.iter().flat_map(|g| request.sizes_on(g.model)).collect();
    sizes.sort_by_key(|s| (s.profile.compute_slices, &s.profile.name));
    sizes.dedup_by_key(|s| &s.profile.name);
    let waits = waits::of(node, &ask, &policy, &decision);
    Explained { name, decision, ever, waits, rivals, sizes }
}

/// What the request is asked of.
struct Site {
    /// Nodes in the state that they are asked about.
    nodes: Vec<(String, Node)>,
    policy: Policy,
    /// What a request without isolation means.
    default: Isolation,
    /// Those of the partition and account that were named.
    limits: Vec<Limit>,
}

fn nodes(args: &ExplainArgs, globals: &Globals) -> Result<Site, Failure> {
    let mut site = match &args.model {
        Some(key) => {
            // --model works without a tessera.toml.
            let config = site::load(globals.config.as_deref()).ok();
            let (policy, default) =
                config.map_or((Policy::default(), Isolation::Auto), |c| (c.policy(), c.defaults.isolation));
            Site {
                nodes: vec![described(key, args.count, &args.links)?],
                policy,
                default,
                limits: Vec::new(),
            }
        }
        None => {
            let config = site::load(globals.config.as_deref())?;
            let limits = config.limits_for(args.partition.as_deref(), args.account.as_deref());
            Site {
                nodes: configured(args, &config)?,
                policy: Policy { sets: config.sets(args.partition.as_deref()), ..config.policy() },
                limits: limits.cloned().collect(),
                default: config.defaults.isolation.clone(),
            }
        }
    };
    if let Some(text) = &args.busy {
        for (name, node) in &mut site.nodes {
            put(text, node).map_err(|why| {
                Failure::new(format!("--busy on {name}: {why}")).hint("as sinfo -O extra prints it")
            })?;
        }
    }
    Ok(site)
}

/// Puts a published layout onto a node.
fn put(line: &str, node: &mut Node) -> Result<(), String> {
    let models: Vec<_> = node.gpus.iter().map(|g| g.model).collect();
    published::take_over(&published::read(line, &models)?, node, ASKER.1);
    Ok(())
}

fn described(key: &str, count: usize, links: &str) -> Result<(String, Node), Failure> {
    let model = options::gpu_model(key)?;
    let system = System::find(links).ok_or_else(|| {
        let names: Vec<&str> = site_config::systems().iter().map(|s| s.name.as_str()).collect();
        Failure::new(format!("unknown interconnect {links:?}")).hint(format!("one of {}", names.join(", ")))
    })?;
    let matrix = system.matrix(count).ok_or_else(|| {
        Failure::new(format!("interconnect {links} links {} GPUs, not {count}", system.size))
    })?;
    let gpu = placement::Gpu { model, policy: MigPolicy::Dynamic, state: placement::GpuState::Free };
    Ok((format!("{count} x {}", model.key), Node { gpus: vec![gpu; count], links: matrix }))
}

/// Named nodes, or the first of each set; with `--live` in the state that the controller publishes.
fn configured(args: &ExplainArgs, config: &SiteConfig) -> Result<Vec<(String, Node)>, Failure> {
    let layouts = if args.live { scontrol::layouts()? } else { Default::default() };
    let names: Vec<&str> = match &args.node {
        Some(name) => vec![name],
        None if args.live => config.nodes.iter().flat_map(|s| &s.names).map(String::as_str).collect(),
        None => config.nodes.iter().filter_map(|s| s.names.first()).map(String::as_str).collect(),
    };
    let state = |name: &str| {
        let mut node = config.node(name).ok_or_else(|| site::unknown_node(name, config))?.to_node();
        if let Some(text) = layouts.get(name) {
            put(text, &mut node).map_err(|why| Failure::new(format!("layout of {name}: {why}")))?;
        }
        Ok((name.to_owned(), node))
    };
    names.into_iter().map(state).collect()
}
