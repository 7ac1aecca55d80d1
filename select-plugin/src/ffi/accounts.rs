//! Slurm's GRES lists of nodes, jobs and steps, read as plain values. What they mean: [`crate::slurm_rules`].

use slurmctld_rt::{List, item, struct_at, text};
use topology::GpuSet;

use super::host::Host;
use super::{sys, version};
use crate::slurm_rules::{Account, AskedNumbers, CountedEntry, ReadEntry, Topology, choice, kind_of};
use crate::view::{ChosenView, GresKind, NodeView};

/// Most GPUs per node that are looked at: as many as a [`GpuSet`] holds.
pub(super) const MAX_GPUS: usize = 64;

/// The entries of a GRES list: name and data.
fn entries<T>(host: &Host, list: *mut List) -> Vec<(String, *mut T)> {
    // SAFETY: null or a live list of `gres_state_t` (src/common/gres.h).
    let entries = unsafe { host.lists.elements::<sys::gres_state_t>(list) };
    let read = |entry: *mut sys::gres_state_t| {
        // SAFETY: an element of that list.
        let entry = unsafe { struct_at(entry) }?;
        // SAFETY: null or NUL-terminated.
        Some((unsafe { text(entry.gres_name) }?, entry.gres_data.cast::<T>()))
    };
    entries.into_iter().filter_map(read).collect()
}

/// The entries of our kinds. `T` is the type of their data.
pub(super) fn states<T>(host: &Host, list: *mut List) -> Vec<(GresKind, &T)> {
    let state = |(name, data): (String, *mut T)| {
        // SAFETY: the data of a GRES entry, which lives as long as the hook's record.
        Some((kind_of(&name)?, unsafe { struct_at(data) }?))
    };
    entries(host, list).into_iter().filter_map(state).collect()
}

/// Numbers that an entry of a job asks for.
pub(super) fn asked(state: &sys::gres_job_state_t) -> AskedNumbers {
    AskedNumbers {
        per_job: state.gres_per_job,
        per_node: state.gres_per_node,
        per_socket: state.gres_per_socket,
        per_task: state.gres_per_task,
    }
}

/// A job's entries of our kinds that ask for any; hooks may write to them under slurmctld's job lock.
pub(super) fn requested(host: &Host, job: &sys::job_record_t) -> Vec<(GresKind, *mut sys::gres_job_state_t)> {
    let of_kind = |(name, data): (String, *mut sys::gres_job_state_t)| Some((kind_of(&name)?, data));
    let mut all: Vec<_> = entries(host, job.gres_list_req.cast()).into_iter().filter_map(of_kind).collect();
    // SAFETY: the data of a job's GRES entry is a `gres_job_state_t`.
    all.retain(|(_, data)| unsafe { struct_at(*data) }.is_some_and(|state| asked(state).asks_for_any()));
    all
}

/// A node's entries of any kind with what it has of each.
pub(super) fn counted(host: &Host, node: &sys::node_record_t) -> Vec<CountedEntry> {
    let count = |(name, data): (String, *mut sys::gres_node_state_t)| {
        // SAFETY: the data of a node's GRES entry is a `gres_node_state_t`.
        let state = unsafe { struct_at(data) }?;
        Some(CountedEntry { name, count: state.gres_cnt_config, no_consume: state.no_consume })
    };
    entries(host, node.gres_list.cast()).into_iter().filter_map(count).collect()
}

/// The GPUs of a bit string over a node's devices.
pub(super) fn gpus(host: &Host, bits: *mut sys::bitstr_t) -> GpuSet {
    // SAFETY: null or a live bit string.
    let bits = unsafe { host.bits.at(bits) }.below(MAX_GPUS);
    GpuSet::from_bits(bits.into_iter().fold(0, |set, bit| set | 1 << bit))
}

/// The GPUs of one of an array's bit strings.
pub(super) fn gpus_at(host: &Host, array: *mut *mut sys::bitstr_t, index: usize) -> GpuSet {
    // SAFETY: src/common/gres.h: an array that reaches as far as the caller looks, or null.
    gpus(host, unsafe { item(array, index) }.unwrap_or(std::ptr::null_mut()))
}

