//! MIG rules, on the state alone: no clock, no lock, no file.

use geometry::Placement;

use super::chip::{CiProfile, GiProfile};
use super::code::{Answer, Code};
use super::handle::{CiRef, GiRef};
use super::ids;
use super::process::Process;
use super::state::{Ci, Gi, State};

/// What became of a change of MIG mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// The mode in force now.
    Done,
    /// In force after a reset.
    ResetRequired,
    /// In force after a reset, which somebody using the GPU prevents now.
    InUse,
}

fn used_mask(state: &State, gpu: u32) -> Answer<u16> {
    let masks = state.gpu(gpu)?.instances.iter().map(|i| mask(i.start, i.size));
    Ok(masks.fold(0, |a, b| a | b))
}

fn mask(start: u8, size: u8) -> u16 {
    Placement { start: geometry::Slice(start), size }.mask()
}

fn has_processes(processes: &[Process], filter: impl Fn(&Process) -> bool) -> bool {
    processes.iter().any(|p| filter(p) && p.is_alive())
}

/// Instances of the profile that can still be made beside those that exist.
///
/// # Errors
///
/// [`Code::NotSupported`] with MIG off, [`Code::InvalidArgument`] for an unknown profile.
pub fn remaining(state: &State, gpu: u32, profile_id: u32) -> Answer<u32> {
    let profile = profile(state, gpu, profile_id)?;
    let starts = free_starts(state, gpu, profile)?;
    let left = left_by_count(state, gpu, profile)?;
    Ok(u32::try_from(starts.len()).unwrap_or(u32::MAX).min(left))
}

fn profile(state: &State, gpu: u32, id: u32) -> Answer<&'static GiProfile> {
    if !state.gpu(gpu)?.mig {
        return Err(Code::NotSupported);
    }
    state.chip(gpu)?.profile(id).ok_or(Code::InvalidArgument)
}

fn free_starts(state: &State, gpu: u32, profile: &GiProfile) -> Answer<Vec<u8>> {
    let used = used_mask(state, gpu)?;
    let size = profile.base.size;
    let starts = profile.base.starts.iter().map(|s| s.0);
    Ok(starts.filter(|&start| mask(start, size) & used == 0).collect())
}

/// The limits that are not placements: instances of the profile, compute slices, media engines.
fn left_by_count(state: &State, gpu: u32, profile: &GiProfile) -> Answer<u32> {
    let chip = state.chip(gpu)?;
    let existing: Vec<&GiProfile> =
        state.gpu(gpu)?.instances.iter().filter_map(|i| chip.profile(i.profile)).collect();
    let same = existing.iter().filter(|p| p.base.id == profile.base.id).count();
    let slices: u32 = existing.iter().map(|p| u32::from(p.base.compute_slices)).sum();
    let by_slices = u32::from(chip.model.compute_slices).saturating_sub(slices)
        / u32::from(profile.base.compute_slices.max(1));
    let by_count = profile.base.max_instances.saturating_sub(u32::try_from(same).unwrap_or(u32::MAX));
    // nvml.h: an instance with all media engines leaves room only for instances without any.
    let takes_all = |p: &GiProfile| p.base.name.contains("me.all");
    let takes_none = |p: &GiProfile| p.base.name.ends_with("-me");
    let clash = existing
        .iter()
        .any(|p| (takes_all(p) && !takes_none(profile)) || (takes_all(profile) && !takes_none(p)));
    Ok(if clash { 0 } else { by_slices.min(by_count) })
}

