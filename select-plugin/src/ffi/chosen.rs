//! Which devices cons_tres has chosen on a node, and which it could have.

use plugin_rt::slurmctld::{item, struct_at};
use topology::GpuSet;

use super::host::Host;
use super::read::{MAX_GPUS, enforces_binding, gpu_index, gres_states, job_gres};
use super::{sys, version};
use crate::view::{ChosenView, EntryChoice, GresKind, NodeView, union};

/// Slurm's choice on one node over all entries of the job, and what else it had.
pub(super) fn on_node(host: &Host, job: &sys::job_record_t, node: &NodeView) -> Option<ChosenView> {
    let record = host.node(node.index)?;
    // SAFETY: a slot of the node table.
    let record = unsafe { record.as_ref() };
    let cores = job_cores(host, job, node.index);
    let bound = Some(&cores[..]).filter(|_| enforces_binding(job));
    let mut entries = Vec::new();
    let mut near = GpuSet::EMPTY;
    for (kind, state) in job_gres(host, job) {
        // SAFETY: an element of the job's list.
        let state = unsafe { struct_at(state) }?;
        // SAFETY: an array over the node table, or null.
        let bits = unsafe { item(state.gres_bit_select, node.index) }.unwrap_or(std::ptr::null_mut());
        // SAFETY: null or a live bit string.
        let chosen: GpuSet = unsafe { host.bits_set(bits, MAX_GPUS) }.into_iter().map(gpu_index).collect();
        let accounts = gres_states::<sys::gres_node_state_t>(host, record.gres_list.cast());
        let (_, of_node) = accounts.into_iter().find(|(k, _)| *k == kind)?;
        // SAFETY: the data of a node's GRES entry is a `gres_node_state_t`.
        let of_node = unsafe { struct_at(of_node) }?;
        let amount = amount_on(state, node.index);
        let free = free_devices(host, kind, of_node, state.type_id, amount, bound);
        let free: GpuSet = free.into_iter().map(gpu_index).collect();
        // Cores that Slurm keeps for one GPU go with that GPU: then only its own choice has its cores.
        let keeps_cores = version::keeps_cores_per_gpu(record);
        let available = if keeps_cores { chosen } else { union([free, chosen].into_iter()) };
        let sockets = sockets(host, of_node, available);
        let local = |(at, _): &&(Vec<usize>, GpuSet)| at.is_empty() || at.iter().any(|c| cores.contains(c));
        near = union(sockets.iter().filter(local).map(|(_, gpus)| *gpus).chain([near]));
        let sockets =
            if state.gres_per_socket > 0 { sockets.into_iter().map(|s| s.1).collect() } else { Vec::new() };
        entries.push(EntryChoice { chosen, available, sockets, amount });
    }
    Some(ChosenView { name: node.name.clone(), entries, near })
}

/// Devices by the cores they are near to, numbered within the node; none for those near every core.
fn sockets(host: &Host, state: &sys::gres_node_state_t, devices: GpuSet) -> Vec<(Vec<usize>, GpuSet)> {
    let mut groups: Vec<(Vec<usize>, GpuSet)> = Vec::new();
    for gpu in devices.iter() {
        let record = topo_records(host, state, usize::from(gpu.0)).first().copied();
        let bits = record.and_then(|t| {
            // SAFETY: as in `topo_records`.
            unsafe { item(state.topo_core_bitmap, t) }
        });
        // SAFETY: null or a live bit string.
        let cores = unsafe { host.bits_set(bits.unwrap_or(std::ptr::null_mut()), usize::MAX) };
        match groups.iter_mut().find(|(known, _)| *known == cores) {
            Some((_, group)) => group.insert(gpu),
            None => groups.push((cores, [gpu].into_iter().collect())),
        }
    }
    groups
}

/// Amount of the entry that cons_tres means to take on a node.
pub(super) fn amount_on(state: &sys::gres_job_state_t, node: usize) -> u64 {
    // SAFETY: an array over the node table, or null.
    let selected = unsafe { item(state.gres_cnt_node_select, node) };
    selected.filter(|n| *n > 0).unwrap_or(state.gres_per_node)
}

