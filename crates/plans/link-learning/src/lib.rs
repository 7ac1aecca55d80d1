//! Learns from the traffic of past jobs whether the next one gains from faster links.
//!
//! A job whose GPUs each send `r` bytes per second spends at most the part `r/b` of its time on links that carry `b`. So faster links
//! save at most that part. The slowest links between two GPUs, PCIe, carry 10 GB/s in Tessera's tables. A job below 0.5 GB/s for each
//! GPU therefore gains at most 5 % from any links, and counts as insensitive. The bound holds for a job that was measured on
//! faster links, too: on slower ones it takes longer and sends the same. It holds for traffic that is even: the accounting has one sum for
//! all GPUs of a job, so the rate is their mean. If one of eight GPUs sends everything, it may send 4 GB/s.
//!
//! Counted is what GPUs send: over NVLink to other GPUs, over PCIe to other GPUs and the host. The host's part makes the number too
//! large, never too small, so a job that loads much data may count as sensitive, as an unknown job does. A count of one kind of link alone
//! may be too small: it can show that a job is sensitive, never that it is not.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests"))]

use protocol::Bandwidth;

/// Traffic of one GPU from which on a job counts as sensitive, bytes per second.
pub const SENSITIVE_FROM: u64 = 500_000_000;
/// A shorter run says nothing: much of it is the program's start.
pub const LEAST_S: u64 = 60;
/// Fewer runs say nothing.
pub const LEAST_RUNS: usize = 3;
/// Runs that count, from the newest on.
pub const MOST_RUNS: usize = 16;

/// Run of a job, as accounting has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedRun {
    /// GPUs on all of its nodes together.
    pub gpus: u64,
    /// Length, seconds.
    pub seconds: u64,
    /// Bytes that all of its GPUs have sent.
    pub sent: SentBytes,
}

/// Sum of bytes that GPUs have sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentBytes {
    /// Bytes over the links that were counted.
    pub counted: u64,
    /// True if both NVLink and PCIe were counted: otherwise the GPUs may have sent more.
    pub all: bool,
}

impl SentBytes {
    /// Adds up the bytes sent over both kinds of links; `None`: neither was counted.
    #[must_use]
    pub fn of(nvlink: Option<u64>, pcie: Option<u64>) -> Option<Self> {
        let counted = [nvlink, pcie].into_iter().flatten().reduce(u64::saturating_add)?;
        Some(Self { counted, all: nvlink.is_some() && pcie.is_some() })
    }

    /// Adds the bytes of another step of the same job.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { counted: self.counted.saturating_add(other.counted), all: self.all && other.all }
    }
}

impl CountedRun {
    /// Bytes per second that one of its GPUs sent on average. `None`: it says nothing about links, because it was too short or had one GPU.
    #[must_use]
    pub fn rate(&self) -> Option<u64> {
        (self.gpus >= 2 && self.seconds >= LEAST_S)
            .then(|| self.sent.counted / self.gpus.saturating_mul(self.seconds).max(1))
    }

    /// Gives the word that follows from this run alone. `None`: it says nothing, also if it is low and not all was counted.
    #[must_use]
    pub fn says(&self) -> Option<Bandwidth> {
        self.rate().map(of).filter(|word| *word == Bandwidth::Sensitive || self.sent.all)
    }
}

fn of(rate: u64) -> Bandwidth {
    if rate < SENSITIVE_FROM { Bandwidth::Insensitive } else { Bandwidth::Sensitive }
}

