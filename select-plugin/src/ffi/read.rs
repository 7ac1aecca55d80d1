//! Slurm's structs to the plain types of `view`.

use std::collections::HashSet;
use std::ffi::CStr;
use std::ptr::NonNull;

use admission::Counted;
use geometry::{JobId, Uid};
use plugin_rt::slurmctld::{entries, item, struct_at, text, variable};
use plugin_rt::spank_env::{BadEnv, MAX_RECORDED_ENTRIES};
use protocol::AdminComment;
use protocol::layout::UNFIT;
use protocol::node_word::split;
use topology::GpuSet;

use super::host::{Host, List};
use super::{licenses, sys, version};
use crate::engine::Heard;
use crate::lifecycle_hooks::NodeGpus;
use crate::memory::JobAddress;
use crate::view::{Allocated, GresKind, GresRequest, JobView, NodeView};

/// Most GPUs per node that are looked at: as many as a [`GpuSet`] holds.
pub(super) const MAX_GPUS: usize = 64;

/// Tells whether the struct layouts this plugin was built with are those of the running slurmctld, as far as the magic
/// numbers behind them can tell: `details` and `part_ptr` lie on either side of the fields that are changed. Nothing that a
/// user can fill counts.
pub(super) fn job_layout_fits(job: &sys::job_record_t) -> bool {
    // SAFETY: a pointer of a job record; if the layout is another one, the first word behind it is not the magic,
    // and slurmctld fills both before it tests a job.
    let details = unsafe { struct_at(job.details) };
    // SAFETY: as above.
    let part = unsafe { struct_at(job.part_ptr) };
    job.magic == sys::JOB_MAGIC
        && details.is_none_or(|d| d.magic == sys::DETAILS_MAGIC)
        && part.is_none_or(|p| p.magic == sys::PART_MAGIC)
}

/// Checks that a job's SPANK environment is not larger than the job submit plugin accepts: the nodes' prologs get all of it, and
/// Slurm drains a node whose prolog cannot be started. Only a job that was submitted without that plugin has a larger one.
pub(super) fn check_env(job: &sys::job_record_t) -> Result<(), BadEnv> {
    // SAFETY: src/slurmctld/slurmctld.h: `spank_job_env` has `spank_job_env_size` elements.
    unsafe { entries(job.spank_job_env, job.spank_job_env_size, MAX_RECORDED_ENTRIES) }.map(drop)
}

/// Tells whether the layout of the node table's records is the one this plugin was built with.
pub(super) fn node_layout_fits(host: &Host) -> bool {
    let node = (0..host.node_count()).find_map(|i| host.node(i));
    // SAFETY: a slot of the node table; hooks run under the node lock.
    node.is_none_or(|n| unsafe { n.as_ref() }.magic == sys::NODE_MAGIC)
}

/// Tells whether the job can be of any interest: it asks for GRES, carries something from SPANK, gets all GPUs of its
/// nodes, or still has the slices of GPUs that it no longer asks for.
pub(super) fn concerns_us(job: &sys::job_record_t) -> bool {
    // SAFETY: null or live details of a live job.
    let exclusive = || unsafe { struct_at(job.details) }.is_some_and(|d| version::exclusive(d.whole_node));
    !job.gres_list_req.is_null() || job.spank_job_env_size > 0 || exclusive() || licenses::has_slices(job)
}

/// The job, as far as placement goes.
pub(super) fn job(host: &Host, job: &sys::job_record_t) -> JobView {
    // SAFETY: null or live details of a live job.
    let details = unsafe { struct_at(job.details) };
    JobView {
        id: JobId(job.job_id),
        uid: Uid(job.user_id),
        request: spank_env(job, protocol::wire::REQUEST_ENV),
        gres: gres_requests(host, job.gres_list_req.cast(), details.is_some_and(|d| d.max_nodes == 1)),
        exclusive: details.is_some_and(|d| version::exclusive(d.whole_node)),
        enforce_bind: enforces_binding(job),
        partition: partition(job),
        // SAFETY: null or NUL-terminated.
        account: unsafe { text(job.account) },
        // SAFETY: null or NUL-terminated.
        comment: AdminComment::parse(&unsafe { text(job.admin_comment) }.unwrap_or_default()),
        now: host.now(),
        starts_by: starts_by(job),
    }
}

/// `--gres-flags=enforce-binding`.
pub(super) fn enforces_binding(job: &sys::job_record_t) -> bool {
    job.bit_flags & u64::from(sys::TESSERA_GRES_ENFORCE_BIND) != 0
}

/// Identifies the record.
pub(super) fn record(job: &sys::job_record_t) -> JobAddress {
    JobAddress(std::ptr::from_ref(job).addr())
}

