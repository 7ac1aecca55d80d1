//! Power, clocks, temperature, settings.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings as sys;

use super::abi::{Out, Ref, exports, version};
use crate::engine::code::{Answer, Code};
use crate::engine::fault::{self, Kind};
use crate::engine::load::IDLE_MHZ;
use crate::engine::meter::Reading;
use crate::engine::session::Session;
use crate::engine::state::State;

/// Clock domains: graphics, SM, memory, video.
const GRAPHICS: u32 = 0;
const SM: u32 = 1;
const MEMORY: u32 = 2;
const VIDEO: u32 = 3;

/// Bits of `nvmlClocksEventReasons`: nothing runs; the clock is lowered to keep within the power limit.
const REASON_IDLE: u64 = 0x1;
const REASON_POWER_CAP: u64 = 0x4;
/// Another: the hardware lowers the clock because the GPU is too hot.
const REASON_HOT: u64 = 0x40;

/// `nvmlPerfPolicyType_t`: the power limit, and the last that exists.
const POLICY_POWER: u32 = 0;
const LAST_POLICY: u32 = 11;

fn max_clock(state: &State, gpu: u32, domain: u32) -> Answer<u32> {
    let board = &state.chip(gpu)?.board;
    match domain {
        GRAPHICS | SM => Ok(board.sm_mhz),
        MEMORY => Ok(board.mem_mhz),
        // As captures show it: the video clock ends a tenth below the graphics clock.
        VIDEO => Ok(board.sm_mhz / 10 * 9),
        _ => Err(Code::InvalidArgument),
    }
}

fn application_clock(state: &State, gpu: u32, domain: u32) -> Answer<u32> {
    let max = max_clock(state, gpu, domain)?;
    let (mem, sm) = state.gpu(gpu)?.clocks.unwrap_or((max, max));
    Ok(if domain == MEMORY { mem.min(max) } else { sm.min(max) })
}

fn current_clock(state: &State, gpu: u32, domain: u32) -> Answer<u32> {
    let full = application_clock(state, gpu, domain)?;
    Ok(if domain == MEMORY { full } else { state.load(gpu)?.clock_mhz.min(full) })
}

fn event_reasons(state: &State, gpu: u32) -> Answer<u64> {
    let hot = fault::value(&state.gpu(gpu)?.faults, |kind| (*kind == Kind::Hot).then_some(REASON_HOT));
    let reasons = match (state.utilisation(gpu)?, state.load(gpu)?.is_capped) {
        (0, _) => REASON_IDLE,
        (_, true) => REASON_POWER_CAP,
        (_, false) => 0,
    };
    Ok(reasons | hot.unwrap_or(0))
}

/// Energy and throttled time of a GPU until now.
pub(super) fn reading(session: &Session, state: &State, gpu: u32) -> Answer<Reading> {
    session.store.integrate(state)?.get(gpu as usize).copied().ok_or(Code::InvalidArgument)
}

/// Steps of 15 MHz downwards, as the boards have.
fn graphics_steps(state: &State, gpu: u32) -> Answer<Vec<u32>> {
    let max = state.chip(gpu)?.board.sm_mhz;
    Ok((0..).map(|i| max.saturating_sub(15 * i)).take_while(|mhz| *mhz >= IDLE_MHZ).collect())
}

fn set_clocks(session: &Session, state: &State, device: Ref, clocks: Option<(u32, u32)>) -> Answer<()> {
    let gpu = device.gpu(session, state)?;
    if let Some((mem, sm)) = clocks
        && (mem != state.chip(gpu)?.board.mem_mhz || !graphics_steps(state, gpu)?.contains(&sm))
    {
        return Err(Code::InvalidArgument);
    }
    session.set(device.get()?, |g| g.clocks = clocks)
}

fn temperature(state: &State, gpu: u32) -> Answer<u32> {
    Ok(if state.utilisation(gpu)? > 0 { 62 } else { 32 + gpu % 4 })
}

