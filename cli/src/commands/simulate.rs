//! `tessera simulate`: policies compared on a file of jobs.

mod case;
mod pack;
mod replay;

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use mapa_study::{JobFileError, Patience, Ran, Rules, SimJob, parse_jobs, quartiles, simulate};
use serde_json::{Value, json};
use topology::Selection;

use crate::files::{read_text, write_text};
use crate::globals::Globals;
use crate::options;
use crate::options::links::TopologyArgs;
use crate::outcome::{Failure, Outcome};
use crate::progress::Progress;
use crate::render::table;

/// Simulate policies on a file of jobs
#[derive(Subcommand)]
pub(crate) enum SimulateCommand {
    Mapa(MapaArgs),
    Case(case::CaseArgs),
    Replay(replay::ReplayArgs),
    Pack(pack::PackArgs),
}

/// Run jobs through one node, first in, first out
///
/// A line of FILE is GPUS,PATTERN,ARRIVAL,RUN,SENSITIVE,NAME; the line's number is the job's. Prints minimum, quartiles
/// and maximum of the EffBW that sensitive jobs got, and when the last job ended.
#[derive(Args)]
pub(crate) struct MapaArgs {
    /// The file of jobs
    #[arg(long, value_name = "FILE")]
    jobs: PathBuf,
    #[command(flatten)]
    topology: TopologyArgs,
    /// baseline, topo-aware, greedy, preserve, or all
    #[arg(long, value_name = "POLICY", default_value = "all")]
    policy: String,
    /// bottleneck, mapa2021, or a file that `tessera fit bandwidth` wrote
    #[arg(long = "predict", alias = "model", value_name = "MODEL", default_value = "mapa2021")]
    model: String,
    /// Queue all jobs at the start, as MAPA's own simulator does
    #[arg(long)]
    at_once: bool,
    /// Under preserve, let a sensitive job refuse a set of at most GBPS; the queue waits for the job
    #[arg(long, value_name = "GBPS", conflicts_with = "wait_below")]
    refuse: Option<f64>,
    /// Also let a one-GPU job refuse its GPU if no good link would remain among the other free GPUs
    #[arg(long, requires = "refuse")]
    refuse_last_links: bool,
    /// Under preserve, let a sensitive job wait for a set above GBPS while others pass it
    #[arg(long, value_name = "GBPS")]
    wait_below: Option<f64>,
    /// How many cycles such a job waits at most
    #[arg(long = "wait-cycles", alias = "wait", value_name = "CYCLES", default_value = "20")]
    wait: u64,
    /// Slow sensitive jobs down below 50 GB/s: this share of their run time, 0 to 1, grows with 1/EffBW
    #[arg(long, value_name = "SHARE")]
    communication: Option<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a line per job to FILE; with -, only these lines go to standard output
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

struct Simulated {
    policy: Selection,
    ran: Vec<Option<Ran>>,
}

pub(crate) fn run(command: &SimulateCommand, globals: &Globals) -> Result<Outcome, Failure> {
    let args = match command {
        SimulateCommand::Mapa(args) => args,
        SimulateCommand::Case(args) => return case::run(args),
        SimulateCommand::Replay(args) => return replay::run(args, globals),
        SimulateCommand::Pack(args) => return pack::run(args),
    };
    let jobs = read(args)?;
    let policies = match args.policy.as_str() {
        "all" => Selection::ALL.to_vec(),
        name => vec![options::policy(name).map_err(|e| Failure::new(format!("--policy {name}: {e}")))?],
    };
    let most = jobs.iter().map(|j| j.gpus).max().unwrap_or(0);
    let graph = args.topology.one(globals, most)?;
    let model = options::model(&args.model)?;
    if args.communication.is_some_and(|c| !(0.0..=1.0).contains(&c)) {
        return Err(Failure::new("--communication: expected a fraction from 0 to 1"));
    }
    let patience = match (args.refuse, args.wait_below) {
        (Some(least), _) => Patience::Refuse { least, last_links: args.refuse_last_links },
        (None, Some(gbps)) => Patience::Wait(gbps, args.wait),
        (None, None) => Patience::Take,
    };
    let bar = Progress::new(policies.len());
    let results: Vec<Simulated> = policies
        .into_iter()
        .enumerate()
        .map(|(done, policy)| {
            bar.at(done);
            let rules =
                Rules { policy, model, patience, first_of_ties: false, communication: args.communication };
            Simulated { policy, ran: simulate(&graph, &jobs, rules) }
        })
        .collect();
    drop(bar);
    if let Some(path) = &args.csv {
        let lines = csv(&jobs, &results);
        if path.as_os_str() == "-" {
            return Ok(Outcome::ok(lines));
        }
        write_text(path, &lines)?;
    }
    if args.json {
        let all: Vec<Value> = results.iter().map(|r| r.json(&jobs)).collect();
        let value = match <[Value; 1]>::try_from(all) {
            Ok([one]) => one,
            Err(all) => Value::Array(all),
        };
        return Ok(Outcome::json(&value, 0));
    }
    Ok(Outcome::ok(text(&jobs, &results)))
}

/// Reads jobs and a replay of `simulate case` and forgets them: see [`crate::parsers`].
pub(crate) fn read_case(text: &str) {
    case::read(text);
}

fn read(args: &MapaArgs) -> Result<Vec<SimJob>, Failure> {
    let file = args.jobs.display();
    let text = read_text(&args.jobs)?;
    let mut jobs = parse_jobs(&text).map_err(|JobFileError(line, expected)| {
        Failure::new(format!("{file}:{line}: {expected}")).hint("4,ring,0,20,1,resnet")
    })?;
    if args.at_once {
        jobs.iter_mut().for_each(|j| j.arrival = 0);
    }
    Ok(jobs)
}

impl Simulated {
    fn sensitive(&self, jobs: &[SimJob], least: usize) -> Option<[f64; 5]> {
        let of = jobs.iter().zip(&self.ran).filter(|(j, _)| j.sensitive && j.gpus >= least);
        quartiles(&of.filter_map(|(_, r)| r.as_ref()?.choice.scores.eff_bw).collect::<Vec<_>>())
    }

