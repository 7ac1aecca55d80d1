//! Build tasks: `cargo xtask --help`.

mod command;
mod setup;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use e2e::paths::SlurmVersion;

/// Set up, build, test and show Tessera.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what building and testing need: Debian packages, Slurm's source, test users
    Setup {
        /// Only what this Slurm needs; all when absent
        #[arg(long)]
        slurm: Option<SlurmVersion>,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Setup { slurm } => setup::run(slurm),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
