//! Results of a run, in the papers' measures.

use crate::event::RunEvent;
use task_sched::WorkerId;

/// When one job came and went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobTimes {
    /// Number of the job.
    pub job: WorkerId,
    /// When it came, seconds.
    pub arrival: f64,
    /// When it ended, seconds.
    pub end: f64,
    /// True if it ended by a crash or a refusal.
    pub crashed: bool,
}

impl JobTimes {
    /// From arrival to end, seconds.
    #[must_use]
    pub fn turnaround(&self) -> f64 {
        self.end - self.arrival
    }
}

/// Measures of one run. Crashed and refused jobs count in `crashed` and in nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// All jobs.
    pub jobs: usize,
    /// Jobs that crashed or were refused.
    pub crashed: usize,
    /// Last end less first arrival, seconds.
    pub makespan: f64,
    /// Finished jobs per second of the makespan.
    pub throughput: f64,
    /// Mean time from arrival to end, seconds.
    pub turnaround_mean: f64,
    /// Mean time from begin to grant of the granted tasks, seconds.
    pub wait_mean: f64,
    /// The longest such time.
    pub wait_max: f64,
    /// Promised memory over the devices' capacity, mean over the makespan.
    pub mem_util: f64,
    /// Warps over the devices' capacity, each device's capped at what it holds, mean over the makespan.
    pub warp_util: f64,
    /// Part of the time in which kernels hold the devices, mean over devices and makespan: what `nvidia-smi` and CASE's
    /// Figs. 7 and 9 call utilisation.
    pub busy_util: f64,
    /// Mean of a task's duration over its seconds alone, less 1.
    pub slowdown_mean: f64,
}

/// A run: its events in order, its jobs in theirs, its measures.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Events of the run.
    pub events: Vec<RunEvent>,
    /// Times of each job, in the jobs' order.
    pub jobs: Vec<JobTimes>,
    /// The measures.
    pub summary: Summary,
}

/// A run measured by another, greater is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Versus {
    /// Throughput over the other's; `None` where the other finished no job.
    pub throughput: Option<f64>,
    /// The other's turnaround over this one's, mean over the jobs that finished in both; `None` without such a job.
    pub turnaround: Option<f64>,
}

impl Outcome {
    /// Measures this run by `base`, a run of the same jobs.
    #[must_use]
    pub fn versus(&self, base: &Outcome) -> Versus {
        let both = self.jobs.iter().zip(&base.jobs).filter(|(a, b)| !a.crashed && !b.crashed);
        let ratios = both.filter(|(a, _)| a.turnaround() > 0.0).map(|(a, b)| b.turnaround() / a.turnaround());
        let (own, other) = (self.summary.throughput, base.summary.throughput);
        Versus { throughput: (other > 0.0).then(|| own / other), turnaround: mean_of(ratios) }
    }
}

/// The mean, 0 of nothing.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    mean_of(values).unwrap_or(0.0)
}

fn mean_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    (n > 0.0).then(|| sum / n)
}
