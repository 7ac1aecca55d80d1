//! `cargo xtask chaos`: a cluster under load that is hurt at random, and must stay sound.
//!
//! [`plan`] turns a seed into a sequence of submissions and faults, [`strike`] carries out and mends the faults, [`seen`]
//! looks at the cluster, [`check`] says which rules what was seen breaks, and [`mod@run`] ties them together.

mod administrator;
mod cancel;
mod check;
mod controllers;
mod drains;
mod forge;
mod idle;
mod jobs;
mod kill;
mod lost_launch;
mod mended;
mod outcome;
mod past;
mod plan;
mod rest;
mod run;
mod seen;
mod shifted;
mod sick;
mod start;
mod strike;
mod submission;
mod submit;
mod users;
mod wound;
mod wounds;

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use slurm_releases::Release;

use crate::command::TaskError;
use plan::fault::NAMES;

/// Options of `cargo xtask chaos`.
#[derive(Args)]
pub(crate) struct Chaos {
    /// Seed of the submissions and faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// For how long faults begin; the end, in which all jobs end, comes afterwards
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(..=100_000))]
    minutes: u64,
    /// End after this many submissions, even before the time is over
    #[arg(long)]
    jobs: Option<u32>,
    /// Slurm to run
    #[arg(long, default_value_t = Release::MACHINE)]
    slurm: Release,
    /// Leave out faults of this name, such as `broken-file`; the rest of the sequence stays the same
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(NAMES), hide_possible_values = true)]
    without: Vec<String>,
    /// How many GPUs the tasks of a job with --gpu-isolation=gpu-tasks may use: `gpus_per_job` in `[tasks]`
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    gpus_per_job: u32,
    /// Print the sequence and start nothing
    #[arg(long)]
    plan: bool,
    /// Directory for the cluster's files, which stay there; without it, they stay only if something is wrong
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Begin with two forged jobs on one GPU, to see that a run finds them
    #[arg(long, hide = true)]
    forge: bool,
}

/// Runs it. False if a rule was broken.
pub(crate) fn run(chaos: &Chaos) -> Result<bool, TaskError> {
    if chaos.plan {
        return outcome::print_plan(chaos).map(|()| true);
    }
    crate::setup::run(Some(chaos.slurm), crate::setup::Purpose::Clusters)?;
    run::run(chaos)
}
