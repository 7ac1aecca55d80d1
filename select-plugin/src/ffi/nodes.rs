//! Slurm's records of nodes, read as plain values.

use std::collections::HashSet;
use std::ffi::{CStr, c_char};

use protocol::node_word::split;
use slurmctld_rt::{BitString, text};

use super::accounts;
use super::host::{Host, name_of};
use super::records::{Details, Job, Node};
use crate::engine::Heard;
use crate::lifecycle_hooks::NodeGpus;
use crate::slurm_rules::{count_gpus, says_unfit};
use crate::view::NodeView;

/// The nodes whose bits are set.
pub(super) fn views(host: &Host, job: Job, bitmap: *mut BitString) -> Vec<NodeView> {
    // SAFETY: null or live details of a live job.
    let required =
        unsafe { Details::at(job.details()) }.map_or(std::ptr::null_mut(), Details::req_node_bitmap);
    let view = |index: usize| {
        let node = host.node(index)?;
        Some(NodeView {
            index,
            name: name_of(node)?,
            config: node.config_ptr().addr(),
            completing: host.completing(index),
            registered: node.slurmd_start_time() != 0,
            unfit: says_unfit(bytes(node.extra())),
            // SAFETY: null or a live bitmap over the node table.
            required: unsafe { host.bits.at(required) }.test(index),
        })
    };
    // SAFETY: as above.
    unsafe { host.bits.at(bitmap) }.below(host.node_count()).into_iter().filter_map(view).collect()
}

/// The bytes of a string of Slurm's. They are not copied: every node is asked in every test.
fn bytes<'a>(string: *const c_char) -> &'a [u8] {
    // SAFETY: Slurm's strings are null or NUL-terminated, and nothing changes them during the hook.
    if string.is_null() { &[] } else { unsafe { CStr::from_ptr(string) }.to_bytes() }
}

/// Reads the facts about its slurmd from a node's record. Only the end of its `extra` is read: every node is asked in every test.
pub(super) fn heard_of(node: Node) -> Heard {
    Heard::from_extra(bytes(node.extra()), u64::try_from(node.slurmd_start_time()).unwrap_or(0))
}

/// Reads the facts about the slurmds of all nodes.
pub(super) fn heard_of_all(host: &Host) -> Vec<(String, Heard)> {
    host.named_nodes().map(|(_, name, node)| (name, heard_of(node))).collect()
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
