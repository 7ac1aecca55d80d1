//! `tessera explain`: what a request would get, and why.

mod json;

use std::fmt::Write as _;

use placement::admit::Admission;
use placement::decision::ShareOn;
use placement::report::{Candidate, KindTried, Verdict};
use placement::{
    Ask, Decision, Grant, Isolation, JobId, Kind, MigPolicy, MigSpec, Node, Policy, Request, Uid, decide,
    wire,
};
use serde_json::{Value, json};
use site_config::{SiteConfig, System};

use crate::args::{Cli, ExplainArgs};
use crate::layout;
use crate::outcome::{Failure, Outcome};
use crate::{profiles, site, slurm};

/// One node and what the request gets there.
struct Explained {
    name: String,
    decision: Decision,
    /// What it counts for in Slurm, or why this node could never satisfy it.
    ever: Result<Admission, placement::admit::Never>,
}

/// The job that asks: no real job has this id.
const ASKER: (JobId, Uid) = (JobId(0), Uid(0));

pub(crate) fn run(args: &ExplainArgs, cli: &Cli) -> Result<Outcome, Failure> {
    let request = args.request.request().ok_or_else(|| {
        Failure::new("nothing is asked for")
            .hint("for example: tessera explain --gpu-isolation=mig --gpu-mem=10G")
    })?;
    let Site { nodes, policy, default } = nodes(args, cli)?;
    // As the controller does it at submission.
    let request = match (&request.isolation, request.gpus) {
        (Isolation::Auto, Some(_)) => Request { isolation: Isolation::Whole, ..request },
        (Isolation::Auto, None) => Request { isolation: default, ..request },
        _ => request,
    };
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
    let blocks: Vec<String> = explained.iter().map(block).collect();
    Ok(Outcome { text: blocks.join("\n"), status })
}

fn explain(name: String, node: &Node, request: &Request, policy: &Policy) -> Explained {
    // Slurm 22.05 gives all of a job's shards on a node from one GPU; the controller asks the same way.
    let ask = Ask { same_gpu_only: true, ..Ask::new(ASKER.0, ASKER.1, request.clone()) };
    let ever = node.admits_ever(request, policy, ask.same_gpu_only);
    let mut policy = policy.clone();
    if matches!(ever, Ok(Admission::Shards(_))) {
        // What Slurm counts in shards cannot become a whole GPU, which it counts as gpu.
        policy.auto.retain(|kind| *kind != Kind::Whole);
    }
    Explained { name, decision: decide(node, &ask, &policy), ever }
}

/// Whom to ask.
struct Site {
    /// As they are.
    nodes: Vec<(String, Node)>,
    policy: Policy,
    /// What a request without isolation means.
    default: Isolation,
}

fn nodes(args: &ExplainArgs, cli: &Cli) -> Result<Site, Failure> {
    let (mut nodes, policy, default) = match &args.model {
        Some(key) => {
            // A model can be asked about where there is no site.
            let site = site::load(cli.config.as_deref()).ok();
            let (policy, default) =
                site.map_or((Policy::default(), Isolation::Auto), |c| (c.policy(), c.defaults.isolation));
            (vec![described(key, args.count, &args.links)?], policy, default)
        }
        None => {
            let config = site::load(cli.config.as_deref())?;
            (configured(args, &config)?, config.policy(), config.defaults.isolation)
        }
    };
    if let Some(text) = &args.busy {
        for (name, node) in &mut nodes {
            put(text, node).map_err(|why| {
                Failure::new(format!("--busy on {name}: {why}")).hint("as sinfo -O extra prints it")
            })?;
        }
    }
    Ok(Site { nodes, policy, default })
}

/// Puts a published layout onto a node.
fn put(line: &str, node: &mut Node) -> Result<(), String> {
    let models: Vec<_> = node.gpus.iter().map(|g| g.model).collect();
    layout::take_over(&layout::read(line, &models)?, node, ASKER.1);
    Ok(())
}

fn described(key: &str, count: usize, links: &str) -> Result<(String, Node), Failure> {
    let model = profiles::find(key)?;
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
    let published = if args.live { slurm::layouts()? } else { Default::default() };
    let names: Vec<&str> = match &args.node {
        Some(name) => vec![name],
        None if args.live => config.nodes.iter().flat_map(|s| &s.names).map(String::as_str).collect(),
        None => config.nodes.iter().filter_map(|s| s.names.first()).map(String::as_str).collect(),
    };
    let state = |name: &str| {
        let mut node = config.node(name).ok_or_else(|| site::unknown_node(name, config))?.to_node();
        if let Some(text) = published.get(name) {
            put(text, &mut node).map_err(|why| Failure::new(format!("layout of {name}: {why}")))?;
        }
        Ok((name.to_owned(), node))
    };
    names.into_iter().map(state).collect()
}

