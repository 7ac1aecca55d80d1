//! Changes as a client asks for them: permission, faults, the driver's time, then the state.
//!
//! An operation on a GPU holds that GPU's lock for the whole of the driver's time, so that operations on one GPU are serial and those on
//! others are not held up; readers wait for neither. The state changes in one step at the end: a process killed while it waits has changed
//! nothing.

use std::time::Duration;

use super::code::{Answer, Code};
use super::fault::{self, Kind};
use super::handle::{CiRef, GiRef, Handle};
use super::mig::{self, Activation};
use super::session::Session;
use super::state::State;
use super::timing;

/// What an operation does, for faults and time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Create,
    Destroy,
    List,
    Limit,
    Other,
}

impl Session {
    /// Runs `change` as one operation of the driver on `gpu`, that takes `slices` worth of time (0: none).
    fn operate<T>(
        &self,
        gpu: u32,
        op: Op,
        slices: impl FnOnce(&State) -> u8,
        mut change: impl FnMut(&mut State) -> Answer<T>,
    ) -> Answer<T> {
        self.privileged()?;
        let _serial = self.store.lock_gpu(gpu)?;
        self.meet_fault(gpu, op)?;
        let state = self.state()?;
        // Refusals come at once; only what will succeed takes the driver's time.
        change(&mut State::clone(&state))?;
        std::thread::sleep(self.driver_time(&state, gpu, op, slices(&state))?);
        self.store.update(change)
    }

    /// Fails if a fault on the GPU says so, and counts the call against it.
    fn meet_fault(&self, gpu: u32, op: Op) -> Answer<()> {
        let code = |kind: &Kind| match kind {
            Kind::GpuLost => Some(Code::GpuIsLost),
            Kind::ListTimeout if op == Op::List => Some(Code::Timeout),
            Kind::NoPermission if op != Op::List => Some(Code::NoPermission),
            Kind::LimitRefused if op == Op::Limit => Some(Code::NotSupported),
            Kind::BusyDestroy if op == Op::Destroy => Some(Code::InUse),
            Kind::OutOfResources if op == Op::Create => Some(Code::InsufficientResources),
            _ => None,
        };
        let now = fault::now_ms();
        let state = self.state()?;
        let faults = &state.gpu(gpu)?.faults;
        let Some(index) = fault::find(faults, now, |k| code(k).is_some()) else { return Ok(()) };
        let fault = faults.get(index).ok_or(Code::Unknown)?;
        if fault.remaining.is_some() {
            self.count_down(gpu, now, |k| code(k).is_some())?;
        }
        Err(code(&fault.kind).unwrap_or(Code::Unknown))
    }

    /// Before compute instances or their profiles are listed.
    ///
    /// # Errors
    ///
    /// What a fault on the GPU says.
    pub fn begin_list(&self, gpu: u32) -> Answer<()> {
        self.meet_fault(gpu, Op::List)
    }

    /// The factor of a `slow` fault in force, or 1; counts this operation against it.
    fn slowness(&self, state: &State, gpu: u32) -> Answer<f64> {
        let is_slow = |k: &Kind| matches!(k, Kind::Slow(_));
        let now = fault::now_ms();
        let faults = &state.gpu(gpu)?.faults;
        let Some(fault) = fault::find(faults, now, is_slow).and_then(|i| faults.get(i)) else {
            return Ok(1.0);
        };
        if fault.remaining.is_some() {
            self.count_down(gpu, now, is_slow)?;
        }
        Ok(if let Kind::Slow(factor) = fault.kind { factor } else { 1.0 })
    }

    fn count_down(&self, gpu: u32, now_ms: u64, matches: impl Fn(&Kind) -> bool) -> Answer<()> {
        self.store.update(|s| {
            let faults = &mut s.gpu_mut(gpu)?.faults;
            if let Some(index) = fault::find(faults, now_ms, matches) {
                fault::count_down(faults, index, now_ms);
            }
            Ok(())
        })
    }

    fn driver_time(&self, state: &State, gpu: u32, op: Op, slices: u8) -> Answer<Duration> {
        if slices == 0 {
            return Ok(Duration::ZERO);
        }
        let factor = self.slowness(state, gpu)?;
        let model = state.chip(gpu)?.model;
        let scale = timing::scale(state.node.time_scale) * factor;
        Ok(timing::duration(&model.key, &model.arch, slices, op == Op::Create, scale))
    }

