//! `tessera explain`: what a request would get, and why.

mod args;
mod explained;
mod json;
mod memory;
mod nodes;
mod request;
mod rivals;
mod text;
mod waits;

use admission::Ruling;
use admission::meaning::{SlurmAsks, meaning};
use geometry::{JobId, Uid};
use node_state::{Ask, Kind, Node, Policy, Spread};
use placement::decide;
use protocol::wire::encode_request;
use protocol::{Isolation, Request, Size};
use site_config::SiteConfig;
use site_limits::Submission;
use site_limits::counted::{Counted, as_counted};
use site_limits::tres::Entry;

pub(crate) use args::ExplainArgs;
use explained::Explained;
use memory::ExplainedMemory;
use nodes::{AskedNodes, NodesKnown, asked};
pub(crate) use request::{GpuOptions, RequestArgs};

use crate::allowance::{self, need_on};
use crate::globals::Globals;
use crate::node_answer::{Needs, NodeOrder, by_verdict, by_verdict_alone, seen_by};
use crate::outcome::{self, Failure, Outcome};
use crate::slurm::gres_type;

/// The job that asks: no real job has this id.
const ASKER: JobId = JobId(0);

pub(crate) fn run(args: &ExplainArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let request = args.request.request().map_err(|refusals| {
        let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        refused(&lines.join("\n"))
    })?;
    if request.is_none() && args.request.tres().gpu_entries().is_empty() {
        return Err(Failure::new("no request given")
            .hint("for example: tessera explain --gpu-isolation=mig --gpu-mem=10G"));
    }
    let asked = asked(args, globals)?;
    let config = &asked.config;
    let job = Submission {
        request: request.as_ref().map(encode_request),
        tres: args.request.tres(),
        exclusive: args.request.exclusive || asked.who.exclusive,
        tasks_per_node: args.request.tasks_per_node(),
        ..asked.who.clone()
    };
    let (mut plain, mut note) = (false, None);
    let (counts, request) = match admission::judge(&job, Some(config)) {
        Ruling::Accepted { request, add, note: said } => {
            note = said;
            (Ok(counted(&job, add)), request)
        }
        Ruling::Untouched => match as_counted(request, counted(&job, None)) {
            Some(read) => {
                plain = !read.managed;
                (Ok(counted(&job, None)), read.request)
            }
            None => return Ok(Outcome::ok("Tessera changes nothing: the job gets what Slurm gives it\n")),
        },
        // The nodes' reasons follow unless the request contradicts itself or a limit.
        Ruling::Refused(why) => match possible(&job, request, config) {
            Some(request) => (Err(why.text), request),
            None => return Err(refused(&why.text)),
        },
    };
    let limits = site_limits::limits_of(&job, config);
    let mut policy = site_limits::policy_for(config, asked.caller.partition.as_deref(), &limits);
    if matches!(counts, Ok(Counted::Shards(_))) {
        // What Slurm counts in shards cannot become a whole GPU, which it counts as gpu.
        policy.auto.retain(|kind| *kind != Kind::Whole);
    }
    let by_task = job.tres.per_task.is_some();
    let others = [&job.tres.per_job, &job.tres.per_socket, &job.tres.per_task];
    let per_node = others.iter().all(|asked| asked.is_none());
    Ok(answer(
        args,
        &asked,
        &Question { request, plain, by_task, per_node, alone: job.exclusive, counts, note, policy },
    ))
}

/// The question put to each node.
struct Question {
    request: Request,
    /// It uses none of Tessera's options.
    plain: bool,
    /// Slurm counts its GPUs by its tasks.
    by_task: bool,
    /// Slurm counts its GPUs per node alone: else it may give it several nodes.
    per_node: bool,
    /// It gets whole nodes, with all of their GPUs.
    alone: bool,
    /// Slurm's count for the job on any node; the error is sbatch's refusal.
    counts: Result<Counted, String>,
    /// Note that sbatch prints for a job that it accepts.
    note: Option<String>,
    policy: Policy,
}

