//! The extern step of a job, and what the job's devices do while it runs.

use std::time::{Duration, Instant};

use geometry::JobId;
use job_sample::{TrafficWanted, has_devices, sample};
use job_usage::Places;
use step_accounting::{AccountedNode, NotAccounted};

use crate::peaks::Peaks;
use crate::traffic::Traffic;

/// The job whose extern step this daemon serves.
pub(crate) struct SampledJob {
    pub(crate) job: JobId,
    places: Places,
    looked: Option<Instant>,
    /// Time of the last sample.
    sampled: Option<Instant>,
    pub(crate) peaks: Peaks,
    pub(crate) traffic: Traffic,
    /// True if a sample has failed.
    pub(crate) failed: bool,
}

/// Slurm 22.05 asks once for each process that was adopted by the extern step. They are one sample.
const ONE_SAMPLE: Duration = Duration::from_millis(500);

/// The job whose extern step a process with this command line serves. slurmstepd sets `slurmstepd: [4711.extern]`, and from
/// 24.05 on `[4711.extern stepmgr]` where it manages the job's steps.
pub(crate) fn extern_of(command_line: &str) -> Option<JobId> {
    let (title, _) = command_line.split_once("slurmstepd: [")?.1.split_once(']')?;
    let (job, step) = title.split_once('.')?;
    let step = step.split(' ').next()?;
    if step == "extern" { job.parse().ok().map(JobId) } else { None }
}

impl SampledJob {
    /// `node` is the node's name in Slurm.
    pub(crate) fn new(job: JobId, node: &str) -> Result<Self, NotAccounted> {
        let AccountedNode { places, .. } = AccountedNode::find(node)?;
        Ok(Self {
            job,
            places,
            looked: None,
            sampled: None,
            peaks: Peaks::default(),
            traffic: Traffic::default(),
            failed: false,
        })
    }

    /// Looks at the job's devices. For a job without any, no driver is loaded.
    pub(crate) fn look(&mut self, wanted: TrafficWanted) -> Result<(), NotAccounted> {
        if self.looked.is_some_and(|last| last.elapsed() < ONE_SAMPLE) {
            return Ok(());
        }
        let looked = self.sample(wanted);
        // After the look: a driver that answers slowly is not asked all the time.
        self.looked = Some(Instant::now());
        looked
    }

    fn sample(&mut self, wanted: TrafficWanted) -> Result<(), NotAccounted> {
        if !has_devices(&self.places, self.job)? {
            return Ok(());
        }
        // The driver is loaded each time: the daemon of a step lives for days, and a driver that is replaced meanwhile must not be
        // held.
        if let Some(sample) = sample(&self.places, self.job, wanted)? {
            self.peaks.add(&sample);
            let now = Instant::now();
            let last = self.sampled.replace(now).unwrap_or(now);
            self.traffic.add(&sample.traffic, now.saturating_duration_since(last));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_extern_step_is_meant() {
        for own in ["slurmstepd: [4711.extern]\0", "slurmstepd: [4711.extern stepmgr]\0\0"] {
            assert_eq!(extern_of(own), Some(JobId(4711)), "{own}");
        }
        let others = [
            "[4711.batch]",
            "[4711.0]",
            "[x.extern]",
            "[4711.external]",
            "[4711]",
            "[4711.extern",
            "[4711.0 extern]",
        ];
        for other in others.map(|title| format!("slurmstepd: {title}\0")) {
            assert_eq!(extern_of(&other), None, "{other}");
        }
        for other in ["slurmd", ""] {
            assert_eq!(extern_of(other), None, "{other}");
        }
    }
}
