//! Writes effects into slurmctld: node bitmap, device bits, SPANK environment, AdminComment, licenses, node text.

use std::ptr::NonNull;

use geometry::JobId;
use plugin_rt::slurmctld::{item, text};
use plugin_rt::spank_env::is_named;
use protocol::set_summary::MATCH_ENV;
use protocol::wire::{PLACEMENT_ENV, WHY_ENV};

use super::host::Host;
use super::job_test::Call;
use super::{chosen, licenses, read, sys, version};
use crate::effect::{Counted, Devices, Effect, Layout, Word};
use crate::place_on_node::split;
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
            Effect::Preempt(jobs) => preempt(host, call, jobs),
            Effect::Layouts(all) => layouts(host, all),
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
        Effect::SearchShards(count) => restore_shards_per_node(host, job, u64::from(*count)),
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
        Effect::Comment(text) => {
            // SAFETY: slurmctld.h: null or a string that Slurm allocated.
            unsafe { host.heap.replace(&mut job.admin_comment, text) };
        }
        Effect::Slices(count) => licenses::count_slices(host, job, *count),
        Effect::JobsChanged => host.jobs_changed(),
        Effect::Unallocate => unallocate(host, job),
        Effect::RuleOut(_) | Effect::Offer(_) | Effect::Preempt(_) | Effect::Layouts(_) => {}
    }
}

/// Makes these candidates the jobs that have to go first. Others stay in the list only if their end frees nothing.
fn preempt(host: &Host, call: &Call, going: &[JobId]) {
    // SAFETY: select.h: null, or a place for a list of job records that the caller frees.
    let Some(list) = (unsafe { call.preempted.as_mut() }) else { return };
    let victims = read::victims(host, call.candidates);
    if list.is_null() {
        // SAFETY: list.h: a list that does not own its elements, as cons_tres makes it.
        *list = unsafe { (host.list_create)(std::ptr::null()) };
    }
    // SAFETY: null or a live list of job records.
    let before = unsafe { host.elements::<sys::job_record_t>(*list) };
    let others = before.into_iter().filter(|job| victims.iter().all(|(_, victim)| victim != job));
    let chosen = going.iter().filter_map(|id| victims.iter().find(|(known, _)| known == id));
    let all: Vec<*mut sys::job_record_t> = others.chain(chosen.map(|(_, record)| *record)).collect();
    // SAFETY: the list made by Slurm or above, which does not own its elements.
    unsafe { (host.list_flush)(*list) };
    for record in all {
        // SAFETY: as above.
        unsafe { (host.list_append)(*list, record.cast()) };
    }
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
        let Some(bits) = (unsafe { item(state.gres_bit_select, on_node.node) }) else { continue };
        // SAFETY: null or a live bit string.
        let size = unsafe { host.size(bits) };
        let of_entry = |(i, _): &(usize, u64)| own.iter().any(|g| usize::from(g.0) == *i);
        let ours: Vec<(usize, u64)> = on_node.devices.iter().copied().filter(of_entry).collect();
        for i in 0..size {
            // SAFETY: a bit string of the job's own.
            unsafe { host.put(bits, i, ours.iter().any(|(device, _)| *device == i)) };
        }
        if let Some(counted) = on_node.shards {
            count(state, on_node.node, counted);
        }
        let total = chosen::amount_on(state, on_node.node);
        version::move_amounts(state, on_node.node, size, &split(total, &ours));
    }
}

/// Makes Slurm count these shards on a node. Slurm 22.05 takes as many on each device as the job asks per node
/// (`gres_ctld.c`, `_job_alloc` and `_job_dealloc`), and the sum from the array of amounts per node.
fn count(state: &mut sys::gres_job_state_t, node: usize, counted: Counted) {
    if state.gres_cnt_node_select.is_null() {
        return;
    }
    // SAFETY: src/common/gres.h: an array over the node table.
    let amount = unsafe { state.gres_cnt_node_select.add(node) };
    // SAFETY: as above; the test has just filled it.
    unsafe { amount.write(counted.per_node) };
    state.gres_per_node = counted.per_gpu;
    state.total_gres = counted.of_job;
}

