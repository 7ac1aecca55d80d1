//! Calls about MIG instances: profiles, placements, GPU and compute instances.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings as sys;

use super::{Ci, Code, Device, Gi, Lib, Plain as _, text};

/// More instances than any GPU has. NVML does not check the length of the arrays it fills and says they need hold
/// as many entries as the profile's count, which is wrong on the A30.
const MAX_INSTANCES: usize = 64;

/// A profile as the driver describes it; `name` is empty before version 2 of the struct.
pub(in crate::nvml) struct RawProfile {
    pub(in crate::nvml) id: u32,
    pub(in crate::nvml) slices: u32,
    pub(in crate::nvml) instances: u32,
    pub(in crate::nvml) sm: u32,
    pub(in crate::nvml) memory_mib: u64,
    pub(in crate::nvml) name: String,
}

macro_rules! raw_profile {
    ($info:ident, $name:expr) => {{
        let (slices, instances) = ($info.sliceCount, $info.instanceCount);
        let (sm, memory_mib) = ($info.multiprocessorCount, $info.memorySizeMB);
        RawProfile { id: $info.id, slices, instances, sm, memory_mib, name: $name }
    }};
}

/// `sizeof(struct) | version << 24`, as nvml.h builds version words.
const fn version_word(size: usize, version: u32) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "struct sizes of some hundred bytes")]
    let size = size as u32;
    size | (version << 24)
}

impl Lib {
    /// Profile number `index` of NVML's own enumeration, by the newest struct that the driver knows.
    pub(in crate::nvml) fn gi_profile(&self, device: Device<'_>, index: u32) -> Result<RawProfile, Code> {
        let older = |code| matches!(code, Code::FUNCTION_NOT_FOUND | Code::ARGUMENT_VERSION_MISMATCH);
        match self.gi_profile_v3(device, index) {
            Err(code) if older(code) => {}
            done => return done,
        }
        match self.gi_profile_v2(device, index) {
            Err(code) if older(code) => self.gi_profile_v1(device, index),
            done => done,
        }
    }

    fn gi_profile_v3(&self, device: Device<'_>, index: u32) -> Result<RawProfile, Code> {
        let mut info = sys::nvmlGpuInstanceProfileInfo_v3_st::zeroed();
        info.version = version_word(size_of_val(&info), 3);
        // The call is declared with version 2 of the struct and reads the version word first.
        call!(self, nvmlDeviceGetGpuInstanceProfileInfoV(device.raw, index, (&raw mut info).cast()))?;
        let name = text(&info.name);
        Ok(raw_profile!(info, name))
    }

    fn gi_profile_v2(&self, device: Device<'_>, index: u32) -> Result<RawProfile, Code> {
        let mut info = sys::nvmlGpuInstanceProfileInfo_v2_t::zeroed();
        info.version = version_word(size_of_val(&info), 2);
        call!(self, nvmlDeviceGetGpuInstanceProfileInfoV(device.raw, index, &raw mut info))?;
        let name = text(&info.name);
        Ok(raw_profile!(info, name))
    }

    fn gi_profile_v1(&self, device: Device<'_>, index: u32) -> Result<RawProfile, Code> {
        let mut info = sys::nvmlGpuInstanceProfileInfo_t::zeroed();
        call!(self, nvmlDeviceGetGpuInstanceProfileInfo(device.raw, index, &raw mut info))?;
        Ok(raw_profile!(info, String::new()))
    }

    /// Legal placements of a profile, free or not: (start, size).
    pub(in crate::nvml) fn placements(
        &self,
        device: Device<'_>,
        profile: u32,
    ) -> Result<Vec<(u32, u32)>, Code> {
        let mut buf = [sys::nvmlGpuInstancePlacement_t::zeroed(); MAX_INSTANCES];
        // In: the array's length, which recent drivers check; out: entries.
        let mut n: c_uint = 64;
        call!(
            self,
            nvmlDeviceGetGpuInstancePossiblePlacements_v2(device.raw, profile, buf.as_mut_ptr(), &raw mut n)
        )?;
        Ok(buf.iter().take(n as usize).map(|p| (p.start, p.size)).collect())
    }