/// Tells whether a job holds what it was given; a suspended one keeps its GPUs.
pub(super) fn runs(job: &sys::job_record_t) -> bool {
    let base = job.job_state & sys::JOB_STATE_BASE;
    base == sys::JOB_RUNNING || base == sys::JOB_SUSPENDED
}

/// Tells whether a job that has ended has an epilog to come.
pub(super) fn completes(job: &sys::job_record_t) -> bool {
    job.job_state & sys::TESSERA_JOB_COMPLETING != 0
}

/// The last start that the job's deadline leaves: Slurm cancels it when its least run time does not fit any more.
fn starts_by(job: &sys::job_record_t) -> Option<u64> {
    let known = |minutes: u32| minutes != 0 && minutes != sys::NO_VAL && minutes != sys::INFINITE;
    let deadline = u64::try_from(job.deadline).ok().filter(|d| *d != 0 && *d != u64::from(sys::NO_VAL))?;
    let minutes = [job.time_min, job.time_limit].into_iter().find(|m| known(*m)).unwrap_or(0);
    Some(deadline.saturating_sub(u64::from(minutes) * 60))
}

/// The names of the nodes that the job may run on: of any of its partitions, and those it insists on.
pub(super) fn within_reach(host: &Host, job: &sys::job_record_t) -> Vec<String> {
    // SAFETY: null, or the live list of a job's partitions' records where it has several.
    let mut parts = unsafe { host.elements::<sys::part_record_t>(job.part_ptr_list.cast()) };
    if parts.is_empty() {
        parts.push(job.part_ptr);
    }
    let nodes_of = |part: *mut sys::part_record_t| {
        // SAFETY: null or a live partition's record.
        let bits = unsafe { struct_at(part) }.map_or(std::ptr::null_mut(), |p| p.node_bitmap);
        nodes(host, job, bits)
    };
    let nodes: Vec<NodeView> = parts.into_iter().flat_map(nodes_of).collect();
    let insists = nodes.iter().any(|n| n.required);
    nodes.into_iter().filter(|n| n.required || !insists).map(|n| n.name).collect()
}

/// The name of the partition that the job is tested or runs in.
fn partition(job: &sys::job_record_t) -> Option<String> {
    // SAFETY: null or a live partition's record.
    let part = unsafe { struct_at(job.part_ptr) }?;
    // SAFETY: null or NUL-terminated.
    unsafe { text(part.name) }
}

/// The value of a variable in the job's SPANK environment, the last one if it stands there twice.
pub(super) fn spank_env(job: &sys::job_record_t, name: &str) -> Option<String> {
    // SAFETY: src/slurmctld/slurmctld.h: `spank_job_env` has `spank_job_env_size` elements.
    unsafe { variable(job.spank_job_env, job.spank_job_env_size, name) }
}

/// A job's or node's GRES entries of our kinds with their data.
pub(super) fn gres_states<T>(host: &Host, list: *mut List) -> Vec<(GresKind, *mut T)> {
    // SAFETY: null or a live list of `gres_state_t` (src/common/gres.h).
    let entries = unsafe { host.elements::<sys::gres_state_t>(list) };
    entries
        .into_iter()
        .filter_map(|entry| {
            // SAFETY: an element of that list.
            let entry = unsafe { struct_at(entry) }?;
            // SAFETY: null or NUL-terminated.
            let kind = match unsafe { text(entry.gres_name) }?.as_str() {
                "gpu" => GresKind::Gpu,
                "shard" => GresKind::Shard,
                _ => return None,
            };
            Some((kind, entry.gres_data.cast::<T>()))
        })
        .collect()
}

/// A job's GRES entries of our kinds that ask for any.
fn requested(host: &Host, list: *mut List) -> Vec<(GresKind, *mut sys::gres_job_state_t)> {
    let mut states = gres_states::<sys::gres_job_state_t>(host, list);
    // SAFETY: the data of a job's GRES entry is a `gres_job_state_t`.
    states.retain(|(_, state)| unsafe { struct_at(*state) }.is_some_and(asks_for_any));
    states
}

/// Tells whether an entry asks for GPUs at all: one that `--cpus-per-gpu` alone has made does not (22.05; later series refuse it).
fn asks_for_any(state: &sys::gres_job_state_t) -> bool {
    [state.gres_per_job, state.gres_per_node, state.gres_per_socket, state.gres_per_task] != [0; 4]
}

