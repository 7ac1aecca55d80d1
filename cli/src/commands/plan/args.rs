//! The command line of `tessera plan`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use placement::Model;
use placement::far::Policy;

use crate::clock::duration;
use crate::outcome::Failure;
use crate::render::colour::ColorWhen;

/// Plan a batch of tasks on GPUs that repartition
///
/// Given how long each task takes on an instance of each size, decides which instance each runs on and when instances
/// are made and unmade, so that the last task ends early. The answer says how far from the best possible it can be at
/// most. The same input and budget give the same plan on every machine. Times are seconds.
///
/// FILE has one JSON object a line, or is CSV. A line with "t" as a list of lists is a batch of its own:
/// {"id":"a","t":[[60,35,30,28,20],[40,22,20,19,15]]}, one list per task with a time per size, null where the task cannot
/// run. A line with "t" as one list is one task of a single batch; "name" is optional. CSV has a header of "name" and
/// sizes (name,1g,2g,3g,4g,7g), one task a line, an empty field where the task cannot run.
///
/// Policies: tessera (the default), far (the published algorithm), miso, fixpart-best, fixpart:SIZES such as
/// fixpart:4,2,1. A fixed partition is there from the beginning and costs nothing.
///
/// With --submit the plan is carried out: one Slurm job per task, each on the instance planned, waiting for the jobs that
/// have its slices before it (afterany: a task that fails or runs late delays the plan but never stops it). The plan then
/// starts from what --on's GPUs hold now. A task's command stands in the CSV's last column, command, which may contain
/// commas, or in "command"; or --script is run for all, with {task} replaced by the task's name. What follows -- goes to
/// sbatch as it is, {task} replaced there too. --reality compares what was planned with what Slurm did.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera plan --gpu a100-40gb --tasks batch.csv
  tessera plan --gpu a30-24gb,2 --tasks batch.csv --compare
  tessera plan --gpu a100-40gb --tasks batch.csv --svg plan.svg
  tessera plan --tasks batches.jsonl --policy far --json
  tessera plan --tasks batch.csv --on n1:0-1 --submit --wait -- --partition=gpu
  tessera plan --tasks batch.csv --on n1 --submit --script run.sh --dry-run
  tessera plan --reality tessera-plan-1234.json
  tessera plan --reality 1234-1249")]
pub(crate) struct PlanArgs {
    /// The GPU model, and how many of them
    ///
    /// A model's key or NVML name. The GPUs are on one node: all their reconfigurations follow one another. Not needed
    /// where each batch names its own in "gpu": a key, or A30, A100, H100.
    #[arg(long, value_name = "MODEL[,N]", value_parser = gpu)]
    pub(crate) gpu: Option<(String, usize)>,
    /// Read tasks from FILE, - for standard input
    #[arg(long, value_name = "FILE", required_unless_present = "reality")]
    pub(crate) tasks: Option<PathBuf>,
    /// How to plan
    #[arg(long, value_name = "POLICY", default_value = "tessera", conflicts_with = "compare")]
    pub(crate) policy: Policy,
    /// Read how long creating and destroying instances takes from FILE
    ///
    /// CSV with the header size,create,destroy and a line per size: 1g,0.16,0.20. Without it: what the authors of FAR
    /// measured on A30, A100 and H100.
    #[arg(long, value_name = "FILE")]
    pub(crate) times: Option<PathBuf>,
    /// How long the default policy may search, such as 50ms, 2s or 10m; at most 1h
    ///
    /// Counted in steps of about that length, so that the plan does not depend on the machine.
    #[arg(long, value_name = "TIME", default_value = "50ms", allow_hyphen_values = true, value_parser = duration)]
    pub(crate) budget: Duration,
    /// Print all policies side by side
    #[arg(long, conflicts_with_all = ["json", "svg"])]
    pub(crate) compare: bool,
    /// Print one JSON object per batch
    #[arg(long, conflicts_with = "svg")]
    pub(crate) json: bool,
    /// Write a picture to FILE, - for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorWhen,
    #[command(flatten)]
    pub(crate) submit: SubmitArgs,
}

