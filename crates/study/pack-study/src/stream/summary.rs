//! Results of a stream under a rule.

use replay::Instances;

/// Summary of the jobs that were submitted after the warm-up. Times in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamSummary {
    /// Jobs that were submitted.
    pub submitted: usize,
    /// Jobs that started.
    pub accepted: usize,
    /// Part of the GPU time asked for that jobs which started had, an instance counting as its part of a GPU; `None`: jobs asked
    /// for nothing but shares.
    pub gpu_time_accepted: Option<f64>,
    /// Mean wait of those that started.
    pub wait_mean: f64,
    /// The wait that nine of ten did not exceed.
    pub wait_p90: f64,
    /// GPUs with jobs, mean over the time from the warm-up to the last submission.
    pub opened_mean: f64,
    /// Instances made, unmade and used again.
    pub instances: Instances,
    /// Jobs of one instance that started while an idle one of their profile was on some node with cores for them.
    pub reusable: usize,
    /// Jobs that got an idle instance.
    pub reused: usize,
    /// Predicted bandwidth of bandwidth-sensitive sets of several GPUs, mean, GB/s; `None`: there was none.
    pub bandwidth_mean: Option<f64>,
    /// Jobs for all GPUs of a node that were submitted.
    pub whole_node_submitted: usize,
    /// Jobs that started.
    pub whole_node_accepted: usize,
    /// Their mean wait.
    pub whole_node_wait_mean: f64,
    /// Jobs that were moved, each by an end and a new start.
    pub moved: usize,
}

/// Sums that make a summary.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) summary: StreamSummary,
    pub(crate) gpu_s_asked: f64,
    pub(crate) gpu_s_accepted: f64,
    pub(crate) waits_ms: Vec<u64>,
    pub(crate) whole_waits_ms: Vec<u64>,
    pub(crate) bandwidths: Vec<f64>,
    /// GPUs with jobs, times ms.
    pub(crate) opened: u128,
    pub(crate) opened_ms: u64,
}

impl Sums {
    pub(crate) fn finish(mut self) -> StreamSummary {
        self.waits_ms.sort_unstable();
        let last = self.waits_ms.len().saturating_sub(1);
        let p90 = self.waits_ms.get(last - last / 10).copied().unwrap_or(0);
        StreamSummary {
            accepted: self.waits_ms.len(),
            gpu_time_accepted: (self.gpu_s_asked > 0.0).then(|| self.gpu_s_accepted / self.gpu_s_asked),
            wait_mean: mean(self.waits_ms.iter().map(|ms| seconds(*ms))).unwrap_or(0.0),
            wait_p90: seconds(p90),
            opened_mean: if self.opened_ms == 0 { 0.0 } else { ratio(self.opened, self.opened_ms) },
            bandwidth_mean: mean(self.bandwidths.iter().copied()),
            whole_node_accepted: self.whole_waits_ms.len(),
            whole_node_wait_mean: mean(self.whole_waits_ms.iter().map(|ms| seconds(*ms))).unwrap_or(0.0),
            ..self.summary
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "sums of a run are far below 2^52")]
fn ratio(sum: u128, of: u64) -> f64 {
    sum as f64 / of as f64
}

/// Milliseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "a run takes far less than 2^52 ms")]
pub(crate) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    (n > 0.0).then(|| sum / n)
}
