//! MIG instances: what the driver offers, what exists, and making and destroying them, one driver call at a time.
//! Retries and choices are the caller's.

use geometry::{Placement, Profile, ProfileId, Slice};

use super::calls::Nvml;
use super::code::Code;
use super::error::{NvmlError, at};
use super::ffi;
use super::profiles::LiveProfile;
use crate::gpu_ids::NvmlIndex;

/// A compute instance that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeInstance {
    /// Number within its GPU instance.
    pub id: u32,
    /// Compute slices.
    pub slices: u32,
    /// First compute slice within its GPU instance.
    pub start: u32,
    /// `MIG-…`.
    pub uuid: String,
}

/// A GPU instance that exists. Without compute instances it is half made or half destroyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuInstance {
    /// Number within its GPU. The driver gives it to another instance once this one is destroyed.
    pub id: u32,
    /// The profile it was made with.
    pub profile: ProfileId,
    /// Units of the GPU that it takes.
    pub placement: Placement,
    /// Compute instances; one with all slices, unless jobs share the GPU instance.
    pub compute: Vec<ComputeInstance>,
}

impl ComputeInstance {
    /// The compute slices as a bit mask.
    #[must_use]
    pub fn mask(&self) -> u16 {
        let small = |n: u32| u8::try_from(n).unwrap_or(u8::MAX);
        geometry::compute_mask(small(self.slices), Slice(small(self.start)))
    }
}

impl GpuInstance {
    /// True where the two share a unit of the GPU.
    #[must_use]
    pub fn overlaps(&self, placement: Placement) -> bool {
        self.placement.mask() & placement.mask() != 0
    }
}

/// NVML's profile numbers end at the first that is an invalid argument; no driver has this many.
const PROFILE_NUMBERS: u32 = 64;
/// As for profiles, of compute instances.
const CI_PROFILE_NUMBERS: u32 = 16;

impl Nvml {
    /// Every GPU instance profile that the GPU offers now. Needs MIG mode on older drivers.
    pub fn profiles(&self, gpu: NvmlIndex) -> Result<Vec<LiveProfile>, NvmlError> {
        if let Some(known) = self.known.borrow().profiles.get(&gpu) {
            return Ok(known.clone());
        }
        let device = self.device(gpu)?;
        let mut found = Vec::new();
        for number in 0..PROFILE_NUMBERS {
            match self.lib.gi_profile(device, number) {
                Ok(p) => found.push(LiveProfile {
                    id: ProfileId(p.id),
                    name: p.name.trim_start_matches("MIG ").to_owned(),
                    slices: p.slices,
                    instances: p.instances,
                    sm: p.sm,
                    memory_mib: p.memory_mib,
                }),
                Err(Code::INVALID_ARGUMENT) => break,
                Err(Code::NOT_SUPPORTED) => {}
                Err(code) => return Err(at(gpu, "cannot query its profiles")(code)),
            }
        }
        self.known.borrow_mut().profiles.insert(gpu, found.clone());
        Ok(found)
    }

    /// The driver's profile for a planned one: by name, else by id, because drivers rename profiles
    /// (`1g.24gb` became `1g.23gb`) and old ones do not name them at all.
    ///
    /// # Errors
    ///
    /// As NVML answers; `None` where the GPU offers no such profile.
    pub fn profile_like(&self, gpu: NvmlIndex, planned: &Profile) -> Result<Option<LiveProfile>, NvmlError> {
        let mut all = self.profiles(gpu)?;
        let found = all
            .iter()
            .position(|p| p.name == planned.name)
            .or_else(|| all.iter().position(|p| p.id == planned.id));
        Ok(found.map(|i| all.swap_remove(i)))
    }

