//! The jobs of one setting, from submission to end.

use std::collections::HashMap;
use std::path::Path;

use power_study::calibration::{Progress, progress};
use protocol::AdminComment;

use super::campaign::Campaign;
use super::script::{self, Place};
use super::store::{Attempt, Store};
use crate::outcome::Failure;
use crate::slurm::sbatch;
use crate::slurm::squeue::QueuedJob;

/// A setting that is being measured.
pub(super) struct Flight {
    /// The setting's index.
    pub(super) at: usize,
    /// The GPU that it has; `None`: not known of jobs that an earlier call has not noted.
    pub(super) gpu: Option<u16>,
    pub(super) jobs: Vec<u32>,
    attempt: Attempt,
    /// True if all jobs were found where they should be, under the cap.
    placed: bool,
    /// Looks at jobs that have ended without enough laps.
    over: u32,
    /// True if its result was kept, or given up: only its jobs' end is awaited.
    pub(super) kept: bool,
    /// True if some of its jobs were not noted by the call that submitted them.
    has_unnoted: bool,
}

/// Outcome of one poll.
pub(super) enum FlightState {
    /// It goes on.
    Runs,
    /// Seconds that its applications take.
    Measured(Vec<f64>),
    /// All jobs have ended.
    Ended,
}

/// A shared file system shows what a job wrote some seconds after its end.
const LOOKS_AFTER_END: u32 = 5;

impl Flight {
    /// Submits the jobs of a setting.
    pub(super) fn start(campaign: &Campaign, store: &Store, at: usize, gpu: u16) -> Result<Self, Failure> {
        let setting = &campaign.settings[at];
        let mut flight = Self {
            at,
            gpu: Some(gpu),
            jobs: Vec::new(),
            attempt: store.attempt(at)?,
            placed: false,
            over: 0,
            kept: false,
            has_unnoted: false,
        };
        for side in 0..setting.apps.len() {
            let place = Place { campaign, setting, side, gpu, dir: &flight.attempt.0 };
            let submitted =
                sbatch::submit(&script::words(&place), Some(&script::text(&place)), &script::WITHOUT);
            match submitted {
                Ok(job) => {
                    flight.jobs.push(job);
                    flight.attempt.note(gpu, job)?;
                }
                Err(why) => {
                    flight.cancel();
                    let what = format!("sbatch refuses {}: {why}", campaign.described(setting));
                    return Err(Failure::new(what).hint("options of sbatch may follow --"));
                }
            }
        }
        Ok(flight)
    }

    /// The last attempt at a setting that an earlier call has begun.
    pub(super) fn left(store: &Store, at: usize) -> Option<Self> {
        let attempt = store.attempts(at).pop()?;
        let noted = attempt.jobs();
        let jobs: Vec<u32> = noted.iter().map(|(_, job)| *job).collect();
        let gpu = noted.first().map(|(gpu, _)| *gpu);
        Some(Self { at, gpu, jobs, attempt, placed: false, over: 0, kept: false, has_unnoted: false })
    }

    /// Takes over its jobs that were submitted and not noted: the call that submitted them was killed in between. `outputs`: the
    /// jobs that Slurm knows, with the file to which each writes. Returns whether a job is still missing.
    pub(super) fn take_unnoted(&mut self, campaign: &Campaign, outputs: &[(u32, String)]) -> bool {
        let sides = campaign.settings[self.at].apps.len();
        let is_its = |path: &str| (0..sides).any(|side| self.attempt.output_file(side) == Path::new(path));
        let found = outputs.iter().filter(|(job, path)| !self.jobs.contains(job) && is_its(path));
        let found: Vec<u32> = found.map(|(job, _)| *job).collect();
        // What they measure is not gone on with: which of them is for which application, nobody has noted.
        self.has_unnoted |= !found.is_empty();
        self.jobs.extend(found);
        self.jobs.len() < sides && !self.attempt.is_stopped()
    }

    /// True if an earlier call has left all of its jobs, so that they can be gone on with.
    pub(super) fn is_whole(&self, campaign: &Campaign) -> bool {
        !self.has_unnoted
            && self.jobs.len() == campaign.settings[self.at].apps.len()
            && !self.attempt.is_stopped()
    }

    /// True if a job of it has not ended.
    pub(super) fn lives(&self, known: &HashMap<u32, QueuedJob>) -> bool {
        self.jobs.iter().any(|id| known.get(id).is_some_and(|job| !job.ended()))
    }

    /// True if a job of it may run: one that Slurm shows later ends at once if it finds the attempt stopped.
    pub(super) fn may_live(&self, known: &HashMap<u32, QueuedJob>) -> bool {
        self.lives(known) || !self.attempt.is_stopped()
    }

