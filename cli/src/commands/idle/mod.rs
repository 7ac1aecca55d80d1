//! `tessera idle`: who holds GPUs without using them, and what the site does about that.

mod act;
mod tell;
mod text;

use std::path::PathBuf;

use clap::Args;
use gpu_idle::LEAST_S;

use crate::clock::since;
use crate::cluster_snapshot;
use crate::globals::Globals;
use crate::idle_jobs::{IdleHeld, IdleSeen};
use crate::outcome::{Failure, Outcome};
use crate::site;

pub(crate) use tell::mail_problem;

/// Show jobs that have GPUs without using them
///
/// Lists running jobs that have not used one of their GPUs, instances or shares for at least 10 minutes: for how long, the
/// idle compute slices and slice hours, and a smaller request that would have been enough. Each node checks its jobs once a
/// minute (`tessera node idle`), if tessera.toml has [idle]. Needs no accounting.
///
/// --act warns the users of such jobs, and later requeues or cancels the jobs, as [idle] in tessera.toml says. Unless
/// that has act = true, it only shows what it would do. Run it as root or SlurmUser on the machine of slurmctld, once a minute.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera idle                     jobs that have idle GPUs
  tessera idle --since 2h          those that have for two hours
  tessera idle --act --dry-run     what would be done about them now
  tessera idle --act               do it")]
pub(crate) struct IdleArgs {
    /// Only jobs that are idle at least this long, 10m or more: 90m, 2h or 7d; a number alone is minutes
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = at_least)]
    since: u64,
    /// Warn users and end jobs as [idle] in tessera.toml says
    #[arg(long, conflicts_with_all = ["since", "json"])]
    act: bool,
    /// Show what --act would do, and do nothing
    #[arg(long, requires = "act")]
    dry_run: bool,
    /// Where --act remembers its warnings
    ///
    /// By default tessera-idle.json in StateSaveLocation. No other user may write to that directory.
    #[arg(long, value_name = "DIR", requires = "act")]
    state: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &IdleArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let config = site::load(globals.config.as_deref())?;
    let Some(idle) = &config.idle else {
        return Err(Failure::new("tessera.toml has no [idle], so no node looks at its jobs")
            .hint("add [idle] to it, and `tessera node idle` to HealthCheckProgram: see docs/gpu-health.md, \"Idle GPUs\""));
    };
    if args.act {
        return act::run(&config, idle, args.dry_run, args.state.as_deref());
    }
    let seen = cluster_snapshot::look(&config)?;
    let found = IdleSeen::of(&seen).unwrap_or(IdleSeen { held: Vec::new(), silent: Vec::new() });
    let long = |held: &&IdleHeld| held.idle_s(seen.at) >= args.since;
    let held: Vec<&IdleHeld> = found.held.iter().filter(long).collect();
    if args.json {
        return Ok(Outcome::json(&text::json(&held, &found.silent, seen.at), 0));
    }
    Ok(Outcome::ok(text::of(&held, &found.silent, seen.at, args.since)))
}

/// Reads a time in seconds for which a job has been idle. Nodes name no job that has been idle for less than [`LEAST_S`].
fn at_least(text: &str) -> Result<u64, String> {
    let seconds = since(text)?;
    let known = seconds >= LEAST_S;
    known
        .then_some(seconds)
        .ok_or_else(|| "nodes name a job when it has been idle for 10 minutes: 10m or more".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_for_which_nodes_name_no_job_is_refused() {
        assert_eq!(at_least("10m"), Ok(600));
        assert_eq!(at_least("2h"), Ok(7200));
        assert!(at_least("9m").unwrap_err().ends_with("10m or more"));
    }
}