    /// Legal placements of a profile, free or not.
    ///
    /// # Errors
    ///
    /// As NVML answers: MIG is off, no permission.
    pub fn placements(&self, gpu: NvmlIndex, profile: ProfileId) -> Result<Vec<Placement>, NvmlError> {
        let raw = self.lib.placements(self.device(gpu)?, profile.0).map_err(|code| NvmlError::Gpu {
            gpu,
            what: format!("cannot query placements of profile {profile}"),
            code,
        })?;
        let small = |n: u32| u8::try_from(n).ok();
        Ok(raw
            .into_iter()
            .filter_map(|(start, size)| Some(Placement { start: Slice(small(start)?), size: small(size)? }))
            .collect())
    }

    /// Every GPU instance with its compute instances, half-made ones too, by start.
    pub fn instances(&self, gpu: NvmlIndex) -> Result<Vec<GpuInstance>, NvmlError> {
        if !self.mig_mode(gpu)?.current {
            return Ok(Vec::new());
        }
        let device = self.device(gpu)?;
        let mut found = Vec::new();
        for profile in self.profiles(gpu)? {
            let handles = match self.lib.gis(device, profile.id.0) {
                Err(Code::NOT_SUPPORTED | Code::NOT_FOUND) => continue,
                other => other.map_err(at(gpu, "cannot list its instances"))?,
            };
            for handle in handles {
                match self.describe(gpu, handle) {
                    // Another process destroyed it between the two calls.
                    Err(e) if e.code() == Some(Code::NOT_FOUND) => {}
                    other => found.push(other?),
                }
            }
        }
        found.sort_by_key(|i| (i.placement.start, i.id));
        Ok(found)
    }

    /// Total and used memory of an instance, MiB; `None` if it has no compute instance.
    pub fn instance_memory_mib(
        &self,
        gpu: NvmlIndex,
        gi: &GpuInstance,
    ) -> Result<Option<(u64, u64)>, NvmlError> {
        let fail = at(gpu, "cannot read an instance's memory");
        let handle = self.handle(gpu, gi)?;
        for (profile, _) in self.ci_profiles(gpu, gi.profile.0, handle).map_err(&fail)? {
            if let Some(ci) = self.cis(handle, profile).map_err(&fail)?.first() {
                let (device, ..) = self.lib.ci_info(*ci).map_err(&fail)?;
                let (total, used) = self.lib.memory(device).map_err(&fail)?;
                return Ok(Some((total >> 20, used >> 20)));
            }
        }
        Ok(None)
    }

    /// Makes a GPU instance at a placement, without its compute instance.
    ///
    /// # Errors
    ///
    /// As NVML answers: `INSUFFICIENT_RESOURCES` also where the place is taken, `IN_USE` while another client holds
    /// the GPU.
    pub fn create_gpu_instance(
        &self,
        gpu: NvmlIndex,
        profile: ProfileId,
        at: Placement,
    ) -> Result<GpuInstance, NvmlError> {
        let place = (u32::from(at.start.0), u32::from(at.size));
        let handle = self.lib.create_gi(self.device(gpu)?, profile.0, place).map_err(|code| {
            NvmlError::Gpu { gpu, what: format!("cannot create profile {profile} at {}", at.start), code }
        })?;
        self.bare(gpu, handle)
    }

    /// Makes the compute instance that takes all of a GPU instance.
    pub fn create_compute_instance(
        &self,
        gpu: NvmlIndex,
        gi: &GpuInstance,
    ) -> Result<ComputeInstance, NvmlError> {
        let fail = |code| NvmlError::Gpu {
            gpu,
            what: format!("cannot create the compute instance of GPU instance {}", gi.id),
            code,
        };
        let handle = self.handle(gpu, gi)?;
        let profiles = self.ci_profiles(gpu, gi.profile.0, handle).map_err(fail)?;
        let (profile, slices) = profiles.first().copied().ok_or(fail(Code::NOT_SUPPORTED))?;
        let ci = self.lib.create_ci(handle, profile).map_err(fail)?;
        self.compute_instance(ci, slices).map_err(fail)
    }