/// `one_node`: the job runs on a single one, so that what it asks per job it asks of that node.
fn gres_requests(host: &Host, list: *mut List, one_node: bool) -> Vec<GresRequest> {
    requested(host, list)
        .into_iter()
        .filter_map(|(kind, data)| {
            // SAFETY: the data of a job's GRES entry is a `gres_job_state_t`.
            let state = unsafe { struct_at(data) }?;
            let per_node = match state.gres_per_node {
                0 if one_node && kind == GresKind::Gpu => state.gres_per_job,
                per_node => per_node,
            };
            Some(GresRequest { kind, per_node, per_socket: state.gres_per_socket > 0 })
        })
        .collect()
}

/// Finds the jobs of a list that preemption ends, in its order. A suspended job keeps its GPU memory.
pub(super) fn victims(host: &Host, list: *mut List) -> Vec<(JobId, *mut sys::job_record_t)> {
    // SAFETY: select.h: null or a live list of job records.
    let jobs = unsafe { host.elements::<sys::job_record_t>(list) };
    let ends = |job: &*mut sys::job_record_t| {
        // SAFETY: preempt.h: asks for the mode of a live job, under slurmctld's job lock.
        let mode = u32::from(unsafe { (host.preempt_mode)(*job) });
        mode == sys::PREEMPT_MODE_REQUEUE || mode == sys::PREEMPT_MODE_CANCEL
    };
    jobs.into_iter()
        .filter(ends)
        // SAFETY: a live job's record.
        .filter_map(|job| unsafe { struct_at(job) }.map(|r| (JobId(r.job_id), job)))
        .collect()
}

/// The nodes whose bits are set.
pub(super) fn nodes(host: &Host, job: &sys::job_record_t, bitmap: *mut sys::bitstr_t) -> Vec<NodeView> {
    // SAFETY: null or live details of a live job.
    let required = unsafe { struct_at(job.details) }.map_or(std::ptr::null_mut(), |d| d.req_node_bitmap);
    // SAFETY: null or a live bitmap over the node table.
    let indices = unsafe { host.bits_set(bitmap, host.node_count()) };
    indices
        .into_iter()
        .filter_map(|index| {
            let node = host.node(index)?;
            // SAFETY: a slot of the node table; hooks run under the node lock.
            let node = unsafe { node.as_ref() };
            Some(NodeView {
                index,
                // SAFETY: null for a deleted node, else NUL-terminated.
                name: unsafe { text(node.name) }?,
                config: node.config_ptr.addr(),
                completing: host.completing(index),
                registered: node.slurmd_start_time != 0,
                // SAFETY: null or NUL-terminated.
                unfit: unsafe { begins_with(node.extra, UNFIT) },
                // SAFETY: null or a live bitmap over the node table.
                required: unsafe { host.test(required, index) },
            })
        })
        .collect()
}

/// Tells whether a string of Slurm's begins with these words. It is not copied: every node is asked in every test.
///
/// # Safety
///
/// `string` is null or NUL-terminated.
unsafe fn begins_with(string: *const std::ffi::c_char, words: &str) -> bool {
    // SAFETY: the caller's promise.
    !string.is_null() && unsafe { CStr::from_ptr(string) }.to_bytes().starts_with(words.as_bytes())
}

/// Reads the facts about its slurmd from a node's record. Only the end of its `extra` is read: every node is asked in every test.
fn heard_of(node: &sys::node_record_t) -> Heard {
    /// Longer than any word.
    const TAIL: usize = 64;
    let started = u64::try_from(node.slurmd_start_time).unwrap_or(0);
    if node.extra.is_null() {
        return Heard { word: None, started };
    }
    // SAFETY: NUL-terminated.
    let extra = unsafe { CStr::from_ptr(node.extra) }.to_bytes();
    let tail = String::from_utf8_lossy(&extra[extra.len().saturating_sub(TAIL)..]);
    Heard { word: split(&tail).1, started }
}

/// Reads the facts about the slurmds of the nodes whose bits are set.
pub(super) fn heard(host: &Host, bitmap: *mut sys::bitstr_t) -> Vec<(String, Heard)> {
    // SAFETY: null or a live bitmap over the node table.
    let indices = unsafe { host.bits_set(bitmap, host.node_count()) };
    let of = |index: usize| {
        // SAFETY: a slot of the node table; hooks run under the node lock.
        let node = unsafe { host.node(index)?.as_ref() };
        // SAFETY: null for a deleted node, else NUL-terminated.
        Some((unsafe { text(node.name) }?, heard_of(node)))
    };
    indices.into_iter().filter_map(of).collect()
}

/// Reads the facts about the slurmds of all nodes.
pub(super) fn heard_of_all(host: &Host) -> Vec<(String, Heard)> {
    named_nodes(host).map(|(_, name, node)| (name, heard_of(node))).collect()
}

