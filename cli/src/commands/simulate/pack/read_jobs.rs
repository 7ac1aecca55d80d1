//! The jobs of a stream, a line of JSON each.

use admission::Ruling;
use clap::Parser;
use pack_study::stream::StreamJob;
use protocol::Request;
use protocol::wire::encode_request;
use serde::Deserialize;
use site_config::SiteConfig;
use site_limits::Submission;
use site_limits::counted::{Counted, as_counted};

use crate::commands::explain::RequestArgs;
use crate::outcome::Failure;

/// Most jobs of a file.
const MOST_JOBS: usize = 1_000_000;
/// Latest submission and longest run, seconds.
const MOST_S: f64 = 1e9;

/// A line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobLine {
    id: serde_json::Value,
    submit: f64,
    run: f64,
    #[serde(default = "one")]
    cpus: u32,
    #[serde(default)]
    mem_mib: u64,
    #[serde(default = "one")]
    nodes: u32,
    ask: String,
}

fn one() -> u32 {
    1
}

/// The options of a job.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Asked {
    #[command(flatten)]
    request: RequestArgs,
}

/// Reads the jobs, in the order of submission. An error names file and line.
pub(super) fn read(file: &str, text: &str, config: &SiteConfig) -> Result<Vec<StreamJob>, Failure> {
    let mut jobs = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        if jobs.len() == MOST_JOBS {
            return Err(Failure::new(format!("{file}: more than {MOST_JOBS} jobs")));
        }
        let job = job(line, config).map_err(|why| Failure::new(format!("{file}:{}: {why}", at + 1)))?;
        jobs.push(job);
    }
    jobs.sort_by_key(|job| job.submit_ms);
    Ok(jobs)
}

fn job(line: &str, config: &SiteConfig) -> Result<StreamJob, String> {
    let line: JobLine =
        serde_json::from_str(line).map_err(|e| e.to_string().replace("at line 1 column", "at column"))?;
    let (request, plain) = request(&line.ask, config)?;
    let id = match line.id {
        serde_json::Value::String(id) => id,
        other => other.to_string(),
    };
    Ok(StreamJob {
        id,
        submit_ms: ms("submit", line.submit)?,
        run_ms: ms("run", line.run)?,
        cpus: line.cpus,
        mem_mib: line.mem_mib,
        nodes: usize::try_from(line.nodes.max(1)).unwrap_or(usize::MAX),
        request,
        plain,
    })
}

fn ms(name: &str, seconds: f64) -> Result<u64, String> {
    if !(0.0..=MOST_S).contains(&seconds) {
        return Err(format!("\"{name}\": expected seconds from 0 to {MOST_S}"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 10^12")]
    let ms = (seconds * 1000.0).round() as u64;
    Ok(ms)
}

/// The request that slurmctld's plugin makes of a job's options; whether it uses none of Tessera's.
fn request(ask: &str, config: &SiteConfig) -> Result<(Request, bool), String> {
    let asked = Asked::try_parse_from(ask.split_whitespace()).map_err(|e| {
        format!("\"ask\": {}", e.to_string().lines().next().unwrap_or_default().trim_start_matches("error: "))
    })?;
    if let Some(option) = asked.request.of_nodes() {
        return Err(format!(
            "\"ask\": streams do not know {option}: any node may run any job, next to others"
        ));
    }
    let typed = asked
        .request
        .request()
        .map_err(|refusals| refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let job = Submission {
        request: typed.as_ref().map(encode_request),
        tres: asked.request.tres(),
        tasks_per_node: asked.request.tasks_per_node(),
        ..Submission::default()
    };
    match admission::judge(&job, Some(config)) {
        Ruling::Accepted { request, .. } => Ok((request, false)),
        Ruling::Refused(refusal) => Err(format!("\"ask\": {refusal}")),
        Ruling::Untouched => {
            let entries = job.tres.gpu_entries();
            let gpus = entries.iter().filter(|entry| entry.name == "gpu").map(|entry| entry.count).sum();
            let read = as_counted(None, Counted::Gpus(gpus)).filter(|_| gpus > 0);
            Ok((read.ok_or("\"ask\": it asks for no GPU")?.request, true))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_options_of_a_job_are_a_sound_command_line() {
        Asked::command().debug_assert();
    }
}
