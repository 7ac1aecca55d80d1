//! A job that this process answers for, and what the job's devices do while it runs.

use std::time::{Duration, Instant};

use geometry::JobId;
use job_sample::{TrafficWanted, has_devices, sample};
use job_usage::Places;
use step_accounting::{AccountedNode, NotAccounted};

use crate::peaks::Peaks;
use crate::traffic::Traffic;
use crate::turn::{SlurmsEntries, Turn};

/// The job of the step that this daemon serves.
pub(crate) struct SampledJob {
    pub(crate) job: JobId,
    pub(crate) turn: Turn,
    places: Places,
    looked: Option<Instant>,
    /// Time of the last sample.
    sampled: Option<Instant>,
    pub(crate) peaks: Peaks,
    pub(crate) traffic: Traffic,
    /// True if a sample has failed.
    pub(crate) failed: bool,
    pub(crate) slurms: SlurmsEntries,
}

/// Slurm 22.05 asks once for each process that was adopted by the extern step, and `sstat` makes every Slurm ask. They are one sample.
const ONE_SAMPLE: Duration = Duration::from_millis(500);

impl SampledJob {
    /// `node` is the node's name in Slurm.
    pub(crate) fn new(job: JobId, turn: Turn, node: &str) -> Result<Self, NotAccounted> {
        let AccountedNode { places, .. } = AccountedNode::find(node)?;
        Ok(Self {
            job,
            turn,
            places,
            looked: None,
            sampled: None,
            peaks: Peaks::default(),
            traffic: Traffic::default(),
            failed: false,
            slurms: SlurmsEntries::default(),
        })
    }

    /// Looks at the job's devices. For a job without any, no driver is loaded. False: nothing is to be answered here.
    pub(crate) fn look(&mut self, wanted: TrafficWanted) -> Result<bool, NotAccounted> {
        if !self.turn.asked_first() {
            return Ok(false);
        }
        if self.looked.is_some_and(|last| last.elapsed() < ONE_SAMPLE) {
            return Ok(true);
        }
        let looked = self.sample(wanted);
        // After the look: a driver that answers slowly is not asked all the time.
        self.looked = Some(Instant::now());
        looked
    }

    fn sample(&mut self, wanted: TrafficWanted) -> Result<bool, NotAccounted> {
        if !has_devices(&self.places, self.job)? || !self.turn.is_own() {
            return Ok(false);
        }
        // The driver is loaded each time: the daemon of a step lives for days, and a driver that is replaced meanwhile must not be
        // held.
        if let Some(sample) = sample(&self.places, self.job, wanted)? {
            self.peaks.add(&sample);
            let now = Instant::now();
            let last = self.sampled.replace(now).unwrap_or(now);
            self.traffic.add(&sample.traffic, now.saturating_duration_since(last));
        }
        Ok(true)
    }
}
