//! `tessera simulate replay`: a site's past jobs again, under Tessera and under stock Slurm.

mod ask;
mod figures;
mod hosts;
mod show;
mod site;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use clap::Args;
use geometry::Uid;
use replay::{Job, MOST_RESERVED, Ran, Site, replay, stock};

use crate::files::{read_text, write_text};
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::progress::Progress;
use crate::slurm::sacct::jobs::{self, Accounted};
use ask::{AskedPerNode, LeftOut};

/// Run a site's past jobs again on its GPUs, under Tessera and under stock Slurm
///
/// Reads the output of sacct for some weeks or months, and the nodes of tessera.toml. Prints how long jobs waited then, and
/// how long they would have waited under stock Slurm with whole GPUs and under Tessera, all jobs in one queue in the order of
/// submission, with backfill: a job starts early if that cannot delay the first one that waits (--reserve: the first N).
///
/// Each job makes the same request as then: Tessera's request in its AdminComment, else what it got, else its GPUs in Slurm.
/// Under stock Slurm, a job that asked for part of a GPU gets a whole one, or with --stock the smallest of the fixed
/// instances that is enough for it. A job that fits no empty node counts as refused, and so does one that Tessera would
/// refuse.
///
/// Under Tessera, a job gets the node with room that costs other jobs least (node_order in tessera.toml), under stock Slurm
/// it gets the one with the fewest free CPUs. With --hosts, CPUs and memory also limit what starts, by what each job asked
/// for (ReqTRES). Without it, all nodes count as having as many CPUs. All have the same Weight, and only the jobs of the
/// replay have CPUs.
///
/// The replay assumes that every job runs as long as it did, no matter what it gets. Only GPUs limit what starts, unless
/// --hosts is given. Priorities, waits for better links, power budgets and the limits of users and partitions play no part:
/// take one partition at a time (sacct -r). The first row, what actually happened, had all of these, so compare the other
/// rows with each other.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  export SLURM_TIME_FORMAT=%s
  columns=JobIDRaw%24,User%32,State%12,Submit%11,Eligible%11,Start%11
  columns=$columns,ElapsedRaw%10,TimelimitRaw%16,NNodes%7,ReqTRES%160
  columns=$columns,TRESUsageInTot%256,AdminComment%512
  sacct -a -X -n -S 2026-10-01 -E 2026-11-01 -o $columns > october
  tessera simulate replay --sacct october
  tessera simulate replay --sacct october --stock static.toml
  tessera simulate replay --sacct october --as-used
  scontrol show nodes > nodes
  tessera simulate replay --sacct october --hosts nodes

What sacct -P prints of these columns, in any order and with their names in
the first line, can be read as well. For --as-used, leave out -X above; Slurm
must record gres/gpumem. The accounting knows GPUs if slurm.conf has
AccountingStorageTRES=gres/gpu. A file has at most 64 MiB, some 60,000 jobs.")]
pub(crate) struct ReplayArgs {
    /// The jobs, as sacct prints them with the columns of the example, padded or with -P; - for standard input
    #[arg(long, value_name = "FILE")]
    sacct: PathBuf,
    /// Also stock Slurm on the nodes of FILE, a tessera.toml whose static GPUs have fixed instances
    #[arg(long, value_name = "FILE")]
    stock: Option<PathBuf>,
    /// CPUs and memory of the nodes limit what starts, too: FILE is what `scontrol show nodes` prints
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// Let jobs of one whole GPU ask for the GPU memory that they used, and a quarter more
    ///
    /// Jobs whose use Slurm did not record ask for what they asked for.
    #[arg(long)]
    as_used: bool,
    /// Keep nodes for this many of the first jobs that wait, each on nodes of its own
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(0..=MOST_RESERVED as u64))]
    reserve: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a line per job and rule to FILE; with -, only these lines go to standard output
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// The jobs of a replay.
struct Past {
    jobs: Vec<Accounted>,
    asked: Vec<AskedPerNode>,
    /// How many of the file are not among them, and why.
    left_out: BTreeMap<LeftOut, usize>,
}

/// Results of the jobs under one set of rules.
struct Played {
    rules: &'static str,
    /// The GPUs' compute slices; 0 where what jobs had is not known.
    slices: u64,
    /// By job; `None`: refused.
    ran: Vec<Option<Start>>,
}

/// How the queue is gone through, and where its progress is shown.
#[derive(Clone, Copy)]
struct Queue<'a> {
    /// The jobs that wait for which nodes are kept.
    reserve: usize,
    bar: &'a Progress,
}

/// A job's start, and what it held.
#[derive(Clone, Copy, Default)]
struct Start {
    start: u64,
    slices: u64,
    instances: replay::Instances,
}

