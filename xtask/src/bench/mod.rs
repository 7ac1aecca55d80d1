//! `cargo xtask bench`: what Tessera costs, each figure beside a reference measured in the same run.
//!
//! Absolute times depend on the machine and its other load. Compare the ratios.

mod batch;
mod case;
mod case_mig;
mod clusters;
mod decide;
mod kill;
mod kinds;
mod mapa;
mod pass;
mod people;
mod plan;
mod power_budget;
mod power_energy;
mod power_live;
mod prolog;
mod replay;
mod scale;
mod scheduler;
mod start;
mod stats;
mod stream;
mod table;
mod tasks;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::command::TaskError;
use crate::setup;
use crate::which::Which;
use table::Row;

/// Benchmark to run, and how often.
#[derive(Args)]
pub(crate) struct Bench {
    /// Only these; all when absent
    names: Vec<Name>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// start, prolog: jobs of each kind
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// stream, power-budget: jobs
    #[arg(long, default_value_t = 500)]
    jobs: usize,
    /// stream, scale: how often the whole stream, or round, is run on each cluster in turn; case-mig: how many batches;
    /// power-energy: how often each job runs
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    /// stream, case-mig, power-budget, replay: seed of the job mix
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// case-mig: isolated jobs to others, 1-1, 2-1 or 1-2
    #[arg(long, default_value = "1-1")]
    ratio: String,
    /// stream: only jobs without an option of Tessera's, those without a GPU among them
    #[arg(long)]
    plain: bool,
    /// stream: kill slurmctld with SIGKILL in the middle, start it again, and say what became of each job, here and
    /// on plain Slurm
    #[arg(long)]
    kill: bool,
    /// --kill: how many jobs are left then; half of them when absent
    #[arg(long)]
    kill_at: Option<usize>,
    /// --kill: whether all jobs are queued, and known to slurmctld's files, before the first starts
    #[arg(long, value_enum, default_value_t = stream::Arrival::Queued)]
    arrival: stream::Arrival,
    /// --kill: where the clusters' logs, journals and outcomes stay; else they only stay when something is wrong
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// --kill: how many seconds jobs may take after the kill, instead of 600
    #[arg(long)]
    wait_s: Option<u64>,
    /// --kill: without the same run on plain Slurm
    #[arg(long)]
    no_stock: bool,
    /// scale: nodes of eight GPUs, a multiple of 20
    #[arg(long, default_value = "1000", value_parser = scale::parse_nodes)]
    nodes: usize,
    /// scale: jobs that wait
    #[arg(long, default_value = "10000", value_parser = scale::parse_pending)]
    pending: usize,
    /// scale: backfill of these waiting jobs alone, with the same running jobs on both controllers: cpu, gpu, part, multi
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = scale::parse_kind)]
    only: Vec<&'static str>,
    #[command(flatten)]
    which: Which,
    /// Debug build: slower, and every decision is audited
    #[arg(long)]
    debug: bool,
}

/// Names of the benchmarks.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// From submission to the first line of the task, against plain Slurm
    Start,
    /// Our own time in prolog and epilog, as slurmd's log has it
    Prolog,
    /// GPU tasks: begin and free against bare round trips on a socket, launches, and the broker's recovery and idle costs
    Tasks,
    /// Many short mixed jobs: none lost, jobs per second against plain Slurm
    Stream,
    /// A decision of the placement engine
    Decide,
    /// Compiling CUDA programs with the pass, against clang without it
    Pass,
    /// tessera free, why and layout, and the exporter's answers, for 1,000 nodes of 8 GPUs
    People,
    /// A made-up month through `tessera simulate replay`: waits under Tessera beside those under stock Slurm
    Replay,
    /// CASE's mixes W1 to W8 through sbatch, against single assignment and the simulator (10 minutes; only when named)
    Case,
    /// MAPA's 300 jobs through slurmctld under each policy, against the simulator (12 minutes; only when named)
    Mapa,
    /// CASE-MIG's batch through sbatch on both Slurms, against static MIG and the simulator (10 minutes; only when named)
    CaseMig,
    /// A power budget over three racks: what the caps of live jobs are worth beside the best known, and the largest sum of
    /// limits (10 minutes; only when named)
    PowerBudget,
    /// slurmctld of 1,000 nodes and 10,000 waiting jobs, with Tessera against plain Slurm; prints a Markdown table (half an
    /// hour a round; only when named, and alone)
    Scale,
    /// Energy in sacct against the draw integrated outside (only when named)
    PowerEnergy,
    /// A batch of moldable tasks as planned, against its plan and against no plan (15 minutes; only when named)
    Plan,
    /// Figures 9 and 11 of the power paper through the planner, against `tessera lab power simulate` (10 minutes; only when named)
    PowerLive,
}

/// `scale` runs on a cluster of its own kind and has a table of its own.
fn refuse_mixed(bench: &Bench) -> Result<(), TaskError> {
    if bench.names.contains(&Name::Scale) {
        return Err(TaskError::Other("bench: name `scale` alone".to_owned()));
    }
    if bench.which.is_given() && !matches!(bench.names[..], [Name::Case | Name::Mapa]) {
        let only = "bench: only `scale`, `case` and `mapa`, each alone, run another Slurm than the machine's";
        return Err(TaskError::Other(only.to_owned()));
    }
    Ok(())
}

/// Runs the chosen benchmarks and prints what they measured.
pub(crate) fn run(bench: &Bench) -> Result<(), TaskError> {
    if bench.names == [Name::Scale] {
        return scale::measure(bench);
    }
    refuse_mixed(bench)?;
    setup::run(Some(slurm_releases::Release::MACHINE), setup::Purpose::Tests)?;
    if bench.kill {
        return kill::measure(bench);
    }
    let all = bench.names.is_empty();
    let wanted = |name| all || bench.names.contains(&name);
    let before = table::load();
    let mut rows: Vec<Row> = Vec::new();
    if wanted(Name::Decide) {
        rows.extend(decide::measure()?);
    }
    if wanted(Name::Pass) {
        rows.extend(pass::measure()?);
    }
    if wanted(Name::People) {
        rows.extend(people::measure()?);
    }
    if wanted(Name::Replay) {
        rows.extend(replay::measure(bench.seed)?);
    }
    if wanted(Name::Tasks) {
        rows.extend(tasks::measure()?);
    }
    if wanted(Name::Start) || wanted(Name::Prolog) {
        rows.extend(start::measure(bench, wanted(Name::Start), wanted(Name::Prolog))?);
    }
    if bench.names.contains(&Name::Case) {
        rows.extend(case::measure(bench)?);
    }
    if bench.names.contains(&Name::Mapa) {
        rows.extend(mapa::measure(bench)?);
    }
    if bench.names.contains(&Name::CaseMig) {
        rows.extend(case_mig::measure(bench)?);
    }
    if bench.names.contains(&Name::PowerBudget) {
        rows.extend(power_budget::measure(bench)?);
    }
    if bench.names.contains(&Name::PowerEnergy) {
        rows.extend(power_energy::measure(bench)?);
    }
    if bench.names.contains(&Name::Plan) {
        rows.extend(plan::measure(bench)?);
    }
    if bench.names.contains(&Name::PowerLive) {
        rows.extend(power_live::measure(bench)?);
    }
    if wanted(Name::Stream) {
        rows.extend(stream::measure(bench)?);
    }
    let load = format!("{before} before, {} after", table::load());
    let text = if bench.json { table::json(&rows, &load) } else { table::text(&rows, &load) };
    table::print(&text)
}