/// Every node with its name.
fn named_nodes(host: &Host) -> impl Iterator<Item = (usize, String, &sys::node_record_t)> {
    (0..host.node_count()).filter_map(|i| Some((i, host.node(i)?))).filter_map(|(i, node)| {
        // SAFETY: a slot of the node table; hooks run under the node lock.
        let record = unsafe { node.as_ref() };
        // SAFETY: null for a deleted node, else NUL-terminated.
        Some((i, unsafe { text(record.name) }?, record))
    })
}

/// The names of the nodes on which an epilog is still to end. Called while slurmctld holds the node lock.
pub(super) fn completing(host: &Host) -> HashSet<String> {
    let ending = (0..host.node_count()).filter(|index| host.completing(*index)).filter_map(|i| host.node(i));
    let name = |node: NonNull<sys::node_record_t>| {
        // SAFETY: a slot of the node table; hooks run under the node lock.
        let name = unsafe { node.as_ref() }.name;
        // SAFETY: null for a deleted node, else NUL-terminated.
        unsafe { text(name) }
    };
    ending.filter_map(name).collect()
}

/// Boot time of each node, seconds since 1970, by its place in the node table; 0: it has not registered.
pub(super) fn boots(host: &Host) -> impl Iterator<Item = (usize, u64)> {
    (0..host.node_count()).filter_map(|i| Some((i, host.node(i)?))).map(|(i, node)| {
        // SAFETY: a slot of the node table; hooks run under the node lock.
        let booted = unsafe { node.as_ref() }.boot_time;
        (i, u64::try_from(booted).unwrap_or(0))
    })
}

/// A node's name.
pub(super) fn name_of(host: &Host, node: usize) -> Option<String> {
    // SAFETY: a slot of the node table; hooks run under the node lock.
    let name = unsafe { host.node(node)?.as_ref() }.name;
    // SAFETY: null for a deleted node, else NUL-terminated.
    unsafe { text(name) }
}

/// The `extra` of each node that has one, without the node's word.
pub(super) fn extras(host: &Host) -> Vec<(String, String)> {
    // SAFETY: null or NUL-terminated.
    let extra = |node: &sys::node_record_t| unsafe { text(node.extra) };
    let own = |(_, name, node)| Some((name, split(&extra(node)?).0.to_owned()));
    named_nodes(host).filter_map(own).collect()
}

/// Reads Slurm's counts of every node's GPUs.
pub(super) fn node_gpus(host: &Host) -> Vec<NodeGpus> {
    let gpus = |(_, name, node): (usize, String, &sys::node_record_t)| {
        let mut counted = Counted { mps: has_mps(host, node), ..Counted::default() };
        for (kind, state) in gres_states::<sys::gres_node_state_t>(host, node.gres_list.cast()) {
            // SAFETY: the data of a node's GRES entry is a `gres_node_state_t`.
            let Some(state) = (unsafe { struct_at(state) }) else { continue };
            counted.no_consume |= state.no_consume;
            if kind == GresKind::Gpu {
                counted.gpus = Some(state.gres_cnt_config);
            }
        }
        NodeGpus { node: name, counted }
    };
    named_nodes(host).map(gpus).collect()
}

/// Number of GPUs that Slurm knows on a node; `None` without an entry for them.
pub(super) fn gpus_on(host: &Host, node: usize) -> Option<u64> {
    // SAFETY: a slot of the node table; hooks run under the node lock.
    let list = unsafe { host.node(node)?.as_ref() }.gres_list;
    let states = gres_states::<sys::gres_node_state_t>(host, list.cast());
    let (_, gpus) = states.into_iter().find(|(kind, _)| *kind == GresKind::Gpu)?;
    // SAFETY: the data of a node's GRES entry is a `gres_node_state_t`.
    unsafe { struct_at(gpus) }.map(|state| state.gres_cnt_config)
}

/// Tells whether a node has `gres/mps`.
fn has_mps(host: &Host, node: &sys::node_record_t) -> bool {
    // SAFETY: null or a live list of `gres_state_t` (src/common/gres.h).
    let entries = unsafe { host.elements::<sys::gres_state_t>(node.gres_list.cast()) };
    entries.into_iter().any(|entry| {
        // SAFETY: an element of that list.
        let Some(entry) = (unsafe { struct_at(entry) }) else { return false };
        // SAFETY: null or NUL-terminated.
        if unsafe { text(entry.gres_name) }.as_deref() != Some("mps") {
            return false;
        }
        // SAFETY: the data of a node's GRES entry is a `gres_node_state_t`.
        unsafe { struct_at(entry.gres_data.cast::<sys::gres_node_state_t>()) }
            .is_some_and(|s| s.gres_cnt_config > 0)
    })
}

