//! `tessera idle`: who holds GPUs without using them, and what the site does about that.

mod act;
mod tell;
mod text;

use std::path::PathBuf;

use clap::Args;

use crate::cluster_snapshot;
use crate::globals::Globals;
use crate::idle_jobs::{IdleHeld, IdleSeen};
use crate::outcome::{Failure, Outcome};
use crate::site;

pub(crate) use tell::mail_problem;

/// Show who holds GPUs without using them
///
/// Lists running jobs that have not used a GPU, an instance or a share of theirs for at least 10 minutes: for how long, how many
/// compute slices that is and for how many hours, and what a smaller request would have been. Each node looks at its jobs
/// once a minute (`tessera node idle`), if tessera.toml has [idle]. Needs no accounting.
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
    /// Only jobs that are idle at least this long: 90m, 2h or 1d
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = since)]
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

/// Seconds in `90m`, `2h` or `1d`.
fn since(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a time such as 90m, 2h or 1d");
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let plain = (1..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = plain.then(|| digits.parse().ok()).flatten().ok_or_else(wrong)?;
    Ok(number.saturating_mul(seconds))
}

pub(crate) fn run(args: &IdleArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let config = site::load(globals.config.as_deref())?;
    let Some(idle) = &config.idle else {
        return Err(Failure::new("tessera.toml has no [idle], so no node looks at its jobs")
            .hint("add [idle] to it, and `tessera node idle` to HealthCheckProgram: see docs/operations.md, \"Idle GPUs\""));
    };
    let seen = cluster_snapshot::look(&config)?;
    if args.act {
        return act::run(idle, &seen, args.dry_run, args.state.as_deref());
    }
    let found = IdleSeen::of(&seen).unwrap_or(IdleSeen { held: Vec::new(), silent: Vec::new() });
    let long = |held: &&IdleHeld| held.idle_s(seen.at) >= args.since;
    let held: Vec<&IdleHeld> = found.held.iter().filter(long).collect();
    if args.json {
        return Ok(Outcome::json(&text::json(&held, seen.at), 0));
    }
    Ok(Outcome::ok(text::of(&held, &found.silent, seen.at, args.since)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(["90m", "2h", "1d"].map(|text| since(text).unwrap()), [5400, 7200, 86_400]);
        for bad in ["", "2", "h", "-2h", "+2h", "1.5h", "2w", "1000000d", "2 h", "2\u{e4}"] {
            assert!(since(bad).is_err(), "{bad}");
        }
    }
}
