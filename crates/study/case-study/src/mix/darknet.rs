//! CASE's neural networks.

use super::draw::Draw;
use crate::sim::{Job, Phase};
use task_sched::Bytes;
use task_sched::{Need, WorkerId};

/// The four jobs of CASE Table 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Darknet {
    /// Image classification.
    Predict,
    /// Object detection.
    Detect,
    /// Text generation.
    Generate,
    /// Training.
    Train,
}

/// Jobs of one workload of Fig. 8, all on one GPU under `SchedGPU`, two per GPU under CASE.
const ALIKE: f64 = 8.0;

/// CASE Table 8 and Fig. 8, by network: jobs per second of `SchedGPU`, and CASE's throughput over it.
pub(crate) const FIG8: [(&str, f64, f64); 4] =
    [("predict", 0.042, 1.4), ("detect", 0.093, 1.0), ("generate", 0.037, 3.1), ("train", 0.013, 2.2)];

/// Section 5.3 says 0.5 to 1.5 GB; which network needs how much is not printed.
const MEMORY: Bytes = Bytes(1_000_000_000);

impl Darknet {
    /// All four.
    pub const ALL: [Darknet; 4] = [Darknet::Predict, Darknet::Detect, Darknet::Generate, Darknet::Train];

    /// Returns its name in the paper, lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Darknet::Predict => "predict",
            Darknet::Detect => "detect",
            Darknet::Generate => "generate",
            Darknet::Train => "train",
        }
    }

    /// Jobs per second of `SchedGPU` (Table 8), and CASE's throughput over it (Fig. 8).
    fn printed(self) -> (f64, f64) {
        let found = FIG8.iter().find(|(name, ..)| *name == self.name());
        found.map_or((1.0, 1.0), |(_, rate, gain)| (*rate, *gain))
    }

    /// The demand `d` with which eight tasks on one GPU take `gain` times as long as two per GPU:
    /// `1 + 7 d = gain (1 + d)`.
    #[must_use]
    pub fn demand(self) -> f64 {
        let (_, gain) = self.printed();
        (gain - 1.0) / (ALIKE - 1.0 - gain)
    }

    /// Seconds alone, so that eight tasks on one GPU end at Table 8's rate.
    #[must_use]
    pub fn seconds(self) -> f64 {
        let (rate, _) = self.printed();
        ALIKE / rate / (1.0 + (ALIKE - 1.0) * self.demand())
    }

    fn job(self, id: u64) -> Option<Job> {
        // The grids are not printed. All are taken to be alike, so that only the number of tasks counts.
        let need = Need::new(MEMORY, 4096, 512).ok()?;
        Some(Job {
            id: WorkerId(id),
            name: self.name().to_owned(),
            arrival: 0.0,
            isolated: false,
            mem: MEMORY,
            phases: vec![Phase::Gpu { seconds: self.seconds(), need, demand: self.demand() }],
        })
    }
}

/// `n` jobs of one kind; Fig. 8 has 8.
#[must_use]
pub fn darknet(kind: Darknet, n: u64) -> Vec<Job> {
    (0..n).filter_map(|id| kind.job(id)).collect()
}

/// `n` jobs of random kinds; section 5.3 has 128.
#[must_use]
pub fn darknet_mix(n: u64, seed: u64) -> Vec<Job> {
    let mut draw = Draw::new(seed);
    (0..n).filter_map(|id| draw.pick(&Darknet::ALL)?.job(id)).collect()
}
