//! MIG: mode, GPU instances, MIG devices.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings as sys;

use super::abi::{Out, Ref, chars, exports, pointer, version};
use crate::engine::chip::{GI_PROFILE_COUNT, GiProfile};
use crate::engine::code::{Answer, Code};
use crate::engine::handle::{GiRef, Handle};
use crate::engine::mig::{self, Activation};
use crate::engine::session::Session;
use crate::engine::state::{Gpu, State};

/// Capability bits of a GPU instance profile: P2P 1, graphics 2. No capture shows P2P.
const CAPABILITY_GFX: u32 = 2;

/// From this driver on profiles can be listed while MIG is off.
const MODE_INDEPENDENT_DRIVER: u32 = 550;

/// True if this driver lists profiles of a GPU whose MIG mode is off.
pub(super) fn mode_independent(state: &State) -> bool {
    let major = state.node.driver_version.split('.').next().and_then(|m| m.parse::<u32>().ok());
    major.is_none_or(|m| m >= MODE_INDEPENDENT_DRIVER)
}

fn profiles_can_be_listed(state: &State, gpu: u32) -> Answer<()> {
    if state.gpu(gpu)?.mig || mode_independent(state) { Ok(()) } else { Err(Code::NotSupported) }
}

fn profile_by_enum(session: &Session, state: &State, device: Ref, value: u32) -> Answer<&'static GiProfile> {
    let gpu = device.gpu(session, state)?;
    if value >= GI_PROFILE_COUNT {
        return Err(Code::InvalidArgument);
    }
    profiles_can_be_listed(state, gpu)?;
    state.chip(gpu)?.profile_by_enum(value).ok_or(Code::NotSupported)
}

fn info_v1(p: &GiProfile) -> sys::nvmlGpuInstanceProfileInfo_t {
    sys::nvmlGpuInstanceProfileInfo_t {
        id: p.base.id.0,
        isP2pSupported: 0,
        sliceCount: p.base.compute_slices.into(),
        instanceCount: p.base.max_instances,
        multiprocessorCount: p.base.sm,
        copyEngineCount: p.engines.ce,
        decoderCount: p.engines.dec,
        encoderCount: p.engines.enc,
        jpegCount: p.engines.jpeg,
        ofaCount: p.engines.ofa,
        memorySizeMB: p.base.memory_mib,
    }
}

/// Writes version 2 or 3, whichever the caller's struct says it is.
fn put_versioned(p: &GiProfile, out: Out<sys::nvmlGpuInstanceProfileInfo_v2_t>) -> Answer<()> {
    let wanted = out.cast::<c_uint>().get()?;
    let v1 = info_v1(p);
    let name = chars(&format!("MIG {}", p.base.name));
    if wanted == version::<sys::nvmlGpuInstanceProfileInfo_v2_t>(2) {
        return out.put(sys::nvmlGpuInstanceProfileInfo_v2_t {
            version: wanted,
            id: v1.id,
            isP2pSupported: 0,
            sliceCount: v1.sliceCount,
            instanceCount: v1.instanceCount,
            multiprocessorCount: v1.multiprocessorCount,
            copyEngineCount: v1.copyEngineCount,
            decoderCount: v1.decoderCount,
            encoderCount: v1.encoderCount,
            jpegCount: v1.jpegCount,
            ofaCount: v1.ofaCount,
            memorySizeMB: v1.memorySizeMB,
            name,
        });
    }
    if wanted != version::<sys::nvmlGpuInstanceProfileInfo_v3_t>(3) {
        return Err(Code::VersionMismatch);
    }
    out.cast::<sys::nvmlGpuInstanceProfileInfo_v3_t>().put(sys::nvmlGpuInstanceProfileInfo_v3_t {
        version: wanted,
        id: v1.id,
        sliceCount: v1.sliceCount,
        instanceCount: v1.instanceCount,
        multiprocessorCount: v1.multiprocessorCount,
        copyEngineCount: v1.copyEngineCount,
        decoderCount: v1.decoderCount,
        encoderCount: v1.encoderCount,
        jpegCount: v1.jpegCount,
        ofaCount: v1.ofaCount,
        memorySizeMB: v1.memorySizeMB,
        name,
        capabilities: if p.gfx { CAPABILITY_GFX } else { 0 },
    })
}

