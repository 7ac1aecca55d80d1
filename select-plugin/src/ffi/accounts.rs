//! Slurm's GRES lists of nodes, jobs and steps, read as plain values. What they mean: [`crate::slurm_rules`].

use std::ffi::c_void;

use slurm_tables::{ListOf, RecordView};
use slurmctld_rt::{BitString, BitsAt, item};
use topology::GpuSet;

use super::host::Host;
use super::records::{Gres, Job, JobGres, Node, NodeGres, Step, StepGres};
use super::version;
use crate::slurm_rules::{
    Account, AskedNumbers, CountedEntry, Given, ReadEntry, Reservation, Topology, choice, kind_of,
    missing_gpus,
};
use crate::view::{ChosenView, GresKind, NodeView};

/// Most GPUs per node that are looked at: as many as a [`GpuSet`] holds.
pub(super) const MAX_GPUS: usize = 64;

/// The entries of a GRES list: name and data. `T` is the kind of the data: of a node's, a job's or a step's list.
fn entries<T: RecordView>(host: &Host, list: ListOf<Gres>) -> Vec<(String, T)> {
    // SAFETY: the data of an entry of that list, which lives as long as the hook's record.
    let read = |entry: Gres| Some((entry.gres_name()?, unsafe { T::behind(entry.gres_data()) }?));
    host.records(list).into_iter().filter_map(read).collect()
}

/// The entries of our kinds. `T`: see [`entries`].
pub(crate) fn states<T: RecordView>(host: &Host, list: ListOf<Gres>) -> Vec<(GresKind, T)> {
    entries(host, list).into_iter().filter_map(|(name, data)| Some((kind_of(&name)?, data))).collect()
}

/// Numbers that an entry of a job asks for.
pub(crate) fn asked(state: JobGres) -> AskedNumbers {
    AskedNumbers {
        per_job: state.gres_per_job(),
        per_node: state.gres_per_node(),
        per_socket: state.gres_per_socket(),
        per_task: state.gres_per_task(),
    }
}

/// A job's entries of our kinds that ask for any; hooks may write to them under slurmctld's job lock.
pub(crate) fn requested(host: &Host, job: Job) -> Vec<(GresKind, JobGres)> {
    let mut all = states::<JobGres>(host, job.gres_list_req());
    all.retain(|(_, state)| asked(*state).asks_for_any());
    all
}

/// A node's entries of any kind with what it has of each.
pub(crate) fn counted(host: &Host, node: Node) -> Vec<CountedEntry> {
    let count = |(name, state): (String, NodeGres)| CountedEntry {
        name,
        count: state.gres_cnt_config(),
        no_consume: state.no_consume() != 0,
    };
    entries(host, node.gres_list()).into_iter().map(count).collect()
}

/// The GPUs of a bit string over a node's devices.
pub(crate) fn gpus(bits: BitsAt<'_>) -> GpuSet {
    GpuSet::from_bits(bits.below(MAX_GPUS).into_iter().fold(0, |set, bit| set | 1 << bit))
}

/// The GPUs of one of an array's bit strings.
pub(super) fn gpus_at(host: &Host, array: *mut *mut BitString, index: usize) -> GpuSet {
    gpus(bits_at(host, array, index))
}

/// Gives a bit string of an array.
fn bits_at(host: &Host, array: *mut *mut BitString, index: usize) -> BitsAt<'_> {
    // SAFETY: src/common/gres.h: an array that reaches as far as the caller looks, or null.
    let bits = unsafe { item(array, index) }.unwrap_or(std::ptr::null_mut());
    // SAFETY: null or a live bit string.
    unsafe { host.bits.at(bits) }
}

/// Slurm's account of a GRES of a node.
pub(crate) fn account(host: &Host, state: NodeGres) -> Account {
    let topology = |i: usize| {
        // SAFETY: src/common/gres.h: the `topo_` arrays have `topo_cnt` elements, or are null.
        let cores = unsafe { item(state.topo_core_bitmap(), i) }.filter(|bits| !bits.is_null());
        // SAFETY: as above.
        let used = unsafe { item(state.topo_gres_cnt_alloc(), i) };
        // SAFETY: as above.
        let total = unsafe { item(state.topo_gres_cnt_avail(), i) };
        Topology {
            devices: gpus_at(host, state.topo_gres_bitmap(), i),
            // SAFETY: as above.
            type_id: unsafe { item(state.topo_type_id(), i) },
            // SAFETY: a live bit string.
            cores: cores.map(|bits| unsafe { host.bits.at(bits) }.below(usize::MAX)),
            used_of_total: used.zip(total),
        }
    };
    Account {
        // Null without device files.
        devices: host.bits(state.gres_bit_alloc()).size().min(MAX_GPUS),
        allocated: gpus(host.bits(state.gres_bit_alloc())),
        topology: (0..usize::from(state.topo_cnt())).map(topology).collect(),
    }
}

