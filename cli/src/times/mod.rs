//! Times of job profiles, learnt from past jobs: `tessera times`, and what the planner looks up.

mod past;
mod spread;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use placement::Model;
use placement::far::Micros;
use serde_json::json;

pub(crate) use past::{Past, sacct};
use spread::Spread;

use crate::outcome::{Failure, Outcome};
use crate::table;

/// Show how long the jobs of each profile took on each instance size
///
/// A job that is submitted with --gpu-profile=NAME counts for that profile. Its instance and the profile's name stand in
/// its AdminComment, which sacct keeps; jobs that completed on one MIG instance count. Median, quartiles and number, in
/// seconds from Slurm's start of the job to its end: making the instance is part of it. The planner uses the medians.
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
    /// Read what sacct printed from FILE instead of asking it, - for standard input
    ///
    /// With -X -n -P -o JobIDRaw,State,ElapsedRaw,AdminComment.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Times by job profile and MIG profile, seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Learnt {
    /// Ascending.
    times: BTreeMap<(String, String), Vec<u64>>,
}

impl Learnt {
    pub(crate) fn of(past: Vec<Past>) -> Self {
        let mut learnt = Self::default();
        for job in past {
            learnt.times.entry((job.job_profile, job.instance)).or_default().push(job.seconds);
        }
        learnt.times.values_mut().for_each(|times| times.sort_unstable());
        learnt
    }

    /// Whether any job of this profile is known.
    pub(crate) fn knows(&self, job_profile: &str) -> bool {
        self.times.keys().any(|(name, _)| name == job_profile)
    }

    /// Median time of a job profile on a MIG profile, seconds.
    pub(crate) fn seconds(&self, job_profile: &str, instance: &str) -> Option<u64> {
        let found = self.times.get(&(job_profile.to_owned(), instance.to_owned()))?;
        Some(Spread::of(found)?.median.max(1))
    }

    /// Median time of a job profile on a model's plain instance of this many compute slices. Jobs count by the name of
    /// the MIG profile, which tells A100 from H100.
    pub(crate) fn median(&self, job_profile: &str, model: &Model, slices: u8) -> Option<Micros> {
        let mut plain = model.profiles.iter().filter(|p| !p.is_variant() && p.compute_slices == slices);
        Some(plain.find_map(|p| self.seconds(job_profile, &p.name))? * 1_000_000)
    }
}

pub(crate) fn run(args: &TimesArgs) -> Result<Outcome, Failure> {
    let past = match &args.from {
        Some(path) => past::parse(&crate::plan::read_text(path)?),
        None => sacct(args.since)?,
    };
    let mut learnt = Learnt::of(past);
    if let Some(name) = &args.profile {
        learnt.times.retain(|(job_profile, _), _| job_profile == name);
        if learnt.times.is_empty() {
            return Err(Failure::new(format!("no completed job of profile {name} in sacct"))
                .hint("jobs count that were submitted with --gpu-profile; --since looks further back"));
        }
    }
    let rows = learnt.times.iter().filter_map(|(key, times)| Some((key, Spread::of(times)?)));
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
