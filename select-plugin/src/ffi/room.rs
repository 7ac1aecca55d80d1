//! Cores and memory of jobs and nodes.

use placement::{HostResources, Needs};
use plugin_rt::slurmctld::{item, struct_at};

use super::host::Host;
use super::{chosen, read, sys};

/// HostResources that a job has on a node, or that a test means to give it there.
pub(super) fn of_job(host: &Host, job: &sys::job_record_t, node: usize) -> HostResources {
    // SAFETY: null or the live resources of a live job.
    let Some(resources) = (unsafe { struct_at(job.job_resrcs) }) else { return HostResources::default() };
    // SAFETY: a bitmap over the node table, or null.
    if !unsafe { host.test(resources.node_bitmap, node) } {
        return HostResources::default();
    }
    // SAFETY: as above.
    let place = unsafe { host.bits_set(resources.node_bitmap, node) }.len();
    // SAFETY: src/common/job_resources.h: an element for each of the job's nodes, or null.
    let memory_mib = unsafe { item(resources.memory_allocated, place) }.unwrap_or(0);
    HostResources { cores: chosen::job_cores(host, job, node).len() as u64, memory_mib }
}

/// HostResources that the job lacks on each of these nodes: more than running jobs leave.
pub(super) fn lacking(host: &Host, job: &sys::job_record_t, nodes: &[usize]) -> Vec<HostResources> {
    let needs = |node: &usize| Needs { empty: of_node(host, *node), needed: of_job(host, job, *node) };
    let needs: Vec<Needs> = nodes.iter().map(needs).collect();
    let running = host.jobs().into_iter().filter_map(|job| {
        // SAFETY: an element of slurmctld's list of jobs, under its job lock.
        unsafe { struct_at(job) }.filter(|job| read::runs(job))
    });
    placement::lacking(&needs, running, |job, at| of_job(host, job, nodes[at]))
}

/// HostResources that an empty node has for jobs.
fn of_node(host: &Host, node: usize) -> HostResources {
    let Some(record) = host.node(node) else { return HostResources::default() };
    // SAFETY: a slot of the node table; hooks run under the node lock.
    let record = unsafe { record.as_ref() };
    HostResources {
        cores: u64::from(record.tot_cores),
        memory_mib: record.real_memory.saturating_sub(record.mem_spec_limit),
    }
}