    /// Looks at its jobs and at what they wrote.
    pub(super) fn look(
        &mut self,
        campaign: &Campaign,
        known: &HashMap<u32, QueuedJob>,
    ) -> Result<FlightState, Failure> {
        let setting = &campaign.settings[self.at];
        let job = |id: &u32| known.get(id);
        let has_ended = |id: &u32| job(id).is_none_or(QueuedJob::ended);
        if self.kept {
            return Ok(if self.jobs.iter().all(has_ended) { FlightState::Ended } else { FlightState::Runs });
        }
        if !self.placed && self.jobs.iter().all(|id| job(id).is_some_and(|job| job.state == "RUNNING")) {
            let jobs: Vec<&QueuedJob> = self.jobs.iter().filter_map(job).collect();
            self.placed = self.are_placed(campaign, &jobs)?;
        }
        let logs = self.attempt.logs(setting.apps.len());
        for (side, log) in logs.iter().enumerate() {
            if let Some(how) = &log.failed {
                return Err(self.failed(campaign, side, how));
            }
            if !log.laps.is_empty() {
                self.has_cap(campaign, side)?;
            }
        }
        let laps: Vec<_> = logs.into_iter().map(|log| log.laps).collect();
        if let Progress::Measured(seconds) = progress(&laps) {
            return Ok(FlightState::Measured(seconds));
        }
        let Some(side) = self.jobs.iter().position(has_ended) else { return Ok(FlightState::Runs) };
        self.over += 1;
        if self.over <= LOOKS_AFTER_END {
            return Ok(FlightState::Runs);
        }
        let state = job(&self.jobs[side]).map_or("it is gone", |job| job.state.as_str());
        Err(self.failed(campaign, side, state))
    }

    /// True if its jobs have ended without enough laps: an earlier call left it, and it has to be begun again.
    pub(super) fn is_lost(&self, campaign: &Campaign, known: &HashMap<u32, QueuedJob>) -> bool {
        let sides = campaign.settings[self.at].apps.len();
        let logs = self.attempt.logs(sides);
        let has_failed = logs.iter().any(|log| log.failed.is_some());
        let laps: Vec<_> = logs.into_iter().map(|log| log.laps).collect();
        let is_measured = matches!(progress(&laps), Progress::Measured(_));
        let has_ended = |id: &u32| known.get(id).is_none_or(QueuedJob::ended);
        has_failed || (!is_measured && self.jobs.iter().any(has_ended))
    }

    /// True if Slurm shows the running jobs as they were submitted. slurmctld writes the comment at once, but
    /// squeue may be asked in between.
    fn are_placed(&self, campaign: &Campaign, jobs: &[&QueuedJob]) -> Result<bool, Failure> {
        let setting = &campaign.settings[self.at];
        if setting.state.is_full() {
            return Ok(true);
        }
        for job in jobs {
            let comment = AdminComment::parse(&job.comment);
            let Some(started) = comment.started() else { return Ok(false) };
            let (node, gpu, watts) = (&campaign.node, self.gpu.unwrap_or_default(), setting.cap.watts());
            if !started.got.starts_with(&format!("{node}=mig:{gpu}/")) {
                let what = format!(
                    "{} is to be on GPU {gpu}, but job {} got {}",
                    campaign.described(setting),
                    job.id,
                    started.got
                );
                return Err(Failure::new(what).hint(format!(
                    "are other jobs on {node}? A reservation keeps them away: -- --reservation=NAME"
                )));
            }
            if !started.got.ends_with(&format!("/cap={watts}")) {
                let what = format!(
                    "{} needs {watts} W, but job {} got {}",
                    campaign.described(setting),
                    job.id,
                    started.got
                );
                return Err(Failure::new(what)
                    .hint("does a power budget of the site limit it? See `tessera power status`"));
            }
        }
        Ok(true)
    }

    /// The node says in the job's output that it could not set a cap.
    fn has_cap(&self, campaign: &Campaign, side: usize) -> Result<(), Failure> {
        let output = self.attempt.output(side);
        let refused = output.lines().find_map(|line| line.split_once("it runs without its power cap: "));
        let Some((_, why)) = refused else { return Ok(()) };
        let setting = &campaign.settings[self.at];
        let what = format!("{} is refused on {}: {why}", setting.cap, campaign.node);
        Err(Failure::new(what).hint("name caps that these GPUs take with --caps"))
    }

    fn failed(&self, campaign: &Campaign, side: usize, how: &str) -> Failure {
        let setting = &campaign.settings[self.at];
        let app = setting.apps.get(side).and_then(|at| campaign.apps.get(*at)).map_or("", |app| &app.name);
        let (job, file) = (self.jobs[side], self.attempt.output_file(side));
        let what = format!("{app} failed in job {job}, {how}: {}", campaign.described(setting));
        Failure::new(what).hint(format!(
            "its output is in {}; what was measured before is kept, the same command goes on",
            file.display()
        ))
    }

    /// Ends its jobs.
    pub(super) fn cancel(&self) {
        self.attempt.stop();
        let ids: Vec<String> = self.jobs.iter().map(u32::to_string).collect();
        if !ids.is_empty() {
            sbatch::cancel(&ids);
        }
    }
}
