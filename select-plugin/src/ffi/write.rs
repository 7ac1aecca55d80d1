//! The few writes into slurmctld: node bitmap, device bits, SPANK environment, node text.

use std::ffi::{CString, c_char};
use std::ptr::NonNull;

use placement::matched::MATCH_ENV;
use placement::planned::{is_ours, with_asks};
use placement::wire::{PLACEMENT_ENV, WHY_ENV};

use super::host::Host;
use super::{ptr as read, sys, version};
use crate::commit::{Placed, split};
use crate::view::{GresKind, NodeView};

/// Takes nodes out of the bitmap of candidates.
pub(super) fn rule_out(host: &Host, bitmap: *mut sys::bitstr_t, nodes: &[usize]) {
    for node in nodes {
        // SAFETY: select.h: the bitmap is in/out for the test.
        unsafe { host.put(bitmap, *node, false) };
    }
}

/// Replaces the devices that cons_tres chose for the job on a node; its amounts of shards move with them.
///
/// A job with several entries, such as two types of GPU, has those of its devices in each that the entry may have;
/// shards of several entries keep theirs.
pub(super) fn devices(host: &Host, job: &sys::job_record_t, node: &NodeView, placed: &Placed) {
    let states = super::read::job_gres(host, job);
    if states.len() != placed.entries.len() || (states.len() > 1 && states[0].0 == GresKind::Shard) {
        return;
    }
    for ((_, state), own) in states.into_iter().zip(&placed.entries) {
        // SAFETY: an element of the job's list, which the test has just filled.
        let Some(state) = (unsafe { state.as_mut() }) else { continue };
        // SAFETY: an array over the node table, or null.
        let Some(bits) = (unsafe { read::item(state.gres_bit_select, node.index) }) else { continue };
        // SAFETY: null or a live bit string.
        let size = unsafe { host.size(bits) };
        let ours: Vec<(usize, u64)> = placed
            .devices
            .iter()
            .copied()
            .filter(|(i, _)| own.iter().any(|g| usize::from(g.0) == *i))
            .collect();
        for i in 0..size {
            // SAFETY: a bit string of the job's own.
            unsafe { host.put(bits, i, ours.iter().any(|(device, _)| *device == i)) };
        }
        let total = super::choice::amount_on(state, node.index);
        version::move_amounts(state, node.index, size, &split(total, &ours));
    }
}

/// Gives the job's SPANK environment exactly this placement, or none at all and no reason either: whatever else claims
/// to be one goes, because the environment is the user's to fill.
pub(super) fn placement(host: &Host, job: &mut sys::job_record_t, value: Option<&str>) {
    variable(host, job, PLACEMENT_ENV, value);
    if value.is_none() {
        why(host, job, None);
        matched(host, job, None);
    }
}

/// The same for the reason of the placement.
pub(super) fn why(host: &Host, job: &mut sys::job_record_t, value: Option<&str>) {
    variable(host, job, WHY_ENV, value);
}

/// The same for what the job is told of its whole GPUs.
pub(super) fn matched(host: &Host, job: &mut sys::job_record_t, value: Option<&str>) {
    variable(host, job, MATCH_ENV, value);
}

fn variable(host: &Host, job: &mut sys::job_record_t, name: &str, value: Option<&str>) {
    let size = job.spank_job_env_size as usize;
    let mut kept: Vec<*mut c_char> = Vec::with_capacity(size + 1);
    let mut dropped: Vec<*mut c_char> = Vec::new();
    for i in 0..size {
        // SAFETY: the array has `spank_job_env_size` elements.
        let Some(entry) = (unsafe { read::item(job.spank_job_env, i) }) else { continue };
        // SAFETY: null or NUL-terminated.
        let text = unsafe { read::text(entry) }.unwrap_or_default();
        if is_named(&text, name) { dropped.push(entry) } else { kept.push(entry) }
    }
    if let Some(value) = value {
        let Ok(line) = CString::new(format!("{name}={value}")) else { return };
        // SAFETY: src/common/xstring.h: copies a NUL-terminated string.
        kept.push(unsafe { (host.xstrdup)(line.as_ptr()) });
    }
    if dropped.is_empty() && value.is_none() {
        return;
    }
    for mut entry in dropped {
        // SAFETY: src/common/xmalloc.h: an element that Slurm allocated, freed once.
        unsafe { (host.xfree)((&raw mut entry).cast()) };
    }
    if kept.len() > size || job.spank_job_env.is_null() {
        // SAFETY: xmalloc.h: grows an array that Slurm allocated, or null; it exits rather than fail.
        unsafe {
            (host.xrecalloc)(
                (&raw mut job.spank_job_env).cast(),
                kept.len() + 1,
                size_of::<*mut c_char>(),
                true,
                false,
                c"tessera".as_ptr(),
                0,
                c"placement".as_ptr(),
            )
        };
    }
    for (i, entry) in kept.iter().enumerate() {
        // SAFETY: the array has at least `kept.len()` elements.
        let slot = unsafe { job.spank_job_env.add(i) };
        // SAFETY: as above.
        unsafe { slot.write(*entry) };
    }
    job.spank_job_env_size = u32::try_from(kept.len()).unwrap_or(u32::MAX);
}

