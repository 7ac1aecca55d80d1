//! Memory, processes, utilisation.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings as sys;

use super::abi::{Out, Ref, exports, version};
use crate::engine::code::{Answer, Code};
use crate::engine::process::Process;
use crate::engine::session::Session;
use crate::engine::state::State;

const MIB: u64 = 1 << 20;
/// Stands for "no instance" in process lists.
const NO_INSTANCE: u32 = u32::MAX;

fn memory(session: &Session, state: &State, device: Ref) -> Answer<[u64; 3]> {
    let (gpu, mig) = session.any_gpu(state, device.get()?)?;
    state.memory(gpu, mig.map(|r| r.gi))
}

/// Processes of a GPU, or of one MIG device: all of them, or MPS clients alone. Driver 580 on an H200 lists its MPS clients as
/// compute processes, too. A process of another instance than the caller's is not shown: a caller without root's rights asks
/// through its own MIG device.
pub(super) fn processes(session: &Session, state: &State, device: Ref, mps: bool) -> Answer<Vec<Process>> {
    let (gpu, mig) = session.any_gpu(state, device.get()?)?;
    let inside = |p: &Process| mig.is_none_or(|r| p.gi == Some(r.gi) && p.ci.is_none_or(|c| c == r.ci));
    state.processes(gpu, |p| (p.mps || !mps) && inside(p))
}

fn list_v1(
    session: &Session,
    state: &State,
    device: Ref,
    mps: bool,
    count: Out<c_uint>,
    out: Out<sys::nvmlProcessInfo_v1_t>,
) -> Answer<()> {
    let list = processes(session, state, device, mps)?;
    let convert = |p: &Process| sys::nvmlProcessInfo_v1_t { pid: p.pid, usedGpuMemory: p.memory_mib * MIB };
    out.put_list(count, &list.iter().map(convert).collect::<Vec<_>>())
}

fn list_v2(
    session: &Session,
    state: &State,
    device: Ref,
    mps: bool,
    count: Out<c_uint>,
    out: Out<sys::nvmlProcessInfo_v2_t>,
) -> Answer<()> {
    let list = processes(session, state, device, mps)?;
    let convert = |p: &Process| sys::nvmlProcessInfo_v2_t {
        pid: p.pid,
        usedGpuMemory: p.memory_mib * MIB,
        gpuInstanceId: p.gi.unwrap_or(NO_INSTANCE),
        computeInstanceId: p.ci.unwrap_or(NO_INSTANCE),
    };
    out.put_list(count, &list.iter().map(convert).collect::<Vec<_>>())
}

/// Utilisation is not known on a GPU in MIG mode, as on the real one.
fn utilisation(session: &Session, state: &State, device: Ref) -> Answer<u32> {
    let (gpu, mig) = session.any_gpu(state, device.get()?)?;
    if mig.is_some() || state.gpu(gpu)?.mig {
        return Err(Code::NotSupported);
    }
    state.utilisation(gpu)
}

fn engine_idle(
    session: &Session,
    state: &State,
    device: Ref,
    out: Out<c_uint>,
    period_us: Out<c_uint>,
) -> Answer<()> {
    utilisation(session, state, device)?;
    out.put(0)?;
    period_us.put(167_000)
}