fn placements(
    session: &Session,
    state: &State,
    device: Ref,
    id: u32,
) -> Answer<Vec<sys::nvmlGpuInstancePlacement_t>> {
    let gpu = device.gpu(session, state)?;
    session.privileged()?;
    profiles_can_be_listed(state, gpu)?;
    let profile = state.chip(gpu)?.profile(id).ok_or(Code::InvalidArgument)?;
    let size = profile.base.size.into();
    Ok(profile
        .base
        .starts
        .iter()
        .map(|s| sys::nvmlGpuInstancePlacement_t { start: s.0.into(), size })
        .collect())
}

/// A null array asks for the count.
fn put_placements(
    values: &[sys::nvmlGpuInstancePlacement_t],
    out: Out<sys::nvmlGpuInstancePlacement_t>,
    count: Out<c_uint>,
) -> Answer<()> {
    if out.is_null() {
        return count.put(c_uint::try_from(values.len()).map_err(|_| Code::Unknown)?);
    }
    out.put_list(count, values)
}

fn create(
    session: &Session,
    device: Ref,
    profile: u32,
    placement: Option<(u32, u32)>,
    out: Out<sys::nvmlGpuInstance_t>,
) -> Answer<()> {
    if out.is_null() {
        return Err(Code::InvalidArgument);
    }
    out.put(pointer(Handle::Gi(session.create_gi(device.get()?, profile, placement)?)))
}

/// The GPU, for questions about its instances. While MIG is off it has none: an H200 with driver 580 says so (docs/real-gpu.md).
/// Older drivers are assumed to answer as they do about profiles.
fn with_instances(state: &State, gpu: u32) -> Answer<&Gpu> {
    if !state.chip(gpu)?.model.has_mig() {
        return Err(Code::NotSupported);
    }
    profiles_can_be_listed(state, gpu)?;
    state.gpu(gpu)
}