    /// Makes a compute instance of so many slices at a first slice. A driver that cannot place compute instances puts it
    /// where it likes: the answer says where.
    ///
    /// # Errors
    ///
    /// As NVML answers: `INSUFFICIENT_RESOURCES` where the slices are taken.
    pub fn create_compute_part(
        &self,
        gpu: NvmlIndex,
        gi: &GpuInstance,
        (slices, start): (u32, u32),
    ) -> Result<ComputeInstance, NvmlError> {
        let fail = |code| NvmlError::Gpu {
            gpu,
            what: format!(
                "cannot create a compute instance of {} in GPU instance {}",
                geometry::counted(slices, "slice"),
                gi.id
            ),
            code,
        };
        let handle = self.handle(gpu, gi)?;
        let profiles = self.ci_profiles(gpu, gi.profile.0, handle).map_err(fail)?;
        let (profile, _) =
            profiles.into_iter().find(|(_, of)| *of == slices).ok_or(fail(Code::NOT_SUPPORTED))?;
        let ci = match self.lib.create_ci_at(handle, profile, (start, slices)) {
            Err(Code::FUNCTION_NOT_FOUND) => self.lib.create_ci(handle, profile),
            placed => placed,
        };
        self.compute_instance(ci.map_err(fail)?, slices).map_err(fail)
    }

    /// Destroys one compute instance of a GPU instance, which stays: one attempt.
    ///
    /// # Errors
    ///
    /// `IN_USE` while a process is in it. One that is gone already is no error.
    pub fn destroy_compute(
        &self,
        gpu: NvmlIndex,
        gi: &GpuInstance,
        ci: &ComputeInstance,
    ) -> Result<(), NvmlError> {
        let fail = |code| NvmlError::Gpu {
            gpu,
            what: format!("cannot destroy compute instance {} of GPU instance {}", ci.id, gi.id),
            code,
        };
        let handle = self.handle(gpu, gi)?;
        for (profile, _) in self.ci_profiles(gpu, gi.profile.0, handle).map_err(fail)? {
            for found in self.cis(handle, profile).map_err(fail)? {
                if self.lib.ci_info(found).map_err(fail)?.1 == ci.id {
                    return match self.lib.destroy_ci(found) {
                        Err(Code::NOT_FOUND) => Ok(()),
                        other => other.map_err(fail),
                    };
                }
            }
        }
        Ok(())
    }

    /// Destroys a GPU instance and what is in it: one attempt.
    ///
    /// # Errors
    ///
    /// `IN_USE` while a process or another client holds it. One that is gone already is no error.
    pub fn destroy(&self, gpu: NvmlIndex, gi: &GpuInstance) -> Result<(), NvmlError> {
        let fail = |code| NvmlError::Gpu {
            gpu,
            what: format!("cannot destroy GPU instance {} at {}", gi.id, gi.placement.start),
            code,
        };
        let gone_is_fine = |r: Result<(), Code>| match r {
            Err(Code::NOT_FOUND) => Ok(()),
            other => other,
        };
        let handle = match self.handle(gpu, gi) {
            Err(e) if e.code() == Some(Code::NOT_FOUND) => return Ok(()),
            other => other?,
        };
        for (profile, _) in self.ci_profiles(gpu, gi.profile.0, handle).map_err(fail)? {
            for ci in self.cis(handle, profile).map_err(fail)? {
                gone_is_fine(self.lib.destroy_ci(ci)).map_err(fail)?;
            }
        }
        gone_is_fine(self.lib.destroy_gi(handle)).map_err(fail)
    }