fn block(explained: &Explained) -> String {
    let Explained { name, decision, ever } = explained;
    let mut text = format!("{name}: {}\n", decision.why());
    match ever {
        Err(never) => {
            let _ = writeln!(text, "refused at submission: {never}");
        }
        Ok(Admission::Shards(n)) => {
            let _ = writeln!(text, "counts in Slurm as gres/shard:{n} per node");
        }
        Ok(Admission::Gpus(n)) => {
            let _ = writeln!(text, "counts in Slurm as gres/gpu:{n} per node");
        }
    }
    if ever.is_ok() && decision.chosen.is_none() {
        text.push_str("the job would wait: an empty node could give it\n");
    }
    for tried in &decision.report.kinds {
        let chosen = if tried.chosen { ", chosen" } else { "" };
        let _ = writeln!(text, "  {:5} {}{chosen}", tried.kind.name(), outcome(tried));
        text.push_str(&candidates(decision, tried.kind));
    }
    if decision.report.omitted > 0 {
        let _ = writeln!(text, "  and {} more candidates", decision.report.omitted);
    }
    text
}

fn outcome(tried: &KindTried) -> String {
    match tried.outcome {
        Ok(takes) => takes.to_string(),
        Err(Some(why)) => format!("not tried: {why}"),
        Err(None) => "nothing fits".to_owned(),
    }
}

/// The candidates of one kind; GPUs that have the same ones are written once. What was chosen has a star.
fn candidates(decision: &Decision, kind: Kind) -> String {
    let mut groups: Vec<(Vec<u16>, Vec<String>)> = Vec::new();
    let of_kind = || decision.report.weighed.iter().filter(|c| c.kind == kind);
    let mut gpus: Vec<u16> = of_kind().map(|c| c.gpu.0).collect();
    gpus.dedup();
    for gpu in gpus {
        let lines: Vec<String> = of_kind().filter(|c| c.gpu.0 == gpu).map(without_gpu).collect();
        match groups.iter_mut().find(|(_, known)| *known == lines) {
            Some((members, _)) => members.push(gpu),
            None => groups.push((vec![gpu], lines)),
        }
    }
    let chosen: Vec<(u16, String)> =
        of_kind().filter(|c| is_chosen(c, decision)).map(|c| (c.gpu.0, without_gpu(c))).collect();
    let mut text = String::new();
    for (members, lines) in groups {
        let several = members.len() > 1;
        // A set of whole GPUs names them itself.
        if lines.iter().any(|l| !l.starts_with("GPU ")) {
            let (s, each) = if several { ("s", ", each") } else { ("", "") };
            let _ = writeln!(text, "    GPU{s} {}{each}", ranges(&members));
        }
        for line in lines {
            let taken = chosen.iter().find(|(gpu, l)| members.contains(gpu) && *l == line);
            let star = if taken.is_some() { '*' } else { ' ' };
            let on = taken.filter(|_| several).map_or(String::new(), |(gpu, _)| format!(" (on GPU {gpu})"));
            let _ = writeln!(text, "     {star}{line}{on}");
        }
    }
    text
}

fn without_gpu(candidate: &Candidate) -> String {
    let text = candidate.to_string();
    let rest = text.strip_prefix(&format!("GPU {}", candidate.gpu)).unwrap_or(&text);
    match candidate.verdict {
        // A set of whole GPUs names them all.
        Verdict::Links { .. } => text,
        _ => rest.trim_start_matches([':', ' ']).to_owned(),
    }
}

fn is_chosen(candidate: &Candidate, decision: &Decision) -> bool {
    let starts_of = |specs: &[MigSpec]| {
        let here = specs.iter().filter(|s| s.gpu == candidate.gpu);
        here.fold(0_u16, |bits, s| bits | 1_u16.checked_shl(u32::from(s.start.0)).unwrap_or(0))
    };
    let is = |specs: &[MigSpec]| candidate.instances.is_some_and(|(_, starts)| starts.0 == starts_of(specs));
    match &decision.chosen {
        None => false,
        Some(Grant::Mig(specs)) => candidate.kind == Kind::Mig && is(specs),
        Some(Grant::Whole(gpus)) => {
            candidate.kind == Kind::Whole
                && matches!(candidate.verdict, Verdict::Links { .. })
                && gpus.contains(&candidate.gpu)
        }
        Some(Grant::Mps { on, .. }) => {
            let same = match on {
                ShareOn::Gpu(_) => candidate.instances.is_none(),
                ShareOn::Instance(spec) => is(&[*spec]),
            };
            candidate.kind == Kind::Mps && candidate.gpu == on.gpu() && same
        }
    }
}

/// `0`, `0-7`, `0,2-4`.
fn ranges(numbers: &[u16]) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for n in numbers {
        match runs.last_mut().filter(|(_, last)| last + 1 == *n) {
            Some((_, last)) => *last = *n,
            None => runs.push((*n, *n)),
        }
    }
    let words = runs.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") });
    words.collect::<Vec<_>>().join(",")
}
