//! The command line of `tessera plan`: its commands and their arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use far::Policy;
use geometry::Model;

use crate::clock::duration;
use crate::options::{self, model_and_count};
use crate::outcome::Failure;
use crate::render::colour::ColorWhen;

/// Actions on a plan.
#[derive(Clone, Subcommand)]
pub(super) enum Mode {
    Show(ShowArgs),
    #[command(hide = true)]
    Compare(CompareArgs),
    Submit(SubmitArgs),
    Reality(RealityArgs),
}

/// Print the plan of each batch
///
/// `tessera plan --help` has the formats of FILE.
#[derive(Args, Clone)]
pub(super) struct ShowArgs {
    /// The jobs; - for standard input
    #[arg(value_name = "FILE")]
    pub(super) tasks: PathBuf,
    #[command(flatten)]
    pub(super) gpu: GpuArgs,
    #[command(flatten)]
    pub(super) policy: PolicyArgs,
    #[command(flatten)]
    pub(super) search: SearchArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Compare policies for batches of moldable jobs
#[derive(Clone, Subcommand)]
pub(crate) enum PlanStudy {
    Compare(CompareArgs),
}

/// Print all policies side by side
///
/// `tessera plan --help` has the formats of FILE.
#[derive(Args, Clone)]
pub(crate) struct CompareArgs {
    /// The jobs; - for standard input
    #[arg(value_name = "FILE")]
    pub(super) tasks: PathBuf,
    #[command(flatten)]
    pub(super) gpu: GpuArgs,
    #[command(flatten)]
    pub(super) search: SearchArgs,
}

/// Submit the plan as Slurm jobs
///
/// The plan starts from what the GPUs of --on hold now. Each Slurm job names its planned instance and waits for
/// the jobs that have its slices before it (afterany: a job that fails or runs late delays the plan but never stops it).
///
/// A job runs its command: "command" in JSON, or the last column of the CSV, command, which may contain commas. Without
/// commands, every job runs --script, with {task} replaced by the job's name. Options after -- go to sbatch, with
/// {task} replaced there too.
#[derive(Args, Clone)]
pub(super) struct SubmitArgs {
    /// The jobs; - for standard input
    #[arg(value_name = "FILE")]
    pub(super) tasks: PathBuf,
    /// Plan on these GPUs as they are now: a node of tessera.toml and its GPUs, such as n1 or n1:0-3,5
    ///
    /// May be given several times; all GPUs must be of one model. GPUs of one node reconfigure one after another.
    #[arg(long, value_name = "NODE[:GPUS]", required = true)]
    pub(super) on: Vec<String>,
    #[command(flatten)]
    pub(super) policy: PolicyArgs,
    #[command(flatten)]
    pub(super) search: SearchArgs,
    #[command(flatten)]
    pub(super) carry: CarryArgs,
}

/// Compare a plan with what Slurm did
///
/// Prints planned and actual begin and end of every job, counted from the plan's beginning, and by how much the end
/// deviates. If slurmctld has forgotten jobs of a file, sacct is asked.
#[derive(Args, Clone)]
pub(super) struct RealityArgs {
    /// The file that `tessera plan submit` wrote, a plan's name, or jobs, such as 12,15-20
    ///
    /// A plan has the name of its jobs' file; only your own are searched. Jobs may be a submitted plan's or the planner's.
    #[arg(value_name = "PLAN")]
    pub(super) plan: String,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

// The groups below are parts of commands: a doc comment would take the place of the command's own.
#[derive(Args, Clone)]
pub(super) struct GpuArgs {
    /// The GPU model, and how many of them
    ///
    /// A model's key or NVML name. The GPUs are on one node, so they reconfigure one after another. Not needed if each
    /// batch names its own in "gpu": a key, or A30, A100, H100.
    #[arg(long, value_name = "MODEL[,N]", value_parser = model_and_count)]
    pub(super) gpu: Option<(String, usize)>,
}

#[derive(Args, Clone)]
pub(super) struct PolicyArgs {
    /// The policy that plans
    #[arg(long, value_name = "POLICY", default_value = "tessera")]
    pub(super) policy: Policy,
}

#[derive(Args, Clone)]
pub(super) struct SearchArgs {
    /// Read the times of creating and destroying instances from FILE
    ///
    /// CSV with the header size,create,destroy and a line per size: 1g,0.16,0.20. By default what the authors of FAR
    /// measured on A30, A100 and H100.
    #[arg(long, value_name = "FILE")]
    pub(super) times: Option<PathBuf>,
    /// How long the default policy may search, such as 50ms, 2s or 10m; at most 1h
    ///
    /// It counts in steps of about that length, so that the plan does not depend on the machine.
    #[arg(long = "search-time", alias = "budget", value_name = "TIME", default_value = "50ms", allow_hyphen_values = true, value_parser = duration)]
    pub(super) budget: Duration,
}

#[derive(Args, Clone)]
pub(super) struct OutputArgs {
    /// Print one JSON object per batch
    #[arg(long, conflicts_with = "svg")]
    pub(super) json: bool,
    /// Write a picture to FILE, - for standard output
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// Use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(super) color: ColorWhen,
}

#[derive(Args, Clone)]
pub(super) struct CarryArgs {
    /// Run this batch script (- for standard input) for every job, with {task} replaced by its name
    #[arg(long, value_name = "FILE")]
    pub(super) script: Option<PathBuf>,
    /// Time that Slurm adds to every job: scheduling, prolog and epilog
    ///
    /// The default was measured on an idle node; `tessera plan reality` prints the time for a plan that has run.
    #[arg(long, value_name = "TIME", default_value = "300ms", allow_hyphen_values = true, value_parser = duration)]
    pub(super) overhead: Duration,
    /// End a job that takes more than FACTOR times its planned time, rounded up to minutes
    ///
    /// By default jobs have the time limit that --time after --, or the partition, sets.
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    pub(super) time_limit: Option<f64>,
    /// Show the sbatch commands instead of running them
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Stay until the last job has ended, then compare plan and reality
    #[arg(long, conflicts_with = "dry_run")]
    pub(super) wait: bool,
    /// Keep the plan and its jobs in FILE; by default tessera-plan-JOB.json in this directory
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
    /// Options for sbatch
    #[arg(last = true, value_name = "SBATCH OPTION")]
    pub(super) sbatch: Vec<String>,
}

impl GpuArgs {
    /// The model that `--gpu` names.
    pub(super) fn model(&self) -> Result<Option<&'static Model>, Failure> {
        let found = |(name, _): &(String, usize)| options::mig_model(name).map_err(|e| e.within("--gpu"));
        self.gpu.as_ref().map(found).transpose()
    }

    /// How many GPUs.
    pub(super) fn count(&self) -> usize {
        self.gpu.as_ref().map_or(1, |g| g.1)
    }
}

fn factor(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|f| (1.0..=1000.0).contains(f)).ok_or_else(|| "expected 1 to 1000".to_owned())
}
