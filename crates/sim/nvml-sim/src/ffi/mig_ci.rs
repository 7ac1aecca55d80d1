//! MIG: compute instances and attributes.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings as sys;

use super::abi::{Out, Ref, chars, exports, pointer, version};
use crate::engine::chip::{CiProfile, Engines};
use crate::engine::code::{Answer, Code};
use crate::engine::handle::{CiRef, Handle};
use crate::engine::mig;
use crate::engine::session::Session;
use crate::engine::state::State;

/// The only engine profile: engines are shared by the compute instances of a GPU instance.
const SHARED: u32 = 0;

/// What the unversioned `nvmlComputeInstanceGetInfo` fills: programs built before the placement was added have no room for more.
#[derive(Clone, Copy)]
#[repr(C)]
struct InfoV1 {
    device: sys::nvmlDevice_t,
    gpu_instance: sys::nvmlGpuInstance_t,
    id: c_uint,
    profile_id: c_uint,
}

/// What the unversioned `nvmlDeviceGetAttributes` fills: the counts before those of slices and memory.
type AttributesV1 = [c_uint; 6];

fn profile(
    session: &Session,
    state: &State,
    instance: Ref,
    id: u32,
    engines: u32,
) -> Answer<(&'static CiProfile, Engines)> {
    let r = session.gi(state, instance.get()?)?;
    if engines != SHARED {
        return Err(Code::InvalidArgument);
    }
    session.begin_list(r.gpu)?;
    let gi = state.chip(r.gpu)?.profile(state.gi(r)?.profile).ok_or(Code::Unknown)?;
    Ok((mig::ci_profile(state, r, id)?, gi.engines))
}

fn put_versioned(
    p: &CiProfile,
    engines: Engines,
    out: Out<sys::nvmlComputeInstanceProfileInfo_v2_t>,
) -> Answer<()> {
    let wanted = out.cast::<c_uint>().get()?;
    let name = chars(&format!("MIG {}", p.name));
    if wanted == version::<sys::nvmlComputeInstanceProfileInfo_v2_t>(2) {
        return out.put(sys::nvmlComputeInstanceProfileInfo_v2_t {
            version: wanted,
            id: p.id,
            sliceCount: p.slices,
            instanceCount: p.max,
            multiprocessorCount: p.sm,
            sharedCopyEngineCount: engines.ce,
            sharedDecoderCount: engines.dec,
            sharedEncoderCount: engines.enc,
            sharedJpegCount: engines.jpeg,
            sharedOfaCount: engines.ofa,
            name,
        });
    }
    if wanted != version::<sys::nvmlComputeInstanceProfileInfo_v3_t>(3) {
        return Err(Code::VersionMismatch);
    }
    out.cast::<sys::nvmlComputeInstanceProfileInfo_v3_t>().put(sys::nvmlComputeInstanceProfileInfo_v3_t {
        version: wanted,
        id: p.id,
        sliceCount: p.slices,
        instanceCount: p.max,
        multiprocessorCount: p.sm,
        sharedCopyEngineCount: engines.ce,
        sharedDecoderCount: engines.dec,
        sharedEncoderCount: engines.enc,
        sharedJpegCount: engines.jpeg,
        sharedOfaCount: engines.ofa,
        name,
        capabilities: 0,
    })
}

fn create(
    session: &Session,
    instance: Ref,
    id: u32,
    placement: Option<(u32, u32)>,
    out: Out<sys::nvmlComputeInstance_t>,
) -> Answer<()> {
    if out.is_null() {
        return Err(Code::InvalidArgument);
    }
    out.put(pointer(Handle::Ci(session.create_ci(instance.get()?, id, placement)?)))
}

fn info(session: &Session, state: &State, instance: Ref) -> Answer<(CiRef, u32, u32, u32)> {
    let r = session.ci(state, instance.get()?)?;
    let (_, ci) = state.ci(r)?;
    Ok((r, ci.profile, ci.start, ci.size))
}

fn attributes(session: &Session, state: &State, device: Ref) -> Answer<sys::nvmlDeviceAttributes_t> {
    let (gpu, mig) = session.any_gpu(state, device.get()?)?;
    let (gi, ci) = state.ci(mig.ok_or(Code::NotSupported)?)?;
    let profile = state.chip(gpu)?.profile(gi.profile).ok_or(Code::Unknown)?;
    let ci = profile.cis.iter().find(|c| c.id == ci.profile).ok_or(Code::Unknown)?;
    Ok(sys::nvmlDeviceAttributes_t {
        multiprocessorCount: ci.sm,
        sharedCopyEngineCount: profile.engines.ce,
        sharedDecoderCount: profile.engines.dec,
        sharedEncoderCount: profile.engines.enc,
        sharedJpegCount: profile.engines.jpeg,
        sharedOfaCount: profile.engines.ofa,
        gpuInstanceSliceCount: profile.base.compute_slices.into(),
        computeInstanceSliceCount: ci.slices,
        memorySizeMB: profile.base.memory_mib,
    })
}