/// Shards per node that a job with a single entry for shards asks for, for [`restore_shards_per_node`] to put back.
pub(super) fn per_gpu(host: &Host, job: &sys::job_record_t) -> Option<u64> {
    let [(GresKind::Shard, state)] = read::job_gres(host, job)[..] else { return None };
    // SAFETY: an element of the job's list, under slurmctld's job lock.
    unsafe { state.as_ref() }.map(|state| state.gres_per_node)
}

/// Makes Slurm look for a device with this many shards. What users see of the request stays.
pub(super) fn restore_shards_per_node(host: &Host, job: &sys::job_record_t, count: u64) {
    let [(GresKind::Shard, state)] = read::job_gres(host, job)[..] else { return };
    // SAFETY: an element of the job's list, which hooks may change under slurmctld's job lock.
    let Some(state) = (unsafe { state.as_mut() }) else { return };
    if state.gres_per_node > 0 {
        state.gres_per_node = count;
    }
}

/// Gives the job's SPANK environment exactly this value of a variable, or none at all: whatever else claims to be one
/// goes, because the environment is the user's to fill.
fn variable(host: &Host, job: &mut sys::job_record_t, name: &str, value: Option<&str>) {
    let line = value.map(|value| format!("{name}={value}"));
    let goes = |entry: &str| is_named(entry, name);
    let (env, size) = (&mut job.spank_job_env, &mut job.spank_job_env_size);
    // SAFETY: src/slurmctld/slurmctld.h: `spank_job_env` has `spank_job_env_size` elements, and Slurm frees them.
    unsafe { host.heap.rewrite(env, size, &goes, line.as_deref()) };
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
    let Some(shown) = (unsafe { text(job.tres_per_node) }) else { return };
    let changed = shown.replace(&format!("shard:{before}"), &format!("shard:{count}"));
    // SAFETY: slurmctld.h: null or a string that Slurm allocated.
    unsafe { host.heap.replace(&mut job.tres_per_node, &changed) };
}

/// Shows these layouts, and tells slurmctld where any has changed.
pub(super) fn layouts(host: &Host, layouts: &[Layout]) {
    let mut changed = false;
    for layout in layouts {
        let record = host.node_by_name(&layout.node);
        changed |= record.is_some_and(|record| extra(host, record, |before| layout.shown_in(before)));
    }
    if changed {
        host.nodes_changed();
    }
}

/// Writes the words of nodes to their `extra`.
pub(super) fn words(host: &Host, words: &[Word]) {
    let mut changed = false;
    for word in words {
        let record = host.node_by_name(&word.node);
        changed |= record.is_some_and(|record| extra(host, record, |before| word.shown_in(before)));
    }
    if changed {
        host.nodes_changed();
    }
}

/// Replaces a node's `extra`, unless `shown` wants it to stay; whether it has changed.
fn extra(
    host: &Host,
    mut node: NonNull<sys::node_record_t>,
    shown: impl FnOnce(&str) -> Option<String>,
) -> bool {
    // SAFETY: a slot of the node table; hooks run under the node write lock.
    let node = unsafe { node.as_mut() };
    // SAFETY: null or NUL-terminated.
    let before = unsafe { text(node.extra) }.unwrap_or_default();
    let Some(after) = shown(&before) else { return false };
    // SAFETY: node_conf.h: null or a string that Slurm allocated.
    unsafe { host.heap.replace(&mut node.extra, &after) };
    true
}

/// Undoes a successful test: slurmctld then sees that the job cannot start now.
fn unallocate(host: &Host, job: &mut sys::job_record_t) {
    // SAFETY: src/common/job_resources.h: frees what the test made and sets the field to null; cons_tres itself does
    // the same when it fails late.
    unsafe { (host.free_job_resources)(&raw mut job.job_resrcs) };
}
