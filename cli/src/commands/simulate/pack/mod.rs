//! `tessera simulate pack`: jobs packed onto a cluster under several rules.

mod jobs;
mod read_jobs;
mod tasks;

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use crate::outcome::{Failure, Outcome};

/// Pack tasks onto a cluster until it is full, or run a stream of jobs, under several rules
///
/// With --node-table and --tasks, reads nodes and tasks as the traces of FGD (ATC '23) have them, and prints how many GPUs stay empty.
/// Tasks arrive in an order that the seed, the files and --arrive decide, never the policy: each once, then drawn again, until
/// the GPUs asked for are --arrive of the cluster's. No task ends. A task that fits some node is placed. A task takes part of one
/// GPU, or several GPUs whole, or cores alone.
///
/// With --site and --jobs, runs jobs on the nodes of a tessera.toml. They ask for instances, shares, whole GPUs and sets, and end.
/// A line of the jobs is JSON: "id", "submit" and "run" in seconds, "cpus" and "mem_mib" on each node, "nodes", and "ask", the
/// options of sbatch. Jobs wait in the order of submission, and a later job starts early if that cannot delay the first one.
/// With --lose, a job that finds no place at once is dropped.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera lab simulate pack --node-table nodes.csv --tasks tasks.csv
  tessera lab simulate pack --node-table nodes.csv --tasks tasks.csv \\
    --policy fgd,best-fit
  tessera lab simulate pack --site tessera.toml --jobs jobs.json --lose

A line of jobs.json:
  {\"id\":\"a\",\"submit\":0,\"run\":60,\"cpus\":4,\"ask\":\"--gpu-mem=10G\"}

Public traces are openb_node_list_gpu_node.csv and openb_pod_list_*.csv in
data/csv of https://github.com/hkust-adsl/kubernetes-scheduler-simulator.")]
pub(crate) struct PackArgs {
    /// The nodes: CSV with the columns sn,cpu_milli,memory_mib,gpu,model
    #[arg(
        long = "node-table",
        alias = "nodes",
        value_name = "FILE",
        requires = "tasks",
        required_unless_present = "site"
    )]
    nodes: Option<PathBuf>,
    /// The tasks: CSV with the columns name,cpu_milli,memory_mib,num_gpu,gpu_milli and perhaps gpu_spec
    #[arg(long, value_name = "FILE", requires = "nodes")]
    tasks: Option<PathBuf>,
    /// GPUs asked for, as a share of the cluster's
    #[arg(long, value_name = "SHARE", default_value_t = 1.3)]
    arrive: f64,
    /// Another seed is another order of arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A tessera.toml, whose nodes run the jobs of --jobs
    #[arg(long, value_name = "FILE", requires = "jobs", conflicts_with_all = ["nodes", "tasks", "arrive", "seed"])]
    site: Option<PathBuf>,
    /// The jobs, a line of JSON each
    #[arg(long, value_name = "FILE", requires = "site")]
    jobs: Option<PathBuf>,
    /// Drop a job that finds no place at once
    #[arg(long, requires = "site")]
    lose: bool,
    /// Cores of each node of --site, which tessera.toml does not have
    #[arg(long, value_name = "N", default_value_t = 128, requires = "site")]
    cpus: u32,
    /// Memory of each node of --site, MiB
    #[arg(long, value_name = "MIB", default_value_t = 1_048_576, requires = "site")]
    mem_mib: u64,
    /// Several policies with commas between them
    ///
    /// For tasks: tessera, slurm (fewest free cores), first-fit, best-fit, fgd or random. For jobs: tessera, slurm, first-fit,
    /// best-fit, most-placements (NVIDIA's default), mfi, grmu, or quota:N (as tessera, with N nodes kept for jobs that take a
    /// whole one), or learnt (a candidate for Tessera's rank). The default is tessera,slurm,best-fit and fgd or mfi.
    #[arg(long, value_name = "POLICY", value_delimiter = ',')]
    policy: Vec<String>,
    /// Print JSON: one object, or a list of one for each policy
    #[arg(long)]
    json: bool,
    /// Write a line of JSON for each event to FILE; for one policy
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
}

pub(crate) fn run(args: &PackArgs) -> Result<Outcome, Failure> {
    if args.events.is_some() && args.policy.len() != 1 {
        return Err(Failure::new("--events writes what happens under one policy: name one with --policy"));
    }
    match (&args.nodes, &args.tasks, &args.site, &args.jobs) {
        (Some(nodes), Some(tasks), ..) => tasks::run(args, nodes, tasks),
        (_, _, Some(site), Some(jobs)) => jobs::run(args, site, jobs),
        _ => Err(Failure::new("name --node-table and --tasks, or --site and --jobs")),
    }
}

/// The names to run: those of the command line, else these.
fn policies(args: &PackArgs, usual: &[&str]) -> Vec<String> {
    if args.policy.is_empty() {
        return usual.iter().map(|name| (*name).to_owned()).collect();
    }
    args.policy.clone()
}

/// An object, or the list of several.
fn one_or_list(all: Vec<Value>) -> Value {
    match <[Value; 1]>::try_from(all) {
        Ok([one]) => one,
        Err(all) => Value::Array(all),
    }
}
