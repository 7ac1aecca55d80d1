//! Slurm's records of jobs, read as plain values.

use geometry::{JobId, Uid};
use protocol::AdminComment;
use protocol::wire::{PLACEMENT_ENV, REQUEST_ENV, WHY_ENV, parse_request};
use slurmctld_rt::spank_env::{BadEnv, MAX_RECORDED_ENTRIES};
use slurmctld_rt::{List, entries, item, struct_at, text, variable};

use super::host::Host;
use super::{accounts, licenses, nodes, sys, version};
use crate::lifecycle_hooks::Running;
use crate::memory::JobAddress;
use crate::slurm_rules::{self, PreemptMode, starts_by};
use crate::view::{Allocated, GresKind, GresRequest, JobView, NodeView};

const _: () = assert!(sys::NO_VAL == slurm_rules::NO_VAL && sys::INFINITE == slurm_rules::INFINITE);

/// Tells whether the struct layouts this plugin was built with are those of the running slurmctld, as far as the magic
/// numbers behind them can tell: `details` and `part_ptr` lie on either side of the fields that are changed. Nothing that a
/// user can fill counts.
pub(super) fn layout_fits(job: &sys::job_record_t) -> bool {
    // SAFETY: a pointer of a job record; if the layout is another one, the first word behind it is not the magic,
    // and slurmctld fills it, as `details`, before it tests a job.
    let part = unsafe { struct_at(job.part_ptr) };
    job.magic == sys::JOB_MAGIC
        && details(job).is_none_or(|d| d.magic == sys::DETAILS_MAGIC)
        && part.is_none_or(|p| p.magic == sys::PART_MAGIC)
}

/// Checks that a job's SPANK environment is not larger than the job submit plugin accepts: the nodes' prologs get all of it, and
/// Slurm drains a node whose prolog cannot be started. Only a job that was submitted without that plugin has a larger one.
pub(super) fn check_env(job: &sys::job_record_t) -> Result<(), BadEnv> {
    // SAFETY: src/slurmctld/slurmctld.h: `spank_job_env` has `spank_job_env_size` elements.
    unsafe { entries(job.spank_job_env, job.spank_job_env_size, MAX_RECORDED_ENTRIES) }.map(drop)
}

/// Tells whether the job can be of any interest: it asks for GRES, carries something from SPANK, gets all GPUs of its
/// nodes, or still has the slices of GPUs that it no longer asks for.
pub(super) fn concerns_us(job: &sys::job_record_t) -> bool {
    let carries_any = !job.gres_list_req.is_null() || job.spank_job_env_size > 0;
    carries_any || is_exclusive(job) || licenses::has_slices(job)
}

fn details(job: &sys::job_record_t) -> Option<&version::JobDetails> {
    // SAFETY: null or live details of a live job.
    unsafe { struct_at(job.details) }
}

fn is_exclusive(job: &sys::job_record_t) -> bool {
    details(job).is_some_and(|d| version::exclusive(d.whole_node))
}

/// The job, as far as placement goes.
pub(super) fn view(host: &Host, job: &sys::job_record_t) -> JobView {
    JobView {
        id: JobId(job.job_id),
        uid: Uid(job.user_id),
        request: spank_env(job, REQUEST_ENV).and_then(|text| parse_request(&text).ok()),
        gres: requests(host, job),
        exclusive: is_exclusive(job),
        enforce_bind: enforces_binding(job),
        ranked: is_ranked(host, job),
        cpus: cpus(job),
        partition: partition(job),
        // SAFETY: null or NUL-terminated.
        account: unsafe { text(job.account) },
        // SAFETY: null or NUL-terminated.
        comment: AdminComment::parse(&unsafe { text(job.admin_comment) }.unwrap_or_default()),
        now: host.now(),
        starts_by: starts_by(job.deadline, [job.time_min, job.time_limit]),
    }
}

/// See [`JobView::cpus`].
fn cpus(job: &sys::job_record_t) -> u32 {
    // `tres_req_cnt` is not there yet when a job is first tested.
    details(job).map_or(0, |d| slurm_rules::cpus_per_node(d.min_cpus, d.min_nodes))
}

/// See [`JobView::ranked`].
fn is_ranked(host: &Host, job: &sys::job_record_t) -> bool {
    // SAFETY: null or a live partition's record.
    let flags = unsafe { struct_at(job.part_ptr) }.map_or(0, |part| u64::from(part.flags));
    let least_loaded = host.takes_least_loaded() || flags & u64::from(sys::TESSERA_PARTITION_LLN) != 0;
    let one_node =
        |d: &version::JobDetails| slurm_rules::gets_one_node(d.max_nodes, d.min_nodes, d.num_tasks);
    !least_loaded && details(job).is_some_and(one_node)
}

fn requests(host: &Host, job: &sys::job_record_t) -> Vec<GresRequest> {
    let one_node = details(job).is_some_and(|d| d.max_nodes == 1);
    let request = |(kind, state): (GresKind, *mut sys::gres_job_state_t)| {
        // SAFETY: the data of a job's GRES entry is a `gres_job_state_t`.
        Some(accounts::asked(unsafe { struct_at(state) }?).request(kind, one_node))
    };
    accounts::requested(host, job).into_iter().filter_map(request).collect()
}

