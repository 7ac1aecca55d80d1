//! Sums and peaks of a job's samples. Pure.

use job_sample::Sample;

/// The samples of a job on this node so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peaks {
    /// The most memory of all its devices together, bytes; `None`: no sample told it.
    memory: Option<u64>,
    /// The most memory of one device, bytes.
    largest: u64,
    /// Utilisations in percent: the highest, their sum, their number.
    busy: Option<(u32, u64, u64)>,
    /// Number of samples that told something.
    samples: u32,
}

/// With fewer samples, nothing in use says nothing. With `JobAcctGatherFrequency=0`, or in a short job, Slurm asks before the
/// job's first process and after its last one.
const ENOUGH: u32 = 4;

/// A value as Slurm's accounting takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TresValue {
    /// For `TRESUsageIn…`.
    pub(crate) usage_in: u64,
    /// For `TRESUsageOut…`.
    pub(crate) usage_out: u64,
}

impl Peaks {
    pub(crate) fn add(&mut self, sample: &Sample) {
        if *sample == Sample::default() {
            return;
        }
        self.samples = self.samples.saturating_add(1);
        if !sample.memory.is_empty() {
            self.memory = self.memory.max(Some(sample.memory.iter().sum()));
            self.largest = sample.memory.iter().copied().fold(self.largest, u64::max);
        }
        if let Some(percent) = sample.busy_percent {
            let (most, sum, n) = self.busy.unwrap_or_default();
            self.busy = Some((most.max(percent), sum + u64::from(percent), n + 1));
        }
    }

    /// Memory, bytes: in, the most of all devices together; out, the most of one device.
    pub(crate) fn memory(&self) -> Option<TresValue> {
        let usage_in = self.memory.filter(|most| self.tells(*most))?;
        Some(TresValue { usage_in, usage_out: self.largest })
    }

    /// Utilisation, percent: in, the highest; out, the mean of the samples.
    pub(crate) fn busy(&self) -> Option<TresValue> {
        let (most, sum, n) = self.busy.filter(|(most, ..)| self.tells(u64::from(*most)))?;
        Some(TresValue { usage_in: u64::from(most), usage_out: sum / n })
    }

    /// Tells whether a peak of this much says something.
    fn tells(&self, most: u64) -> bool {
        most > 0 || self.samples >= ENOUGH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(memory: &[u64], busy_percent: Option<u32>) -> Sample {
        Sample { memory: memory.to_vec(), busy_percent, ..Sample::default() }
    }

    #[test]
    fn memory_is_the_most_at_one_time() {
        let mut peaks = Peaks::default();
        assert_eq!((peaks.memory(), peaks.busy()), (None, None));
        for memory in [[5, 1], [2, 6], [3, 3]] {
            peaks.add(&sample(&memory, None));
        }
        assert_eq!(peaks.memory(), Some(TresValue { usage_in: 8, usage_out: 6 }));
        assert_eq!(peaks.busy(), None, "no sample told it");
    }

    #[test]
    fn a_sample_that_tells_nothing_changes_nothing() {
        let mut peaks = Peaks::default();
        peaks.add(&sample(&[7], Some(90)));
        let before = peaks.clone();
        peaks.add(&Sample::default());
        assert_eq!(peaks, before);
        peaks.add(&sample(&[0], Some(10)));
        assert_eq!(peaks.memory(), Some(TresValue { usage_in: 7, usage_out: 7 }));
        assert_eq!(peaks.busy(), Some(TresValue { usage_in: 90, usage_out: 50 }));
    }

    #[test]
    fn nothing_in_use_is_told_once_the_job_was_seen_often_enough() {
        let mut peaks = Peaks::default();
        for _ in 1..ENOUGH {
            peaks.add(&sample(&[0], Some(0)));
            assert_eq!((peaks.memory(), peaks.busy()), (None, None));
        }
        peaks.add(&sample(&[0], Some(0)));
        let none = Some(TresValue { usage_in: 0, usage_out: 0 });
        assert_eq!((peaks.memory(), peaks.busy()), (none, none));
    }

    #[test]
    fn a_job_that_used_something_is_told_at_once() {
        let mut peaks = Peaks::default();
        peaks.add(&sample(&[5], Some(0)));
        assert_eq!((peaks.memory(), peaks.busy()), (Some(TresValue { usage_in: 5, usage_out: 5 }), None));
    }
}
