//! The command line of `tessera planner`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::clock::{duration, since};

/// Choose sizes, places and order of pending moldable jobs
///
/// At every interval, takes the pending jobs that say how they scale (--gpu-times or --gpu-app), plans them over what
/// the GPUs hold now, and tells slurmctld the result. The planned size and place go into the job's AdminComment, where
/// Tessera's select plugin reads them. Under priority/multifactor, Nice puts the jobs of one user into the planned order.
///
/// The planner never raises a priority and never moves a job past another user's. It ignores jobs that are held, wait for
/// a dependency, a begin time or a reservation, or exceed a limit. Plans expire: without the planner, jobs run with the
/// size they asked for. Run it as root or SlurmUser, once per cluster; it ends at SIGTERM.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera planner --once --dry-run     show what would be planned now
  tessera planner --once               plan once
  tessera planner --every 30s          the service")]
pub(crate) struct PlannerArgs {
    /// Plan once and end
    #[arg(long)]
    pub(crate) once: bool,
    /// How long to wait between plans
    #[arg(long = "every", alias = "interval", value_name = "TIME", default_value = "30s", allow_hyphen_values = true, value_parser = interval)]
    pub(crate) interval: Duration,
    /// Print the changes instead of making them
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long a plan may search
    #[arg(long = "search-time", alias = "budget", value_name = "TIME", default_value = "50ms", allow_hyphen_values = true, value_parser = duration)]
    pub(crate) budget: Duration,
    /// How far back sacct looks for the times of job profiles: 7d or 12h; a number alone is minutes
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = since)]
    pub(crate) since: u64,
    /// Hold this file while running, so that there is one planner per cluster
    ///
    /// By default tessera-planner.lock in StateSaveLocation.
    #[arg(long, value_name = "FILE")]
    pub(crate) lock: Option<PathBuf>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time >= Duration::from_secs(1) { Ok(time) } else { Err("expected at least 1s".to_owned()) }
}
