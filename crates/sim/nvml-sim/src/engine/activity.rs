//! How busy programs keep GPUs and GPU instances: what GPM counts.

use physics::Tenant;

use super::chip::Chip;
use super::code::Answer;
use super::process::Process;
use super::state::{Gi, State};

/// GPU instances have the ids 0 to 14; the whole GPU comes last.
pub const SLOTS: usize = 16;
/// The whole GPU among the [`SLOTS`].
pub const WHOLE: usize = 15;
/// All of the time.
pub const MILLION: u32 = 1_000_000;

/// How busy a device is, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Part of the time in which a program ran.
    pub graphics: u32,
    /// Part of the SMs that were busy.
    pub sm: u32,
}

impl Activity {
    const FULL: Self = Self { graphics: MILLION, sm: MILLION };

    /// Of GPCs of which programs keep so many busy. Without a program it is idle.
    fn of(busy: f64, gpcs: f64, runs: bool) -> Self {
        if !runs {
            return Self::default();
        }
        Self { graphics: MILLION, sm: millionths(busy / gpcs) }
    }
}

impl State {
    /// How busy each GPU instance and the whole GPU are. `active` has the part of the time in which each of the tenants computes.
    /// A process without an application (`others`) keeps all of its device busy.
    pub(super) fn activity(
        &self,
        gpu: u32,
        gpcs: u8,
        tenants: &[Tenant<'_>],
        active: &[f64],
        others: &[Process],
    ) -> Answer<[Activity; SLOTS]> {
        let (chip, state) = (self.chip(gpu)?, self.gpu(gpu)?);
        let inside = |of: &dyn Fn(&Tenant<'_>) -> bool| {
            let busy = tenants.iter().zip(active).filter(|(tenant, _)| of(tenant));
            let busy: Vec<f64> =
                busy.map(|(t, active)| f64::from(t.gpcs).min(t.app.width) * active).collect();
            (busy.iter().sum::<f64>(), !busy.is_empty())
        };
        let mut all = [Activity::default(); SLOTS];
        if !state.mig {
            let (busy, runs) = inside(&|_| true);
            all[WHOLE] =
                if others.is_empty() { Activity::of(busy, gpcs.into(), runs) } else { Activity::FULL };
            return Ok(all);
        }
        for gi in &state.instances {
            let Some(slot) = all.get_mut(gi.id as usize) else { continue };
            let (busy, runs) = inside(&|tenant| u32::from(tenant.instance) == gi.id);
            let is_full = others.iter().any(|process| process.gi == Some(gi.id));
            *slot = if is_full { Activity::FULL } else { Activity::of(busy, slices(chip, gi), runs) };
        }
        // No document says how the driver sums up instances for the whole GPU: here each counts by its compute slices.
        let whole = f64::from(chip.model.compute_slices);
        let sum = |part: fn(&Activity) -> u32| {
            let parts = state
                .instances
                .iter()
                .filter_map(|gi| Some(f64::from(part(all.get(gi.id as usize)?)) * slices(chip, gi)));
            millionths(parts.sum::<f64>() / whole / f64::from(MILLION))
        };
        all[WHOLE] = Activity { graphics: sum(|a| a.graphics), sm: sum(|a| a.sm) };
        Ok(all)
    }
}

/// Compute slices of a GPU instance: each is a GPC.
fn slices(chip: &Chip, gi: &Gi) -> f64 {
    f64::from(chip.profile(gi.profile).map_or(1, |profile| profile.base.compute_slices))
}

fn millionths(part: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a million")]
    let whole = (part.clamp(0.0, 1.0) * f64::from(MILLION)).round() as u32;
    whole
}