exports! {
    fn nvmlDeviceGetMemoryInfo(device: Ref, out: Out<sys::nvmlMemory_t>) |session, state| {
        let [total, reserved, used] = memory(session, state, device)?;
        // The first version counts what the driver keeps as used.
        let used = reserved + used;
        out.put(sys::nvmlMemory_t { total: total * MIB, free: total.saturating_sub(used) * MIB, used: used * MIB })
    }
    fn nvmlDeviceGetMemoryInfo_v2(device: Ref, out: Out<sys::nvmlMemory_v2_t>) |session, state| {
        let wanted = out.get()?.version;
        if wanted != version::<sys::nvmlMemory_v2_t>(2) {
            return Err(Code::VersionMismatch);
        }
        let [total, reserved, used] = memory(session, state, device)?;
        let free = total.saturating_sub(reserved + used);
        out.put(sys::nvmlMemory_v2_t {
            version: wanted,
            total: total * MIB,
            reserved: reserved * MIB,
            free: free * MIB,
            used: used * MIB,
        })
    }
    fn nvmlDeviceGetBAR1MemoryInfo(device: Ref, out: Out<sys::nvmlBAR1Memory_t>) |session, state| {
        let (gpu, mig) = session.any_gpu(state, device.get()?)?;
        let model = state.chip(gpu)?.model;
        // BAR1 spans the framebuffer, rounded up to a power of two; an instance has its share of it.
        let whole = model.total_memory_mib.next_power_of_two() * MIB;
        let total = match mig {
            Some(r) => whole * u64::from(state.ci(r)?.0.size) / u64::from(model.placement_units),
            None => whole,
        };
        out.put(sys::nvmlBAR1Memory_t { bar1Total: total, bar1Free: total - MIB, bar1Used: MIB })
    }
    fn nvmlDeviceGetComputeRunningProcesses(
        device: Ref, count: Out<c_uint>, out: Out<sys::nvmlProcessInfo_v1_t>,
    ) |session, state| { list_v1(session, state, device, false, count, out) }
    fn nvmlDeviceGetComputeRunningProcesses_v2(
        device: Ref, count: Out<c_uint>, out: Out<sys::nvmlProcessInfo_v2_t>,
    ) |session, state| { list_v2(session, state, device, false, count, out) }
    fn nvmlDeviceGetComputeRunningProcesses_v3(
        device: Ref, count: Out<c_uint>, out: Out<sys::nvmlProcessInfo_v2_t>,
    ) |session, state| { list_v2(session, state, device, false, count, out) }
    fn nvmlDeviceGetMPSComputeRunningProcesses(
        device: Ref, count: Out<c_uint>, out: Out<sys::nvmlProcessInfo_v1_t>,
    ) |session, state| { list_v1(session, state, device, true, count, out) }
    fn nvmlDeviceGetMPSComputeRunningProcesses_v2(
        device: Ref, count: Out<c_uint>, out: Out<sys::nvmlProcessInfo_v2_t>,
    ) |session, state| { list_v2(session, state, device, true, count, out) }
    fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
        device: Ref, count: Out<c_uint>, out: Out<sys::nvmlProcessInfo_v2_t>,
    ) |session, state| { list_v2(session, state, device, true, count, out) }
    fn nvmlDeviceGetGraphicsRunningProcesses(device: Ref, count: Out<c_uint>) |session, state| {
        device.gpu_of_any(session, state)?;
        count.put(0)
    }
    fn nvmlDeviceGetGraphicsRunningProcesses_v2(device: Ref, count: Out<c_uint>) |session, state| {
        device.gpu_of_any(session, state)?;
        count.put(0)
    }
    fn nvmlDeviceGetGraphicsRunningProcesses_v3(device: Ref, count: Out<c_uint>) |session, state| {
        device.gpu_of_any(session, state)?;
        count.put(0)
    }
    fn nvmlDeviceGetUtilizationRates(device: Ref, out: Out<sys::nvmlUtilization_t>) |session, state| {
        let gpu = utilisation(session, state, device)?;
        out.put(sys::nvmlUtilization_t { gpu, memory: gpu / 2 })
    }
    fn nvmlDeviceGetEncoderUtilization(device: Ref, out: Out<c_uint>, period: Out<c_uint>) |session, state| {
        engine_idle(session, state, device, out, period)
    }
    fn nvmlDeviceGetDecoderUtilization(device: Ref, out: Out<c_uint>, period: Out<c_uint>) |session, state| {
        engine_idle(session, state, device, out, period)
    }
    fn nvmlDeviceGetJpgUtilization(device: Ref, out: Out<c_uint>, period: Out<c_uint>) |session, state| {
        engine_idle(session, state, device, out, period)
    }
    fn nvmlDeviceGetOfaUtilization(device: Ref, out: Out<c_uint>, period: Out<c_uint>) |session, state| {
        engine_idle(session, state, device, out, period)
    }
}
