//! `tessera plan`: a batch of moldable tasks on GPUs that repartition.

mod args;
mod batch;
mod compare;
mod csv;
mod find;
mod flags;
mod jobs;
mod json;
mod note;
mod on;
mod place;
mod planned;
mod reality;
mod record;
mod sbatch_options;
mod sbatch_words;
mod show;
mod submit;
mod svg;
mod tasks;
mod text;

use args::Mode;
pub(crate) use args::PlanStudy;
use clap::Args;
use flags::Flags;

use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};

/// Reads a batch and forgets it: see [`crate::parsers`].
pub(crate) fn read_tasks(text: &str) {
    let _ = tasks::read(&batch::Context { file: "tasks", model: geometry::Model::find("a100-40gb") }, text);
}

/// Reads the note of a plan and forgets it: see [`crate::parsers`].
pub(crate) fn read_note(comment: &str) {
    let _ = note::parse(comment, 1);
}

/// Plan a batch of jobs on GPUs that repartition
///
/// Given how long each job takes on each instance size, decides which instance each job runs on and when instances are
/// created and destroyed, so that the last job ends early. The answer says by how much the plan can exceed the best one at
/// most. The same input and search time give the same plan on every machine. Times in JSON are
/// seconds. In CSV they have a unit (90s, 20m) or are minutes, as for sbatch.
///
/// FILE has one JSON object per line, or is CSV. A line whose "t" is a list of lists is a batch of its own:
/// {"id":"a","t":[[60,35,30,28,20],[40,22,20,19,15]]}, with one list per job, one time per size, and null where the job
/// cannot run. A line whose "t" is one list is one job of a single batch; "name" is optional. CSV has a header of "name"
/// and sizes (name,1g,2g,3g,4g,7g), one job per line, and an empty field where the job cannot run.
///
/// Policies: tessera (the default), far (the published algorithm), miso, fixpart-best, fixpart:SIZES such as
/// fixpart:4,2,1. A fixed partition exists from the beginning and costs nothing.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    override_usage = "tessera plan <COMMAND>\n       tessera plan [OPTIONS] --tasks <FILE>",
    after_long_help = "\
Examples:
  tessera plan show batch.csv --gpu a100-40gb
  tessera plan show batch.csv --gpu a100-40gb --svg plan.svg
  tessera plan show batches.jsonl --policy far --json
  tessera lab plan compare batch.csv --gpu a30-24gb,2
  tessera plan submit batch.csv --on n1:0-1 --wait -- --partition=gpu
  tessera plan submit batch.csv --on n1 --script run.sh --dry-run
  tessera plan reality tessera-plan-1234.json
  tessera plan reality 1234-1249"
)]
pub(crate) struct PlanArgs {
    #[command(subcommand)]
    mode: Option<Mode>,
    #[command(flatten)]
    flags: Flags,
}

impl PlanArgs {
    /// Returns the mode, in whichever of the two ways it was given.
    fn mode(&self) -> Mode {
        self.mode.clone().unwrap_or_else(|| self.flags.mode())
    }
}

/// Runs a command of `tessera lab plan`.
pub(crate) fn study(command: &PlanStudy) -> Result<Outcome, Failure> {
    match command {
        PlanStudy::Compare(args) => compare::run(args),
    }
}

pub(crate) fn run(args: &PlanArgs, globals: &Globals) -> Result<Outcome, Failure> {
    match args.mode() {
        Mode::Show(args) => show::run(&args),
        Mode::Compare(args) => compare::run(&args),
        Mode::Submit(args) => submit::run(&args, globals),
        Mode::Reality(args) => reality::run(&args.plan, args.json),
    }
}
