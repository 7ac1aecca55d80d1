//! `tessera history`: what became of the GPUs' instances, day by day.

mod days;
mod placed;
mod refused;
mod show;

use std::path::PathBuf;

use clap::Args;

use refused::Refused;

use crate::clock::{epoch_seconds, since};
use crate::files::read_text;
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::site;
use crate::slurm::sacct::jobs;

/// Show day by day how instances came and went, and how much of the GPUs jobs had
///
/// Slurm's accounting keeps what each job got, with GPU and place. This command works out from it what slurmctld did with the
/// instances: when a job ends, its instance stays idle for the next job of its shape, until something else needs its place.
/// Percentages are of the compute slices of all GPUs in tessera.toml; free is the rest. Days begin at midnight UTC.
///
/// The accounting is not complete. For a requeued job it shows only the last run. An instance that was idle before the first
/// of these jobs counts as made when a job gets it, and those that a node lost or removed by itself count as being there.
///
/// It does not contain refused submissions. Tessera counts those that it refuses on slurmctld's machine, by day and reason,
/// for the last two months, but at most since that machine booted; only on that machine the output has this column. What
/// sbatch itself refuses because of wrong options never reaches slurmctld.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera history
  tessera history --since 30d --json
  tessera history --from october

`tessera simulate replay --help` has the command that makes the file october.")]
pub(crate) struct HistoryArgs {
    /// How far back to begin: 12h or 30d; a number alone is minutes
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = since)]
    since: u64,
    /// Read the output of sacct from FILE (- for standard input) instead of running it, and count its whole time
    #[arg(long, value_name = "FILE", conflicts_with = "since")]
    from: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &HistoryArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let config = site::load(globals.config.as_deref())?;
    let now = epoch_seconds();
    let (jobs, span) = match &args.from {
        Some(path) => {
            let jobs = jobs::parse(read_text(path)?.as_bytes()).map_err(|e| e.within(path.display()))?;
            let span = days::span(&jobs);
            (jobs, span)
        }
        None => (jobs::since(args.since)?, Some((now.saturating_sub(args.since), now))),
    };
    let past = placed::of(&jobs, &config);
    let Some(span) = span.filter(|_| past.known()) else {
        return Err(Failure::new("Slurm's accounting has no job with GPUs in this time").hint(
            "sacct shows other users' jobs only where the site lets it (PrivateData); --since looks further back",
        ));
    };
    let days = days::of(&jobs, &past, span);
    let refused = match &args.from {
        Some(_) => {
            Refused::Unknown("refused submissions are not in Slurm's accounting: see --help".to_owned())
        }
        None => Refused::here(now),
    };
    Ok(if args.json {
        Outcome::json(&show::json(&days, &past, &refused), 0)
    } else {
        Outcome::ok(show::text(&days, &past, &refused, &site::node_count(&config)))
    })
}
