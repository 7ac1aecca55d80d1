//! `tessera simulate case`: GPU tasks packed by memory and warps, policies compared.

mod check;
mod fields;
mod figure;
mod jobs;
mod once;
mod picture;
mod replay;
mod summary;

use std::path::PathBuf;

use case_study::sim::{Job, Outcome as Run, Setup, simulate};
use case_study::{Node, event, mix, policy};
use clap::{Args, ValueEnum};
use serde_json::Value;
use task_sched::Order;

use crate::files::{read_text, write_text};
use crate::outcome::{Failure, Outcome};
use crate::progress::Progress;

/// Reads jobs and a replay and forgets them: see [`crate::parsers`].
pub(super) fn read(text: &str) {
    let _ = jobs::parse("jobs", text);
    let _ = replay::parse("replay", text);
}

/// Run GPU tasks on one node's GPUs or MIG instances
///
/// Prints throughput, turnaround, waiting and utilisation of each policy, and compares them with single assignment (MIG
/// mixes: with Slurm). Run times of the papers' mixes are fitted, because no paper publishes them.
#[derive(Args)]
pub(crate) struct CaseArgs {
    /// v100-16gb,4, p100-16gb,2, a30-24gb,4/1g.6gb*4 or others of that form; a100-40gb,1 to have the policy make instances
    #[arg(long = "gpu", alias = "node", value_name = "MODEL,N", required_unless_present_any = ["figure", "check"])]
    node: Option<String>,
    /// rodinia:W1 to W8, rodinia:2-1:128, darknet:TASK, darknet:mix, mig:C:2-1 or mig-small:C:2-1
    #[arg(long, value_name = "MIX", group = "what")]
    mix: Option<String>,
    /// Run the jobs of FILE, one JSON object a line
    #[arg(long, value_name = "FILE", group = "what")]
    jobs: Option<PathBuf>,
    /// Answer the begins and frees of FILE, one JSON object a line, and print the events
    #[arg(long, value_name = "FILE", group = "what", conflicts_with_all = ["workers", "json", "events", "print_jobs"])]
    replay: Option<PathBuf>,
    /// Check FILE, the log of a node's task broker ([tasks] log): no device over its memory, each task granted once
    #[arg(long = "audit", alias = "check", value_name = "FILE", group = "what",
        conflicts_with_all = ["node", "policy", "workers", "order", "events", "print_jobs"])]
    check: Option<PathBuf>,
    /// Print a table or figure of the papers, ours beside theirs: fig5 to fig9, table3, table4, table6, table7, mig:fig1 to
    /// mig:fig4 or mig:table2
    #[arg(long, value_name = "NAME", group = "what",
        conflicts_with_all = ["node", "policy", "workers", "order", "events", "print_jobs"])]
    figure: Option<String>,
    /// Also draw the figure into FILE
    #[arg(long, value_name = "FILE", requires = "figure")]
    svg: Option<PathBuf>,
    /// tessera, alg3, alg2, case-mig, sa, cg, schedgpu, slurm, or several with commas
    #[arg(long, value_name = "POLICY", value_delimiter = ',', default_value = "tessera")]
    policy: Vec<String>,
    /// Most jobs that run at a time; the default is the papers'
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Order in which waiting tasks are tried
    #[arg(long, value_name = "ORDER", value_enum, default_value = "arrival")]
    order: OrderName,
    /// Seed of random mixes
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write all events to FILE; with -, only these lines go to standard output
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Print the jobs of the mix as --jobs reads them, and run nothing
    #[arg(long)]
    print_jobs: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum OrderName {
    /// As they began
    Arrival,
    /// By memory, largest first
    Largest,
}

/// A policy's run.
struct Compared {
    policy: String,
    workers: usize,
    run: Run,
}

pub(super) fn run(args: &CaseArgs) -> Result<Outcome, Failure> {
    if let Some(name) = &args.figure {
        return figure::run(name, args.seed, args.json, args.svg.as_deref());
    }
    if let Some(file) = &args.check {
        return check::run(file, args.json);
    }
    let node = args.node.as_deref().unwrap_or_default();
    let node = Node::parse(node).map_err(|e| Failure::new(format!("--node {node}: {e}")))?;
    if let Some(unknown) = args.policy.iter().find(|name| !policy::NAMES.contains(&name.as_str())) {
        return Err(
            Failure::new(format!("--policy {unknown}: unknown policy")).hint(policy::NAMES.join(", "))
        );
    }
    let order = match args.order {
        OrderName::Arrival => Order::Arrival,
        OrderName::Largest => Order::Largest,
    };
    if let Some(file) = &args.replay {
        return replay::run(&node, &args.policy, order, file);
    }
    if args.workers == Some(0) {
        return Err(Failure::new("--workers 0: no job could start").hint("1 or more"));
    }
    let jobs = jobs_of(args, &node)?;
    if args.print_jobs {
        return Ok(Outcome::ok(jobs::print(&jobs)));
    }
    let bar = Progress::new(args.policy.len() + 1);
    let of = |name: &str| {
        let ran = one(args, &node, &jobs, name, order);
        bar.at(bar.position() + 1);
        ran
    };
    let base = of(if is_mig(args) { "slurm" } else { "sa" })?;
    let runs: Vec<Compared> = args.policy.iter().map(|name| of(name)).collect::<Result<_, _>>()?;
    drop(bar);
    if let Some(path) = &args.events {
        let lines: String = runs.iter().flat_map(|c| &c.run.events).map(event::line).collect();
        if path.as_os_str() == "-" {
            return Ok(Outcome::ok(lines));
        }
        write_text(path, &lines)?;
    }
    if args.json {
        let all: Vec<Value> = runs.iter().map(|c| summary::json(c, &base, &node, args.seed)).collect();
        let value = match <[Value; 1]>::try_from(all) {
            Ok([one]) => one,
            Err(all) => Value::Array(all),
        };
        return Ok(Outcome::json(&value, 0));
    }
    Ok(Outcome::ok(summary::text(&runs, &base)))
}

/// True if the mix is one of CASE-MIG's, whose baseline is Slurm.
fn is_mig(args: &CaseArgs) -> bool {
    args.mix.as_deref().is_some_and(|mix| mix.starts_with("mig"))
}

fn jobs_of(args: &CaseArgs, node: &Node) -> Result<Vec<Job>, Failure> {
    match (&args.mix, &args.jobs) {
        (Some(name), _) => {
            mix::named(name, node.machine, args.seed).map_err(|e| Failure::new(format!("--mix {e}")))
        }
        (None, Some(file)) => {
            jobs::parse(&file.display().to_string(), &read_text(file)?).map_err(Failure::new)
        }
        (None, None) => Err(Failure::new("nothing to run: give --mix, --jobs or --replay")),
    }
}

fn one(args: &CaseArgs, node: &Node, jobs: &[Job], name: &str, order: Order) -> Result<Compared, Failure> {
    let most = node.workers(name);
    // Policies that give a job a whole device cannot have more workers than devices.
    let workers = match name {
        "sa" | "slurm" => args.workers.unwrap_or(most).min(most),
        _ => args.workers.unwrap_or(most),
    };
    let setup = Setup { pool: node.pool(name), workers, order };
    let chosen =
        policy::by_name(name).ok_or_else(|| Failure::new(format!("--policy {name}: unknown policy")))?;
    let run = simulate(&setup, jobs, chosen).map_err(|e| Failure::of(&e))?;
    Ok(Compared { policy: name.to_owned(), workers, run })
}
