//! Build tasks: `cargo xtask --help`.

mod cluster;
mod command;
mod setup;

use std::path::PathBuf;
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
    /// Start, end and look at a cluster of simulated GPU nodes
    #[command(subcommand)]
    Cluster(cluster::Action),
    /// End the cluster in a directory when stdin closes
    #[command(hide = true)]
    Guard {
        /// The cluster's directory
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Setup { slurm } => setup::run(slurm),
        Task::Cluster(action) => cluster::run(action),
        Task::Guard { dir } => {
            e2e::guardian::main(&dir);
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