pub(super) fn run(args: &ReplayArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let past = read(args)?;
    let config = crate::site::load(globals.config.as_deref())?;
    let fixed = args.stock.as_deref().map(|path| crate::site::load(Some(path))).transpose()?;
    let mut rules = vec![recorded(&past)];
    let bar = Progress::new(past.jobs.len() * if fixed.is_some() { 3 } else { 2 });
    let queue = Queue { reserve: usize::try_from(args.reserve).unwrap_or(1), bar: &bar };
    let hosts_of = |config| args.hosts.as_deref().map_or(Ok(Vec::new()), |path| hosts::hosts(path, config));
    let hosts = hosts_of(&config)?;
    let whole = Site { hosts: hosts.clone(), ..stock::site(&uncut(&site::nodes(&config))) };
    rules.push(under_stock("stock, whole GPUs", &whole, &past, queue));
    if let Some(fixed) = &fixed {
        let fixed = Site { hosts: hosts_of(fixed)?, ..stock::site(&site::nodes(fixed)) };
        rules.push(under_stock("stock, fixed instances", &fixed, &past, queue));
    }
    let mut door = site::Door::new(&config);
    let jobs = past.listed().zip(&past.asked).map(|(job, asked)| door.admit(job, asked)).collect();
    let tessera = Site { hosts, ..site::tessera(&config) };
    rules.push(play("Tessera", &tessera, jobs, config.tasks.as_ref().map(|t| t.pool), queue));
    drop(bar);
    if let Some(path) = &args.csv {
        let lines = show::csv(&past, &rules);
        if path.as_os_str() == "-" {
            return Ok(Outcome::ok(lines));
        }
        write_text(path, &lines)?;
    }
    if args.json {
        return Ok(Outcome::json(&show::json(&past, &rules), 0));
    }
    Ok(Outcome::ok(show::text(&past, &rules, &crate::site::node_count(&config), args.hosts.is_some())))
}

fn read(args: &ReplayArgs) -> Result<Past, Failure> {
    let file = args.sacct.display();
    let all = jobs::parse(read_text(&args.sacct)?.as_bytes()).map_err(|e| e.within(&file))?;
    let (mut jobs, mut asks, mut left_out) = (Vec::new(), Vec::new(), BTreeMap::new());
    for job in all {
        match ask::asked(&job, args.as_used) {
            Ok(asked) => {
                jobs.push(job);
                asks.push(asked);
            }
            Err(why) => *left_out.entry(why).or_default() += 1,
        }
    }
    if jobs.is_empty() {
        let why = show::left_out(&left_out);
        return Err(Failure::new(format!("{file} has no job with GPUs to replay{why}"))
            .hint("`tessera simulate replay --help` has the command of sacct that makes the file"));
    }
    Ok(Past { jobs, asked: asks, left_out })
}

/// Nodes without the administrator's own instances.
fn uncut(nodes: &[node_state::Node]) -> Vec<node_state::Node> {
    let mut nodes = nodes.to_vec();
    for gpu in nodes.iter_mut().flat_map(|node| &mut node.gpus) {
        *gpu = node_state::Gpu::new(gpu.model, node_state::MigPolicy::Off);
    }
    nodes
}

impl Past {
    /// The jobs as the replay takes them, with what they asked.
    fn listed(&self) -> impl Iterator<Item = Job> {
        let mut users = HashMap::new();
        self.jobs.iter().zip(&self.asked).map(move |(job, asked)| {
            let next = u32::try_from(users.len()).unwrap_or(u32::MAX);
            Job {
                submit: job.eligible,
                run_s: job.ran_s,
                limit_s: job.limit_s,
                nodes: job.nodes,
                cpus: ask::cpus(job),
                mem_mib: ask::mem_mib(job),
                uid: Uid(*users.entry(job.user.clone()).or_insert(next)),
                request: asked.request.clone(),
                plain: asked.plain,
            }
        })
    }
}

/// Returns the actual starts and ends of the jobs.
fn recorded(past: &Past) -> Played {
    let ran = past.jobs.iter().map(|job| job.start.map(|start| Start { start, ..Start::default() }));
    Played { rules: "as it was", slices: 0, ran: ran.collect() }
}

fn under_stock(rules: &'static str, site: &Site, past: &Past, queue: Queue<'_>) -> Played {
    let jobs = past.listed().map(|job| Some(stock::job(&job, site))).collect();
    play(rules, site, jobs, None, queue)
}

/// Replays the jobs that are not refused before.
fn play(
    rules: &'static str,
    site: &Site,
    jobs: Vec<Option<Job>>,
    pool: Option<node_state::PoolPolicy>,
    Queue { reserve, bar }: Queue<'_>,
) -> Played {
    let all = jobs.len();
    let places: Vec<usize> = (0..all).filter(|at| jobs[*at].is_some()).collect();
    let admitted: Vec<Job> = jobs.into_iter().flatten().collect();
    let before = bar.position();
    let ran = replay(site, &admitted, reserve, &mut |done| bar.at(before + done));
    bar.at(before + all);
    let mut results = vec![None; all];
    for (at, ran) in places.into_iter().zip(ran) {
        results[at] = ran.map(|ran| started(&ran, site, pool.unwrap_or_default()));
    }
    let slices = site
        .nodes
        .iter()
        .flat_map(|n| &n.gpus)
        .map(|g| node_state::slices::slices_for_gpu(Some(g.model)))
        .sum();
    Played { rules, slices, ran: results }
}

fn started(ran: &Ran, site: &Site, pool: node_state::PoolPolicy) -> Start {
    let of = |(node, grant): &(usize, protocol::Grant)| {
        let gpus = &site.nodes[*node].gpus;
        let model = |gpu: geometry::GpuIndex| gpus.get(usize::from(gpu.0)).map(|gpu| gpu.model);
        node_state::slices::slices_for_grant(grant, model, pool)
    };
    Start { start: ran.start, slices: ran.parts.iter().map(of).sum(), instances: ran.instances }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command};

    /// The help names the columns that the command reads.
    #[test]
    fn the_help_names_the_columns_that_are_read() {
        let mut command = super::ReplayArgs::augment_args(Command::new("replay"));
        let help = command.render_long_help().to_string();
        let joined: String = help.split_whitespace().collect();
        let expanded = joined.replace("columns=$columns,", ",");
        assert!(expanded.contains(&format!("columns={}sacct", super::jobs::columns())), "{help}");
    }
}
