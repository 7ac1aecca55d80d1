//! GPM: samples of the counters that the driver keeps for a GPU and for each GPU instance, and what two of them say.
//!
//! Here the counters are those of [`super::meter`]. Facts from nvml.h 13 and NVML's reference, "GPM Functions": for Hopper and later;
//! two samples of one device give a mean over the time between them, which should be more than 100 ms; metric 1 is the part of
//! the time in which a program was active, metric 2 the part of the SMs that were busy, both in percent.

use super::activity::WHOLE;
use super::code::{Answer, Code};
use super::meter::{Busy, Reading};
use super::session::Session;
use super::state::State;

/// First compute capability with GPM: Hopper's.
const FIRST_CC: i32 = 9;
/// Samples that are no further apart say nothing: the driver renews its counters this seldom. What it answers then is not
/// documented. The simulator answers that it has no data.
const REFRESH_NS: u64 = 100_000_000;

/// `NVML_GPM_METRIC_GRAPHICS_UTIL`.
const GRAPHICS_UTIL: u32 = 1;
/// `NVML_GPM_METRIC_SM_UTIL`.
const SM_UTIL: u32 = 2;

/// The counters of a GPU or a GPU instance at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    gpu: u32,
    /// Id and serial number of the GPU instance.
    gi: Option<(u32, u16)>,
    at_ns: u64,
    busy: Busy,
}

impl State {
    /// Whether a GPU has GPM.
    ///
    /// # Errors
    ///
    /// There is no such GPU, as for [`State::gpu`].
    pub fn has_gpm(&self, gpu: u32) -> Answer<bool> {
        Ok(self.chip(gpu)?.board.cc[0] >= FIRST_CC)
    }
}

impl Session {
    /// The counters of a GPU, or of the GPU instance with this id.
    ///
    /// # Errors
    ///
    /// [`Code::NotSupported`] before Hopper; [`Code::NotFound`] if there is no such instance; as of [`super::store::Store::integrate`].
    pub fn gpm_sample(&self, state: &State, gpu: u32, gi: Option<u32>) -> Answer<Sample> {
        if !state.has_gpm(gpu)? {
            return Err(Code::NotSupported);
        }
        let found = |id| {
            let gi = state.gpu(gpu)?.instances.iter().find(|gi| gi.id == id).ok_or(Code::NotFound)?;
            Ok((id, gi.serial))
        };
        let gi = gi.map(found).transpose()?;
        let slot = gi.map_or(WHOLE, |(id, _)| id as usize);
        let reading: Reading =
            self.store.integrate(state)?.get(gpu as usize).copied().ok_or(Code::InvalidArgument)?;
        let busy = reading.busy.get(slot).copied().ok_or(Code::NotFound)?;
        Ok(Sample { gpu, gi, at_ns: reading.at_ns, busy })
    }
}

/// A metric over the time between two samples, percent.
///
/// # Errors
///
/// [`Code::InvalidArgument`] for samples of different devices or in the wrong order; [`Code::NotSupported`] for a metric that is
/// not simulated; [`Code::NoData`] for samples that are too close.
pub fn metric(first: &Sample, second: &Sample, id: u32) -> Answer<f64> {
    if (first.gpu, first.gi) != (second.gpu, second.gi) {
        return Err(Code::InvalidArgument);
    }
    let passed_ns = second.at_ns.checked_sub(first.at_ns).ok_or(Code::InvalidArgument)?;
    let busy = |of: fn(&Busy) -> u64| of(&second.busy).saturating_sub(of(&first.busy));
    let busy_ns = match id {
        GRAPHICS_UTIL => busy(|busy| busy.graphics_ns),
        SM_UTIL => busy(|busy| busy.sm_ns),
        _ => return Err(Code::NotSupported),
    };
    if passed_ns <= REFRESH_NS {
        return Err(Code::NoData);
    }
    #[expect(clippy::cast_precision_loss, reason = "a percentage")]
    let percent = 100.0 * busy_ns as f64 / passed_ns as f64;
    Ok(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn gpus_have_it_from_hopper_on() {
        for chip in crate::engine::chip::Chip::all() {
            let from_table = chip.model.counts_for_instances();
            assert_eq!(Some(chip.board.cc[0] >= FIRST_CC), from_table, "{}", chip.model.key);
        }
    }

    fn sample(at_ns: u64, graphics_ns: u64, sm_ns: u64) -> Sample {
        Sample { gpu: 2, gi: Some((1, 7)), at_ns, busy: Busy { graphics_ns, sm_ns } }
    }

    #[test]
    fn a_metric_is_the_mean_between_two_samples() {
        let (first, second) = (sample(5 * S, S, S), sample(9 * S, 3 * S, 2 * S));
        assert_eq!([1, 2].map(|id| metric(&first, &second, id)), [Ok(50.0), Ok(25.0)]);
        assert_eq!(metric(&first, &second, 10), Err(Code::NotSupported), "DRAM_BW_UTIL");
        assert_eq!(metric(&second, &first, 1), Err(Code::InvalidArgument));
        assert_eq!(metric(&first, &Sample { at_ns: 5 * S + REFRESH_NS, ..second }, 1), Err(Code::NoData));
    }

    #[test]
    fn samples_of_two_devices_say_nothing() {
        let (first, second) = (sample(5 * S, 0, 0), sample(9 * S, 0, 0));
        let others = [
            Sample { gpu: 1, ..second },
            Sample { gi: None, ..second },
            // Another instance at the same place.
            Sample { gi: Some((1, 8)), ..second },
        ];
        for other in others {
            assert_eq!(metric(&first, &other, 1), Err(Code::InvalidArgument));
        }
    }
}
