//! `tessera times`: how long the jobs of each application took.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use site_config::LearnFrom;

use crate::clock::since;
use crate::files::read_text;
use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::render::table;
use crate::runtimes::{Key, Learnt, Spread};
use crate::site;
use crate::slurm::sacct;

/// Show how long the jobs of each application took on each instance size
///
/// Counts jobs that were submitted with --gpu-app=NAME and completed on one MIG instance; sacct keeps both in their
/// AdminComment. For each user, or each account where the site says so, it prints their number and the median, quartiles and
/// extremes of their times, in seconds from a job's start in Slurm to its end. This includes making the instance. The planner
/// uses the medians.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera times
  tessera times --app bert --since 7d
  columns=JobIDRaw%14,User%64,Account%64,State%20,ElapsedRaw%12,AdminComment%512
  sacct -a -X -n -S now-30days -o $columns > past
  tessera times --from past")]
pub(crate) struct TimesArgs {
    /// Only this application
    #[arg(long = "app", alias = "profile", value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// How far back to look: 7d or 12h; a number alone is minutes
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = since)]
    pub(crate) since: u64,
    /// Read the output of sacct from FILE (- for standard input) instead of running it
    ///
    /// Its columns must have been those of the example, of these widths.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &TimesArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let past = match &args.from {
        Some(path) => sacct::parse(read_text(path)?.as_bytes())?,
        None => sacct::completed(args.since)?,
    };
    // Who looks at times may have no tessera.toml.
    let from = site::load(globals.config.as_deref()).map_or(LearnFrom::User, |site| site.learn_from);
    let mut learnt = Learnt::of(past, from);
    if let Some(name) = &args.profile {
        learnt.retain(name);
        if learnt.is_empty() {
            return Err(Failure::new(format!("no completed job of profile {name} in sacct"))
                .hint("only jobs submitted with --gpu-app count; --since looks further back"));
        }
    }
    let rows = learnt.rows();
    let owner = if from == LearnFrom::User { "user" } else { "account" };
    if args.json {
        let row = |(key, s): (&Key, Spread)| {
            json!({
                owner: key.owner, "profile": key.job_profile, "instance": key.instance, "jobs": s.count, "median": s.median, "low": s.low,
                "high": s.high, "least": s.least, "most": s.most,
            })
        };
        return Ok(Outcome::json(&json!(rows.map(row).collect::<Vec<_>>()), 0));
    }
    let heads = [owner, "profile", "instance", "jobs", "median s", "quartiles", "least", "most"];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    for (key, s) in rows {
        let quartiles = format!("{} to {}", s.low, s.high);
        let numbers = [s.least, s.most].map(|n| n.to_string());
        let [least, most] = numbers;
        let (count, median) = (s.count.to_string(), s.median.to_string());
        let [owner, profile, instance] = [&key.owner, &key.job_profile, &key.instance].map(String::clone);
        lines.push(vec![owner, profile, instance, count, median, quartiles, least, most]);
    }
    Ok(Outcome::ok(table::render(&lines, &[3, 4, 5, 6, 7])))
}