    /// Makes a GPU instance; see [`mig::create_gi`].
    ///
    /// # Errors
    ///
    /// As there; [`Code::NoPermission`] unless root.
    pub fn create_gi(&self, device: Handle, profile: u32, placement: Option<(u32, u32)>) -> Answer<GiRef> {
        let gpu = self.gpu(&*self.state()?, device)?;
        let slices = |s: &State| slices_of(s, gpu, profile);
        self.operate(gpu, Op::Create, slices, |s| mig::create_gi(s, gpu, profile, placement))
    }

    /// Destroys a GPU instance; see [`mig::destroy_gi`].
    ///
    /// # Errors
    ///
    /// As there; [`Code::NoPermission`] unless root.
    pub fn destroy_gi(&self, handle: Handle) -> Answer<()> {
        self.privileged()?;
        let r = self.gi(&*self.state()?, handle)?;
        let slices = |s: &State| s.gi(r).map_or(0, |gi| slices_of(s, r.gpu, gi.profile));
        self.operate(r.gpu, Op::Destroy, slices, |s| mig::destroy_gi(s, r))
    }

    /// Makes a compute instance; see [`mig::create_ci`]. It takes no time of its own: FAR's figures are for the pair.
    ///
    /// # Errors
    ///
    /// As there; [`Code::NoPermission`] unless root.
    pub fn create_ci(&self, handle: Handle, profile: u32, placement: Option<(u32, u32)>) -> Answer<CiRef> {
        self.privileged()?;
        let r = self.gi(&*self.state()?, handle)?;
        self.operate(r.gpu, Op::Create, |_| 0, |s| mig::create_ci(s, r, profile, placement))
    }

    /// Destroys a compute instance; see [`mig::destroy_ci`].
    ///
    /// # Errors
    ///
    /// As there; [`Code::NoPermission`] unless root.
    pub fn destroy_ci(&self, handle: Handle) -> Answer<()> {
        self.privileged()?;
        let r = self.ci(&*self.state()?, handle)?;
        self.operate(r.gpu, Op::Destroy, |_| 0, |s| mig::destroy_ci(s, r))
    }

    /// Sets the MIG mode; see [`mig::set_mode`].
    ///
    /// # Errors
    ///
    /// As there; [`Code::NoPermission`] unless root.
    pub fn set_mig_mode(&self, device: Handle, on: bool) -> Answer<Activation> {
        let gpu = self.gpu(&*self.state()?, device)?;
        self.operate(gpu, Op::Other, |_| 0, |s| mig::set_mode(s, gpu, on))
    }

    /// Resets a GPU by its index among all; see [`mig::reset`].
    ///
    /// # Errors
    ///
    /// As there; [`Code::NoPermission`] unless root.
    pub fn reset(&self, gpu: u32) -> Answer<()> {
        self.operate(gpu, Op::Other, |_| 0, |s| mig::reset(s, gpu))
    }

    /// Sets the power limit, mW.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidArgument`] outside the constraints; [`Code::NoPermission`] unless root.
    pub fn set_power_limit(&self, device: Handle, limit_mw: u32) -> Answer<()> {
        let state = self.state()?;
        let gpu = self.gpu(&state, device)?;
        let (min, max) = state.power_constraints(gpu)?;
        self.privileged()?;
        if !(min..=max).contains(&limit_mw) {
            return Err(Code::InvalidArgument);
        }
        self.operate(
            gpu,
            Op::Limit,
            |_| 0,
            |s| {
                let gpu = s.gpu_mut(gpu)?;
                gpu.power_limit_mw = fault::take_limit(&mut gpu.faults, limit_mw, gpu.power_limit_mw);
                Ok(())
            },
        )
    }

    /// Changes a plain setting of a GPU: persistence, compute mode, clocks.
    ///
    /// # Errors
    ///
    /// [`Code::NoPermission`] unless root.
    pub fn set(&self, device: Handle, change: impl Fn(&mut super::state::Gpu)) -> Answer<()> {
        let gpu = self.gpu(&*self.state()?, device)?;
        self.operate(
            gpu,
            Op::Other,
            |_| 0,
            |s| {
                change(s.gpu_mut(gpu)?);
                Ok(())
            },
        )
    }
}

fn slices_of(state: &State, gpu: u32, profile: u32) -> u8 {
    let profile = state.chip(gpu).ok().and_then(|c| c.profile(profile));
    profile.map_or(0, |p| p.base.compute_slices)
}
