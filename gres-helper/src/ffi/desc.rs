//! Job descriptions and records: reading what concerns us, writing the little that changes.

use std::collections::BTreeSet;
use std::ffi::c_char;

use placement::matched::MATCH_ENV;
use placement::planned::{asks, encode_asks, is_ours, with_asks};
use placement::wire::{PLACEMENT_ENV, REQUEST_ENV, WHY_ENV};
use plugin_rt::text;

use super::accounts;
use super::host::Host;
use super::{sys, version};
use crate::submission::{Submission, distinct};
use crate::tres::{Tres, with_entry, with_shards};

/// The value of a variable in a SPANK job environment, the last one if it stands there twice.
///
/// # Safety
///
/// `env` is null or an array of `size` pointers, each null or to a NUL-terminated string.
pub(super) unsafe fn spank_env(env: *mut *mut c_char, size: u32, name: &str) -> Option<String> {
    // SAFETY: the caller's promise.
    let entries = unsafe { entries(env, size) };
    entries
        .into_iter()
        .filter_map(|(_, entry)| entry.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
        .next_back()
}

/// # Safety
///
/// As [`spank_env`].
unsafe fn entries(env: *mut *mut c_char, size: u32) -> Vec<(*mut c_char, String)> {
    let count = if env.is_null() { 0 } else { size as usize };
    let mut found = Vec::with_capacity(count);
    for i in 0..count {
        // SAFETY: the caller's promise: inside the array.
        let slot = unsafe { env.add(i) };
        // SAFETY: as above.
        let entry = unsafe { slot.read() };
        // SAFETY: the caller's promise.
        found.push((entry, unsafe { text(entry) }.unwrap_or_default()));
    }
    found
}

/// The submission as plain values; nothing is looked up for one that asks nothing of Tessera.
pub(super) fn submission(host: &Host, desc: &sys::job_desc_msg_t) -> Submission {
    // SAFETY: slurm.h: `spank_job_env` has `spank_job_env_size` elements.
    let request = unsafe { spank_env(desc.spank_job_env, desc.spank_job_env_size, REQUEST_ENV) };
    if request.is_none() {
        return Submission::default();
    }
    // SAFETY: null or NUL-terminated, here and below.
    let partition = unsafe { text(desc.partition) }.or_else(|| host.default_partition());
    let partitions = distinct(&partition.unwrap_or_default());
    // SAFETY: as above.
    let required = unsafe { text(desc.req_nodes) };
    Submission {
        request,
        tres: tres(desc),
        partition_nodes: nodes_of(host, &partitions),
        required_nodes: required
            .filter(|list| !list.is_empty())
            .and_then(|list| site_config::hostlist::expand(&list).ok())
            .map(|list| list.into_iter().collect()),
        exclusive: u32::from(desc.shared) == sys::JOB_SHARED_NONE
            || partitions.iter().any(|p| host.is_exclusive(p)),
        // SAFETY: as above.
        account: unsafe { text(desc.account) }
            .filter(|account| !account.is_empty())
            .or_else(|| accounts::default_of(desc.user_id)),
        partitions,
    }
}

/// The lists of resources.
pub(super) fn tres(desc: &sys::job_desc_msg_t) -> Tres {
    // SAFETY: slurm.h: strings of a job description are null or NUL-terminated.
    let list = |field: *mut c_char| unsafe { text(field) }.filter(|t| !t.is_empty());
    Tres {
        per_job: list(desc.tres_per_job),
        per_node: list(desc.tres_per_node),
        per_socket: list(desc.tres_per_socket),
        per_task: list(desc.tres_per_task),
    }
}

/// Adds GRES to the job.
pub(super) fn add_gres(host: &Host, desc: &mut sys::job_desc_msg_t, name: &str, count: u32) {
    let list = with_entry(tres(desc).per_node.as_deref(), &version::gres(name, count));
    host.replace(&mut desc.tres_per_node, &list);
}

/// Shows a moldable job's request in its AdminComment, the only place where a planner can see it; a text that somebody
/// else has written is left alone.
pub(super) fn show_request(host: &Host, desc: &mut sys::job_desc_msg_t, request: &str) {
    // SAFETY: slurmctld.h: null or NUL-terminated.
    let before = unsafe { text(desc.admin_comment) }.unwrap_or_default();
    if is_ours(&before) {
        host.replace(&mut desc.admin_comment, &encode_asks(request));
    }
}

/// Lets an AdminComment of ours, in a change to a pending moldable job, still show what the job asks.
pub(super) fn keep_request_shown(host: &Host, change: &mut sys::job_desc_msg_t, request: Option<&str>) {
    // SAFETY: slurm.h: null or NUL-terminated.
    let comment = unsafe { text(change.admin_comment) }.filter(|c| is_ours(c) && asks(c).is_none());
    if let (Some(comment), Some(request)) = (comment, request) {
        let shown = if comment.is_empty() { encode_asks(request) } else { with_asks(&comment, request) };
        host.replace(&mut change.admin_comment, &shown);
    }
}

/// Gives the job of a change this many shards per node instead of what `job` has.
pub(super) fn set_shards(host: &Host, change: &mut sys::job_desc_msg_t, job: &sys::job_record_t, count: u32) {
    // SAFETY: slurmctld.h: null or NUL-terminated.
    let before = unsafe { text(job.tres_per_node) };
    let list = with_shards(before.as_deref(), &version::gres("shard", count));
    host.replace(&mut change.tres_per_node, &list);
}

/// A pending job and a change to it as the submission it would be.
pub(super) fn changed(host: &Host, change: &sys::job_desc_msg_t, job: &sys::job_record_t) -> Submission {
    // SAFETY: slurmctld.h: null or the live details of a live job.
    let details = unsafe { job.details.as_ref() };
    let first = |new: *mut c_char, old: *mut c_char| {
        // SAFETY: null or NUL-terminated.
        let new = unsafe { text(new) }.filter(|t| !t.is_empty());
        // SAFETY: as above.
        new.or_else(|| unsafe { text(old) }).filter(|t| !t.is_empty())
    };
    let none = std::ptr::null_mut();
    let partitions = distinct(&first(change.partition, job.partition).unwrap_or_default());
    let required = first(change.req_nodes, details.map_or(none, |d| d.req_nodes));
    Submission {
        // SAFETY: slurmctld.h: `spank_job_env` has `spank_job_env_size` elements.
        request: unsafe { spank_env(job.spank_job_env, job.spank_job_env_size, REQUEST_ENV) },
        tres: Tres::default(),
        partition_nodes: nodes_of(host, &partitions),
        required_nodes: required
            .and_then(|list| site_config::hostlist::expand(&list).ok())
            .map(|list| list.into_iter().collect()),
        account: first(change.account, job.account),
        exclusive: false,
        partitions,
    }
}

/// The nodes of all these partitions; `None`: not known of one, or no partition.
fn nodes_of(host: &Host, partitions: &[String]) -> Option<BTreeSet<String>> {
    let sets: Option<Vec<BTreeSet<String>>> = partitions.iter().map(|p| host.partition_nodes(p)).collect();
    sets.filter(|sets| !sets.is_empty()).map(|sets| sets.into_iter().flatten().collect())
}

/// Removes every placement and its reason from the job's SPANK environment, and sets the request to `request` where
/// there is one.
pub(super) fn rewrite_env(host: &Host, desc: &mut sys::job_desc_msg_t, request: Option<&str>) {
    // SAFETY: slurm.h: `spank_job_env` has `spank_job_env_size` elements.
    let before = unsafe { entries(desc.spank_job_env, desc.spank_job_env_size) };
    let replaces = |entry: &str| {
        let name = entry.split('=').next().unwrap_or_default();
        let name = name.strip_prefix("SPANK_").unwrap_or(name);
        [PLACEMENT_ENV, WHY_ENV, MATCH_ENV].contains(&name) || (name == REQUEST_ENV && request.is_some())
    };
    let (dropped, kept): (Vec<_>, Vec<_>) = before.into_iter().partition(|(_, entry)| replaces(entry));
    if dropped.is_empty() && request.is_none() {
        return;
    }
    let mut kept: Vec<*mut c_char> = kept.into_iter().map(|(entry, _)| entry).collect();
    kept.extend(request.map(|r| host.duplicate(&format!("{REQUEST_ENV}={r}"))));
    for (mut entry, _) in dropped {
        host.drop_string(&mut entry);
    }
    host.grow(&mut desc.spank_job_env, kept.len().max(desc.spank_job_env_size as usize) + 1);
    for (i, entry) in kept.iter().enumerate() {
        // SAFETY: the array has room for one more than `kept`.
        let slot = unsafe { desc.spank_job_env.add(i) };
        // SAFETY: as above.
        unsafe { slot.write(*entry) };
    }
    desc.spank_job_env_size = u32::try_from(kept.len()).unwrap_or(u32::MAX);
}
