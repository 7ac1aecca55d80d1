//! `tessera times`: how long the jobs of each job profile took.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::files::read_text;
use crate::outcome::{Failure, Outcome};
use crate::render::table;
use crate::runtimes::{Learnt, Spread};
use crate::slurm::sacct;

/// Show how long the jobs of each profile took on each instance size
///
/// Counts jobs that were submitted with --gpu-profile=NAME and completed on one MIG instance; sacct keeps both in their
/// AdminComment. Prints their number and the median, quartiles and extremes of their times, in seconds from a job's start
/// in Slurm to its end. This includes making the instance. The planner uses the medians.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera times
  tessera times --profile bert --since 7
  sacct -a -X -n -P -S now-30days -o JobIDRaw,State,ElapsedRaw,AdminComment > past; tessera times --from past")]
pub(crate) struct TimesArgs {
    /// Only this profile
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// How far back to look, in days
    #[arg(long, value_name = "DAYS", default_value = "30")]
    pub(crate) since: u32,
    /// Read the output of sacct from FILE (- for standard input) instead of running it
    ///
    /// Its options must have been -X -n -P -o JobIDRaw,State,ElapsedRaw,AdminComment.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &TimesArgs) -> Result<Outcome, Failure> {
    let past = match &args.from {
        Some(path) => sacct::parse(&read_text(path)?),
        None => sacct::completed(args.since)?,
    };
    let mut learnt = Learnt::of(past);
    if let Some(name) = &args.profile {
        learnt.retain(name);
        if !learnt.knows(name) {
            return Err(Failure::new(format!("no completed job of profile {name} in sacct"))
                .hint("only jobs submitted with --gpu-profile count; --since looks further back"));
        }
    }
    let rows = learnt.rows();
    if args.json {
        let row = |((job_profile, instance), s): (&(String, String), Spread)| {
            json!({
                "profile": job_profile, "instance": instance, "jobs": s.count, "median": s.median, "low": s.low,
                "high": s.high, "least": s.least, "most": s.most,
            })
        };
        return Ok(Outcome::json(&json!(rows.map(row).collect::<Vec<_>>()), 0));
    }
    let heads = ["profile", "instance", "jobs", "median s", "quartiles", "least", "most"];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    for ((job_profile, instance), s) in rows {
        let quartiles = format!("{} to {}", s.low, s.high);
        let numbers = [s.least, s.most].map(|n| n.to_string());
        let [least, most] = numbers;
        let (count, median) = (s.count.to_string(), s.median.to_string());
        lines.push(vec![job_profile.clone(), instance.clone(), count, median, quartiles, least, most]);
    }
    Ok(Outcome::ok(table::render(&lines, &[2, 3, 4, 5, 6])))
}
