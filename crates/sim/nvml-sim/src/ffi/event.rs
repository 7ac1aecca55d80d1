//! Events: sets can be made and waited on. Two things can happen: a change of MIG configuration, and an error with an XID.

use std::ffi::c_uint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nvml_wrapper_sys::bindings as sys;

use super::abi::{Out, Ref, exports, pointer};
use crate::engine::code::{Answer, Code};
use crate::engine::fault::{self, Kind};
use crate::engine::handle::Handle;
use crate::engine::session::Session;
use crate::engine::state::State;

/// `nvmlEventMigConfigChange`.
const MIG_CHANGE: u64 = 0x100;
/// `nvmlEventTypeXidCriticalError`.
const XID: u64 = 0x8;
/// XID of a GPU that fell off the bus.
const XID_LOST: u64 = 79;
/// How often a waiting call looks at the state.
const POLL: Duration = Duration::from_millis(20);

/// What a set watches on one GPU, and what it last saw there.
struct Watch {
    gpu: u32,
    types: u64,
    seen: EventBaseline,
}

#[derive(PartialEq, Eq, Clone)]
struct EventBaseline {
    instances: Vec<u16>,
    mig: bool,
    lost: bool,
    xids: Vec<u32>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);
static SETS: Mutex<Vec<(u64, Vec<Watch>)>> = Mutex::new(Vec::new());

/// Event sets are numbered from 1; the pointer is the number times 16, which no device handle looks like.
fn number(set: Out<u8>) -> u64 {
    set.address() / 16
}

fn look(state: &State, gpu: u32) -> Answer<EventBaseline> {
    let g = state.gpu(gpu)?;
    let serials =
        g.instances.iter().flat_map(|i| std::iter::once(i.serial).chain(i.cis.iter().map(|c| c.serial)));
    let lost = fault::find(&g.faults, fault::now_ms(), |k| *k == Kind::GpuLost).is_some();
    let xid = |fault: &fault::Fault| if let Kind::Xid(xid) = fault.kind { Some(xid) } else { None };
    let xids = g.faults.iter().filter_map(xid).collect();
    Ok(EventBaseline { instances: serials.collect(), mig: g.mig, lost, xids })
}

fn with_set<T>(set: Out<u8>, body: impl FnOnce(&mut Vec<Watch>) -> Answer<T>) -> Answer<T> {
    let mut sets = SETS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = sets.iter_mut().find(|s| s.0 == number(set)).ok_or(Code::InvalidArgument)?;
    body(&mut found.1)
}

/// The first event since the last look, if any.
fn next_event(state: &State, watches: &mut [Watch]) -> Answer<Option<(u32, u64, u64)>> {
    for watch in watches {
        let now = look(state, watch.gpu)?;
        let before = std::mem::replace(&mut watch.seen, now.clone());
        if now.lost && !before.lost && watch.types & XID != 0 {
            return Ok(Some((watch.gpu, XID, XID_LOST)));
        }
        if let Some(xid) = now.xids.get(before.xids.len()).filter(|_| watch.types & XID != 0) {
            // The others are told at the next calls.
            watch.seen.xids.truncate(before.xids.len() + 1);
            return Ok(Some((watch.gpu, XID, u64::from(*xid))));
        }
        let changed = now.instances != before.instances || now.mig != before.mig;
        if changed && watch.types & MIG_CHANGE != 0 {
            return Ok(Some((watch.gpu, MIG_CHANGE, 0)));
        }
    }
    Ok(None)
}

fn wait(session: &Session, set: Out<u8>, out: Out<sys::nvmlEventData_t>, timeout_ms: c_uint) -> Answer<()> {
    let end = Instant::now() + Duration::from_millis(timeout_ms.into());
    loop {
        let state = session.state()?;
        if let Some((gpu, kind, data)) = with_set(set, |w| next_event(&state, w))? {
            return out.put(sys::nvmlEventData_t {
                device: pointer(Handle::Gpu(gpu)),
                eventType: kind,
                eventData: data,
                gpuInstanceId: u32::MAX,
                computeInstanceId: u32::MAX,
            });
        }
        let now = Instant::now();
        if now >= end {
            return Err(Code::Timeout);
        }
        std::thread::sleep(POLL.min(end - now));
    }
}

exports! {
    fn nvmlEventSetCreate(out: Out<sys::nvmlEventSet_t>) |session, state| {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        SETS.lock().unwrap_or_else(PoisonError::into_inner).push((id, Vec::new()));
        out.put(std::ptr::without_provenance_mut(usize::try_from(id * 16).map_err(|_| Code::Unknown)?))
    }
    fn nvmlEventSetFree(set: Out<u8>) |session, state| {
        with_set(set, |_| Ok(()))?;
        SETS.lock().unwrap_or_else(PoisonError::into_inner).retain(|s| s.0 != number(set));
        Ok(())
    }
    fn nvmlDeviceGetSupportedEventTypes(device: Ref, out: Out<u64>) |session, state| {
        device.gpu(session, state)?;
        out.put(MIG_CHANGE | XID)
    }
    fn nvmlDeviceRegisterEvents(device: Ref, types: u64, set: Out<u8>) |session, state| {
        let gpu = device.gpu(session, state)?;
        if types & !(MIG_CHANGE | XID) != 0 {
            return Err(Code::NotSupported);
        }
        let seen = look(state, gpu)?;
        with_set(set, |watches| {
            watches.push(Watch { gpu, types, seen });
            Ok(())
        })
    }
    fn nvmlEventSetWait(set: Out<u8>, out: Out<sys::nvmlEventData_t>, timeout_ms: c_uint) |session, state| {
        wait(session, set, out, timeout_ms)
    }
    fn nvmlEventSetWait_v2(set: Out<u8>, out: Out<sys::nvmlEventData_t>, timeout_ms: c_uint) |session, state| {
        wait(session, set, out, timeout_ms)
    }
}
