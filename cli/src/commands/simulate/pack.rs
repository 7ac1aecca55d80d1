//! `tessera simulate pack`: tasks packed onto a cluster until it is full.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use pack_study::{Run, Summary, Trace, arrivals};
use serde_json::{Value, json};

use crate::files::{read_text, write_text};
use crate::outcome::{Failure, Outcome};
use crate::progress::Progress;
use crate::render::table;

/// Pack tasks onto a cluster until it is full, and print how many GPUs stay empty
///
/// Reads nodes and tasks as the traces of FGD (ATC '23) have them. Tasks arrive in an order that the seed, the files and --arrive
/// decide, never the policy: each once, then drawn again, until the GPUs asked for are --arrive of the cluster's. No task ends.
/// A task that fits some node is placed. A task takes part of one GPU, or several GPUs whole, or cores alone.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera lab simulate pack --nodes nodes.csv --tasks tasks.csv
  tessera lab simulate pack --nodes nodes.csv --tasks tasks.csv \\
    --policy fgd,best-fit

Public traces are openb_node_list_gpu_node.csv and openb_pod_list_*.csv in
data/csv of https://github.com/hkust-adsl/kubernetes-scheduler-simulator.")]
pub(crate) struct PackArgs {
    /// The nodes: CSV with the columns sn,cpu_milli,memory_mib,gpu,model
    #[arg(long, value_name = "FILE")]
    nodes: PathBuf,
    /// The tasks: CSV with the columns name,cpu_milli,memory_mib,num_gpu,gpu_milli and perhaps gpu_spec
    #[arg(long, value_name = "FILE")]
    tasks: PathBuf,
    /// GPUs asked for, as a share of the cluster's
    #[arg(long, value_name = "SHARE", default_value_t = 1.3)]
    arrive: f64,
    /// Another seed is another order of arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// tessera, slurm (fewest free cores), first-fit, best-fit, fgd, random, or several with commas between them
    #[arg(long, value_name = "POLICY", value_delimiter = ',', default_value = "tessera,slurm,best-fit,fgd")]
    policy: Vec<String>,
    /// Print JSON: one object, or a list of one for each policy
    #[arg(long)]
    json: bool,
    /// Write a line of JSON for each arrival to FILE; for one policy
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
}

/// Outcome of one policy's run.
struct Packed {
    policy: String,
    left: Summary,
    us_per_decision: f64,
    events: String,
}

pub(crate) fn run(args: &PackArgs) -> Result<Outcome, Failure> {
    let unknown = args.policy.iter().find(|name| !pack_study::NAMES.contains(&name.as_str()));
    if let Some(name) = unknown {
        let known = pack_study::NAMES.join(", ");
        return Err(Failure::new(format!("--policy {name}: expected {known}, or several of them")));
    }
    if args.events.is_some() && args.policy.len() > 1 {
        return Err(Failure::new("--events writes the arrivals of one policy: name one with --policy"));
    }
    let (nodes, tasks) = (read_text(&args.nodes)?, read_text(&args.tasks)?);
    let (nodes_file, tasks_file) = (args.nodes.display().to_string(), args.tasks.display().to_string());
    let trace =
        Trace::read((&nodes_file, &nodes), (&tasks_file, &tasks)).map_err(|e| Failure::new(e.to_string()))?;
    let all = arrivals(&trace, args.seed, args.arrive).map_err(|e| Failure::new(format!("--arrive: {e}")))?;
    let bar = Progress::new(args.policy.len());
    let mut packed = Vec::new();
    for (done, policy) in args.policy.iter().enumerate() {
        bar.at(done);
        packed.extend(pack(&trace, policy, args.seed, &all, args.events.is_some()));
    }
    drop(bar);
    if let (Some(path), Some(one)) = (&args.events, packed.first()) {
        write_text(path, &one.events)?;
    }
    if !args.json {
        return Ok(Outcome::ok(text(&packed)));
    }
    let all: Vec<Value> = packed.iter().map(|one| one.json(args.seed)).collect();
    let value = match <[Value; 1]>::try_from(all) {
        Ok([one]) => one,
        Err(all) => Value::Array(all),
    };
    Ok(Outcome::json(&value, 0))
}

/// `None` for a policy that there is not.
fn pack(trace: &Trace, policy: &str, seed: u64, all: &[usize], keep_events: bool) -> Option<Packed> {
    let mut run = Run::new(trace, policy, seed)?;
    let (mut time, mut events) = (Duration::ZERO, String::new());
    for (at, task) in all.iter().enumerate() {
        let begin = Instant::now();
        let event = run.decide(*task);
        time += begin.elapsed();
        if keep_events {
            events.push_str(&event.line(trace, at, *task));
            events.push('\n');
        }
    }
    let decisions = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let us_per_decision = time.as_secs_f64() * 1e6 / f64::from(decisions.max(1));
    Some(Packed { policy: policy.to_owned(), left: run.summary(), us_per_decision, events })
}

impl Packed {
    fn json(&self, seed: u64) -> Value {
        json!({
            "policy": self.policy,
            "seed": seed,
            "gpus": self.left.gpus,
            "unallocated": self.left.unallocated,
            "allocated": self.left.allocated,
            "placed": self.left.placed,
            "dropped": self.left.dropped,
            "us_per_decision": self.us_per_decision,
        })
    }
}

fn text(packed: &[Packed]) -> String {
    let row = |one: &Packed| {
        vec![
            one.policy.clone(),
            format!("{:.1}", one.left.unallocated),
            format!("{:.2}", 100.0 * one.left.allocated),
            one.left.placed.to_string(),
            one.left.dropped.to_string(),
        ]
    };
    let gpus = packed.first().map_or(0, |one| one.left.gpus);
    let head = ["policy", "GPUs left", "allocated %", "placed", "dropped"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(packed.iter().map(row)).collect();
    format!("{gpus} GPUs\n{}", table::render(&rows, &[1, 2, 3, 4]))
}