exports! {
    fn nvmlDeviceGetMigMode(device: Ref, current: Out<c_uint>, pending: Out<c_uint>) |session, state| {
        let index = device.gpu(session, state)?;
        if !state.chip(index)?.model.has_mig() {
            return Err(Code::NotSupported);
        }
        let gpu = state.gpu(index)?;
        current.put(gpu.mig.into())?;
        pending.put(gpu.mig_pending.into())
    }
    fn nvmlDeviceSetMigMode(device: Ref, mode: c_uint, activation: Out<c_uint>) |session, state| {
        if mode > 1 || activation.is_null() {
            return Err(Code::InvalidArgument);
        }
        activation.put(match session.set_mig_mode(device.get()?, mode == 1)? {
            Activation::Done => 0,
            Activation::ResetRequired => Code::ResetRequired as c_uint,
            Activation::InUse => Code::InUse as c_uint,
        })
    }
    fn nvmlDeviceGetGpuInstanceProfileInfo(
        device: Ref, profile: c_uint, out: Out<sys::nvmlGpuInstanceProfileInfo_t>,
    ) |session, state| {
        out.put(info_v1(profile_by_enum(session, state, device, profile)?))
    }
    fn nvmlDeviceGetGpuInstanceProfileInfoV(
        device: Ref, profile: c_uint, out: Out<sys::nvmlGpuInstanceProfileInfo_v2_t>,
    ) |session, state| {
        put_versioned(profile_by_enum(session, state, device, profile)?, out)
    }
    fn nvmlDeviceGetGpuInstanceProfileInfoByIdV(
        device: Ref, id: c_uint, out: Out<sys::nvmlGpuInstanceProfileInfo_v2_t>,
    ) |session, state| {
        let gpu = device.gpu(session, state)?;
        profiles_can_be_listed(state, gpu)?;
        put_versioned(state.chip(gpu)?.profile(id).ok_or(Code::InvalidArgument)?, out)
    }
    fn nvmlDeviceGetGpuInstancePossiblePlacements(
        device: Ref, id: c_uint, out: Out<sys::nvmlGpuInstancePlacement_t>, count: Out<c_uint>,
    ) |session, state| {
        // The unversioned function only writes the count: the array is as long as the profile's instance count says.
        let all = placements(session, state, device, id)?;
        count.put(c_uint::try_from(all.len()).map_err(|_| Code::Unknown)?)?;
        out.put_all(&all)
    }
    fn nvmlDeviceGetGpuInstancePossiblePlacements_v2(
        device: Ref, id: c_uint, out: Out<sys::nvmlGpuInstancePlacement_t>, count: Out<c_uint>,
    ) |session, state| {
        put_placements(&placements(session, state, device, id)?, out, count)
    }
    fn nvmlDeviceGetGpuInstanceRemainingCapacity(device: Ref, id: c_uint, out: Out<c_uint>) |session, state| {
        let gpu = device.gpu(session, state)?;
        session.privileged()?;
        out.put(mig::remaining(state, gpu, id)?)
    }
    fn nvmlDeviceCreateGpuInstance(device: Ref, id: c_uint, out: Out<sys::nvmlGpuInstance_t>) |session, state| {
        create(session, device, id, None, out)
    }
    fn nvmlDeviceCreateGpuInstanceWithPlacement(
        device: Ref, id: c_uint, placement: Out<sys::nvmlGpuInstancePlacement_t>, out: Out<sys::nvmlGpuInstance_t>,
    ) |session, state| {
        let p = placement.get()?;
        create(session, device, id, Some((p.start, p.size)), out)
    }
    fn nvmlGpuInstanceDestroy(instance: Ref) |session, state| { session.destroy_gi(instance.get()?) }
    fn nvmlDeviceGetGpuInstances(
        device: Ref, id: c_uint, out: Out<sys::nvmlGpuInstance_t>, count: Out<c_uint>,
    ) |session, state| {
        let gpu = device.gpu(session, state)?;
        session.privileged()?;
        state.chip(gpu)?.profile(id).ok_or(Code::InvalidArgument)?;
        let found = with_instances(state, gpu)?.instances.iter().filter(|i| i.profile == id);
        let handles: Vec<_> = found.map(|i| pointer(Handle::Gi(Gpu::gi_ref(gpu, i)))).collect();
        count.put(c_uint::try_from(handles.len()).map_err(|_| Code::Unknown)?)?;
        // nvml.h: the array must hold `instanceCount` of the profile; the count argument is output only.
        out.put_all(&handles)
    }
    fn nvmlDeviceGetGpuInstanceById(device: Ref, id: c_uint, out: Out<sys::nvmlGpuInstance_t>) |session, state| {
        let gpu = device.gpu(session, state)?;
        session.privileged()?;
        let found = with_instances(state, gpu)?.instances.iter().find(|i| i.id == id).ok_or(Code::NotFound)?;
        out.put(pointer(Handle::Gi(Gpu::gi_ref(gpu, found))))
    }
    fn nvmlGpuInstanceGetInfo(instance: Ref, out: Out<sys::nvmlGpuInstanceInfo_t>) |session, state| {
        let r: GiRef = session.gi(state, instance.get()?)?;
        let gi = state.gi(r)?;
        out.put(sys::nvmlGpuInstanceInfo_t {
            device: pointer(Handle::Gpu(r.gpu)),
            id: gi.id,
            profileId: gi.profile,
            placement: sys::nvmlGpuInstancePlacement_t { start: gi.start.into(), size: gi.size.into() },
        })
    }
    fn nvmlDeviceIsMigDeviceHandle(device: Ref, out: Out<c_uint>) |session, state| {
        out.put(session.any_gpu(state, device.get()?)?.1.is_some().into())
    }
    fn nvmlDeviceGetGpuInstanceId(device: Ref, out: Out<c_uint>) |session, state| {
        out.put(session.any_gpu(state, device.get()?)?.1.ok_or(Code::NotSupported)?.gi)
    }
    fn nvmlDeviceGetComputeInstanceId(device: Ref, out: Out<c_uint>) |session, state| {
        out.put(session.any_gpu(state, device.get()?)?.1.ok_or(Code::NotSupported)?.ci)
    }
    fn nvmlDeviceGetMaxMigDeviceCount(device: Ref, out: Out<c_uint>) |session, state| {
        let gpu = device.gpu(session, state)?;
        out.put(state.chip(gpu)?.model.compute_slices.into())
    }
    fn nvmlDeviceGetMigDeviceHandleByIndex(device: Ref, index: c_uint, out: Out<sys::nvmlDevice_t>) |session, state| {
        let gpu = device.gpu(session, state)?;
        with_instances(state, gpu)?;
        if index >= u32::from(state.chip(gpu)?.model.compute_slices) {
            return Err(Code::InvalidArgument);
        }
        let devices = session.mig_devices(state, gpu)?;
        out.put(pointer(Handle::Mig(*devices.get(index as usize).ok_or(Code::NotFound)?)))
    }
    fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device: Ref, out: Out<sys::nvmlDevice_t>) |session, state| {
        let (gpu, mig) = session.any_gpu(state, device.get()?)?;
        mig.ok_or(Code::InvalidArgument)?;
        out.put(pointer(Handle::Gpu(gpu)))
    }
}
