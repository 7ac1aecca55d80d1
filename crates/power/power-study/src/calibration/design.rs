//! Which settings a calibration measures.

use std::collections::BTreeMap;

use geometry::Model;

use super::apps::App;
use super::lap::LAPS;
use crate::fit::fit_best;
use crate::runs::{Combination, Run};
use crate::state::State;
use crate::training::FitError;
use power::Cap;
use power::CounterTable;
use power::{Memory, Part};

/// How much is measured. The states are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// Six caps, as in Table 5 of the paper.
    Paper,
    /// The lowest and the highest of them: a first model in a third of the time.
    Small,
}

impl Design {
    /// The caps of the design, W: those of the paper's A100 PCIe.
    #[must_use]
    pub fn caps_w(self) -> &'static [u32] {
        match self {
            Self::Paper => &[150, 170, 190, 210, 230, 250],
            Self::Small => &[150, 250],
        }
    }
}

/// Applications on the parts of a GPU under a cap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The parts; `full` is the reference.
    pub state: State,
    /// The cap. A reference runs without one and is filed under the highest.
    pub cap: Cap,
    /// Applications by index, in the order of the state's parts.
    pub apps: Vec<usize>,
}

impl Setting {
    /// The names of its applications.
    #[must_use]
    pub fn names(&self, apps: &[App]) -> Vec<String> {
        self.apps.iter().filter_map(|at| apps.get(*at)).map(|app| app.name.clone()).collect()
    }

    /// The longest of its applications alone on a whole GPU, seconds.
    fn longest(&self, apps: &[App]) -> f64 {
        self.apps.iter().filter_map(|at| apps.get(*at)).map(|app| app.seconds).fold(0.0, f64::max)
    }

    /// About how long it takes on its GPU, seconds: without knowing better, as if speed followed the compute slices.
    #[must_use]
    pub fn estimate(&self, apps: &[App], gpu: &Model) -> f64 {
        let least = self.state.parts().iter().map(|part| part.slices).min().unwrap_or(gpu.compute_slices);
        let slower = f64::from(gpu.compute_slices) / f64::from(least.max(1));
        // Somebody's first and last lap have nobody beside them.
        let laps = if self.apps.len() > 1 { LAPS + 1 } else { LAPS };
        JOB_SECONDS + f64::from(u32::try_from(laps).unwrap_or(u32::MAX)) * slower * self.longest(apps)
    }

    /// A time limit for its jobs, minutes. Ample: it only ends what nobody waits for any more.
    #[must_use]
    pub fn limit_minutes(&self, apps: &[App], gpu: &Model) -> u32 {
        let minutes = 30.0 + 10.0 * self.estimate(apps, gpu) / 60.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most weeks")]
        let whole = minutes.ceil() as u32;
        whole
    }

    /// Whether a run was made in this setting, whichever side it is written from.
    #[must_use]
    pub fn is_of(&self, run: &Run, apps: &[App]) -> bool {
        Combination::of(&self.state, self.cap, &self.names(apps))
            == Combination::of(&run.state, run.cap, &run.apps)
    }
}

/// What a job takes beside its laps, seconds: to be scheduled, prolog, epilog.
const JOB_SECONDS: f64 = 10.0;

/// The GPU cannot be divided into two parts that use all its compute slices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{gpu} has no two instances that together use all its compute slices")]
pub struct UnevenGpu {
    /// The model's key.
    pub gpu: String,
}

/// The sizes of two parts that use all compute slices, the larger first and as large as possible: 4 and 3 of 7.
fn parts(gpu: &Model) -> Result<[u8; 2], UnevenGpu> {
    let has = |slices: u8| gpu.profiles.iter().any(|p| !p.is_variant() && p.compute_slices == slices);
    let all = gpu.compute_slices;
    let larger = (1..all).rev().find(|first| has(*first) && has(all - first));
    larger.map(|first| [first, all - first]).ok_or_else(|| UnevenGpu { gpu: gpu.key.clone() })
}

/// Every setting of `n_apps` applications under these caps, ascending; references first, then state by state, so that a GPU
/// is seldom divided anew.
///
/// Each application is alone on the part with all compute slices, which [`power_cap::choose_alone`] needs, and on each smaller part.
/// On either side of each state it is beside the next one, and the last beside the first.
///
/// # Errors
///
/// [`UnevenGpu`].
pub fn settings(gpu: &Model, caps: &[Cap], n_apps: usize) -> Result<Vec<Setting>, UnevenGpu> {
    let [first, second] = parts(gpu)?;
    let Some(highest) = caps.iter().max() else { return Ok(Vec::new()) };
    let state = |slices: &[u8], memory| {
        let parts = slices.iter().map(|slices| Part { memory, slices: *slices }).collect();
        State::new(parts).map_err(|_| UnevenGpu { gpu: gpu.key.clone() })
    };
    let alone: Vec<Vec<usize>> = (0..n_apps).map(|at| vec![at]).collect();
    let pairs: Vec<Vec<usize>> = match n_apps {
        0 | 1 => Vec::new(),
        2 => vec![vec![0, 1]],
        _ => (0..n_apps).map(|at| vec![at, (at + 1) % n_apps]).collect(),
    };
    let full = State::new(Vec::new()).map_err(|_| UnevenGpu { gpu: gpu.key.clone() })?;
    let mut all: Vec<Setting> =
        alone.iter().map(|apps| Setting { state: full.clone(), cap: *highest, apps: apps.clone() }).collect();
    let mut states = Vec::new();
    for memory in [Memory::Shared, Memory::Private] {
        states.push((state(&[first], memory)?, &alone));
        states.push((state(&[first, second], memory)?, &pairs));
        if first != second {
            states.push((state(&[second, first], memory)?, &pairs));
            states.push((state(&[second], memory)?, &alone));
        }
    }
    // Last: a calibration from before these were measured goes on, and its directory names settings by their place.
    states.push((state(&[gpu.compute_slices], Memory::Private)?, &alone));
    for (state, groups) in states {
        let of = |cap: &Cap| {
            let (state, cap) = (state.clone(), *cap);
            groups.iter().map(move |apps| Setting { state: state.clone(), cap, apps: apps.clone() })
        };
        all.extend(caps.iter().flat_map(of));
    }
    Ok(all)
}

/// Whether a model could be fitted to these settings: before hours are spent on them.
///
/// # Errors
///
/// As [`crate::fit()`], for instance counters that are missing, or fewer runs than coefficients.
pub fn check(
    gpu: &'static Model,
    counters: &CounterTable,
    apps: &[App],
    settings: &[Setting],
) -> Result<(), FitError> {
    // What the runs measure does not matter for that; references take no part in the fit.
    let run = |setting: &Setting| Run {
        state: setting.state.clone(),
        cap: setting.cap,
        apps: setting.names(apps),
        rperf: vec![1.0; setting.apps.len()],
    };
    let mut distinct: BTreeMap<Combination, Run> = BTreeMap::new();
    for run in settings.iter().map(run) {
        distinct.insert(Combination::of(&run.state, run.cap, &run.apps), run);
    }
    let runs: Vec<Run> = distinct.into_values().collect();
    fit_best(gpu, counters, &runs).map(drop)
}
