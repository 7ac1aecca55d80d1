//! A power budget over three racks: what the caps are worth that jobs get, and whether the limits ever exceed the budget.
//!
//! Three nodes of six A100s run the 18 workloads of Arima et al., Table 8, one on each GPU. The caps come from live Slurm: jobs
//! that have whole GPUs start one after the other under the budget and read their GPU's limit. What a cap is worth is simulated:
//! `tessera lab power simulate` has the throughput of each workload in every state and under every cap, and the state is the one that
//! a model chooses which was fitted to these runs. A limit between two caps counts as the lower.

mod caps;
mod live;
mod truth;

use lab::config::Templates;
use lab::{Cluster, User};

use super::Bench;
use super::stats::Spread;
use super::table::{Reference, Row};
use crate::cluster::guardian;
use crate::command::TaskError;
use truth::Truth;

/// Three racks: nodes with so many GPUs.
const RACKS: [&str; 3] = ["r1", "r2", "r3"];
const GPUS: u32 = 6;
const ALL_GPUS: u32 = 18;
/// Watts of the budget: 190 W for each GPU.
const BUDGET_W: u32 = 3420;
/// Watts of an idle GPU.
const IDLE_W: u32 = 40;
/// No job starts at less, W.
const FLOOR_W: u32 = 150;
/// The highest cap, W.
const CAP_W: u32 = 250;

/// A job that waits for power holds back later ones, but for backfill.
const SOON: &str =
    "MinJobAge=86400\nSchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1";

fn cluster(bench: &Bench) -> Result<Cluster, TaskError> {
    let node = |name: &str| {
        format!(
            "[[nodes]]\nnames = \"{name}\"\ngpu = \"a100-40gb\"\ncount = {GPUS}\nmig = \"dynamic\"\ncap_w = {CAP_W}\nidle_w = {IDLE_W}\n\n"
        )
    };
    let nodes: String = RACKS.into_iter().map(node).collect();
    let mut templates = Templates::for_nodes(&nodes)?;
    templates.tessera +=
        &format!("\n[[power_budgets]]\nnodes = \"r[1-3]\"\nwatts = {BUDGET_W}\nfloor_w = {FLOOR_W}\n");
    let builder = Cluster::builder().templates(templates).slurm_conf(SOON).guardian(guardian()?);
    let cluster = if bench.debug { builder } else { builder.release() }.start()?;
    // As its administrators would with `nvidia-smi -pl`: nothing draws more than the budget counts.
    for (rack, gpu) in RACKS.into_iter().flat_map(|rack| (0..GPUS).map(move |gpu| (rack, gpu))) {
        let (gpu, limit) = (gpu.to_string(), CAP_W.to_string());
        let mut set = cluster.command_on(rack, User::Root, "nvml-sim")?;
        lab::command::run(set.args(["power", "--gpu", &gpu, "--limit", &limit]))?.ok()?;
    }
    Ok(cluster)
}

/// Divides the budget in each way, and then lets many jobs start and end under it.
pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>, TaskError> {
    eprintln!("bench: power-budget: starting a cluster");
    let cluster = cluster(bench)?;
    let truth = Truth::simulated(&cluster)?;
    let best = caps::best(&truth, BUDGET_W, CAP_W)
        .ok_or_else(|| TaskError::Other("no caps fit the budget".to_owned()))?;
    let mut rows = Vec::new();
    let mut row = |case: String, throughput: f64| -> Result<(), TaskError> {
        rows.push(Row {
            bench: "power-budget",
            case,
            unit: "x",
            ours: one(throughput)?,
            reference: Reference::Measured("best known".to_owned(), one(best)?),
        });
        Ok(())
    };
    row("`tessera lab power divide`, by predictions".to_owned(), truth.divided(&cluster, BUDGET_W)?)?;
    let equal_w = BUDGET_W / ALL_GPUS;
    let ways: [(&str, Vec<Option<u32>>); 3] = [
        ("live, every job at the equal cap", vec![Some(equal_w); truth.workloads()]),
        ("live, every job at its most efficient cap", truth.most_efficient(&cluster)?),
        ("live, as jobs start, none asks for a cap", vec![None; truth.workloads()]),
    ];
    for (name, asked) in ways {
        eprintln!("bench: power-budget: {name}");
        let got = live::caps(&cluster, &asked)?;
        let waits = got.iter().filter(|cap| cap.is_none()).count();
        let waits = if waits == 0 { String::new() } else { format!(", {waits} wait") };
        row(format!("{name}{waits}"), truth.throughput(&cluster, &got)?)?;
    }
    let (jobs, most_w) = live::stream(&cluster, bench.jobs, bench.seed)?;
    rows.push(Row {
        bench: "power-budget",
        case: format!("largest sum of limits while {jobs} jobs started and ended"),
        unit: "W",
        ours: one(most_w)?,
        reference: Reference::Target(f64::from(BUDGET_W)),
    });
    let found = super::clusters::findings(&cluster)?;
    if found.is_empty() { Ok(rows) } else { Err(TaskError::Other(found.join("\n"))) }
}

fn one(value: f64) -> Result<Spread, TaskError> {
    Spread::of(&[value]).ok_or_else(|| TaskError::Other("no value".to_owned()))
}

/// Runs a command of `tessera` with `--json` and returns its output.
fn tessera(cluster: &Cluster, args: &[&str]) -> Result<serde_json::Value, TaskError> {
    let mut command = cluster.command(User::Root, "tessera")?;
    let text = lab::command::run(command.args(args).arg("--json"))?.ok()?;
    serde_json::from_str(&text).map_err(|e| TaskError::Other(format!("tessera {}: {e}", args.join(" "))))
}