impl PlanArgs {
    /// The tasks' file; standard input where clap did not need one.
    pub(crate) fn tasks(&self) -> &Path {
        self.tasks.as_deref().unwrap_or(Path::new("-"))
    }

    /// The model that `--gpu` names.
    pub(crate) fn model(&self) -> Result<Option<&'static Model>, Failure> {
        let found = |(name, _): &(String, usize)| {
            Model::find(name).ok_or_else(|| {
                Failure::new(format!("--gpu: no GPU model {name:?}"))
                    .hint("`tessera profiles` lists the models")
            })
        };
        self.gpu.as_ref().map(found).transpose()
    }
}

/// Carrying a plan out.
#[derive(Args)]
pub(crate) struct SubmitArgs {
    /// Submit the plan as Slurm jobs
    #[arg(long, requires = "on", conflicts_with_all = ["compare", "json", "svg"])]
    pub(crate) submit: bool,
    /// Plan on these GPUs as they are now: a node of tessera.toml and its GPUs, such as n1 or n1:0-3,5
    ///
    /// May be given several times; all GPUs must be of one model. GPUs of one node reconfigure one after another.
    #[arg(long, value_name = "NODE[:GPUS]", requires = "submit", conflicts_with = "gpu")]
    pub(crate) on: Vec<String>,
    /// Run this batch script for every task, {task} replaced by its name; - for standard input
    #[arg(long, value_name = "FILE", requires = "submit")]
    pub(crate) script: Option<PathBuf>,
    /// What Slurm adds to every task's own time: scheduling, prolog and epilog
    ///
    /// Measured on an idle node; --reality says what it was for a plan that has run.
    #[arg(long, value_name = "TIME", default_value = "300ms", allow_hyphen_values = true, value_parser = duration, requires = "submit")]
    pub(crate) overhead: Duration,
    /// End a task that takes more than FACTOR times its planned time, rounded up to minutes
    ///
    /// Without it jobs have the time limit that --time after -- or the partition gives them.
    #[arg(long, value_name = "FACTOR", value_parser = factor, requires = "submit")]
    pub(crate) time_limit: Option<f64>,
    /// Show the sbatch commands instead of running them
    #[arg(long, requires = "submit")]
    pub(crate) dry_run: bool,
    /// Stay until the last task has ended, then compare plan and reality
    #[arg(long, requires = "submit", conflicts_with = "dry_run")]
    pub(crate) wait: bool,
    /// Keep the plan and its jobs in FILE; without it tessera-plan-JOB.json here
    #[arg(long, value_name = "FILE", requires = "submit")]
    pub(crate) record: Option<PathBuf>,
    /// Compare a plan with what Slurm did
    ///
    /// PLAN is the file that --submit has written, the name of a plan of yours, which is that of its tasks' file, or jobs,
    /// such as 12,15-20: of --submit, or of the planner. Begin and end of every task, planned and real, from the plan's
    /// beginning, and by how much the end deviates. Jobs of a file that slurmctld has forgotten are looked up with sacct.
    #[arg(long, value_name = "PLAN", conflicts_with_all = ["tasks", "gpu", "on", "submit", "compare", "svg"])]
    pub(crate) reality: Option<String>,
    /// Options for sbatch
    #[arg(last = true, value_name = "SBATCH OPTION", requires = "submit")]
    pub(crate) sbatch: Vec<String>,
}

fn factor(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|f| (1.0..=1000.0).contains(f)).ok_or_else(|| "expected 1 to 1000".to_owned())
}

fn gpu(text: &str) -> Result<(String, usize), String> {
    let (model, count) = text.rsplit_once(',').unwrap_or((text, "1"));
    match count.trim().parse() {
        Ok(count @ 1..=64) => Ok((model.trim().to_owned(), count)),
        _ => Err(format!("{count:?} is not a number of GPUs (1 to 64)")),
    }
}
