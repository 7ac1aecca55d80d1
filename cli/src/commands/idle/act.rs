//! Takes the steps that are due: warnings, and the ends that they announced.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpu_idle::{HeldJob, IdleMemory, IdleStep, Stretch, verdict};
use site_config::{Idle, IdleEnd, IdleKind, SiteConfig};

use super::tell;
use crate::clock::{epoch_seconds, span};
use crate::cluster_snapshot::{self, ClusterSnapshot};
use crate::files::kept::{KeptAs, KeptRecord};
use crate::idle_jobs::stretch_of;
use crate::outcome::{Failure, Outcome};
use crate::render::printable;
use crate::slurm::squeue::{self, QueuedJob, Submitted};
use crate::slurm::{command, scontrol};

/// The memory.
const KEPT: KeptAs = KeptAs {
    file: "tessera-idle.json",
    busy: "another `tessera idle --act` is still running",
    denied: "run it as root or SlurmUser on the machine of slurmctld, or add --dry-run",
};
/// After this time no further step is begun: the next run goes on.
const LONGEST: Duration = Duration::from_secs(50);
/// A shorter suspension is none: clocks and roundings differ by seconds.
const LEAST_SUSPENDED_S: u64 = 60;

/// Takes the steps that are due, or shows them.
pub(super) fn run(
    config: &SiteConfig,
    idle: &Idle,
    dry_run: bool,
    dir: Option<&Path>,
) -> Result<Outcome, Failure> {
    let dry = dry_run || !idle.act;
    let kept: KeptRecord<IdleMemory> =
        KeptRecord::in_dir(&dir.map_or_else(state_dir, |dir| Ok(dir.to_owned()))?, KEPT);
    let _alone = if dry { None } else { Some(kept.looking()?) };
    // A dry run reads what it may.
    let mut memory = if dry { kept.read().unwrap_or_default() } else { kept.read()? };
    // After the wait for another run, which may have ended some of the jobs.
    let seen = &cluster_snapshot::look(config)?;
    let jobs = held(seen)?;
    memory.forget(&jobs);
    let steps = verdict(&jobs, &memory, idle, epoch_seconds());
    let mut acting =
        Acting { idle, seen, jobs: &jobs, kept: &kept, memory, lines: Vec::new(), failed: false };
    if let Some(problem) = tell::mail_problem(idle) {
        acting.lines.push(format!("problem: {problem}\n"));
        acting.failed = true;
    }
    let begun = Instant::now();
    for step in steps {
        match step {
            _ if dry => acting.show(step),
            _ if begun.elapsed() > LONGEST => break,
            step => acting.take(step)?,
        }
    }
    if !dry {
        kept.keep(&acting.memory)?;
    }
    let mut text = acting.lines.concat();
    if text.is_empty() {
        text = "nothing to do\n".to_owned();
    }
    if !idle.act && !dry_run {
        text.push_str("[idle] in tessera.toml has no act = true, so nothing was done\n");
    }
    Ok(Outcome { text, status: u8::from(acting.failed) })
}

fn state_dir() -> Result<PathBuf, Failure> {
    let settings = command::run("scontrol", &["show", "config"])?;
    let dir = scontrol::setting(&settings, "StateSaveLocation").filter(|dir| dir.starts_with('/'));
    dir.map(PathBuf::from)
        .ok_or_else(|| Failure::new("Slurm names no StateSaveLocation").hint("name a directory by --state"))
}

/// The jobs that run, with the use of their GPUs.
fn held(seen: &ClusterSnapshot) -> Result<Vec<HeldJob>, Failure> {
    let runs = |job: &&QueuedJob| !job.ended() && !job.waits();
    let none = HashMap::new();
    let words = seen.idle_words.as_ref().unwrap_or(&none);
    let jobs: Vec<(&QueuedJob, Stretch)> =
        seen.jobs.iter().filter(runs).map(|job| (job, stretch_of(job, words, seen.at))).collect();
    let idle = |(_, stretch): &&(&QueuedJob, Stretch)| matches!(stretch, Stretch::Since(_));
    let ids: Vec<u32> = jobs.iter().filter(idle).map(|(job, _)| job.id).collect();
    let submitted = if ids.is_empty() { HashMap::new() } else { squeue::submitted(&ids)? };
    Ok(jobs.into_iter().map(|(job, stretch)| one(job, stretch, submitted.get(&job.id), seen.at)).collect())
}

