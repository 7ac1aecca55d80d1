//! Tells slurmctld which GPUs get no new jobs, and requeues jobs where a rule says so.

use error_chain::with_causes;
use gpu_health::{HealthRecord, Rules};
use gpu_node::{CommandError, NodeInSlurm, node_extra};
use node_journal::{Entry, Journal};
use protocol::sick;

use crate::local_node::Local;

/// Lines about jobs that were requeued, and about what failed.
#[derive(Default)]
pub(super) struct Done {
    pub(super) lines: Vec<String>,
    pub(super) problems: Vec<String>,
}

/// Tells and requeues. Jobs are requeued only once slurmctld knows, so that none comes back to the same GPU.
pub(super) fn tell(
    slurm: &NodeInSlurm<'_>,
    local: &Local<'_>,
    record: &mut HealthRecord,
    rules: &Rules<'_>,
    now: u64,
) -> Done {
    let mut done = Done::default();
    let word = sick::encode(&record.left_out(rules));
    if record.is_due(&word, now) {
        match node_extra::name_sick(slurm, &word) {
            Ok(_is_new) => record.told = Some((word, now)),
            Err(e) => {
                done.problems.push(format!("slurmctld cannot be told about its GPUs: {}", with_causes(&e)));
                return done;
            }
        }
    }
    requeue(slurm, local, record, &mut done);
    done
}

fn requeue(slurm: &NodeInSlurm<'_>, local: &Local<'_>, record: &mut HealthRecord, done: &mut Done) {
    let due = |gpu: &gpu_health::KnownGpu| gpu.findings.iter().any(|finding| finding.requeue);
    if !record.gpus.iter().any(due) {
        return;
    }
    let entries = match journalled(local) {
        Ok(entries) => entries,
        Err(why) => return done.problems.push(format!("no job was requeued: {why}")),
    };
    for gpu in record.gpus.iter_mut().filter(|gpu| due(gpu)) {
        let mut answered = true;
        for entry in entries.iter().filter(|entry| entry.uses(&gpu.uuid)) {
            match node_extra::requeue(slurm, entry.job()) {
                Ok(()) => done.lines.push(format!("job {} is requeued", entry.job())),
                Err(e @ CommandError::Failed { .. }) => {
                    done.lines.push(format!("job {} stays: {}", entry.job(), with_causes(&e)));
                }
                Err(e) => {
                    answered = false;
                    done.problems.push(format!("job {}: {}", entry.job(), with_causes(&e)));
                }
            }
        }
        gpu.findings.iter_mut().for_each(|finding| finding.requeue &= !answered);
    }
}

fn journalled(local: &Local<'_>) -> Result<Vec<Entry>, String> {
    let journal = Journal::open(&local.settings.node.state_dir).map_err(|e| with_causes(&e))?;
    let (entries, _damaged) = journal.jobs().map_err(|e| with_causes(&e))?.into_parts();
    Ok(entries.into_iter().filter(|entry| entry.holds() && entry.boot == journal.boot()).collect())
}
