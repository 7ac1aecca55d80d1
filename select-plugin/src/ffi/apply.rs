//! Writes effects into slurmctld: node bitmap, device bits, SPANK environment, AdminComment, licenses, node text.

use std::ffi::c_void;

use geometry::JobId;
use protocol::wire::{CHANGE_ENV, REQUEST_ENV};
use slurmctld_rt::spank_env::is_named;
use slurmctld_rt::{item, text};

use super::call::Call;
use super::host::Host;
use super::records::{Job, JobGres};
use super::{accounts, jobs, licenses, version};
use crate::effect::{Counted, Devices, Effect, Layout, Word};
use crate::slurm_rules::{ShardRequest, amount, amounts_by_device, devices_of_entries, jobs_to_list};
use crate::view::GresKind;

/// Writes the effects of a test, in their order.
pub(crate) fn in_test(host: &Host, job: Job, call: &Call, effects: &[Effect]) {
    let candidates = call.nodes(host);
    for effect in effects {
        match effect {
            Effect::RuleOut(nodes) => nodes.iter().for_each(|node| candidates.put(*node, false)),
            // Written for the time of Slurm's test alone, by `weights::write`.
            Effect::Order(_) => {}
            // A test that fails may leave anything in it.
            Effect::Offer(nodes) => {
                (0..host.node_count()).for_each(|node| candidates.put(node, false));
                nodes.iter().for_each(|node| candidates.put(*node, true));
            }
            Effect::Preempt(jobs) => preempt(host, call, jobs),
            Effect::Layouts(all) => layouts(host, all),
            Effect::Slices(count) => licenses::hold_to_limits(host, job, *count),
            other => one(host, job, other),
        }
    }
}

/// Writes effects on a job's record, in their order. Those of a test alone are passed over.
pub(crate) fn on_job(host: &Host, job: Job, effects: &[Effect]) {
    effects.iter().for_each(|effect| one(host, job, effect));
}

fn one(host: &Host, job: Job, effect: &Effect) {
    match effect {
        Effect::Shards(count) => resize_shards(host, job, u64::from(*count)),
        Effect::SearchShards(count) => set_shards_per_node(host, job, u64::from(*count)),
        Effect::Devices(on_node) => devices(host, job, on_node),
        // SAFETY: a field of a live job, under slurmctld's job write lock.
        Effect::StartAt(start) => unsafe { job.start_time_at().write(*start) },
        Effect::Placement(_) | Effect::Why(_) | Effect::Match(_) => {
            effect.variables().into_iter().for_each(|(name, value)| variable(host, job, name, value));
        }
        Effect::Comment(text) => {
            // SAFETY: slurmctld.h: null or a string that Slurm allocated.
            unsafe { host.heap.replace(job.admin_comment_at(), text) };
        }
        Effect::Slices(count) => licenses::count_slices(host, job, *count),
        Effect::JobsChanged => host.jobs_changed(),
        // SAFETY: src/common/job_resources.h: frees what the test made and sets the field to null, as cons_tres itself does.
        Effect::Unallocate => unsafe { (host.free_job_resources)(job.job_resrcs_at()) },
        Effect::RuleOut(_)
        | Effect::Order(_)
        | Effect::Offer(_)
        | Effect::Preempt(_)
        | Effect::Layouts(_) => {}
    }
}

/// Makes these candidates the jobs that have to go first.
fn preempt(host: &Host, call: &Call, going: &[JobId]) {
    // SAFETY: select.h: null, or a place for a list of job records that the caller frees.
    let Some(list) = (unsafe { call.preempted.as_mut() }) else { return };
    // SAFETY: null or a live list of job records.
    let listed = unsafe { host.lists.elements::<c_void>(*list) };
    let all = jobs_to_list(listed, &jobs::victims(host, call.candidates), going);
    // SAFETY: null or a live list, which does not own its elements, as cons_tres makes it.
    unsafe { host.lists.fill(list, &all) };
}

/// Replaces the devices that cons_tres chose for the job on a node; its amounts of shards move with them.
fn devices(host: &Host, job: Job, on_node: &Devices) {
    let states = accounts::requested(host, job);
    let are_shards = states.first().is_some_and(|(kind, _)| *kind == GresKind::Shard);
    let ours = devices_of_entries(&on_node.devices, &on_node.entries, states.len(), are_shards);
    for ((_, state), ours) in states.into_iter().zip(ours.unwrap_or_default()) {
        // SAFETY: an array over the node table, or null.
        let Some(bits) = (unsafe { item(state.gres_bit_select(), on_node.node) }) else { continue };
        // SAFETY: null or a bit string of the job's own.
        let bits = unsafe { host.bits.at(bits) };
        for i in 0..bits.size() {
            bits.put(i, ours.iter().any(|(device, _)| *device == i));
        }
        if let Some(counted) = on_node.shards {
            count(state, on_node.node, counted);
        }
        let total = amount(accounts::selected(state, on_node.node), state.gres_per_node());
        version::move_amounts(state, on_node.node, &amounts_by_device(total, &ours, bits.size()));
    }
}