exports! {
    fn nvmlGpuInstanceGetComputeInstanceProfileInfo(
        instance: Ref, id: c_uint, engines: c_uint, out: Out<sys::nvmlComputeInstanceProfileInfo_t>,
    ) |session, state| {
        let (p, engines) = profile(session, state, instance, id, engines)?;
        out.put(sys::nvmlComputeInstanceProfileInfo_t {
            id: p.id,
            sliceCount: p.slices,
            instanceCount: p.max,
            multiprocessorCount: p.sm,
            sharedCopyEngineCount: engines.ce,
            sharedDecoderCount: engines.dec,
            sharedEncoderCount: engines.enc,
            sharedJpegCount: engines.jpeg,
            sharedOfaCount: engines.ofa,
        })
    }
    fn nvmlGpuInstanceGetComputeInstanceProfileInfoV(
        instance: Ref, id: c_uint, engines: c_uint, out: Out<sys::nvmlComputeInstanceProfileInfo_v2_t>,
    ) |session, state| {
        let (p, engines) = profile(session, state, instance, id, engines)?;
        put_versioned(p, engines, out)
    }
    fn nvmlGpuInstanceGetComputeInstanceRemainingCapacity(
        instance: Ref, id: c_uint, out: Out<c_uint>,
    ) |session, state| {
        session.privileged()?;
        let r = session.gi(state, instance.get()?)?;
        out.put(mig::ci_remaining(state, r, id)?)
    }
    fn nvmlGpuInstanceGetComputeInstancePossiblePlacements(
        instance: Ref, id: c_uint, out: Out<sys::nvmlComputeInstancePlacement_t>, count: Out<c_uint>,
    ) |session, state| {
        session.privileged()?;
        let (p, _) = profile(session, state, instance, id, SHARED)?;
        let size = p.slices;
        let all: Vec<_> =
            p.starts.iter().map(|&start| sys::nvmlComputeInstancePlacement_t { start, size }).collect();
        if out.is_null() {
            return count.put(c_uint::try_from(all.len()).map_err(|_| Code::Unknown)?);
        }
        out.put_list(count, &all)
    }
    fn nvmlGpuInstanceCreateComputeInstance(
        instance: Ref, id: c_uint, out: Out<sys::nvmlComputeInstance_t>,
    ) |session, state| {
        create(session, instance, id, None, out)
    }
    fn nvmlGpuInstanceCreateComputeInstanceWithPlacement(
        instance: Ref, id: c_uint, placement: Out<sys::nvmlComputeInstancePlacement_t>,
        out: Out<sys::nvmlComputeInstance_t>,
    ) |session, state| {
        let p = placement.get()?;
        create(session, instance, id, Some((p.start, p.size)), out)
    }
    fn nvmlComputeInstanceDestroy(instance: Ref) |session, state| { session.destroy_ci(instance.get()?) }
    fn nvmlGpuInstanceGetComputeInstances(
        instance: Ref, id: c_uint, out: Out<sys::nvmlComputeInstance_t>, count: Out<c_uint>,
    ) |session, state| {
        session.privileged()?;
        let r = session.gi(state, instance.get()?)?;
        session.begin_list(r.gpu)?;
        mig::ci_profile(state, r, id)?;
        let gi = state.gi(r)?;
        let found = gi.cis.iter().filter(|c| c.profile == id);
        let handles: Vec<_> = found.map(|c| pointer(Handle::Ci(gi.ci_ref(r.gpu, c)))).collect();
        count.put(c_uint::try_from(handles.len()).map_err(|_| Code::Unknown)?)?;
        out.put_all(&handles)
    }
    fn nvmlGpuInstanceGetComputeInstanceById(
        instance: Ref, id: c_uint, out: Out<sys::nvmlComputeInstance_t>,
    ) |session, state| {
        session.privileged()?;
        let r = session.gi(state, instance.get()?)?;
        let gi = state.gi(r)?;
        let ci = gi.cis.iter().find(|c| c.id == id).ok_or(Code::NotFound)?;
        out.put(pointer(Handle::Ci(gi.ci_ref(r.gpu, ci))))
    }
    fn nvmlComputeInstanceGetInfo(instance: Ref, out: Out<sys::nvmlComputeInstanceInfo_t>) |session, state| {
        let (r, profile, start, size) = info(session, state, instance)?;
        let info = ci_info(state, r, profile, start, size)?;
        out.cast::<InfoV1>().put(InfoV1 {
            device: info.device,
            gpu_instance: info.gpuInstance,
            id: info.id,
            profile_id: info.profileId,
        })
    }
    fn nvmlComputeInstanceGetInfo_v2(instance: Ref, out: Out<sys::nvmlComputeInstanceInfo_t>) |session, state| {
        let (r, profile, start, size) = info(session, state, instance)?;
        out.put(ci_info(state, r, profile, start, size)?)
    }
    fn nvmlDeviceGetAttributes(device: Ref, out: Out<sys::nvmlDeviceAttributes_t>) |session, state| {
        let a = attributes(session, state, device)?;
        out.cast::<AttributesV1>().put([
            a.multiprocessorCount,
            a.sharedCopyEngineCount,
            a.sharedDecoderCount,
            a.sharedEncoderCount,
            a.sharedJpegCount,
            a.sharedOfaCount,
        ])
    }
    fn nvmlDeviceGetAttributes_v2(device: Ref, out: Out<sys::nvmlDeviceAttributes_t>) |session, state| {
        out.put(attributes(session, state, device)?)
    }
}

/// `device` is the MIG device's handle: the short way from a new compute instance to its UUID.
fn ci_info(
    state: &State,
    r: CiRef,
    profile: u32,
    start: u32,
    size: u32,
) -> Answer<sys::nvmlComputeInstanceInfo_t> {
    let (gi, _) = state.ci(r)?;
    Ok(sys::nvmlComputeInstanceInfo_t {
        device: pointer(Handle::Mig(r)),
        gpuInstance: pointer(Handle::Gi(crate::engine::state::Gpu::gi_ref(r.gpu, gi))),
        id: r.ci,
        profileId: profile,
        placement: sys::nvmlComputeInstancePlacement_t { start, size },
    })
}
