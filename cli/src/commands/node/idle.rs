//! `tessera node idle`: which jobs hold GPUs of this node without using them.

use std::time::{Duration, Instant};

use error_chain::with_causes;
use gpu_idle::{DeviceSample, IdleRecord, JobSample};
use gpu_node::node_extra::name_idle;
use gpu_node::{DeviceUse, NodeInSlurm, each_device};
use node_journal::{Entry, Journal};
use protocol::IdleWord;
use site_config::SiteConfig;

use crate::clock::{epoch_seconds, span};
use crate::files::kept::{KeptAs, KeptRecord};
use crate::local_node::Local;
use crate::outcome::{Failure, Outcome};
use crate::render::table;

/// In the journal's directory: users can fill `run_dir`.
const KEPT: KeptAs = KeptAs {
    file: "idle.json",
    busy: "another check of the jobs' GPUs is still running: the driver may hang",
    denied: "run it as root",
};
/// After this time no further job is looked at: the next run begins with those that are left.
const LOOKS: Duration = Duration::from_secs(30);

/// Looks at the GPUs of all jobs, remembers what they did, and tells slurmctld which jobs use none.
pub(super) fn run(local: &Local<'_>, config: &SiteConfig, json: bool) -> Result<Outcome, Failure> {
    let kept: KeptRecord<IdleRecord> = KeptRecord::in_dir(&local.settings.node.state_dir, KEPT);
    let conf = std::env::var("SLURM_CONF").ok();
    let slurm = NodeInSlurm::new(&local.name, &local.settings.node.state_dir, conf);
    let Some(idle) = &config.idle else {
        if kept.is_there() {
            // The section was there before.
            name_idle(&slurm, "").map_err(|e| Failure::of(&e))?;
            kept.remove()?;
        }
        let text = format!("{}: tessera.toml has no [idle], so no GPU was looked at\n", local.name);
        return Ok(Outcome::ok(text));
    };
    let journal = Journal::open(&local.settings.node.state_dir).map_err(|e| Failure::of(&e))?;
    let _alone = kept.looking()?;
    // A damaged record begins again: then nothing is known to be idle.
    let mut record = kept.read().unwrap_or_default();
    let (samples, mut problems) = samples(local, &journal, &record)?;
    let now = epoch_seconds();
    record.look(&samples, idle.busy_percent, now);
    let word = record.word(now);
    if record.is_due(&word) {
        match name_idle(&slurm, &word.encode()) {
            Ok(()) => record.told(&word),
            Err(e) => problems.push(format!("slurmctld cannot be told: {}", with_causes(&e))),
        }
    }
    kept.keep(&record)?;
    let status = u8::from(!problems.is_empty());
    if json {
        return Ok(Outcome::json(&as_json(&local.name, &word), status));
    }
    let mut text = as_text(&local.name, &word);
    problems.iter().for_each(|problem| text.push_str(&format!("problem: {problem}\n")));
    Ok(Outcome { text, status })
}

/// Looks at the devices of the journal's jobs, first at those that were not looked at for longest; and what could not be looked at.
fn samples(
    local: &Local<'_>,
    journal: &Journal,
    record: &IdleRecord,
) -> Result<(Vec<JobSample>, Vec<String>), Failure> {
    let (mut here, _damaged) = journal.jobs().map_err(|e| Failure::of(&e))?.into_parts();
    here.retain(|entry| entry.holds() && entry.boot == journal.boot());
    here.sort_by_key(|entry| record.last_look(entry.job()));
    let (begun, mut problems) = (Instant::now(), Vec::new());
    let mut one = |entry: Entry| {
        let looked = if begun.elapsed() > LOOKS {
            Err("the driver is slow".to_owned())
        } else {
            each_device(&local.settings.node.nvml_library, &entry).map_err(|e| with_causes(&e))
        };
        let devices = match looked {
            Ok(devices) => Some(devices.into_iter().map(sample).collect()),
            Err(why) => {
                problems.push(format!("job {}: {why}", entry.job()));
                None
            }
        };
        JobSample { job: entry.job(), restart: entry.restart, devices }
    };
    let samples = here.into_iter().map(&mut one).collect();
    problems.truncate(10);
    Ok((samples, problems))
}

fn sample(seen: DeviceUse) -> DeviceSample {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    let rounded_up = |busy: f64| busy.clamp(0.0, 100.0).ceil() as u32;
    DeviceSample {
        uuid: seen.uuid,
        busy_percent: seen.busy_percent.map(rounded_up),
        memory_mib: seen.memory >> 20,
        processes: seen.processes,
    }
}

fn as_text(node: &str, word: &IdleWord) -> String {
    if word.jobs.is_empty() {
        return format!("{node}: no job has a GPU that it has not used for 10 minutes\n");
    }
    let mut rows = vec![["JOB", "IDLE", "FOR", "MOST MEMORY"].map(str::to_owned).to_vec()];
    rows.extend(word.jobs.iter().map(|job| {
        vec![
            job.job.to_string(),
            format!("{} of {}", job.idle, job.of),
            span(word.at.saturating_sub(job.since)),
            geometry::size::display_gb(job.most_mib),
        ]
    }));
    table::render(&rows, &[0])
}

fn as_json(node: &str, word: &IdleWord) -> serde_json::Value {
    let job = |job: &protocol::IdleJob| {
        serde_json::json!({
            "job": job.job.0, "since": job.since, "idle": job.idle, "of": job.of, "most_mib": job.most_mib,
        })
    };
    serde_json::json!({ "node": node, "at": word.at, "jobs": word.jobs.iter().map(job).collect::<Vec<_>>() })
}
