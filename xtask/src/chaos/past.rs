//! Recent faults of the cluster, and what they may still explain.

use std::fs;
use std::time::Duration;

use super::plan::Fault;
use super::run::ChaosRun;
use super::seen::Job;
use super::wounds::clock_is_behind;

/// A prolog that has met a fault may end this long after the fault.
const LATE: Duration = Duration::from_secs(60);

/// A job that begins this long after a fault was mended does not meet it any more.
const AT_ONCE: Duration = Duration::from_secs(5);

impl ChaosRun<'_> {
    /// The fault in force, and those whose effects may still come.
    pub(super) fn recent(&self) -> impl Iterator<Item = &Fault> + Clone {
        self.within(LATE)
    }

    /// The fault in force, and those mended no longer ago than this.
    pub(super) fn within(&self, time: Duration) -> impl Iterator<Item = &Fault> + Clone {
        let late = self.past.iter().filter(move |(_, mended)| mended.moment.elapsed() < time);
        late.map(|(fault, _)| fault).chain(&self.fault)
    }

    /// Lists the recent faults that a job has met: it began before they were mended, or at once afterwards.
    pub(super) fn met(&self, job: &Job) -> impl Iterator<Item = &Fault> {
        let start = job.start.unwrap_or(0);
        let late = self.past.iter().filter(|(_, mended)| mended.moment.elapsed() < LATE);
        let met = late.filter(move |(_, mended)| start <= mended.second + AT_ONCE.as_secs());
        met.map(|(fault, _)| fault).chain(&self.fault)
    }

    /// The second slurmctld's log.
    pub(super) fn read_second_log(&self) -> Vec<u8> {
        fs::read(self.cluster.layout().log("slurmctld-backup")).unwrap_or_default()
    }

    /// True if the second slurmctld was in charge during the last two faults: also when the first one came back too late.
    pub(super) fn has_second_led(&self) -> bool {
        let log = self.read_second_log();
        let fresh = log.get(self.second_log[0]..).unwrap_or_default();
        String::from_utf8_lossy(fresh).contains("Running as primary controller")
    }

    /// True if slurmctld's clock was set back, and has not caught up.
    pub(super) fn clock_is_behind(&self) -> bool {
        let past = self.past.iter().map(|(fault, mended)| (fault, Some(mended.moment.elapsed())));
        let all = past.chain(self.fault.iter().map(|fault| (fault, None)));
        all.into_iter().any(|(fault, since)| clock_is_behind(fault, since))
    }
}
