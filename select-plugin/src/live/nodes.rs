//! Slurm's records of nodes, read as plain values.

use std::sync::Arc;

use slurm_tables::Bitmap;
use slurmctld_rt::{BitsAt, is_in_cloud};

use super::resources;
use crate::ffi::accounts;
use crate::ffi::host::{Host, texts};
use crate::ffi::records::{Details, Job};
use crate::job_test::Look;
use crate::memory::Memory;
use crate::seen::RawNode;
use crate::slurm_rules::count_gpus;
use crate::view::{NodeCounts, NodeView};

/// The records of the nodes whose bits are set, in relation to a job.
pub(super) fn of_job<'a>(
    host: &'a Host,
    job: Job,
    bits: BitsAt<'_>,
) -> impl Iterator<Item = RawNode<'a>> + use<'a> {
    let required = host.bits(required(job));
    let of_job = move |index| Some(RawNode { required: required.test(index), ..record(host, index)? });
    set(host, bits).into_iter().filter_map(of_job)
}

/// The nodes that a job insists on; null: none.
fn required(job: Job) -> Bitmap {
    job.details().map_or(Bitmap::NONE, Details::req_node_bitmap)
}

/// Looks at the nodes whose bits are set, for a test. A job that insists on some has them looked at now.
pub(super) fn of_test(
    memory: &mut Memory,
    host: &Host,
    job: Job,
    (bits, look): (BitsAt<'_>, Look),
) -> Arc<Vec<NodeView>> {
    match look {
        Look::No => Arc::default(),
        Look::Lately if required(job).address().is_null() => {
            memory.glance(host.now(), set(host, bits), |index| record(host, index))
        }
        Look::Lately | Look::Now => memory.look(of_job(host, job, bits)),
    }
}

/// The places of the nodes whose bits are set.
pub(super) fn set(host: &Host, bits: BitsAt<'_>) -> Vec<usize> {
    bits.below(host.node_count())
}

/// The records of all nodes.
pub(super) fn all(host: &Host) -> impl Iterator<Item = RawNode<'_>> {
    (0..host.node_count()).filter_map(|index| record(host, index))
}

pub(super) fn record(host: &Host, index: usize) -> Option<RawNode<'_>> {
    let node = host.node(index)?;
    let [name, extra] = texts(host, node);
    let time = |at: i64| u64::try_from(at).unwrap_or(0);
    Some(RawNode {
        index,
        name,
        extra,
        started: time(node.slurmd_start_time()),
        in_cloud: is_in_cloud(index),
        booted: time(node.boot_time()),
        config: node.config_ptr().addr(),
        completing: host.completing(index),
        required: false,
    })
}

/// Reads Slurm's counts of every node.
pub(super) fn counts(host: &Host) -> Vec<NodeCounts> {
    let count = |(place, node, record)| {
        let counted = count_gpus(&accounts::counted(host, record));
        NodeCounts { place, node, counted, cpus: resources::cpus_of_node(host, place) }
    };
    host.named_nodes().map(count).collect()
}

/// Number of GPUs that Slurm knows on a node; `None` without an entry for them.
pub(super) fn gpus_on(host: &Host, node: usize) -> Option<u64> {
    count_gpus(&accounts::counted(host, host.node(node)?)).gpus
}