fn is_named(entry: &str, wanted: &str) -> bool {
    let name = entry.split('=').next().unwrap_or_default();
    name == wanted || name.strip_prefix("SPANK_") == Some(wanted)
}

/// Most bytes of a comment.
const MAX_COMMENT: usize = 400;

/// Says in the job's AdminComment what it got and why, for `scontrol show job` and `sacct`; one that somebody else has
/// written is left alone.
///
/// `asks` goes behind it where it fits.
pub(super) fn comment(host: &Host, job: &mut sys::job_record_t, started: &str, asks: Option<&str>) {
    // SAFETY: null or NUL-terminated.
    let before = unsafe { read::text(job.admin_comment) }.unwrap_or_default();
    if !is_ours(&before) {
        return;
    }
    let mut text = started.to_owned();
    let end = (0..=MAX_COMMENT.min(text.len())).rev().find(|i| text.is_char_boundary(*i));
    text.truncate(end.unwrap_or(0));
    if let Some(asks) = asks {
        text = with_asks(&text, asks);
    }
    let Ok(line) = CString::new(text) else { return };
    // SAFETY: xmalloc.h: a string that Slurm allocated, or null; xfree sets the field to null.
    unsafe { (host.xfree)((&raw mut job.admin_comment).cast()) };
    // SAFETY: xstring.h: copies a NUL-terminated string.
    job.admin_comment = unsafe { (host.xstrdup)(line.as_ptr()) };
}

/// Gives a pending job with a single entry for shards this many per node, in Slurm's request and in the text that shows
/// it. Its limits were checked with the number that it had.
pub(super) fn shards(host: &Host, job: &mut sys::job_record_t, count: u64) {
    let states = super::read::job_gres(host, job);
    let [(GresKind::Shard, state)] = states[..] else { return };
    // SAFETY: an element of the job's list, which hooks may change under slurmctld's job lock.
    let Some(state) = (unsafe { state.as_mut() }) else { return };
    let before = state.gres_per_node;
    if before == 0 || before == count {
        return;
    }
    state.total_gres = state.total_gres / before * count;
    state.gres_per_node = count;
    // SAFETY: null or NUL-terminated.
    let Some(text) = (unsafe { read::text(job.tres_per_node) }) else { return };
    let Ok(line) = CString::new(text.replace(&format!("shard:{before}"), &format!("shard:{count}"))) else {
        return;
    };
    // SAFETY: xmalloc.h: a string that Slurm allocated, or null; xfree sets the field to null.
    unsafe { (host.xfree)((&raw mut job.tres_per_node).cast()) };
    // SAFETY: xstring.h: copies a NUL-terminated string.
    job.tres_per_node = unsafe { (host.xstrdup)(line.as_ptr()) };
}

/// Every layout begins with this; a site's own text in `extra` does not.
const MARKER: &str = "tessera ";

/// Shows a layout in the node's `extra`, if it is another one; a text of the site's own is left alone.
pub(super) fn extra(host: &Host, mut node: NonNull<sys::node_record_t>, text: &str) -> bool {
    // SAFETY: a slot of the node table; hooks run under the node write lock.
    let node = unsafe { node.as_mut() };
    // SAFETY: null or NUL-terminated.
    let before = unsafe { read::text(node.extra) };
    if before.as_deref().is_some_and(|b| b == text || !(b.is_empty() || b.starts_with(MARKER))) {
        return false;
    }
    let Ok(line) = CString::new(text) else { return false };
    // SAFETY: xmalloc.h: a string that Slurm allocated, or null; xfree sets the field to null.
    unsafe { (host.xfree)((&raw mut node.extra).cast()) };
    // SAFETY: xstring.h: copies a NUL-terminated string.
    node.extra = unsafe { (host.xstrdup)(line.as_ptr()) };
    true
}

/// Undoes a successful test: slurmctld then sees that the job cannot start now.
pub(super) fn refuse(host: &Host, job: &mut sys::job_record_t) {
    // SAFETY: src/common/job_resources.h: frees what the test made and sets the field to null; cons_tres itself does
    // the same when it fails late.
    unsafe { (host.free_job_resources)(&raw mut job.job_resrcs) };
}

#[cfg(test)]
mod tests {
    use super::{PLACEMENT_ENV, is_named};

    #[test]
    fn only_the_variable_itself_is_ours() {
        for text in
            ["TESSERA_PLACEMENT=x", "TESSERA_PLACEMENT", "SPANK_TESSERA_PLACEMENT=x", "TESSERA_PLACEMENT="]
        {
            assert!(is_named(text, PLACEMENT_ENV), "{text}");
        }
        for text in ["TESSERA_REQUEST=TESSERA_PLACEMENT=", "XTESSERA_PLACEMENT=x", "TESSERA_PLACEMENTS=x", ""]
        {
            assert!(!is_named(text, PLACEMENT_ENV), "{text}");
        }
    }
}