fn answer(args: &ExplainArgs, asked: &AskedNodes, question: &Question) -> Outcome {
    let uid = Uid(rustix::process::getuid().as_raw());
    // Slurm 22.05 gives all of a job's shards on a node from one GPU; the controller asks the same way.
    let mut ask = Ask {
        spread: Spread::ALIKE,
        plain: question.plain,
        ..Ask::new(ASKER, uid, question.request.clone())
    };
    if let (true, Ok(Counted::Gpus(n))) = (question.by_task, &question.counts) {
        // The request does not have them.
        ask.request.gpus = u32::try_from(*n).ok();
    }
    let AskedNodes { live, ends, company, .. } = asked;
    let mut verdicts = if question.alone {
        by_verdict_alone(live, &ask, &question.policy, ends, company)
    } else {
        by_verdict(live, &ask, &question.policy, ends)
    };
    let order = order(args, asked, question, &ask);
    if args.all {
        verdicts = order.split(verdicts);
    }
    order.sort(&mut verdicts);
    // No node of tessera.toml is within reach of such a job: what Slurm gives it is no matter of ours.
    let by_slurm = question.plain && verdicts.is_empty() && asked.live.not_taking.is_empty();
    let kept = kept(args, asked, question, &ask);
    let needs = needs(args, asked);
    let starts = by_slurm || needs.have_room(&verdicts);
    let status = u8::from(question.counts.is_err() || !starts || kept.is_some());
    let explained = |(names, node): (Vec<String>, &Node)| {
        let mut ask = ask.clone();
        if question.alone && ask.request.isolation == Isolation::Whole {
            ask.request.gpus = u32::try_from(node.gpus.len()).ok();
        }
        let tasks = args.request.tasks_per_node();
        let limit = asked.config.mps.memory_limit;
        let explained = explain(names, node, &ask, &question.policy);
        let fence = memory::has_fence(&asked.config, &explained.names);
        let of = |grant| ExplainedMemory::of(grant, &ask.request, limit, fence, tasks);
        let memory = explained.decision.chosen.as_ref().map(of);
        Explained { memory, ..explained }
    };
    if args.json {
        let nodes: Vec<Explained> = asked.alike(&order).into_iter().map(explained).collect();
        let mut value = json::answer(asked, question, &verdicts, (&nodes, &order));
        if let Some(allowance) = &asked.allowance {
            value["limits"] = allowance::json(allowance);
            value["kept_by_limit"] = kept.into();
        }
        if needs.nodes > 1 {
            value["needs_nodes"] = needs.nodes.into();
        }
        let left_out = left_out(args, asked);
        if !left_out.is_empty() {
            value["not_looked_at"] = left_out.into();
        }
        return Outcome::json(&value, status);
    }
    if let Some(note) = &question.note {
        outcome::status(&format!("tessera: {note}\n"));
    }
    // One node is always explained; of several each on demand, and the best one's notes.
    let in_detail = args.all || args.node.is_some() || args.model.is_some() || args.busy.is_some();
    // Nothing more is known of a node that is left to Slurm.
    let is_ours = |name: &&String| live.nodes.iter().any(|present| present.name == **name);
    let best = verdicts.iter().filter_map(|(names, _)| names.first()).find(is_ours);
    let shown = asked
        .alike(&order)
        .into_iter()
        .filter(|(names, _)| in_detail || best.is_some_and(|b| names.contains(b)));
    let shown: Vec<Explained> = shown.map(explained).collect();
    let at_once = needs.sentence(&verdicts, &|job| asked.name(job));
    let left_out = gres_type::left_out(&left_out(args, asked));
    let of_nodes: Vec<String> =
        at_once.into_iter().chain(by_slurm_alone(args, asked)).chain(left_out).collect();
    let mut text = text::answer(asked, question, &verdicts, (&shown, &order), in_detail, &of_nodes);
    text.extend(kept.map(|sentence| sentence + " `tessera free` shows what your limits leave.\n"));
    Outcome { text, status }
}

/// The nodes that the job needs at once.
fn needs(args: &ExplainArgs, asked: &AskedNodes) -> Needs {
    let nodes = usize::try_from(args.request.fewest_nodes()).unwrap_or(usize::MAX);
    Needs { nodes, away: asked.live.not_taking.len() }
}