/// Makes Slurm count these shards on a node. Slurm 22.05 takes as many on each device as the job asks per node
/// (`gres_ctld.c`, `_job_alloc` and `_job_dealloc`), and the sum from the array of amounts per node.
fn count(state: JobGres, node: usize, counted: Counted) {
    if state.gres_cnt_node_select().is_null() {
        return;
    }
    // SAFETY: src/common/gres.h: an array over the node table.
    let amount = unsafe { state.gres_cnt_node_select().add(node) };
    // SAFETY: as above; the test has just filled it.
    unsafe { amount.write(counted.per_node) };
    set_counts(state, counted.per_gpu, counted.of_job);
}

/// Sets how many of an entry a job gets on a node, and in all.
fn set_counts(state: JobGres, per_node: u64, of_job: u64) {
    // SAFETY: fields of an element of the job's list, under slurmctld's job write lock.
    unsafe { state.gres_per_node_at().write(per_node) };
    // SAFETY: as above.
    unsafe { state.total_gres_at().write(of_job) };
}

/// The entry of a job with a single one, for shards. Hooks may write to it under slurmctld's job lock.
fn only_shards(host: &Host, job: Job) -> Option<JobGres> {
    let [(GresKind::Shard, state)] = accounts::requested(host, job)[..] else { return None };
    Some(state)
}

/// Shards per node that a job with a single entry for shards asks for, for [`set_shards_per_node`] to put back.
pub(crate) fn shards_per_node(host: &Host, job: Job) -> Option<u64> {
    only_shards(host, job).map(|state| state.gres_per_node())
}

/// Makes Slurm look for GPUs with this many shards for a job with a single entry for shards.
pub(crate) fn set_shards_per_node(host: &Host, job: Job, count: u64) {
    if let Some(state) = only_shards(host, job) {
        set_counts(state, count, state.total_gres());
    }
}

/// Gives the job's SPANK environment exactly this value of a variable, or none at all: whatever else claims to be one
/// goes, because the environment is the user's to fill.
fn variable(host: &Host, job: Job, name: &str, value: Option<&str>) {
    let line = value.map(|value| format!("{name}={value}"));
    let goes = |entry: &str| is_named(entry, name);
    let (env, size) = (job.spank_job_env_at(), job.spank_job_env_size_at());
    // SAFETY: src/slurmctld/slurmctld.h: `spank_job_env` has `spank_job_env_size` elements, and Slurm frees them.
    unsafe { host.heap.rewrite(env, size, &goes, line.as_deref()) };
}

/// Makes the request of the job's last change its request, if Slurm has accepted that change. The node's prolog and a later change of
/// the job's GRES look at nothing else.
pub(crate) fn settle_request(host: &Host, job: Job) {
    if let Some(request) = jobs::changed_request(job) {
        variable(host, job, REQUEST_ENV, Some(&request));
        variable(host, job, CHANGE_ENV, None);
    }
}

/// Gives a pending job with a single entry for shards this many per node, in Slurm's request and in the text that shows
/// it. Its limits were checked with the number that it had.
fn resize_shards(host: &Host, job: Job, count: u64) {
    let Some(state) = only_shards(host, job) else { return };
    let shown = job.tres_per_node();
    let before = ShardRequest { per_node: state.gres_per_node(), of_job: state.total_gres(), shown };
    let Some(after) = before.resized(count) else { return };
    settle_request(host, job);
    set_counts(state, after.per_node, after.of_job);
    if let Some(shown) = after.shown {
        // SAFETY: slurmctld.h: null or a string that Slurm allocated.
        unsafe { host.heap.replace(job.tres_per_node_at(), &shown) };
    }
}

/// Shows these layouts, and tells slurmctld where any has changed.
pub(crate) fn layouts(host: &Host, layouts: &[Layout]) {
    show(host, layouts.iter().map(|layout| (&layout.node, |before: &str| layout.shown_in(before))));
}

/// Writes the words of nodes to their `extra`.
pub(crate) fn words(host: &Host, words: &[Word]) {
    show(host, words.iter().map(|word| (&word.node, |before: &str| word.shown_in(before))));
}

/// Replaces the `extra` of nodes, unless it is to stay as it is, and tells slurmctld where any has changed.
fn show<'a, F: FnOnce(&str) -> Option<String>>(host: &Host, all: impl Iterator<Item = (&'a String, F)>) {
    let mut changed = false;
    for (name, shown) in all {
        let Some(node) = host.node_by_name(name) else { continue };
        // SAFETY: null or NUL-terminated.
        let Some(after) = shown(&unsafe { text(node.extra()) }.unwrap_or_default()) else { continue };
        // SAFETY: node_conf.h: null or a string that Slurm allocated. From 26.05 on another thread may read it to save it.
        unsafe { host.heap.replace_beside_readers(node.extra_at(), &after) };
        changed = true;
    }
    if changed {
        host.nodes_changed();
    }
}