/// Makes a GPU instance, at `placement` (start, size) or where the driver would put it.
///
/// # Errors
///
/// [`Code::NotSupported`] with MIG off; [`Code::InvalidArgument`] for an unknown profile or an illegal placement;
/// [`Code::InUse`] for the first instance while a process uses the GPU; [`Code::InsufficientResources`] if it does not fit.
pub fn create_gi(
    state: &mut State,
    gpu: u32,
    profile_id: u32,
    placement: Option<(u32, u32)>,
) -> Answer<GiRef> {
    let profile = profile(state, gpu, profile_id)?;
    let base = profile.base;
    let wanted = match placement {
        None => None,
        Some((start, size)) => {
            let legal = base.starts.iter().find(|s| u32::from(s.0) == start && size == u32::from(base.size));
            Some(legal.ok_or(Code::InvalidArgument)?.0)
        }
    };
    let g = state.gpu(gpu)?;
    if g.instances.is_empty() && has_processes(&g.processes, |_| true) {
        return Err(Code::InUse);
    }
    if left_by_count(state, gpu, profile)? == 0 {
        return Err(Code::InsufficientResources);
    }
    let upper_first = upper_first(state, gpu)?;
    let units = state.chip(gpu)?.model.placement_units;
    let mut free = free_starts(state, gpu, profile)?;
    // Without a placement the lowest id wins: on Ampere a small first instance lands in the upper half.
    free.sort_by_key(|&start| ids::gi_id(start, base.size, units, upper_first));
    let start = match wanted {
        Some(start) => free.into_iter().find(|s| *s == start),
        None => free.first().copied(),
    };
    let start = start.ok_or(Code::InsufficientResources)?;
    let g = state.gpu_mut(gpu)?;
    let gi = Gi {
        id: ids::gi_id(start, base.size, units, upper_first),
        profile: profile_id,
        start,
        size: base.size,
        serial: g.take_serial(),
        cis: Vec::new(),
    };
    let made = GiRef { gpu, gi: gi.id, serial: gi.serial };
    g.instances.push(gi);
    g.instances.sort_by_key(|i| i.id);
    Ok(made)
}

fn upper_first(state: &State, gpu: u32) -> Answer<bool> {
    Ok(state.chip(gpu)?.model.arch == "ampere")
}

/// Destroys a GPU instance.
///
/// # Errors
///
/// [`Code::InvalidArgument`] if it is gone, [`Code::InUse`] while it has compute instances or processes.
pub fn destroy_gi(state: &mut State, r: GiRef) -> Answer<()> {
    let gi = state.gi(r)?;
    if !gi.cis.is_empty() || has_processes(&state.gpu(r.gpu)?.processes, |p| p.gi == Some(r.gi)) {
        return Err(Code::InUse);
    }
    state.gpu_mut(r.gpu)?.instances.retain(|i| i.id != r.gi);
    Ok(())
}

/// The compute instance profile `id` of a GPU instance.
///
/// # Errors
///
/// [`Code::InvalidArgument`] for a destroyed instance or an id out of range, [`Code::NotSupported`] for one this instance does not have.
pub fn ci_profile(state: &State, r: GiRef, id: u32) -> Answer<&'static CiProfile> {
    let gi = state.gi(r)?;
    if id >= super::chip::CI_PROFILE_COUNT {
        return Err(Code::InvalidArgument);
    }
    let profile = state.chip(r.gpu)?.profile(gi.profile).ok_or(Code::Unknown)?;
    profile.cis.iter().find(|c| c.id == id).ok_or(Code::NotSupported)
}

fn free_ci_starts(gi: &Gi, profile: &CiProfile) -> Vec<u32> {
    let overlaps = |start: u32, c: &Ci| start < c.start + c.size && c.start < start + profile.slices;
    let free = |start: &u32| !gi.cis.iter().any(|c| overlaps(*start, c));
    profile.starts.iter().copied().filter(free).collect()
}

/// Compute instances of the profile that can still be made in a GPU instance.
///
/// # Errors
///
/// The same as of [`ci_profile`].
pub fn ci_remaining(state: &State, r: GiRef, id: u32) -> Answer<u32> {
    let profile = ci_profile(state, r, id)?;
    let gi = state.gi(r)?;
    let same = u32::try_from(gi.cis.iter().filter(|c| c.profile == id).count()).unwrap_or(u32::MAX);
    let free = u32::try_from(free_ci_starts(gi, profile).len()).unwrap_or(u32::MAX);
    Ok(free.min(profile.max.saturating_sub(same)))
}