/// The options that rule out nodes and are not looked at: types of shards, and without Slurm those of GPUs.
fn left_out(args: &ExplainArgs, asked: &AskedNodes) -> Vec<String> {
    let (types, mut all) = gres_type::named(&args.request.tres().gpu_entries());
    if !matches!(asked.seen, NodesKnown::Now) {
        all.extend(types.iter().map(|name| format!("the GPU type {name}")));
    }
    all
}

/// Says what a job misses that counts its GPUs for all of its nodes together.
fn by_slurm_alone(args: &ExplainArgs, asked: &AskedNodes) -> Option<String> {
    site_limits::node_order(&asked.config, asked.caller.partition.as_deref())?;
    let option = args.request.spread().filter(|_| matches!(asked.seen, NodesKnown::Now))?;
    Some(format!(
        "With {option} the job may get several nodes, so Slurm alone picks them, without regard to links. Add -N1 to get the best-linked \
         node."
    ))
}

/// The limit of Slurm that would keep such a job of the caller now, as a sentence.
fn kept(args: &ExplainArgs, asked: &AskedNodes, question: &Question, ask: &Ask) -> Option<String> {
    let (allowance, counted) = (asked.allowance.as_ref()?, question.counts.as_ref().ok()?);
    let slices = allowance::slices_for(&asked.live, ask, &question.policy, &asked.config);
    let minutes = args.request.runs_s().map(|seconds| seconds.div_ceil(60));
    allowance.keeps(&need_on(args.request.fewest_nodes().into(), *counted, slices, minutes))
}

/// The order of the nodes. Slurm alone picks the nodes of a job that may get several of them.
fn order(args: &ExplainArgs, asked: &AskedNodes, question: &Question, ask: &Ask) -> NodeOrder {
    let one_node = !question.alone
        && question.per_node
        && args.request.gets_one_node()
        && args.request.spread().is_none();
    let fill = site_limits::node_order(&asked.config, asked.caller.partition.as_deref()).filter(|_| one_node);
    NodeOrder::of(&asked.live, fill, ask, &question.policy)
}

fn refused(why: &str) -> Failure {
    Failure::new(format!("refused at submission: {why}"))
}

/// Counts what Slurm takes for the job on each node, to which submission adds `add`.
fn counted(job: &Submission, add: Option<(&'static str, u32)>) -> Counted {
    let tasks = u64::from(job.tasks_per_node.unwrap_or(1));
    let here = |entry: &Entry| if entry.per_node { entry.count } else { entry.count.saturating_mul(tasks) };
    match add {
        Some(("shard", shards)) => Counted::Shards(u64::from(shards)),
        Some((_, gpus)) => Counted::Gpus(u64::from(gpus)),
        None => {
            let entries = job.tres.gpu_entries();
            let sum =
                |name: &str| entries.iter().filter(|e| e.name == name).map(here).fold(0, u64::saturating_add);
            let shards = entries.iter().any(|entry| entry.name == "shard");
            if shards { Counted::Shards(sum("shard")) } else { Counted::Gpus(sum("gpu")) }
        }
    }
}

/// Answers a refused request as if only the nodes were in its way.
fn possible(job: &Submission, request: Option<Request>, config: &SiteConfig) -> Option<Request> {
    let slurm = SlurmAsks { tres: &job.tres, exclusive: job.exclusive };
    let request = meaning(request?, slurm, &config.defaults.of_requests()).ok()?;
    let entries = job.tres.gpu_entries();
    Some(request)
        .filter(|request| site_limits::forbids_counted(Some(request), job, &entries, config).is_none())
}

fn explain(names: Vec<String>, node: &Node, ask: &Ask, policy: &Policy) -> Explained {
    let (node, ask) = (&*seen_by(node, ask), &*ask.on(node));
    let request = &ask.request;
    let ever = placement::admits_ever(node, request, policy);
    let decision = decide(node, ask, policy);
    let rivals = rivals::of(node, ask, policy, &decision);
    let mut sizes: Vec<Size> = node.gpus.iter().flat_map(|g| request.sizes_on(g.model)).collect();
    sizes.sort_by_key(|s| (s.profile.compute_slices, &s.profile.name));
    sizes.dedup_by_key(|s| &s.profile.name);
    let waits = waits::of(node, ask, policy, &decision);
    Explained { names, decision, ever, memory: None, waits, rivals, sizes }
}
