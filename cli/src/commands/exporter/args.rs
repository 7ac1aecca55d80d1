//! The command line of `tessera exporter`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use crate::clock::often;

/// Serve metrics for Prometheus, and a page that shows the cluster
///
/// Asks Slurm at an interval, as `tessera layout` and squeue do, and answers from the last result: more readers do not cause
/// more questions to slurmctld. /metrics has the GPUs, slices and instances of each node by what holds them, jobs and their
/// waits, and whether all of that could be read. On slurmctld's machine it also has slurmctld's decisions, rejections by
/// reason, and the time that they took. With --page, / shows the cluster as `tessera layout` draws it, or, above
/// 128 GPUs, as a tile for each node; a click on a job shows what it has, or why it waits, and a click on a GPU its history. Its
/// clients cannot change anything. Anyone who can reach the address can read it.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera exporter
  tessera exporter --page --listen 127.0.0.1:9400
  curl -s http://localhost:9400/metrics")]
pub(crate) struct ExporterArgs {
    /// Listen on this address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9400")]
    pub(crate) listen: SocketAddr,
    /// Ask Slurm every TIME, such as 15s or 1m
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = often)]
    pub(crate) every: Duration,
    /// Serve the page as well
    #[arg(long)]
    pub(crate) page: bool,
    /// Show the users, names and use of jobs on the page; without it no user is named
    #[arg(long, requires = "page")]
    pub(crate) users: bool,
}
