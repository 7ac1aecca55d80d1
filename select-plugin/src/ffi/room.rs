//! Cores and memory of jobs and nodes.

use placement::Room;
use plugin_rt::slurmctld::{item, struct_at};

use super::host::Host;
use super::{chosen, read, sys};

/// What a job has on a node, or what a test means to give it there.
pub(super) fn of_job(host: &Host, job: &sys::job_record_t, node: usize) -> Room {
    // SAFETY: null or the live resources of a live job.
    let Some(resources) = (unsafe { struct_at(job.job_resrcs) }) else { return Room::default() };
    // SAFETY: a bitmap over the node table, or null.
    if !unsafe { host.test(resources.node_bitmap, node) } {
        return Room::default();
    }
    // SAFETY: as above.
    let place = unsafe { host.bits_set(resources.node_bitmap, node) }.len();
    // SAFETY: src/common/job_resources.h: an element for each of the job's nodes, or null.
    let memory_mib = unsafe { item(resources.memory_allocated, place) }.unwrap_or(0);
    Room { cores: chosen::job_cores(host, job, node).len() as u64, memory_mib }
}

/// What the job lacks on each of these nodes: more than running jobs leave. The jobs are walked once at most: not any further
/// when they leave nothing.
pub(super) fn lacking(host: &Host, job: &sys::job_record_t, nodes: &[usize]) -> Vec<Room> {
    let mut free: Vec<Room> = nodes.iter().map(|node| of_node(host, *node)).collect();
    for running in host.jobs() {
        // SAFETY: an element of slurmctld's list of jobs, under its job lock.
        let Some(running) = (unsafe { struct_at(running) }).filter(|job| read::runs(job)) else { continue };
        for (free, node) in free.iter_mut().zip(nodes) {
            *free = free.minus(of_job(host, running, *node));
        }
        if free.iter().all(|free| *free == Room::default()) {
            break;
        }
    }
    nodes.iter().zip(free).map(|(node, free)| of_job(host, job, *node).minus(free)).collect()
}

/// What an empty node has for jobs.
fn of_node(host: &Host, node: usize) -> Room {
    let Some(record) = host.node(node) else { return Room::default() };
    // SAFETY: a slot of the node table; hooks run under the node lock.
    let record = unsafe { record.as_ref() };
    Room {
        cores: u64::from(record.tot_cores),
        memory_mib: record.real_memory.saturating_sub(record.mem_spec_limit),
    }
}