/// Slurm's account of a GRES of a node.
pub(super) fn account(host: &Host, state: &sys::gres_node_state_t) -> Account {
    let topology = |i: usize| {
        // SAFETY: src/common/gres.h: the `topo_` arrays have `topo_cnt` elements, or are null.
        let cores = unsafe { item(state.topo_core_bitmap, i) }.filter(|bits| !bits.is_null());
        // SAFETY: as above.
        let used = unsafe { item(state.topo_gres_cnt_alloc, i) };
        // SAFETY: as above.
        let total = unsafe { item(state.topo_gres_cnt_avail, i) };
        Topology {
            devices: gpus_at(host, state.topo_gres_bitmap, i),
            // SAFETY: as above.
            type_id: unsafe { item(state.topo_type_id, i) },
            // SAFETY: a live bit string.
            cores: cores.map(|bits| unsafe { host.bits.at(bits) }.below(usize::MAX)),
            used_of_total: used.zip(total),
        }
    };
    Account {
        // SAFETY: the bit string of a node's GRES; null without device files.
        devices: unsafe { host.bits.at(state.gres_bit_alloc) }.size().min(MAX_GPUS),
        allocated: gpus(host, state.gres_bit_alloc),
        topology: (0..usize::from(state.topo_cnt)).map(topology).collect(),
    }
}

/// Amount of the entry that cons_tres has selected on a node.
pub(super) fn selected(state: &sys::gres_job_state_t, node: usize) -> Option<u64> {
    // SAFETY: an array over the node table, or null.
    unsafe { item(state.gres_cnt_node_select, node) }
}

/// Slurm's choice on one node over all entries of the job, and what else it had. `cores` are those that it chose there.
pub(super) fn choice_on(
    host: &Host,
    job: &sys::job_record_t,
    node: &NodeView,
    (cores, binds): (&[usize], bool),
) -> Option<ChosenView> {
    let record = host.node(node.index)?;
    let of_node = states::<sys::gres_node_state_t>(host, record.gres_list.cast());
    let read = |(kind, state): (GresKind, *mut sys::gres_job_state_t)| {
        // SAFETY: an element of the job's list.
        let state = unsafe { struct_at(state) }?;
        let (_, account_of_node) = of_node.iter().find(|(known, _)| *known == kind)?;
        Some(ReadEntry {
            kind,
            chosen: gpus_at(host, state.gres_bit_select, node.index),
            type_id: state.type_id,
            selected: selected(state, node.index),
            per_node: state.gres_per_node,
            is_per_socket: state.gres_per_socket > 0,
            account: account(host, account_of_node),
            sharing: version::sharing(account_of_node).map(|state| account(host, state)),
        })
    };
    let entries: Vec<ReadEntry> = requested(host, job).into_iter().map(read).collect::<Option<_>>()?;
    let keeps_cores = version::keeps_cores_per_gpu(record);
    Some(choice(node.name.clone(), &entries, cores, binds, keeps_cores))
}

/// Marks the devices of a node's shards that jobs use as allocated. Slurm before 23.11 forgets that a device has shards when one of its
/// jobs ends, whoever else has shards there, and gives the device whole to the next job (`_job_dealloc` in `gres_ctld.c`). Its counts
/// stay right, and later series go by these.
#[cfg(not(slurm_since = "23.11"))]
pub(super) fn restore_shared_bits(host: &Host, node: &sys::node_record_t) {
    for (kind, state) in states::<sys::gres_node_state_t>(host, node.gres_list.cast()) {
        if kind == GresKind::Shard {
            add_gpus(host, state.gres_bit_alloc, account(host, state).in_use());
        }
    }
}

/// Gives a step with shards all GPUs of its job's shards. Slurm forgets a step's devices without counting them.
#[cfg(not(slurm_since = "25.05"))]
pub(super) fn give_step_all_gpus(host: &Host, job: &sys::job_record_t, step: &sys::step_record_t) {
    use crate::slurm_rules::{Given, missing_gpus};

    let given = |type_id, nodes: u32, bits| Given {
        type_id,
        by_node: (0..nodes as usize).map(|node| gpus_at(host, bits, node)).collect(),
    };
    let of_job = states::<sys::gres_job_state_t>(host, job.gres_list_alloc.cast());
    let of_job: Vec<Given> =
        of_job.into_iter().map(|(_, all)| given(all.type_id, all.node_cnt, all.gres_bit_alloc)).collect();
    for (kind, own) in states::<sys::gres_step_state_t>(host, step.gres_list_alloc.cast()) {
        if kind != GresKind::Shard {
            continue;
        }
        for (node, gpus) in missing_gpus(&given(own.type_id, own.node_cnt, own.gres_bit_alloc), &of_job) {
            // SAFETY: src/common/gres.h: an array of `node_cnt` elements, or null.
            let bits = unsafe { item(own.gres_bit_alloc, node) };
            add_gpus(host, bits.unwrap_or(std::ptr::null_mut()), gpus);
        }
    }
}

#[cfg(not(slurm_since = "25.05"))]
fn add_gpus(host: &Host, bits: *mut sys::bitstr_t, gpus: GpuSet) {
    // SAFETY: null, or a bit string of a record that the hook may write to.
    let bits = unsafe { host.bits.at(bits) };
    gpus.iter().for_each(|gpu| bits.put(usize::from(gpu.0), true));
}