/// Amount of the entry that cons_tres has selected on a node.
pub(crate) fn selected(state: JobGres, node: usize) -> Option<u64> {
    // SAFETY: an array over the node table, or null.
    unsafe { item(state.gres_cnt_node_select(), node) }
}

/// Slurm's choice on one node over all entries of the job, and what else it had. `cores` are those that it chose there.
pub(crate) fn choice_on(
    host: &Host,
    job: Job,
    node: &NodeView,
    (cores, binds, reserved): (&[usize], bool, *mut c_void),
) -> Option<ChosenView> {
    // The lists of reservations are like a job's, with bits over the node table.
    let held = |(kind, state): (GresKind, JobGres)| {
        (kind, state.type_id(), gpus_at(host, state.gres_bit_alloc(), node.index))
    };
    let reserved = version::reserved(reserved).map(|(keeps_to, list)| Reservation {
        keeps_to,
        devices: states(host, list).into_iter().map(held).collect(),
    });
    let record = host.node(node.index)?;
    let of_node = states::<NodeGres>(host, record.gres_list());
    let read = |(kind, state): (GresKind, JobGres)| {
        let (_, account_of_node) = *of_node.iter().find(|(known, _)| *known == kind)?;
        Some(ReadEntry {
            kind,
            chosen: gpus_at(host, state.gres_bit_select(), node.index),
            type_id: state.type_id(),
            selected: selected(state, node.index),
            per_node: state.gres_per_node(),
            is_per_socket: state.gres_per_socket() > 0,
            account: account(host, account_of_node),
            sharing: version::sharing(account_of_node).map(|state| account(host, state)),
            reserved: reserved.clone(),
        })
    };
    let entries: Vec<ReadEntry> = requested(host, job).into_iter().map(read).collect::<Option<_>>()?;
    let keeps_cores = version::keeps_cores_per_gpu(record);
    Some(choice(node.name.to_string(), &entries, cores, binds, keeps_cores))
}

/// Marks the devices of a node's shards that jobs use as allocated. Slurm before 23.11 forgets that a device has shards when one of its
/// jobs ends, whoever else has shards there, and gives the device whole to the next job (`_job_dealloc` in `gres_ctld.c`). Its counts
/// stay right, and later series go by these.
pub(crate) fn restore_shared_bits(host: &Host, node: Node) {
    if version::counts_by_device() {
        return;
    }
    for (kind, state) in states::<NodeGres>(host, node.gres_list()) {
        if kind == GresKind::Shard {
            add_gpus(host.bits(state.gres_bit_alloc()), account(host, state).in_use());
        }
    }
}

/// Gives a step with shards all GPUs of its job's shards. Slurm forgets a step's devices without counting them.
pub(crate) fn give_step_all_gpus(host: &Host, job: Job, step: Step) {
    let given = |type_id, nodes: u32, bits| Given {
        type_id,
        by_node: (0..nodes as usize).map(|node| gpus_at(host, bits, node)).collect(),
    };
    let of_job = states::<JobGres>(host, job.gres_list_alloc());
    let of_job: Vec<Given> = of_job
        .into_iter()
        .map(|(_, all)| given(all.type_id(), all.node_cnt(), all.gres_bit_alloc()))
        .collect();
    for (kind, own) in states::<StepGres>(host, step.gres_list_alloc()) {
        if kind != GresKind::Shard {
            continue;
        }
        for (node, gpus) in missing_gpus(&given(own.type_id(), own.node_cnt(), own.gres_bit_alloc()), &of_job)
        {
            add_gpus(bits_at(host, own.gres_bit_alloc(), node), gpus);
        }
    }
}

fn add_gpus(bits: BitsAt<'_>, gpus: GpuSet) {
    gpus.iter().for_each(|gpu| bits.put(usize::from(gpu.0), true));
}