/// `--gres-flags=enforce-binding`.
pub(super) fn enforces_binding(job: &sys::job_record_t) -> bool {
    job.bit_flags & u64::from(sys::TESSERA_GRES_ENFORCE_BIND) != 0
}

/// Identifies the record.
pub(super) fn address(job: &sys::job_record_t) -> JobAddress {
    JobAddress(std::ptr::from_ref(job).addr())
}

/// Tells whether a job holds what it was given; a suspended one keeps its GPUs.
pub(super) fn runs(job: &sys::job_record_t) -> bool {
    [sys::JOB_RUNNING, sys::JOB_SUSPENDED].contains(&(job.job_state & sys::JOB_STATE_BASE))
}

/// Tells whether a job that has ended has an epilog to come.
pub(super) fn completes(job: &sys::job_record_t) -> bool {
    job.job_state & sys::TESSERA_JOB_COMPLETING != 0
}

/// The names of the nodes that the job may run on: of any of its partitions, and those it insists on.
pub(super) fn within_reach(host: &Host, job: &sys::job_record_t) -> Vec<String> {
    // SAFETY: null, or the live list of a job's partitions' records where it has several.
    let mut parts = unsafe { host.lists.elements::<sys::part_record_t>(job.part_ptr_list.cast()) };
    if parts.is_empty() {
        parts.push(job.part_ptr);
    }
    let nodes_of = |part: *mut sys::part_record_t| {
        // SAFETY: null or a live partition's record.
        let bits = unsafe { struct_at(part) }.map_or(std::ptr::null_mut(), |p| p.node_bitmap);
        nodes::views(host, job, bits)
    };
    slurm_rules::within_reach(parts.into_iter().flat_map(nodes_of).collect())
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

/// Finds the jobs of a list that preemption ends, in its order.
pub(super) fn victims(host: &Host, list: *mut List) -> Vec<(JobId, *mut sys::job_record_t)> {
    // SAFETY: select.h: null or a live list of job records.
    let jobs = unsafe { host.lists.elements::<sys::job_record_t>(list) };
    let mode = |job: *mut sys::job_record_t| {
        // SAFETY: preempt.h: asks for the mode of a live job, under slurmctld's job lock.
        match u32::from(unsafe { (host.preempt_mode)(job) }) {
            sys::PREEMPT_MODE_REQUEUE => PreemptMode::Requeue,
            sys::PREEMPT_MODE_CANCEL => PreemptMode::Cancel,
            _ => PreemptMode::Other,
        }
    };
    jobs.into_iter()
        .filter(|job| mode(*job).ends_the_job())
        // SAFETY: a live job's record.
        .filter_map(|job| unsafe { struct_at(job) }.map(|r| (JobId(r.job_id), job)))
        .collect()
}

/// The nodes of a job that has resources.
pub(super) fn nodes_of(host: &Host, job: &sys::job_record_t) -> Vec<NodeView> {
    // SAFETY: null, or the resources of a job, which Slurm keeps until its epilog is over.
    let bits = unsafe { struct_at(job.job_resrcs) }.map_or(std::ptr::null_mut(), |r| r.node_bitmap);
    nodes::views(host, job, bits)
}

/// Reads the devices that Slurm has allocated to a running job, per node: whole devices, and shards with their devices.
fn allocated(host: &Host, job: &sys::job_record_t) -> Vec<Allocated> {
    let nodes = nodes_of(host, job);
    let mut found = Vec::new();
    for (kind, state) in accounts::states::<sys::gres_job_state_t>(host, job.gres_list_alloc.cast()) {
        for (i, node) in nodes.iter().enumerate().take(state.node_cnt as usize) {
            let gpus = accounts::gpus_at(host, state.gres_bit_alloc, i);
            // SAFETY: the `_alloc` arrays have `node_cnt` elements, or are null.
            let amount = unsafe { item(state.gres_cnt_node_alloc, i) }.unwrap_or(0);
            found.push(Allocated { node: node.name.clone(), kind, gpus, amount });
        }
    }
    found.retain(|allocated| !allocated.gpus.is_empty());
    found
}

/// A job that holds something.
pub(super) fn running(host: &Host, job: &sys::job_record_t) -> Running {
    Running {
        record: address(job),
        view: view(host, job),
        allocated: allocated(host, job),
        placement: spank_env(job, PLACEMENT_ENV),
        why: spank_env(job, WHY_ENV),
    }
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
        assert!(layout_fits(&job));
        job.part_ptr = &raw mut *part;
        assert!(layout_fits(&job));
        part.magic = sys::JOB_MAGIC;
        job.part_ptr = &raw mut *part;
        assert!(!layout_fits(&job));
        job.part_ptr = std::ptr::null_mut();
        assert!(layout_fits(&job));
        job.magic = sys::NODE_MAGIC;
        assert!(!layout_fits(&job));
    }

    #[test]
    fn nothing_that_a_user_can_fill_makes_the_structs_misfit() {
        let mut job: Box<sys::job_record_t> = zeroed();
        job.magic = sys::JOB_MAGIC;
        for entries in [0, 1 << 16, u32::MAX] {
            job.spank_job_env_size = entries;
            assert!(layout_fits(&job));
            assert_eq!(spank_env(&job, "TESSERA_REQUEST"), None);
            assert_eq!(check_env(&job).is_ok(), entries == 0);
        }
    }
}