/// The job's GRES entries of our kinds after a successful test, for `write`.
pub(super) fn job_gres(host: &Host, job: &sys::job_record_t) -> Vec<(GresKind, *mut sys::gres_job_state_t)> {
    requested(host, job.gres_list_req.cast())
}

/// Reads the devices that Slurm has allocated to a running job, per node: whole devices, and shards with their devices.
pub(super) fn allocated(host: &Host, job: &sys::job_record_t) -> Vec<Allocated> {
    // SAFETY: null or the live resources of a running job.
    let Some(resources) = (unsafe { struct_at(job.job_resrcs) }) else { return Vec::new() };
    let nodes = nodes(host, job, resources.node_bitmap);
    let mut found = Vec::new();
    for (kind, state) in gres_states::<sys::gres_job_state_t>(host, job.gres_list_alloc.cast()) {
        // SAFETY: an element of the job's list.
        let Some(state) = (unsafe { struct_at(state) }) else { continue };
        for (i, node) in nodes.iter().enumerate().take(state.node_cnt as usize) {
            // SAFETY: the `_alloc` arrays have `node_cnt` elements, or are null.
            let bits = unsafe { item(state.gres_bit_alloc, i) }.unwrap_or(std::ptr::null_mut());
            // SAFETY: as above.
            let amount = unsafe { item(state.gres_cnt_node_alloc, i) }.unwrap_or(0);
            // SAFETY: null or a live bit string.
            let gpus: GpuSet = unsafe { host.bits_set(bits, MAX_GPUS) }.into_iter().map(gpu_index).collect();
            if !gpus.is_empty() {
                found.push(Allocated { node: node.name.clone(), kind, gpus, amount });
            }
        }
    }
    found
}

pub(super) fn gpu_index(bit: usize) -> geometry::GpuIndex {
    geometry::GpuIndex(u16::try_from(bit).unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zeroed records, as C would make them.
    fn zeroed<T>() -> Box<T> {
        // SAFETY: Slurm's records are plain C structs of numbers and pointers, for which zero is a value.
        unsafe { Box::new(std::mem::zeroed()) }
    }

    #[test]
    fn a_record_whose_magic_lies_elsewhere_is_not_trusted() {
        let mut part: Box<sys::part_record_t> = zeroed();
        part.magic = sys::PART_MAGIC;
        let mut job: Box<sys::job_record_t> = zeroed();
        job.magic = sys::JOB_MAGIC;
        assert!(job_layout_fits(&job));
        job.part_ptr = &raw mut *part;
        assert!(job_layout_fits(&job));
        part.magic = sys::JOB_MAGIC;
        job.part_ptr = &raw mut *part;
        assert!(!job_layout_fits(&job));
        job.part_ptr = std::ptr::null_mut();
        assert!(job_layout_fits(&job));
        job.magic = sys::NODE_MAGIC;
        assert!(!job_layout_fits(&job));
    }

    #[test]
    fn nothing_that_a_user_can_fill_makes_the_structs_misfit() {
        let mut job: Box<sys::job_record_t> = zeroed();
        job.magic = sys::JOB_MAGIC;
        for entries in [0, 1 << 16, u32::MAX] {
            job.spank_job_env_size = entries;
            assert!(job_layout_fits(&job));
            assert_eq!(spank_env(&job, "TESSERA_REQUEST"), None);
            assert_eq!(check_env(&job).is_ok(), entries == 0);
        }
    }

    #[test]
    fn cpus_per_gpu_alone_ask_for_no_gpu() {
        let mut state: Box<sys::gres_job_state_t> = zeroed();
        state.cpus_per_gres = 2;
        assert!(!asks_for_any(&state));
        state.gres_per_task = 1;
        assert!(asks_for_any(&state));
    }

    #[test]
    fn a_deadline_leaves_time_for_the_least_run_time() {
        let mut job: Box<sys::job_record_t> = zeroed();
        let mut last = |deadline, time_min, time_limit| {
            (job.deadline, job.time_min, job.time_limit) = (deadline, time_min, time_limit);
            starts_by(&job)
        };
        assert_eq!(last(0, 0, 3), None);
        assert_eq!(last(sys::NO_VAL.into(), 0, 3), None);
        assert_eq!(last(10_000, 0, 3), Some(9820));
        assert_eq!(last(10_000, 2, 3), Some(9880));
        assert_eq!(last(10_000, sys::NO_VAL, sys::INFINITE), Some(10_000));
    }
}