    /// The handle of the instance with this id, profile and place: ids are used again, so all three must match.
    fn handle(&self, gpu: NvmlIndex, gi: &GpuInstance) -> Result<ffi::Gi<'_>, NvmlError> {
        let fail = |code| NvmlError::Gpu { gpu, what: format!("cannot open GPU instance {}", gi.id), code };
        let all = self.lib.gis(self.device(gpu)?, gi.profile.0).map_err(fail)?;
        let wanted = (gi.id, gi.profile.0, u32::from(gi.placement.start.0), u32::from(gi.placement.size));
        for handle in all {
            match self.lib.gi_info(handle) {
                Ok(found) if found == wanted => return Ok(handle),
                Ok(_) | Err(Code::NOT_FOUND) => {}
                Err(code) => return Err(fail(code)),
            }
        }
        Err(fail(Code::NOT_FOUND))
    }

    fn describe(&self, gpu: NvmlIndex, handle: ffi::Gi<'_>) -> Result<GpuInstance, NvmlError> {
        let bare = self.bare(gpu, handle)?;
        let fail = |code| NvmlError::Gpu {
            gpu,
            what: format!("cannot list the compute instances of GPU instance {}", bare.id),
            code,
        };
        let mut compute: Vec<ComputeInstance> = Vec::new();
        let all = self.ci_profiles(gpu, bare.profile.0, handle).map_err(fail)?;
        let total = all.first().map_or(0, |p| p.1);
        for (ci_profile, slices) in all {
            if compute.iter().map(|c| c.slices).sum::<u32>() + slices > total {
                continue;
            }
            for ci in self.cis(handle, ci_profile).map_err(fail)? {
                compute.push(self.compute_instance(ci, slices).map_err(fail)?);
            }
        }
        Ok(GpuInstance { compute, ..bare })
    }

    /// The GPU instance without what is in it.
    fn bare(&self, gpu: NvmlIndex, handle: ffi::Gi<'_>) -> Result<GpuInstance, NvmlError> {
        let fail = at(gpu, "cannot describe an instance");
        let (id, profile, start, size) = self.lib.gi_info(handle).map_err(&fail)?;
        let small = |n: u32| u8::try_from(n).map_err(|_| fail(Code(999)));
        let placement = Placement { start: Slice(small(start)?), size: small(size)? };
        Ok(GpuInstance { id, profile: ProfileId(profile), placement, compute: Vec::new() })
    }

    /// The compute instances of one profile. That they cannot be listed does not mean that there are none: the GPU
    /// instance would seem half made, and those are destroyed.
    fn cis(&self, handle: ffi::Gi<'_>, profile: u32) -> Result<Vec<ffi::Ci<'_>>, Code> {
        match self.lib.cis(handle, profile) {
            Err(Code::NOT_SUPPORTED) => Ok(Vec::new()),
            other => other,
        }
    }

    fn compute_instance(&self, ci: ffi::Ci<'_>, slices: u32) -> Result<ComputeInstance, Code> {
        let (device, id, start) = self.lib.ci_info(ci)?;
        Ok(ComputeInstance { id, slices, start, uuid: self.lib.uuid(device)? })
    }

    /// Compute instance profiles of a GPU instance: (id, slices), largest first; there is one at least.
    fn ci_profiles(
        &self,
        gpu: NvmlIndex,
        gi_profile: u32,
        handle: ffi::Gi<'_>,
    ) -> Result<Vec<(u32, u32)>, Code> {
        if let Some(known) = self.known.borrow().compute.get(&(gpu, gi_profile)) {
            return Ok(known.clone());
        }
        let mut found = Vec::new();
        for number in 0..CI_PROFILE_NUMBERS {
            match self.lib.ci_profile(handle, number) {
                Ok(profile) => found.push(profile),
                Err(Code::INVALID_ARGUMENT) => break,
                Err(Code::NOT_SUPPORTED) => {}
                Err(code) => return Err(code),
            }
        }
        if found.is_empty() {
            return Err(Code::NOT_SUPPORTED);
        }
        found.sort_by_key(|(_, slices)| std::cmp::Reverse(*slices));
        self.known.borrow_mut().compute.insert((gpu, gi_profile), found.clone());
        Ok(found)
    }
}