exports! {
    fn nvmlDeviceGetPowerUsage(device: Ref, out: Out<c_uint>) |session, state| {
        out.put(state.load(device.gpu(session, state)?)?.power_mw)
    }
    fn nvmlDeviceGetPowerManagementMode(device: Ref, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        out.put(1)
    }
    fn nvmlDeviceGetPowerManagementLimit(device: Ref, out: Out<c_uint>) |session, state| {
        out.put(state.gpu(device.gpu(session, state)?)?.power_limit_mw)
    }
    fn nvmlDeviceGetEnforcedPowerLimit(device: Ref, out: Out<c_uint>) |session, state| {
        out.put(state.enforced_limit(device.gpu(session, state)?)?)
    }
    fn nvmlDeviceGetPowerManagementDefaultLimit(device: Ref, out: Out<c_uint>) |session, state| {
        out.put(state.power_constraints(device.gpu(session, state)?)?.1)
    }
    fn nvmlDeviceGetPowerManagementLimitConstraints(device: Ref, min: Out<c_uint>, max: Out<c_uint>) |session, state| {
        let (low, high) = state.power_constraints(device.gpu(session, state)?)?;
        min.put(low)?;
        max.put(high)
    }
    fn nvmlDeviceSetPowerManagementLimit(device: Ref, limit_mw: c_uint) |session, state| {
        session.set_power_limit(device.get()?, limit_mw)
    }
    fn nvmlDeviceSetPowerManagementLimit_v2(device: Ref, value: Out<sys::nvmlPowerValue_v2_t>) |session, state| {
        let value = value.get()?;
        if value.version != version::<sys::nvmlPowerValue_v2_t>(2) {
            return Err(Code::VersionMismatch);
        }
        if value.powerScope != 0 {
            return Err(Code::NotSupported);
        }
        session.set_power_limit(device.get()?, value.powerValueMw)
    }
    fn nvmlDeviceGetTotalEnergyConsumption(device: Ref, out: Out<u64>) |session, state| {
        let gpu = device.gpu(session, state)?;
        out.put(reading(session, state, gpu)?.energy_nj / 1_000_000)
    }
    fn nvmlDeviceGetViolationStatus(
        device: Ref, policy: c_uint, out: Out<sys::nvmlViolationTime_t>,
    ) |session, state| {
        let gpu = device.gpu(session, state)?;
        if policy > LAST_POLICY {
            return Err(Code::InvalidArgument);
        }
        let reading = reading(session, state, gpu)?;
        out.put(sys::nvmlViolationTime_t {
            referenceTime: reading.at_ns / 1000,
            violationTime: if policy == POLICY_POWER { reading.capped_ns } else { 0 },
        })
    }
    fn nvmlDeviceGetPowerState(device: Ref, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        out.put(0)
    }
    fn nvmlDeviceGetPerformanceState(device: Ref, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        out.put(0)
    }
    fn nvmlDeviceGetCurrentClocksThrottleReasons(device: Ref, out: Out<u64>) |session, state| {
        out.put(event_reasons(state, device.gpu(session, state)?)?)
    }
    fn nvmlDeviceGetCurrentClocksEventReasons(device: Ref, out: Out<u64>) |session, state| {
        out.put(event_reasons(state, device.gpu(session, state)?)?)
    }
    fn nvmlDeviceGetSupportedClocksThrottleReasons(device: Ref, out: Out<u64>) |session, state| {
        device.gpu(session, state)?;
        out.put(REASON_IDLE | REASON_POWER_CAP)
    }
    fn nvmlDeviceGetSupportedClocksEventReasons(device: Ref, out: Out<u64>) |session, state| {
        device.gpu(session, state)?;
        out.put(REASON_IDLE | REASON_POWER_CAP)
    }
    fn nvmlDeviceGetClockInfo(device: Ref, domain: c_uint, out: Out<c_uint>) |session, state| {
        out.put(current_clock(state, device.gpu(session, state)?, domain)?)
    }
    fn nvmlDeviceGetMaxClockInfo(device: Ref, domain: c_uint, out: Out<c_uint>) |session, state| {
        out.put(max_clock(state, device.gpu(session, state)?, domain)?)
    }
    fn nvmlDeviceGetClock(device: Ref, domain: c_uint, id: c_uint, out: Out<c_uint>) |session, state| {
        let gpu = device.gpu(session, state)?;
        out.put(match id {
            0 => current_clock(state, gpu, domain)?,
            1 => application_clock(state, gpu, domain)?,
            2 | 3 => max_clock(state, gpu, domain)?,
            _ => return Err(Code::InvalidArgument),
        })
    }
    fn nvmlDeviceGetMaxCustomerBoostClock(device: Ref, domain: c_uint, out: Out<c_uint>) |session, state| {
        out.put(max_clock(state, device.gpu(session, state)?, domain)?)
    }
    fn nvmlDeviceGetApplicationsClock(device: Ref, domain: c_uint, out: Out<c_uint>) |session, state| {
        out.put(application_clock(state, device.gpu(session, state)?, domain)?)
    }
    fn nvmlDeviceGetDefaultApplicationsClock(device: Ref, domain: c_uint, out: Out<c_uint>) |session, state| {
        out.put(max_clock(state, device.gpu(session, state)?, domain)?)
    }
    fn nvmlDeviceSetApplicationsClocks(device: Ref, mem_mhz: c_uint, sm_mhz: c_uint) |session, state| {
        set_clocks(session, state, device, Some((mem_mhz, sm_mhz)))
    }
    fn nvmlDeviceResetApplicationsClocks(device: Ref) |session, state| { set_clocks(session, state, device, None) }
    fn nvmlDeviceGetSupportedMemoryClocks(device: Ref, count: Out<c_uint>, out: Out<c_uint>) |session, state| {
        let gpu = device.gpu(session, state)?;
        out.put_list(count, &[state.chip(gpu)?.board.mem_mhz])
    }
    fn nvmlDeviceGetSupportedGraphicsClocks(
        device: Ref, mem_mhz: c_uint, count: Out<c_uint>, out: Out<c_uint>,
    ) |session, state| {
        let gpu = device.gpu(session, state)?;
        if mem_mhz != state.chip(gpu)?.board.mem_mhz {
            return Err(Code::NotFound);
        }
        out.put_list(count, &graphics_steps(state, gpu)?)
    }
    fn nvmlDeviceGetTemperature(device: Ref, sensor: c_uint, out: Out<c_uint>) |session, state| {
        if sensor != 0 {
            return Err(Code::InvalidArgument);
        }
        out.put(temperature(state, device.gpu(session, state)?)?)
    }
    fn nvmlDeviceGetTemperatureV(device: Ref, out: Out<sys::nvmlTemperature_v1_t>) |session, state| {
        let mut value = out.get()?;
        if value.version != version::<sys::nvmlTemperature_v1_t>(1) {
            return Err(Code::VersionMismatch);
        }
        let celsius = temperature(state, device.gpu(session, state)?)?;
        value.temperature = i32::try_from(celsius).unwrap_or(0);
        out.put(value)
    }
    fn nvmlDeviceGetTemperatureThreshold(device: Ref, threshold: c_uint, out: Out<c_uint>) |session, state| {
        device.gpu(session, state)?;
        out.put(match threshold {
            // Shutdown, slowdown, memory, GPU.
            0 => 92,
            1 => 89,
            2 => 95,
            3 => 85,
            _ => return Err(Code::NotSupported),
        })
    }
    fn nvmlDeviceGetPersistenceMode(device: Ref, out: Out<c_uint>) |session, state| {
        out.put(state.gpu(device.gpu(session, state)?)?.persistence.into())
    }
    fn nvmlDeviceSetPersistenceMode(device: Ref, mode: c_uint) |session, state| {
        session.set(device.get()?, |g| g.persistence = mode != 0)
    }
    fn nvmlDeviceGetComputeMode(device: Ref, out: Out<c_uint>) |session, state| {
        out.put(state.gpu(device.gpu(session, state)?)?.compute_mode)
    }
    fn nvmlDeviceSetComputeMode(device: Ref, mode: c_uint) |session, state| {
        // Exclusive thread, 1, has been gone since CUDA 8.
        if mode > 3 || mode == 1 {
            return Err(Code::InvalidArgument);
        }
        session.set(device.get()?, |g| g.compute_mode = mode)
    }
}