/// Learns from the runs of jobs that count as the same program, the newest first. `None`: they are too few, or do not agree.
///
/// A job that counts as insensitive without being so gets slower GPUs, and the opposite error takes good links from others. So
/// *insensitive* needs all of the runs, and *sensitive* half of them.
#[must_use]
pub fn learn(newest_first: impl IntoIterator<Item = CountedRun>) -> Option<Bandwidth> {
    let counted = newest_first.into_iter().filter(|run| run.rate().is_some()).take(MOST_RUNS);
    let says: Vec<Option<Bandwidth>> = counted.map(|run| run.says()).collect();
    let number = |word| says.iter().filter(|says| **says == Some(word)).count();
    let (low, high) = (number(Bandwidth::Insensitive), number(Bandwidth::Sensitive));
    match (low + high, high) {
        (..LEAST_RUNS, _) => None,
        (_, 0) => Some(Bandwidth::Insensitive),
        // A low run of which only a part was counted is none of those that are high.
        _ if high * 2 >= says.len() => Some(Bandwidth::Sensitive),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(rate: u64) -> CountedRun {
        CountedRun { gpus: 4, seconds: 100, sent: SentBytes { counted: rate * 400, all: true } }
    }

    #[test]
    fn a_run_that_says_nothing_about_links_counts_for_nothing() {
        assert_eq!(run(7).rate(), Some(7));
        for silent in [CountedRun { gpus: 1, ..run(7) }, CountedRun { seconds: LEAST_S - 1, ..run(7) }] {
            assert_eq!((silent.rate(), learn([silent; 9])), (None, None));
        }
        let sent = SentBytes { counted: u64::MAX, all: true };
        assert_eq!(CountedRun { gpus: u64::MAX, seconds: u64::MAX, sent }.rate(), Some(1));
    }

    #[test]
    fn low_runs_that_were_counted_in_part_are_no_high_ones() {
        let low = CountedRun { sent: SentBytes { counted: 7, all: false }, ..run(7) };
        let runs = |high| std::iter::repeat_n(run(SENSITIVE_FROM), high).chain([low; 8]);
        assert_eq!([3, 7, 8].map(|high| learn(runs(high))), [None, None, Some(Bandwidth::Sensitive)]);
    }

    #[test]
    fn one_kind_of_traffic_alone_never_makes_a_job_insensitive() {
        let says = |nvlink: Option<u64>, pcie: Option<u64>| {
            let sent = SentBytes::of(nvlink, pcie)?;
            learn([CountedRun { gpus: 4, seconds: 100, sent }; 3])
        };
        let high = 400 * SENSITIVE_FROM;
        assert_eq!(
            says(Some(0), Some(9)),
            Some(Bandwidth::Insensitive),
            "GPUs without NVLink send 0 over it"
        );
        // GPUs with NVLinks that nobody counts, and a pair that PCIe alone joins.
        assert_eq!((says(None, Some(9)), says(Some(9), None), says(None, None)), (None, None, None));
        for sent in [(None, Some(high)), (Some(high), None), (Some(high / 2), Some(high / 2))] {
            assert_eq!(says(sent.0, sent.1), Some(Bandwidth::Sensitive), "{sent:?}");
        }
        let both = SentBytes::of(Some(1), Some(2)).unwrap();
        let one = SentBytes::of(None, Some(4)).unwrap();
        assert_eq!((both.and(both).all, both.and(one)), (true, SentBytes { counted: 7, all: false }));
    }

    #[test]
    fn insensitive_needs_all_runs_and_sensitive_half() {
        let (low, high) = (run(SENSITIVE_FROM - 1), run(SENSITIVE_FROM));
        assert_eq!(learn([low; 2]), None, "too few");
        assert_eq!(learn([low; 3]), Some(Bandwidth::Insensitive));
        assert_eq!(learn([low, low, high]), None);
        assert_eq!(learn([low, high, high, low]), Some(Bandwidth::Sensitive));
        assert_eq!(
            learn([low; MOST_RUNS].into_iter().chain([high])),
            Some(Bandwidth::Insensitive),
            "long ago"
        );
    }

    /// A job that computes for a second and then sends so much, over links of these rates, bytes per second.
    fn seconds(sent: f64, link: f64) -> f64 {
        1.0 + sent / link
    }

    proptest! {
        /// The bound of the module: what counts as insensitive gains at most 5 % from any links, wherever it was measured.
        #[test]
        fn an_insensitive_job_gains_little(sent in 0.0..3e10, measured in 1e10..9e11, better in 1e10..9e11) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "far below 2^53")]
            let rate = (sent / seconds(sent, measured)) as u64;
            if of(rate) == Bandwidth::Insensitive {
                let gain = 1.0 - seconds(sent, better) / seconds(sent, 1e10);
                prop_assert!(gain <= 0.05 + 1e-6, "{gain}");
            }
        }

        #[test]
        fn more_traffic_never_makes_a_job_insensitive(
            rates in prop::collection::vec(0_u64..2 * SENSITIVE_FROM, 1..30), more in 0_u64..SENSITIVE_FROM, at: prop::sample::Index,
        ) {
            let before = learn(rates.iter().map(|rate| run(*rate)));
            let mut raised = rates.clone();
            raised[at.index(rates.len())] += more;
            let after = learn(raised.iter().map(|rate| run(*rate)));
            prop_assert!(after != Some(Bandwidth::Insensitive) || before == Some(Bandwidth::Insensitive));
            prop_assert!(before != Some(Bandwidth::Sensitive) || after == Some(Bandwidth::Sensitive));
        }

        #[test]
        fn the_order_of_recent_runs_does_not_matter(mut rates in prop::collection::vec(0_u64..2 * SENSITIVE_FROM, 0..=MOST_RUNS)) {
            let before = learn(rates.iter().map(|rate| run(*rate)));
            rates.reverse();
            prop_assert_eq!(learn(rates.iter().map(|rate| run(*rate))), before);
        }
    }
}
