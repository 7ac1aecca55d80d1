//! Writes effects into slurmctld: node bitmap, device bits, SPANK environment, AdminComment, node text.

use std::ffi::{CString, c_char};
use std::ptr::NonNull;

use placement::JobId;
use placement::matched::MATCH_ENV;
use placement::wire::{PLACEMENT_ENV, WHY_ENV};

use super::host::Host;
use super::job_test::Call;
use super::{choice, raw, read, sys, version};
use crate::commit::split;
use crate::effect::{Devices, Effect, Layout};
use crate::view::GresKind;

/// Writes the effects of a test, in their order.
pub(super) fn in_test(host: &Host, job: &mut sys::job_record_t, call: &Call, effects: &[Effect]) {
    for effect in effects {
        match effect {
            Effect::RuleOut(nodes) => nodes.iter().for_each(|node| {
                // SAFETY: select.h: the bitmap is in/out for the test.
                unsafe { host.put(call.bitmap, *node, false) };
            }),
            Effect::Offer(nodes) => (0..host.node_count()).for_each(|node| {
                // SAFETY: as above; a test that fails may leave anything in it.
                unsafe { host.put(call.bitmap, node, nodes.contains(&node)) };
            }),
            Effect::Preempt(id) => preempt(host, call, *id),
            other => one(host, job, other),
        }
    }
}

/// Writes effects on a job's record, in their order. Those of a test alone are passed over.
pub(super) fn on_job(host: &Host, job: &mut sys::job_record_t, effects: &[Effect]) {
    effects.iter().for_each(|effect| one(host, job, effect));
}

fn one(host: &Host, job: &mut sys::job_record_t, effect: &Effect) {
    match effect {
        Effect::Shards(count) => shards(host, job, u64::from(*count)),
        Effect::Devices(on_node) => devices(host, job, on_node),
        Effect::StartAt(start) => job.start_time = *start,
        Effect::Placement(value) => {
            variable(host, job, PLACEMENT_ENV, value.as_deref());
            if value.is_none() {
                variable(host, job, WHY_ENV, None);
                variable(host, job, MATCH_ENV, None);
            }
        }
        Effect::Why(value) => variable(host, job, WHY_ENV, value.as_deref()),
        Effect::Match(value) => variable(host, job, MATCH_ENV, value.as_deref()),
        Effect::Comment(text) => comment(host, job, text),
        Effect::JobsChanged => host.jobs_changed(),
        Effect::Unallocate => unallocate(host, job),
        Effect::RuleOut(_) | Effect::Offer(_) | Effect::Preempt(_) => {}
    }
}

/// Adds a candidate for preemption to those that have to go first.
fn preempt(host: &Host, call: &Call, id: JobId) {
    // SAFETY: select.h: null, or a place for a list of job records that the caller frees.
    let Some(list) = (unsafe { call.preempted.as_mut() }) else { return };
    let victims = read::victims(host, call.candidates);
    let Some((_, record)) = victims.iter().find(|(known, _)| *known == id) else { return };
    if list.is_null() {
        // SAFETY: list.h: a list that does not own its elements, as cons_tres makes it.
        *list = unsafe { (host.list_create)(std::ptr::null()) };
    }
    // SAFETY: the list made by Slurm or above.
    unsafe { (host.list_append)(*list, record.cast()) };
}

/// Replaces the devices that cons_tres chose for the job on a node; its amounts of shards move with them.
///
/// A job with several entries, such as two types of GPU, has those of its devices in each that the entry may have;
/// shards of several entries keep theirs.
fn devices(host: &Host, job: &sys::job_record_t, on_node: &Devices) {
    let states = read::job_gres(host, job);
    if states.len() != on_node.entries.len() || (states.len() > 1 && states[0].0 == GresKind::Shard) {
        return;
    }
    for ((_, state), own) in states.into_iter().zip(&on_node.entries) {
        // SAFETY: an element of the job's list, which the test has just filled.
        let Some(state) = (unsafe { state.as_mut() }) else { continue };
        // SAFETY: an array over the node table, or null.
        let Some(bits) = (unsafe { raw::item(state.gres_bit_select, on_node.node) }) else { continue };
        // SAFETY: null or a live bit string.
        let size = unsafe { host.size(bits) };
        let of_entry = |(i, _): &(usize, u64)| own.iter().any(|g| usize::from(g.0) == *i);
        let ours: Vec<(usize, u64)> = on_node.devices.iter().copied().filter(of_entry).collect();
        for i in 0..size {
            // SAFETY: a bit string of the job's own.
            unsafe { host.put(bits, i, ours.iter().any(|(device, _)| *device == i)) };
        }
        let total = choice::amount_on(state, on_node.node);
        version::move_amounts(state, on_node.node, size, &split(total, &ours));
    }
}

/// Gives the job's SPANK environment exactly this value of a variable, or none at all: whatever else claims to be one
/// goes, because the environment is the user's to fill.
fn variable(host: &Host, job: &mut sys::job_record_t, name: &str, value: Option<&str>) {
    let size = job.spank_job_env_size as usize;
    let mut kept: Vec<*mut c_char> = Vec::with_capacity(size + 1);
    let mut dropped: Vec<*mut c_char> = Vec::new();
    for i in 0..size {
        // SAFETY: the array has `spank_job_env_size` elements.
        let Some(entry) = (unsafe { raw::item(job.spank_job_env, i) }) else { continue };
        // SAFETY: null or NUL-terminated.
        let text = unsafe { raw::text(entry) }.unwrap_or_default();
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

fn comment(host: &Host, job: &mut sys::job_record_t, text: &str) {
    let Ok(line) = CString::new(text) else { return };
    // SAFETY: xmalloc.h: a string that Slurm allocated, or null; xfree sets the field to null.
    unsafe { (host.xfree)((&raw mut job.admin_comment).cast()) };
    // SAFETY: xstring.h: copies a NUL-terminated string.
    job.admin_comment = unsafe { (host.xstrdup)(line.as_ptr()) };
}

/// Gives a pending job with a single entry for shards this many per node, in Slurm's request and in the text that shows
/// it. Its limits were checked with the number that it had.
fn shards(host: &Host, job: &mut sys::job_record_t, count: u64) {
    let states = read::job_gres(host, job);
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
    let Some(text) = (unsafe { raw::text(job.tres_per_node) }) else { return };
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

/// Shows these layouts, and tells slurmctld where any has changed.
pub(super) fn layouts(host: &Host, layouts: &[Layout]) {
    let mut changed = false;
    for Layout { node, text } in layouts {
        changed |= host.node_by_name(node).is_some_and(|record| extra(host, record, text));
    }
    if changed {
        host.nodes_changed();
    }
}

/// Shows a layout in the node's `extra`, if it is another one; a text of the site's own is left alone.
fn extra(host: &Host, mut node: NonNull<sys::node_record_t>, text: &str) -> bool {
    // SAFETY: a slot of the node table; hooks run under the node write lock.
    let node = unsafe { node.as_mut() };
    // SAFETY: null or NUL-terminated.
    let before = unsafe { raw::text(node.extra) }.unwrap_or_default();
    if before == text || !(before.is_empty() || before.starts_with(MARKER)) {
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
fn unallocate(host: &Host, job: &mut sys::job_record_t) {
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
