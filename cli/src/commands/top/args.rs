//! The command line of `tessera top`.

use std::time::Duration;

use clap::Args;

use crate::clock::often;

/// Watch nodes, GPUs and jobs in the terminal
///
/// Shows the nodes with their GPUs as slices and the jobs with what they asked for, and asks Slurm again at an interval. Many
/// nodes are shown as groups that are used alike. Arrows and Tab move, Enter opens a node or says why a job waits, s sorts, u, p
/// and n show one user, partition or some nodes, g switches between groups and nodes, ? lists the keys, q quits.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera top
  tessera top --partition gpu --user alice
  tessera top --node n[1-4] --every 2s")]
pub(crate) struct TopArgs {
    /// Show this user's jobs, and the nodes where they run
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) user: String,
    /// Show this partition's nodes and jobs
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) partition: String,
    /// Show these nodes, a hostlist such as n[1-2]
    #[arg(long, value_name = "NODES", default_value = "", hide_default_value = true)]
    pub(crate) node: String,
    /// Ask Slurm every TIME, such as 5s or 1m
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = often)]
    pub(crate) every: Duration,
}
