//! `tessera report`: what a job got of its GPUs and what it used of that.

mod array;
mod earlier;
mod record;
mod text;
mod untold;

use clap::Args;
use serde_json::json;
use site_config::SiteConfig;

use crate::globals::Globals;
use crate::outcome::{Failure, Outcome};
use crate::site;
use crate::slurm::{sacct, squeue};
use earlier::Earlier;
use record::Record;

/// Show what a job got, what it used and what it cost
///
/// Reads Slurm's accounting, so it works long after the job's end: what the job got and why, how long it waited and ran, the
/// compute slices that it was billed for, and the energy of its GPUs if the site accounts it. GPU memory and utilisation are
/// shown if the site has AcctGatherInterconnectType=acct_gather_interconnect/tessera, or if Slurm itself records them: from
/// 23.02 on, on nodes with AutoDetect=nvml, for whole GPUs. They are the highest of samples that are JobAcctGatherFrequency
/// apart. The driver reports the utilisation of whole GPUs, and of instances from the H100 on, but not of shares. With ic/nvlink and
/// ic/pcie in AccountingStorageTRES it shows the bytes that a job's whole GPUs sent, and says if they contradict
/// --gpu-bandwidth. Energy and use of a running job are known at its end. If a job
/// used much less memory than it asked for, the last line names a size for the next time. For an array it shows the sums of
/// its tasks, for a heterogeneous job each component.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  tessera report 4711
  tessera report 4711_3            a task of a job array; 4711 sums all of them
  tessera report 4711+1            a component of a heterogeneous job
  tessera report 4711 --json")]
pub(crate) struct ReportArgs {
    /// The job's number, JOB_TASK for a task of an array, or JOB+COMPONENT
    #[arg(value_name = "JOBID", value_parser = job_id)]
    pub(crate) job: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `4711`, `4711_3` or `4711+1`.
fn job_id(text: &str) -> Result<String, String> {
    let number =
        |part: &str| !part.is_empty() && part.len() <= 10 && part.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = text.split(['_', '+']).collect();
    if parts.len() <= 2 && parts.iter().all(|part| number(part)) {
        return Ok(text.to_owned());
    }
    Err("a job is a number, as in 4711; a task of an array is two, as in 4711_3, and so is a component of a heterogeneous job, as in \
         4711+1"
        .to_owned())
}

pub(crate) fn run(args: &ReportArgs, globals: &Globals) -> Result<Outcome, Failure> {
    let lines = sacct::job_and_steps(&args.job, record::COLUMNS)?;
    let jobs = Record::all(lines);
    if jobs.is_empty() {
        return Err(Failure::new(format!("Slurm's accounting knows no job {}", args.job))
            .hint("sacct shows other users' jobs only where the site lets it (PrivateData)"));
    }
    let is_component = |job: &Record| {
        job.number.split_once('+').is_some_and(|(leader, _)| args.job.split('+').next() == Some(leader))
    };
    if jobs.len() > 1 && !jobs.iter().all(is_component) {
        let array = array::of(&args.job, &jobs).ok_or_else(|| several(&args.job, jobs.len()))?;
        return Ok(if args.json { Outcome::json(&array.json(), 0) } else { Outcome::ok(array.text()) });
    }
    // The report needs no tessera.toml: without one that can be read, less is said.
    let config = site::load(globals.config.as_deref()).ok();
    let jobs: Vec<Record> = jobs.into_iter().map(started).collect::<Result<_, _>>()?;
    if args.json {
        let json = |job: &Record| text::json(job, earlier(job, config.as_ref()).as_ref());
        let mut all: Vec<_> = jobs.iter().map(json).collect();
        let json = if all.len() == 1 { all.remove(0) } else { json!({ "job": args.job, "components": all }) };
        return Ok(Outcome::json(&json, 0));
    }
    let text = |job: &Record| {
        let earlier = earlier(job, config.as_ref());
        text::of(job, earlier.as_ref(), untold::untold(job, config.as_ref()))
    };
    Ok(Outcome::ok(jobs.iter().map(text).collect::<String>()))
}

/// Gives a job that has started the name that slurmctld knows while it runs.
fn started(mut job: Record) -> Result<Record, Failure> {
    if job.start.is_none() {
        return Err(Failure::new(format!("job {} has not started: it is {}", job.number, job.state))
            .hint(format!("tessera why {} says what a pending job waits for", job.id)));
    }
    if job.is_unnamed() {
        let known = job.id.parse().map(|id| squeue::admin_comments(Some(&[id]))).unwrap_or_default();
        known.get(&job.id).into_iter().for_each(|comment| job.name(comment));
    }
    Ok(job)
}

/// A place that was there for what the job is told to ask for next time, if that can be said.
fn earlier(job: &Record, config: Option<&SiteConfig>) -> Option<Earlier> {
    let (gb, start) = (text::enough_gb(job)?, job.start?);
    let got = job.started.as_ref()?;
    earlier::look(&job.id, got, start.saturating_sub(job.waited_s?), start, gb, config?)
}

fn several(job: &str, count: usize) -> Failure {
    Failure::new(format!("job {job} has {count} parts in Slurm's accounting"))
        .hint("sacct -j ID shows them: give the number of one of them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_a_number_or_an_array_task() {
        assert!(["7", "4711_3", "4711+1"].iter().all(|text| job_id(text).is_ok()));
        assert!(
            ["", "x", "7_", "_3", "7_3_1", "7_3+1", "7+", "-7", "7;id", "99999999999"]
                .iter()
                .all(|text| job_id(text).is_err())
        );
    }
}