/// Devices that Slurm could give: unallocated for `gpu`; for `shard` with `amount` left and not allocated whole.
fn free_devices(
    host: &Host,
    kind: GresKind,
    state: &sys::gres_node_state_t,
    type_id: u32,
    amount: u64,
    cores: Option<&[usize]>,
) -> Vec<usize> {
    let other = version::sharing(state);
    // SAFETY: the bit string of a node's GRES; null without device files.
    let size = unsafe { host.size(state.gres_bit_alloc) }.min(MAX_GPUS);
    let allocated = |s: &sys::gres_node_state_t, i: usize| {
        // SAFETY: null or a live bit string.
        unsafe { host.test(s.gres_bit_alloc, i) }
    };
    let free = |i: &usize| match kind {
        GresKind::Gpu => {
            !allocated(state, *i)
                && other.is_none_or(|shared| topo_count(host, shared, *i).is_none_or(|t| t.used == 0))
        }
        GresKind::Shard => {
            topo_count(host, state, *i).is_some_and(|t| t.used + amount <= t.total)
                && !other.is_some_and(|whole| allocated(whole, *i))
        }
    };
    (0..size).filter(free).filter(|i| fits_topology(host, state, *i, type_id, cores)).collect()
}

/// Amount of a node's GRES that jobs have on device `i`.
#[cfg(not(slurm_since = "23.11"))]
pub(super) fn used(host: &Host, state: &sys::gres_node_state_t, i: usize) -> u64 {
    topo_count(host, state, i).map_or(0, |count| count.used)
}

struct Count {
    used: u64,
    total: u64,
}

/// The topology records of a GRES that contain device `i`.
fn topo_records(host: &Host, state: &sys::gres_node_state_t, i: usize) -> Vec<usize> {
    let contains = |t: &usize| {
        // SAFETY: src/common/gres.h: the `topo_` arrays have `topo_cnt` elements, or are null.
        let bits = unsafe { item(state.topo_gres_bitmap, *t) }.unwrap_or(std::ptr::null_mut());
        // SAFETY: null or a live bit string.
        unsafe { host.test(bits, i) }
    };
    (0..usize::from(state.topo_cnt)).filter(contains).collect()
}

fn topo_count(host: &Host, state: &sys::gres_node_state_t, i: usize) -> Option<Count> {
    let record = *topo_records(host, state, i).first()?;
    // SAFETY: as in `topo_records`.
    let used = unsafe { item(state.topo_gres_cnt_alloc, record) }?;
    // SAFETY: as in `topo_records`.
    let total = unsafe { item(state.topo_gres_cnt_avail, record) }?;
    Some(Count { used, total })
}

/// Tells whether a device is of the type asked for and, where that is enforced, near the job's cores.
fn fits_topology(
    host: &Host,
    state: &sys::gres_node_state_t,
    i: usize,
    type_id: u32,
    cores: Option<&[usize]>,
) -> bool {
    let records = topo_records(host, state, i);
    let of_type = |t: &usize| {
        // SAFETY: as in `topo_records`.
        unsafe { item(state.topo_type_id, *t) }.is_some_and(|id| id == type_id)
    };
    let near = |t: &usize| {
        let Some(cores) = cores else { return true };
        // SAFETY: as in `topo_records`.
        let bits = unsafe { item(state.topo_core_bitmap, *t) }.unwrap_or(std::ptr::null_mut());
        // SAFETY: null or a live bit string; null means near every core.
        bits.is_null() || cores.iter().any(|c| unsafe { host.test(bits, *c) })
    };
    (type_id == 0 || records.iter().any(of_type)) && (records.is_empty() || records.iter().any(near))
}

/// The cores cons_tres chose on a node, numbered within it.
pub(super) fn job_cores(host: &Host, job: &sys::job_record_t, node: usize) -> Vec<usize> {
    // SAFETY: null or the live resources of the job that was just tested.
    let Some(resources) = (unsafe { struct_at(job.job_resrcs) }) else { return Vec::new() };
    let cores_of = |i: usize| {
        // SAFETY: a slot of the node table.
        host.node(i).map_or(0, |n| usize::from(unsafe { n.as_ref() }.tot_cores))
    };
    // SAFETY: a bitmap over the node table.
    let before: usize = unsafe { host.bits_set(resources.node_bitmap, node) }.into_iter().map(cores_of).sum();
    let set = |c: &usize| {
        // SAFETY: src/common/job_resources.h: the cores of the job's nodes one after another.
        unsafe { host.test(resources.core_bitmap, before + c) }
    };
    (0..cores_of(node)).filter(set).collect()
}