    /// Names the jobs that could not start on the idle node.
    fn never(&self, jobs: &[SimJob]) -> Option<String> {
        let lost = jobs.iter().zip(&self.ran).enumerate().filter(|(_, (_, ran))| ran.is_none());
        let lost: Vec<String> = lost
            .map(|(at, (job, _))| format!("{} ({})", at + 1, geometry::counted(job.gpus, "GPU")))
            .collect();
        let dots = if lost.len() > 5 { ", …" } else { "" };
        let named = || lost.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        (!lost.is_empty()).then(|| {
            format!("not run, because even the idle node has no set for them: job {}{dots}", named())
        })
    }

    fn makespan(&self) -> u64 {
        self.ran.iter().flatten().map(|r| r.end).max().unwrap_or(0)
    }

    /// Run times of sensitive jobs.
    fn run_times(&self, jobs: &[SimJob]) -> Option<[f64; 5]> {
        let of = jobs.iter().zip(&self.ran).filter(|(j, _)| j.sensitive);
        #[expect(clippy::cast_precision_loss, reason = "cycles are far below 2^53")]
        let times: Vec<f64> = of.filter_map(|(_, r)| r.as_ref().map(|r| (r.end - r.start) as f64)).collect();
        quartiles(&times)
    }

    fn json(&self, jobs: &[SimJob]) -> Value {
        let never = self.ran.iter().filter(|r| r.is_none()).count();
        let names = ["min", "p25", "p50", "p75", "max"];
        let named = |q: Option<[f64; 5]>| {
            q.map(|q| names.into_iter().zip(q).collect::<std::collections::BTreeMap<_, _>>())
        };
        json!({
            "policy": self.policy.name(), "jobs": jobs.len(), "never_started": never,
            "makespan_cycles": self.makespan(), "eff_bw": named(self.sensitive(jobs, 1)),
            "eff_bw_2_or_more": named(self.sensitive(jobs, 2)), "run_cycles": named(self.run_times(jobs)),
        })
    }
}

fn csv(jobs: &[SimJob], results: &[Simulated]) -> String {
    let mut out =
        "policy,job,name,gpus,sensitive,arrival,start,end,set,agg_bw,eff_bw,preserved_bw\n".to_owned();
    for result in results {
        for (at, (job, ran)) in jobs.iter().zip(&result.ran).enumerate() {
            let _ = write!(
                out,
                "{},{},{},{},{},{}",
                result.policy.name(),
                at + 1,
                job.name,
                job.gpus,
                u8::from(job.sensitive),
                job.arrival
            );
            let Some(r) = ran else {
                out.push_str(",,,,,,\n");
                continue;
            };
            let order: Vec<String> = r.choice.order.iter().map(ToString::to_string).collect();
            let eff = r.choice.scores.eff_bw.map(|e| e.to_string()).unwrap_or_default();
            let (agg, kept) = (r.choice.scores.agg_bw, r.choice.preserved_bw);
            let _ = writeln!(out, ",{},{},{},{agg},{eff},{kept}", r.start, r.end, order.join(" "));
        }
    }
    out
}

fn text(jobs: &[SimJob], results: &[Simulated]) -> String {
    let head = [
        "POLICY",
        "MIN",
        "25%",
        "50%",
        "75%",
        "MAX",
        "MAKESPAN",
        "RUN 25%",
        "50%",
        "75%",
        "MAX",
        "THROUGHPUT",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    // Speed-ups as in the paper's Table 3: over the first row, which is baseline where all are shown.
    let base = results.first().and_then(|r| r.run_times(jobs));
    let base_end = results.first().map_or(0, Simulated::makespan);
    for result in results {
        let mut row = vec![result.policy.name().to_owned()];
        let eff = result.sensitive(jobs, 1);
        row.extend((0..5).map(|i| eff.map_or_else(|| "-".to_owned(), |q| format!("{:.2}", q[i]))));
        row.push(result.makespan().to_string());
        let runs = result.run_times(jobs).zip(base);
        row.extend(
            (1..5).map(|i| runs.map_or_else(|| "-".to_owned(), |(q, b)| format!("{:.3}x", b[i] / q[i]))),
        );
        #[expect(clippy::cast_precision_loss, reason = "cycles are far below 2^53")]
        let throughput = base_end as f64 / result.makespan().max(1) as f64;
        row.push(format!("{throughput:.3}x"));
        rows.push(row);
    }
    let mut out = format!(
        "EffBW of sensitive jobs in GB/s; speed-ups of their run times and of throughput over the first row\n\n{}",
        table::render(&rows, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
    );
    // The same under every policy: the idle node has a set or not.
    if let Some(never) = results.first().and_then(|result| result.never(jobs)) {
        let _ = writeln!(out, "\n{never}");
    }
    out
}