/// Makes a compute instance in a GPU instance, at `placement` (start, size) or at the first free one.
///
/// # Errors
///
/// As [`ci_profile`]; [`Code::InvalidArgument`] for an illegal placement, [`Code::InsufficientResources`] if it does not fit.
pub fn create_ci(state: &mut State, r: GiRef, id: u32, placement: Option<(u32, u32)>) -> Answer<CiRef> {
    let profile = ci_profile(state, r, id)?;
    let gi = state.gi(r)?;
    if placement.is_some_and(|(start, size)| size != profile.slices || !profile.starts.contains(&start)) {
        return Err(Code::InvalidArgument);
    }
    if ci_remaining(state, r, id)? == 0 {
        return Err(Code::InsufficientResources);
    }
    let wanted = placement.map(|p| p.0);
    let start = free_ci_starts(gi, profile).into_iter().find(|s| wanted.is_none_or(|w| w == *s));
    let start = start.ok_or(Code::InsufficientResources)?;
    let ci_id = (0..8).find(|id| gi.cis.iter().all(|c| c.id != *id)).ok_or(Code::InsufficientResources)?;
    let text = [r.gi, ci_id, u32::from(gi.start), start].map(|n| n.to_string());
    let gpu_uuid = state.node.gpus.get(r.gpu as usize).map_or("", |s| s.uuid.as_str());
    let uuid = ids::uuid(&[gpu_uuid, &text[0], &text[1], &text[2], &text[3]]);
    let g = state.gpu_mut(r.gpu)?;
    let serial = g.take_serial();
    let gi = g.instances.iter_mut().find(|i| i.id == r.gi).ok_or(Code::InvalidArgument)?;
    gi.cis.push(Ci {
        id: ci_id,
        profile: id,
        start,
        size: profile.slices,
        serial,
        uuid: format!("MIG-{uuid}"),
    });
    gi.cis.sort_by_key(|c| c.id);
    Ok(CiRef { gpu: r.gpu, gi: r.gi, ci: ci_id, serial })
}

/// Destroys a compute instance.
///
/// # Errors
///
/// [`Code::InvalidArgument`] if it is gone, [`Code::InUse`] while a process runs in it.
pub fn destroy_ci(state: &mut State, r: CiRef) -> Answer<()> {
    state.ci(r)?;
    let inside = |p: &Process| p.gi == Some(r.gi) && p.ci.is_none_or(|c| c == r.ci);
    if has_processes(&state.gpu(r.gpu)?.processes, inside) {
        return Err(Code::InUse);
    }
    if let Some(gi) = state.gpu_mut(r.gpu)?.instances.iter_mut().find(|i| i.id == r.gi) {
        gi.cis.retain(|c| c.id != r.ci);
    }
    Ok(())
}

/// Sets the MIG mode. Before Hopper it stays pending until a reset, unless the node file says that the driver resets by itself.
///
/// # Errors
///
/// [`Code::NotSupported`] for a GPU without MIG; [`Code::InUse`] while the GPU has instances, or, where the mode takes
/// effect at once, processes.
pub fn set_mode(state: &mut State, gpu: u32, on: bool) -> Answer<Activation> {
    if !state.chip(gpu)?.model.has_mig() {
        return Err(Code::NotSupported);
    }
    let needs_reset = state.chip(gpu)?.needs_reset();
    let resets_itself = state.node.set_mode_resets;
    let g = state.gpu_mut(gpu)?;
    if g.mig == on {
        g.mig_pending = on;
        return Ok(Activation::Done);
    }
    let busy = has_processes(&g.processes, |_| true);
    if !g.instances.is_empty() || (busy && !needs_reset) {
        return Err(Code::InUse);
    }
    g.mig_pending = on;
    match (needs_reset, resets_itself, busy) {
        (true, true, true) => Ok(Activation::InUse),
        (true, false, _) => Ok(Activation::ResetRequired),
        _ => {
            g.mig = on;
            Ok(Activation::Done)
        }
    }
}

/// Resets a GPU: instances go, the pending mode is in force, limits and clocks are as at the start.
///
/// # Errors
///
/// [`Code::InUse`] while a process uses the GPU.
pub fn reset(state: &mut State, gpu: u32) -> Answer<()> {
    let power = state.node.gpus.get(gpu as usize).ok_or(Code::InvalidArgument)?.power_default_mw;
    let g = state.gpu_mut(gpu)?;
    if has_processes(&g.processes, |_| true) {
        return Err(Code::InUse);
    }
    g.mig = g.mig_pending;
    g.instances.clear();
    g.power_limit_mw = power;
    g.clocks = None;
    Ok(())
}

#[cfg(test)]
#[path = "mig_tests.rs"]
mod tests;
