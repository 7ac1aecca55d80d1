//! Sums of a job's traffic. Pure.

use std::time::Duration;

use job_sample::BothWays;
use job_sample::GpuTraffic;

use crate::peaks::TresValue;

const MOST_GPUS: usize = 64;

/// The traffic of a job's GPUs on this node so far, bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// The last sample of each GPU.
    last: Vec<GpuTraffic>,
    /// Over NVLink since the first sample; `None`: no GPU was counted twice.
    nvlink: Option<BothWays>,
    /// Over PCIe, as the samples let expect it; `None`: no GPU was sampled twice.
    pcie: Option<BothWays>,
}

impl Traffic {
    /// Adds a sample. `passed`: the time since the one before.
    pub(crate) fn add(&mut self, sample: &[GpuTraffic], passed: Duration) {
        for now in sample {
            let Some(last) = self.last.iter_mut().find(|last| last.uuid == now.uuid) else {
                if self.last.len() < MOST_GPUS {
                    self.last.push(now.clone());
                }
                continue;
            };
            if let (Some(before), Some(after)) = (last.nvlink, now.nvlink) {
                self.nvlink = Some(sum(self.nvlink, since(before, after)));
            }
            if let Some(rate) = now.pcie_rate {
                self.pcie = Some(sum(self.pcie, over(rate, passed)));
            }
            // A counter that does not answer for once goes on from where it was.
            last.nvlink = now.nvlink.or(last.nvlink);
        }
    }

    /// Bytes over NVLink: in, received; out, sent.
    pub(crate) fn nvlink(&self) -> Option<TresValue> {
        self.nvlink.map(value)
    }

    /// Bytes over PCIe, an estimate: in, received; out, sent.
    pub(crate) fn pcie(&self) -> Option<TresValue> {
        self.pcie.map(value)
    }
}

/// Slurm's own words for numbers that it does not have begin here.
const MOST: u64 = 1 << 62;

fn value(bytes: BothWays) -> TresValue {
    TresValue { usage_in: bytes.received.min(MOST), usage_out: bytes.sent.min(MOST) }
}

fn both(a: BothWays, b: BothWays, of: impl Fn(u64, u64) -> u64) -> BothWays {
    BothWays { sent: of(a.sent, b.sent), received: of(a.received, b.received) }
}

fn sum(so_far: Option<BothWays>, more: BothWays) -> BothWays {
    both(so_far.unwrap_or_default(), more, u64::saturating_add)
}

/// Growth of counters. One that is lower than before has begun again at 0, with the driver.
fn since(before: BothWays, after: BothWays) -> BothWays {
    both(before, after, |before, after| after.checked_sub(before).unwrap_or(after))
}

/// Bytes of a rate, bytes per second, over a time.
fn over(rate: BothWays, passed: Duration) -> BothWays {
    let bytes = |rate: u64| {
        u64::try_from(u128::from(rate).saturating_mul(passed.as_millis()) / 1000).unwrap_or(u64::MAX)
    };
    BothWays { sent: bytes(rate.sent), received: bytes(rate.received) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn both_ways(sent: u64, received: u64) -> BothWays {
        BothWays { sent, received }
    }

    fn gpu(uuid: &str, nvlink: Option<(u64, u64)>, rate: Option<(u64, u64)>) -> GpuTraffic {
        let both = |pair: Option<(u64, u64)>| pair.map(|(sent, received)| both_ways(sent, received));
        GpuTraffic { uuid: uuid.to_owned(), nvlink: both(nvlink), pcie_rate: both(rate) }
    }

    fn told(traffic: &Traffic) -> [Option<(u64, u64)>; 2] {
        [traffic.nvlink(), traffic.pcie()].map(|value| value.map(|value| (value.usage_out, value.usage_in)))
    }

    #[test]
    fn counters_add_up_from_the_first_sample_on() {
        let mut traffic = Traffic::default();
        traffic.add(&[gpu("a", Some((1000, 7)), None), gpu("b", Some((5, 5)), None)], SECOND);
        assert_eq!(told(&traffic), [None, None], "what was counted before the job is not the job's");
        traffic.add(&[gpu("a", Some((1100, 9)), None), gpu("b", None, None)], SECOND);
        assert_eq!(told(&traffic), [Some((100, 2)), None]);
        traffic.add(&[gpu("a", Some((1100, 9)), None), gpu("b", Some((6, 5)), None)], SECOND);
        assert_eq!(told(&traffic), [Some((101, 2)), None], "a sample that failed loses nothing");
        traffic.add(&[gpu("a", Some((30, 10)), None)], SECOND);
        assert_eq!(told(&traffic), [Some((131, 3)), None], "the driver was loaded again");
    }

    #[test]
    fn rates_count_for_the_time_since_the_sample_before() {
        let mut traffic = Traffic::default();
        traffic.add(&[gpu("a", None, Some((900, 900)))], SECOND);
        assert_eq!(told(&traffic), [None, None]);
        traffic.add(&[gpu("a", None, Some((100, 10)))], 30 * SECOND);
        traffic.add(&[gpu("a", None, None)], 30 * SECOND);
        traffic.add(&[gpu("a", None, Some((0, 0)))], 30 * SECOND);
        assert_eq!(told(&traffic), [None, Some((3000, 300))]);
    }

    #[test]
    fn sums_end_below_what_slurm_reserves_and_gpus_are_bounded() {
        let mut traffic = Traffic::default();
        for most in [0, u64::MAX, 0, u64::MAX] {
            traffic.add(&[gpu("a", Some((most, most)), Some((most, most)))], SECOND);
        }
        assert_eq!(told(&traffic), [Some((MOST, MOST)); 2]);
        let many: Vec<GpuTraffic> = (0..1000).map(|n| gpu(&n.to_string(), Some((0, 0)), None)).collect();
        traffic.add(&many, SECOND);
        assert_eq!(traffic.last.len(), MOST_GPUS);
    }
}
