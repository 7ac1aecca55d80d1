//! GPM: the part of each GPU and GPU instance that was busy.

use std::ffi::c_uint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use nvml_wrapper_sys::bindings as sys;

use super::abi::{Out, Ref, exports};
use crate::engine::code::{Answer, Code};
use crate::engine::gpm::{self, Sample};
use crate::engine::handle::Handle;
use crate::engine::session::Session;
use crate::engine::state::State;

static NEXT: AtomicU64 = AtomicU64::new(1);
/// Sample buffers of this process, by number; `None` where nothing was read into one.
static SAMPLES: Mutex<Vec<(u64, Option<Sample>)>> = Mutex::new(Vec::new());

/// More metrics than any header has: 98, 210 and 477 so far.
const MOST_METRICS: c_uint = 1024;

/// The head of `nvmlGpmMetricsGet_t`. The array behind it has grown from header to header while the version number stayed 1, so that
/// nobody may count on more elements than the caller asks for.
#[derive(Clone, Copy)]
#[repr(C)]
struct Head {
    version: c_uint,
    n_metrics: c_uint,
    samples: [Buffer; 2],
}

const _: () = assert!(size_of::<Head>() == std::mem::offset_of!(sys::nvmlGpmMetricsGet_t, metrics));

/// An `nvmlGpmSample_t`: buffers are numbered from 1; the pointer is the number times 16, which no device handle looks like.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Buffer(*mut u8);

impl Buffer {
    fn with<T>(self, body: impl FnOnce(&mut Option<Sample>) -> Answer<T>) -> Answer<T> {
        let number = self.0.addr() as u64 / 16;
        let mut samples = SAMPLES.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, sample) = samples.iter_mut().find(|s| s.0 == number).ok_or(Code::InvalidArgument)?;
        body(sample)
    }

    /// What was read into it.
    fn get(self) -> Answer<Sample> {
        self.with(|sample| sample.ok_or(Code::InvalidArgument))
    }
}

/// Of the GPU itself: what the driver answers for a MIG device's handle is not documented.
fn device(session: &Session, state: &State, device: Ref) -> Answer<u32> {
    match device.get()? {
        Handle::Mig(_) => Err(Code::NotSupported),
        _ => device.gpu(session, state),
    }
}

fn read(session: &Session, state: &State, of: Ref, gi: Option<u32>, buffer: Buffer) -> Answer<()> {
    let read = session.gpm_sample(state, device(session, state, of)?, gi)?;
    buffer.with(|sample| {
        *sample = Some(read);
        Ok(())
    })
}

fn metrics(get: Out<sys::nvmlGpmMetricsGet_t>) -> Answer<()> {
    let head: Head = get.cast().get()?;
    if head.version != sys::NVML_GPM_METRICS_GET_VERSION {
        return Err(Code::VersionMismatch);
    }
    if head.n_metrics > MOST_METRICS {
        return Err(Code::InvalidArgument);
    }
    let [first, second] = head.samples;
    let (first, second) = (first.get()?, second.get()?);
    let all: Out<sys::nvmlGpmMetric_t> = get.cast::<Head>().at(1).cast();
    for index in 0..head.n_metrics as usize {
        let asked = all.at(index).get()?;
        let (code, value) = match gpm::metric(&first, &second, asked.metricId) {
            Ok(value) => (0, value),
            Err(code @ (Code::NotSupported | Code::NoData)) => (code as c_uint, 0.0),
            Err(code) => return Err(code),
        };
        all.at(index).put(sys::nvmlGpmMetric_t { nvmlReturn: code, value, ..asked })?;
    }
    Ok(())
}

exports! {
    fn nvmlGpmQueryDeviceSupport(of: Ref, out: Out<sys::nvmlGpmSupport_t>) |session, state| {
        let version = out.get()?.version;
        if version != sys::NVML_GPM_SUPPORT_VERSION {
            return Err(Code::VersionMismatch);
        }
        let supported = state.has_gpm(device(session, state, of)?)?;
        out.put(sys::nvmlGpmSupport_t { version, isSupportedDevice: supported.into() })
    }
    fn nvmlGpmSampleAlloc(out: Out<Buffer>) |session, state| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = usize::try_from(number * 16).map_err(|_| Code::Unknown)?;
        out.put(Buffer(std::ptr::without_provenance_mut(address)))?;
        SAMPLES.lock().unwrap_or_else(PoisonError::into_inner).push((number, None));
        Ok(())
    }
    fn nvmlGpmSampleFree(buffer: Buffer) |session, state| {
        buffer.with(|_| Ok(()))?;
        let number = buffer.0.addr() as u64 / 16;
        SAMPLES.lock().unwrap_or_else(PoisonError::into_inner).retain(|s| s.0 != number);
        Ok(())
    }
    fn nvmlGpmSampleGet(of: Ref, buffer: Buffer) |session, state| {
        read(session, state, of, None, buffer)
    }
    fn nvmlGpmMigSampleGet(of: Ref, gi: c_uint, buffer: Buffer) |session, state| {
        read(session, state, of, Some(gi), buffer)
    }
    fn nvmlGpmMetricsGet(get: Out<sys::nvmlGpmMetricsGet_t>) |session, state| {
        metrics(get)
    }
}
