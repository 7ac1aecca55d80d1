//! Slurm's records of nodes, read as plain values.

use std::collections::HashSet;
use std::ffi::{CStr, c_char};

use protocol::node_word::split;
use slurmctld_rt::{BitString, text};

use super::accounts;
use super::host::{Host, name_of};
use super::records::{Details, Job, Node};
use crate::lifecycle_hooks::NodeGpus;
use crate::memory::Memory;
use crate::seen::Record;
use crate::slurm_rules::count_gpus;
use crate::view::NodeView;

/// The nodes whose bits are set, looked at for a job.
pub(super) fn views(host: &Host, memory: &mut Memory, job: Job, bitmap: *mut BitString) -> Vec<NodeView> {
    let required = required(job);
    let Memory { seen, engine, .. } = memory;
    let view = |index: usize| {
        let record = record(host, index)?;
        // SAFETY: null or a live bitmap over the node table.
        let required = unsafe { host.bits.at(required) }.test(index);
        seen.look(engine, &Record { required, ..record })
    };
    set(host, bitmap).into_iter().filter_map(view).collect()
}

/// The places of the nodes whose bits are set.
pub(super) fn set(host: &Host, bitmap: *mut BitString) -> Vec<usize> {
    // SAFETY: null or a live bitmap over the node table.
    unsafe { host.bits.at(bitmap) }.below(host.node_count())
}

/// The nodes that a job insists on; null: none.
fn required(job: Job) -> *mut BitString {
    // SAFETY: null or live details of a live job.
    unsafe { Details::at(job.details()) }.map_or(std::ptr::null_mut(), Details::req_node_bitmap)
}

/// The names of the nodes whose bits are set, each with whether the job insists on it.
pub(super) fn names(host: &Host, job: Job, bitmap: *mut BitString) -> Vec<(String, bool)> {
    let required = required(job);
    // SAFETY: null or a live bitmap over the node table.
    let insists = |index| unsafe { host.bits.at(required) }.test(index);
    let name = |index| Some((name_of(host.node(index)?)?, insists(index)));
    set(host, bitmap).into_iter().filter_map(name).collect()
}

/// A node's record, in no relation to a job.
fn record(host: &Host, index: usize) -> Option<Record<'_>> {
    let node = host.node(index)?;
    Some(Record {
        index,
        name: bytes(node.name()),
        extra: bytes(node.extra()),
        started: u64::try_from(node.slurmd_start_time()).unwrap_or(0),
        config: node.config_ptr().addr(),
        completing: host.completing(index),
        required: false,
    })
}

/// The records of all nodes.
pub(super) fn records(host: &Host) -> impl Iterator<Item = Record<'_>> {
    (0..host.node_count()).filter_map(|index| record(host, index))
}

/// The bytes of a string of Slurm's. They are not copied: every node is asked in every test.
fn bytes<'a>(string: *const c_char) -> &'a [u8] {
    // SAFETY: Slurm's strings are null or NUL-terminated, and nothing changes them during the hook.
    if string.is_null() { &[] } else { unsafe { CStr::from_ptr(string) }.to_bytes() }
}

/// The names of the nodes on which an epilog is still to end. Called while slurmctld holds the node lock.
pub(super) fn completing(host: &Host) -> HashSet<String> {
    let ending = (0..host.node_count()).filter(|index| host.completing(*index));
    ending.filter_map(|index| name_of(host.node(index)?)).collect()
}

/// Boot time of each node, seconds since 1970, by its place in the node table; 0: it has not registered.
pub(super) fn boots(host: &Host) -> impl Iterator<Item = (usize, u64)> {
    let booted = |i: usize| Some((i, u64::try_from(host.node(i)?.boot_time()).unwrap_or(0)));
    (0..host.node_count()).filter_map(booted)
}

/// The `extra` of each node that has one, without the node's word.
pub(super) fn extras(host: &Host) -> Vec<(String, String)> {
    // SAFETY: null or NUL-terminated.
    let extra = |node: Node| unsafe { text(node.extra()) };
    let own = |(_, name, node)| Some((name, split(&extra(node)?).0.to_owned()));
    host.named_nodes().filter_map(own).collect()
}

/// Reads Slurm's counts of every node's GPUs.
pub(super) fn gpus(host: &Host) -> Vec<NodeGpus> {
    let count = |(_, node, record)| NodeGpus { node, counted: count_gpus(&accounts::counted(host, record)) };
    host.named_nodes().map(count).collect()
}

/// Number of GPUs that Slurm knows on a node; `None` without an entry for them.
pub(super) fn gpus_on(host: &Host, node: usize) -> Option<u64> {
    count_gpus(&accounts::counted(host, host.node(node)?)).gpus
}