fn one(job: &QueuedJob, stretch: Stretch, submitted: Option<&Submitted>, now: u64) -> HeldJob {
    let ran_s = submitted.and_then(|submitted| submitted.ran_s);
    let lasted_s = job.start.map(|start| now.saturating_sub(start));
    let suspended_s = ran_s.zip(lasted_s).map_or(0, |(ran, lasted)| lasted.saturating_sub(ran));
    let is_batch = submitted.is_none_or(|submitted| submitted.is_batch);
    HeldJob {
        job: job.id,
        partition: job.partition.clone(),
        account: job.account.clone(),
        kind: if is_batch { IdleKind::Batch } else { IdleKind::Interactive },
        can_requeue: submitted.is_some_and(|submitted| submitted.is_batch && submitted.requeue),
        // One that has ended since, or does not say how long it ran, is left alone.
        runs: job.state == "RUNNING" && ran_s.is_some(),
        in_het: job.het.is_some(),
        suspended_s: if suspended_s < LEAST_SUSPENDED_S { 0 } else { suspended_s },
        stretch,
    }
}

/// A run that takes steps.
struct Acting<'a> {
    idle: &'a Idle,
    seen: &'a ClusterSnapshot,
    jobs: &'a [HeldJob],
    kept: &'a KeptRecord<IdleMemory>,
    memory: IdleMemory,
    lines: Vec<String>,
    failed: bool,
}

impl Acting<'_> {
    fn queued(&self, job: u32) -> Option<&QueuedJob> {
        self.seen.jobs.iter().find(|queued| queued.id == job)
    }

    /// Adds a line about a job. Names and other programs' words may hold anything.
    fn say(&mut self, job: u32, what: &str) {
        let whose = self.queued(job).map_or_else(|| job.to_string(), QueuedJob::named);
        self.lines.push(printable(&format!("job {whose}: {what}")) + "\n");
    }

    /// Says what would be done.
    fn show(&mut self, step: IdleStep) {
        match step {
            IdleStep::Warn { job, idle_s, end } => {
                let then = end.map_or_else(String::new, |(end, after_s)| {
                    format!(", and {} {} later", tell::ends(end), span(after_s))
                });
                self.say(job, &format!("idle for {}: would be warned{then}", span(idle_s)));
            }
            IdleStep::End { job, idle_s, end } => {
                self.say(job, &format!("idle for {}: would be {}", span(idle_s), tell::ends(end)));
            }
        }
    }

    fn take(&mut self, step: IdleStep) -> Result<(), Failure> {
        match step {
            IdleStep::Warn { job, idle_s, end } => self.warn(job, idle_s, end),
            IdleStep::End { job, idle_s, end } => self.end(job, idle_s, end),
        }
    }

    /// The warning is remembered before it is given: if this process ends in between, it is given again, with a later time.
    fn warn(&mut self, job: u32, idle_s: u64, end: Option<(IdleEnd, u64)>) -> Result<(), Failure> {
        let Some((held, queued)) =
            self.jobs.iter().find(|held| held.job == job).zip(self.queued(job).cloned())
        else {
            return Ok(());
        };
        let now = epoch_seconds();
        let promise = self.memory.warn(held, end, now);
        self.kept.keep(&self.memory)?;
        match tell::user(self.idle, &queued, &tell::warning(&queued, idle_s, promise, now)) {
            Ok(()) => {
                self.memory.told(job);
                self.kept.keep(&self.memory)?;
                self.say(job, &format!("idle for {}: warned", span(idle_s)));
            }
            Err(why) => {
                self.failed = true;
                self.say(job, &format!("idle for {}: could not be warned: {why}", span(idle_s)));
            }
        }
        Ok(())
    }

    fn end(&mut self, job: u32, idle_s: u64, end: IdleEnd) -> Result<(), Failure> {
        let Some(queued) = self.queued(job).cloned() else { return Ok(()) };
        let did = tell::ends(end);
        match tell::end(self.idle, &queued, end, &tell::ending(&queued, idle_s, end, epoch_seconds())) {
            Ok(()) => self.say(job, &format!("idle for {}: {did}", span(idle_s))),
            Err(why) => {
                self.failed = true;
                self.memory.refused(job);
                self.kept.keep(&self.memory)?;
                self.say(job, &format!("idle for {}: could not be {did}: {why}", span(idle_s)));
            }
        }
        Ok(())
    }
}
