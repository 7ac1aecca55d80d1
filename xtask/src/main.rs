//! Build tasks: `cargo xtask --help`.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

mod bench;
mod chaos;
mod chaos_tasks;
mod cluster;
mod command;
mod demo;
mod expect;
mod install;
mod man;
mod package;
#[cfg(test)]
mod pages;
mod programs;
mod progress;
mod setup;
mod slurm_table;
mod smoke;
mod submissions;
mod test;
mod which;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use error_chain::with_causes;
use slurm_releases::Release;

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
        slurm: Option<Release>,
    },
    /// Start, end and look at a cluster of simulated GPU nodes
    #[command(subcommand)]
    Cluster(cluster::Action),
    /// Show users' jobs on a cluster of simulated GPUs, and check what is shown
    Demo {
        /// Leave the cluster running
        #[arg(long)]
        keep: bool,
        #[command(flatten)]
        which: which::Which,
        /// Directory for the cluster's files; without it, in a directory of their own that is removed
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Set up, check format and lints, build, and run all tests
    #[command(alias = "ci")]
    Test {
        /// Only tests whose name contains this
        #[arg(long)]
        filter: Option<String>,
        /// Only the end-to-end tests, all of them on this Slurm where they say no other
        #[arg(long)]
        slurm: Option<Release>,
    },
    /// Measure what Tessera costs beside plain Slurm
    Bench(bench::Bench),
    /// Run one job of each kind on a Slurm, also on one built by hand, and print one line for each kind
    Smoke(smoke::Smoke),
    /// Run Slurm's own expect tests on plain Slurm and with Tessera, and show which differ
    Expect(expect::Expect),
    /// Hurt a cluster under load at random, and check that it stays sound
    Chaos(chaos::Chaos),
    /// Kill processes of GPU tasks and their broker at random, and check that no task runs out of memory
    ChaosTasks(chaos_tasks::ChaosTasks),
    /// Submit job descriptions that are odd in every field, and check that Slurm and placement go on
    FuzzSubmissions(submissions::FuzzSubmissions),
    /// Build for release and install plugins, CLI, completions, documentation and examples
    Install {
        /// Directory from which they will be used
        #[arg(long, default_value = "/usr/local")]
        prefix: PathBuf,
        /// Directory in which they are put instead, for packaging
        #[arg(long)]
        destdir: Option<PathBuf>,
        #[command(flatten)]
        slurm: install::For,
    },
    /// Build a package for every Slurm: deb, rpm, tar.gz or a static program
    Package(package::Package),
    /// Compile CUDA programs that others wrote with the compiler pass, and print what it finds and whether they do the same
    Programs(programs::Programs),
    /// Note where the fields of Slurm's structures lie in source trees of it
    SlurmTable(slurm_table::SlurmTable),
    /// End the cluster in a directory when stdin closes
    #[command(hide = true)]
    Guard {
        /// The cluster's directory
        dir: PathBuf,
        /// `remove` if the directory is to go too
        remove: Option<String>,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Setup { slurm } => setup::run(slurm, setup::Purpose::Tests),
        Task::Cluster(action) => cluster::run(action),
        Task::Demo { keep, which, dir } => demo::run(&which, keep, dir),
        Task::Test { filter, slurm } => match test::run_all(filter.as_deref(), slurm) {
            Ok(true) => Ok(()),
            // What failed is already listed, and the count must stay the last line.
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error),
        },
        Task::Bench(bench) => bench::run(&bench),
        Task::Smoke(options) => match smoke::smoke(&options) {
            Ok(true) => Ok(()),
            // What failed is already printed.
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error),
        },
        Task::Expect(options) => match expect::compare(&options) {
            Ok(true) => Ok(()),
            // What differs is already printed.
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error),
        },
        Task::Chaos(chaos) => match chaos::run(&chaos) {
            Ok(true) => Ok(()),
            // The summary is the last line.
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error),
        },
        Task::ChaosTasks(options) => match chaos_tasks::run(&options) {
            Ok(true) => Ok(()),
            // The summary is the last line.
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error),
        },
        Task::FuzzSubmissions(options) => match submissions::run(&options) {
            Ok(true) => Ok(()),
            // The summary is the last line.
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => Err(error),
        },
        Task::Install { prefix, destdir, slurm } => install::run(&prefix, destdir.as_deref(), &slurm),
        Task::Package(options) => package::run(&options),
        Task::Programs(options) => programs::run(&options),
        Task::SlurmTable(options) => slurm_table::run(&options),
        Task::Guard { dir, remove } => {
            lab::guardian::main(&dir, remove.is_some());
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}