    pub(in crate::nvml) fn create_gi(
        &self,
        device: Device<'_>,
        profile: u32,
        (start, size): (u32, u32),
    ) -> Result<Gi<'_>, Code> {
        let at = sys::nvmlGpuInstancePlacement_t { start, size };
        let mut raw = std::ptr::null_mut();
        call!(
            self,
            nvmlDeviceCreateGpuInstanceWithPlacement(device.raw, profile, &raw const at, &raw mut raw)
        )?;
        Ok(Gi::of(self, raw))
    }

    /// Every GPU instance of one profile.
    pub(in crate::nvml) fn gis(&self, device: Device<'_>, profile: u32) -> Result<Vec<Gi<'_>>, Code> {
        let mut buf = [std::ptr::null_mut(); MAX_INSTANCES];
        let mut n: c_uint = 64;
        call!(self, nvmlDeviceGetGpuInstances(device.raw, profile, buf.as_mut_ptr(), &raw mut n))?;
        Ok(buf.iter().take(n as usize).map(|raw| Gi::of(self, *raw)).collect())
    }

    /// (id, profile id, start, size) of a GPU instance.
    pub(in crate::nvml) fn gi_info(&self, gi: Gi<'_>) -> Result<(u32, u32, u32, u32), Code> {
        let mut info = sys::nvmlGpuInstanceInfo_t::zeroed();
        call!(self, nvmlGpuInstanceGetInfo(gi.raw, &raw mut info))?;
        Ok((info.id, info.profileId, info.placement.start, info.placement.size))
    }

    pub(in crate::nvml) fn destroy_gi(&self, gi: Gi<'_>) -> Result<(), Code> {
        call!(self, nvmlGpuInstanceDestroy(gi.raw))
    }

    /// (id, slices) of compute instance profile `index` with the shared engine profile.
    pub(in crate::nvml) fn ci_profile(&self, gi: Gi<'_>, index: u32) -> Result<(u32, u32), Code> {
        let mut info = sys::nvmlComputeInstanceProfileInfo_t::zeroed();
        call!(self, nvmlGpuInstanceGetComputeInstanceProfileInfo(gi.raw, index, 0, &raw mut info))?;
        Ok((info.id, info.sliceCount))
    }

    /// Makes a compute instance at a placement: first compute slice and number of them.
    pub(in crate::nvml) fn create_ci_at(
        &self,
        gi: Gi<'_>,
        profile: u32,
        (start, size): (u32, u32),
    ) -> Result<Ci<'_>, Code> {
        let at = sys::nvmlComputeInstancePlacement_t { start, size };
        let mut raw = std::ptr::null_mut();
        call!(
            self,
            nvmlGpuInstanceCreateComputeInstanceWithPlacement(gi.raw, profile, &raw const at, &raw mut raw)
        )?;
        Ok(Ci::of(self, raw))
    }

    pub(in crate::nvml) fn create_ci(&self, gi: Gi<'_>, profile: u32) -> Result<Ci<'_>, Code> {
        let mut raw = std::ptr::null_mut();
        call!(self, nvmlGpuInstanceCreateComputeInstance(gi.raw, profile, &raw mut raw))?;
        Ok(Ci::of(self, raw))
    }

    /// Every compute instance of one profile.
    pub(in crate::nvml) fn cis(&self, gi: Gi<'_>, profile: u32) -> Result<Vec<Ci<'_>>, Code> {
        let mut buf = [std::ptr::null_mut(); MAX_INSTANCES];
        let mut n: c_uint = 64;
        call!(self, nvmlGpuInstanceGetComputeInstances(gi.raw, profile, buf.as_mut_ptr(), &raw mut n))?;
        Ok(buf.iter().take(n as usize).map(|raw| Ci::of(self, *raw)).collect())
    }

    /// The MIG device, id and first compute slice of a compute instance.
    pub(in crate::nvml) fn ci_info(&self, ci: Ci<'_>) -> Result<(Device<'_>, u32, u32), Code> {
        let mut info = sys::nvmlComputeInstanceInfo_t::zeroed();
        call!(self, nvmlComputeInstanceGetInfo_v2(ci.raw, &raw mut info))?;
        Ok((Device::of(self, info.device), info.id, info.placement.start))
    }

    /// The MIG device with this UUID, if it is on this GPU.
    pub(in crate::nvml) fn mig_device(
        &self,
        gpu: Device<'_>,
        uuid: &str,
    ) -> Result<Option<Device<'_>>, Code> {
        let mut most = 0;
        match call!(self, nvmlDeviceGetMaxMigDeviceCount(gpu.raw, &raw mut most)) {
            Err(Code::NOT_SUPPORTED | Code::FUNCTION_NOT_FOUND) => return Ok(None),
            counted => counted?,
        }
        for index in 0..most {
            let mut raw = std::ptr::null_mut();
            match call!(self, nvmlDeviceGetMigDeviceHandleByIndex(gpu.raw, index, &raw mut raw)) {
                // There may be others behind an empty place, and none where MIG mode is off.
                Err(Code::NOT_FOUND | Code::NOT_SUPPORTED) => continue,
                opened => opened?,
            }
            let device = Device::of(self, raw);
            // One that does not say its UUID is being destroyed.
            if self.uuid(device).is_ok_and(|of| of == uuid) {
                return Ok(Some(device));
            }
        }
        Ok(None)
    }

    pub(in crate::nvml) fn destroy_ci(&self, ci: Ci<'_>) -> Result<(), Code> {
        call!(self, nvmlComputeInstanceDestroy(ci.raw))
    }
}
